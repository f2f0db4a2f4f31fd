"""One cell of the behaviour grid: all methods of a part on one data set, one split and one seed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from entente.artifacts import Arrays, read_json, write_json
from entente.config import Experiment
from entente.detectors.behaviour.base_model import base_weights
from entente.detectors.behaviour.features import FEATURES
from entente.federation.coordinator import Coordinator
from entente.federation.messages import TrainTask, ValidateTask
from entente.federation.records import RoundRecord
from entente.partition.base import read_silos
from entente.runs.records import TrainingRecord
from entente.runtime.assembly import Dataset, load_dataset, trained_detector
from entente.runtime.evaluation import Evaluation, evaluate_baseline, evaluate_models
from entente.runtime.loop import Journal, Step, make_coordinator, run, training_record
from entente.runtime.participants import HONEST, Participants
from entente.runtime.transport import SerialTransport, Transport
from entente_lab.attacks import Attack, attackers
from entente_lab.bench.behaviour.figures import alert_figures, figures, honest_part
from entente_lab.bench.behaviour.injection import recipe_of
from entente_lab.bench.behaviour.methods import BASELINES, PARTS, POOLED, Line
from entente_lab.bench.behaviour.shared import shared_work, without_features
from entente_lab.bench.measure import model_digest, seen_by_silos, training_figures
from entente_lab.bench.methods import change

SUITE = f"{__name__}:measure_suite"
POOL = f"{__name__}:measure_pool"


class Silent(Journal):
    """A journal that keeps the rounds' records and writes nothing: a method of seconds is run again whole."""

    def __init__(self) -> None:
        self.records: list[RoundRecord] = []
        self.models: list[Arrays] = []

    def resume(self, coordinator: Coordinator, transport: Transport) -> None:
        """There is nothing to go back to."""

    def step(self, step: Step, coordinator: Coordinator, transport: Transport) -> None:
        if step.record is not None:
            self.records.append(step.record)
            if isinstance(step.task, (TrainTask, ValidateTask)):
                self.models.append(step.task.weights)  # what the record's validation is about


def measure_suite(experiment: Experiment, options: Mapping[str, Any], work: Path) -> dict[str, Any]:
    """Every method of `options["part"]`, those that `work` already has excepted, and the baselines."""
    dataset = load_dataset(experiment)
    lines, found = PARTS[options["part"]], _Kept(work)
    with shared_work():
        for name in options["methods"]:
            if name in BASELINES:
                found.keep(name, partial(_baseline, experiment, dataset, name))
            else:
                found.keep(name, partial(_trained, experiment, dataset, lines[name]))
    return {"values": {}, "methods": found.methods}


def measure_pool(experiment: Experiment, options: Mapping[str, Any], work: Path) -> dict[str, Any]:
    """All data in one place, once for every K of `options["ks"]`: only what silos see of it differs."""
    dataset = load_dataset(experiment)
    began = time.process_time()
    evaluation, about, model = _run(experiment, dataset, HONEST, Line())
    seconds = time.process_time() - began
    whole, methods = evaluation.overall(), {}
    for k in options["ks"]:
        owners = read_silos(experiment.data.events.parent / f"silos-{k}.csv").as_dict()
        parts = seen_by_silos(whole, owners, augmentation=experiment.graph.augmentation)
        outcome = figures(evaluation, parts)
        outcome["values"] |= about | {"cpu_seconds": round(seconds, 2)}
        methods[str(k)] = outcome | {"model": model}
    return {"values": {}, "methods": {POOLED: methods}}


class _Kept:
    """Outcomes by method, on disk as soon as they are there: a stopped cell goes on after the last."""

    def __init__(self, work: Path) -> None:
        self._folder = work / "methods"
        self.methods: dict[str, Any] = {}

    def keep(self, name: str, make: partial[dict[str, Any]]) -> None:
        file = self._folder / f"{len(self.methods):03d}.json"
        if file.exists():
            self.methods[name] = read_json(file)
            return
        began = time.process_time()
        outcome = make()
        outcome["values"]["cpu_seconds"] = round(time.process_time() - began, 2)
        self._folder.mkdir(parents=True, exist_ok=True)
        write_json(file, outcome)
        self.methods[name] = outcome


def _baseline(experiment: Experiment, dataset: Dataset, name: str) -> dict[str, Any]:
    evaluation = evaluate_baseline(dataset, name, experiment.detection)
    outcome = figures(evaluation)
    outcome["values"] |= alert_figures(dataset, evaluation)
    return outcome


def _trained(experiment: Experiment, dataset: Dataset, line: Line) -> dict[str, Any]:
    experiment = change(experiment, line.changes)
    cheats = chosen_cheats(dataset, line.cheats)
    participants = HONEST
    if cheats and line.attack:
        participants = attackers(Attack(**{**line.attack, "silos": cheats}))
    with _changed(line):
        evaluation, about, model = _run(experiment, dataset, participants, line)
    if cheats:
        evaluation = honest_part(evaluation, cheats)
    outcome = figures(evaluation)
    outcome["values"] |= about
    if not cheats:
        outcome["values"] |= alert_figures(dataset, evaluation)
    return outcome | {"model": model, "cheats": list(cheats)}


def chosen_cheats(dataset: Dataset, count: int) -> tuple[str, ...]:
    """The silos with fewest malicious test edges, the largest first: what honest silos miss counts."""

    def order(name: str) -> tuple[int, int, str]:
        test = dataset.silos[name].test
        return (0 if test.label is None else int((test.label > 0).sum()), -test.num_edges, name)

    return tuple(sorted(dataset.silos, key=order)[:count])


@contextmanager
def _changed(line: Line) -> Iterator[None]:
    """The detector with what the line takes away from it."""
    with ExitStack() as stack:
        if line.recipe:
            stack.enter_context(recipe_of(line.recipe))
        if line.without:
            columns = [n for n, feature in enumerate(FEATURES) if feature.family == line.without]
            stack.enter_context(without_features(columns))
        yield


def _run(
    experiment: Experiment, dataset: Dataset, participants: Participants, line: Line
) -> tuple[Evaluation, dict[str, Any], str | None]:
    """Train and score: the evaluation, figures about the training, and the model's digest."""
    if line.trained:
        models, training, rounds = fit_silently(experiment, dataset, participants, line.within)
    else:
        models, training, rounds = {"": base_weights()}, {}, []
    detectors = {name: trained_detector(experiment, dataset.shape, models, name) for name in dataset.silos}
    evaluation = evaluate_models(dataset, detectors, experiment.detection)
    privacy = training[""].privacy if "" in training else None
    return (
        evaluation,
        {
            **training_figures(rounds, training),
            "epsilon": None if privacy is None else privacy.epsilon,
        },
        model_digest(models),
    )


def last_within(journal: Silent, share: float) -> Arrays:
    """The model of the last round whose validation (AP + AUC) is within `share` of the best."""
    scores = [
        -1.0 if record.validation is None else record.validation.ap + record.validation.auc
        for record in journal.records
    ]
    best = max(scores)
    return journal.models[max(i for i, score in enumerate(scores) if score >= (1.0 - share) * best)]


def fit_silently(
    experiment: Experiment, dataset: Dataset, participants: Participants = HONEST, within: float = 0.0
) -> tuple[dict[str, Arrays], dict[str, TrainingRecord], list[RoundRecord]]:
    """As `runtime.local.fit`: the same loop, without a folder."""
    alone = experiment.mode == "local-only"
    parts = {name: [name] for name in dataset.silos} if alone else {"": sorted(dataset.silos)}
    models, training, rounds = {}, {}, []
    for owner, members in parts.items():
        coordinator, journal = make_coordinator(experiment, dataset.shape, members), Silent()
        silos = {name: participants.build(experiment, dataset, name) for name in members}
        run(coordinator, SerialTransport(silos), journal)
        models[owner], training[owner] = coordinator.best_weights, training_record(coordinator)
        if within:
            models[owner] = last_within(journal, within)
        rounds += journal.records
    return models, training, rounds
