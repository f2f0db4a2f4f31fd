"""The default runtime: coordinator and silos in one machine, one loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from entente.artifacts import Arrays, write_json
from entente.config import Experiment
from entente.errors import ConfigError, Interrupted
from entente.federation.coordinator import Coordinator
from entente.federation.silo import Silo
from entente.graphs.identity import collisions
from entente.runs.folder import Checkpoints, RunFolder
from entente.runtime.assembly import Dataset, initial_model, load_dataset, make_detector, trained_detector
from entente.runtime.detecting import recent_edges
from entente.runtime.evaluation import BASELINES, Evaluation, evaluate_models, evaluate_rule, write_scores
from entente.runtime.team import Participant, ProcessTeam, SerialTeam, Team

Watcher = Callable[[Mapping[str, Any]], None]
"""Told of every round's record as soon as it is complete."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A finished run: its folder has all of this too."""

    folder: RunFolder
    models: dict[str, Arrays]  # "" = one model for all, else one per silo
    evaluation: Evaluation
    metrics: dict[str, Any]
    facts: dict[str, Any]  # of model.json


def train(
    experiment: Experiment,
    folder: RunFolder,
    *,
    resume: bool = False,
    watch: Watcher | None = None,
    dataset: Dataset | None = None,
    baselines: Collection[str] = BASELINES,
) -> Run:
    """Train over the silos, evaluate on the test windows and leave everything in `folder`."""
    folder.begin(experiment, resume=resume)
    dataset = dataset if dataset is not None else load_dataset(experiment)
    check_attack(experiment, dataset)
    models, facts = fit(experiment, folder, dataset, resume=resume, watch=watch)
    return finish(experiment, folder, dataset, models, facts, baselines)


def finish(
    experiment: Experiment,
    folder: RunFolder,
    dataset: Dataset,
    models: dict[str, Arrays],
    facts: dict[str, Any],
    baselines: Collection[str] = BASELINES,
) -> Run:
    """Evaluate trained models on the dataset's test windows and leave everything in `folder`."""
    detectors = {name: trained_detector(experiment, dataset.shape, models, name) for name in dataset.silos}
    evaluation = evaluate_models(dataset, detectors, experiment.detection)
    metrics = evaluation.metrics()
    metrics["baselines"] = {
        rule: evaluate_rule(dataset, rule, experiment.detection).metrics()["overall"] for rule in baselines
    }
    shape = dataset.shape
    facts |= {
        "detector": experiment.detector.name,
        "shape": {"table_size": shape.table_size, "rows_per_host": shape.rows_per_host},
        "thresholds": evaluation.thresholds,
        "collisions": {
            name: asdict(collisions(silo.train.rows, shape.table_size))
            for name, silo in dataset.silos.items()
        },
    }
    folder.write_model(models, facts)
    for name, silo in dataset.silos.items():
        test = silo.test
        memory = {
            "hosts": silo.names.tolist(),
            "own": silo.own.tolist(),
            "rows": test.rows.tolist(),
            "until": test.start + test.width * test.num_windows,
        }
        history = recent_edges(silo.train, silo.validation, silo.test)
        folder.write_state(name, evaluation.states[name], history, memory)
    write_scores(folder.path / "scores.parquet", evaluation)
    write_json(folder.path / "metrics.json", metrics)
    return Run(folder, models, evaluation, metrics, facts)


def fit(
    experiment: Experiment,
    folder: RunFolder,
    dataset: Dataset,
    *,
    resume: bool = False,
    watch: Watcher | None = None,
) -> tuple[dict[str, Arrays], dict[str, Any]]:
    """Train only: the model (or, local-only, one per silo) and what there is to say about it."""
    if not initial_model(experiment, dataset.shape)[1]:
        return {"": {}}, {"stopped": "the detector has no weights", "best_round": None}
    if experiment.mode != "local-only":
        coordinator = federate(experiment, folder, dataset, "", resume=resume, watch=watch)
        return {"": coordinator.best_weights}, _facts(coordinator)
    models, stories = {}, {}
    for name in dataset.silos:
        alone = federate(experiment, folder, dataset, name, resume=resume, watch=watch)
        models[name], stories[name] = alone.best_weights, _facts(alone)
    return models, {"silos": stories}


def federate(
    experiment: Experiment,
    folder: RunFolder,
    dataset: Dataset,
    alone: str,
    *,
    resume: bool,
    watch: Watcher | None,
) -> Coordinator:
    """One federation over all silos, or over the silo `alone`, driven to its end."""
    layout, weights = initial_model(experiment, dataset.shape)
    members = [alone] if alone else sorted(dataset.silos)
    settings = experiment.federation
    if len(members) == 1:  # nobody to aggregate with: plain training, round by round
        plain = settings.aggregation.model_copy(update={"rule": "fedavg"})
        settings = settings.model_copy(update={"aggregation": plain, "secure_sum": False})
    coordinator = Coordinator(
        settings, experiment.privacy, layout, weights, members, experiment.seed, experiment.detector.name
    )
    team = make_team(experiment, folder, dataset, members)
    checkpoints = folder.checkpoints(alone)
    try:
        if resume:
            _resume(coordinator, team, checkpoints, folder, alone)
        _drive(coordinator, team, checkpoints, folder, alone, watch)
    except KeyboardInterrupt as stop:
        raise Interrupted(
            f"stopped after round {coordinator.round}; nothing before it is lost",
            where=folder.path,
            remedy="Go on with --resume.",
        ) from stop
    finally:
        team.close()
    return coordinator


def _drive(
    coordinator: Coordinator,
    team: Team,
    checkpoints: Checkpoints,
    folder: RunFolder,
    alone: str,
    watch: Watcher | None,
) -> None:
    while (task := coordinator.next_task()) is not None:
        replies, failures = team.ask(task, coordinator.config.deadline)
        record = coordinator.conclude(replies, failures)
        if record is not None:
            record = {**record, "silo": alone} if alone else record
            folder.append_round(record)
        checkpoints.save(coordinator.state(), team.states())
        if record is not None and watch is not None:
            watch(record)


def _resume(
    coordinator: Coordinator, team: Team, checkpoints: Checkpoints, folder: RunFolder, alone: str
) -> None:
    """Go back to the last complete step; what was recorded after it is repeated."""
    saved = checkpoints.load()
    reached = 0
    if saved is not None:
        coordinator.restore(*saved[0])
        team.restore(saved[1])
        reached = int(saved[0][0]["id"])
    folder.keep_rounds([r for r in folder.rounds() if r.get("silo", "") != alone or r["id"] < reached])


def make_team(experiment: Experiment, folder: RunFolder, dataset: Dataset, members: list[str]) -> Team:
    if experiment.workers > 1 and len(members) > 1:
        hosts = {name: dataset.silos[name].train.num_edges for name in members}
        return ProcessTeam(folder.path / "experiment.toml", hosts, experiment.workers)
    return SerialTeam({name: make_silo(experiment, dataset, name) for name in members})


def build_silos(experiment: Experiment, names: Collection[str]) -> dict[str, Participant]:
    """Silos by name, from their events; what a worker process or a deployed site calls."""
    dataset = load_dataset(experiment, names)
    return {name: make_silo(experiment, dataset, name) for name in names}


def check_attack(experiment: Experiment, dataset: Dataset) -> None:
    """An attack by a silo that does not exist would be a clean run in disguise."""
    absent = sorted(set(experiment.attack.silos) - set(dataset.silos)) if experiment.attack else []
    if absent and experiment.mode == "federated":
        raise ConfigError(
            f"attack.silos names {absent[0]!r}, which is not a silo",
            remedy=f"Silos are: {', '.join(dataset.silos)}.",
        )


def make_silo(experiment: Experiment, dataset: Dataset, name: str) -> Participant:
    """An honest silo, or the one that the experiment's attack makes of it."""
    data = dataset.silos[name]
    detector = make_detector(experiment, dataset.shape)
    if experiment.attack is not None and name in experiment.attack.silos:
        from entente_lab.attacks import corrupt

        return corrupt(
            experiment.attack,
            name,
            detector,
            data.train,
            data.own_hosts,
            experiment.seed,
            future=data.test,
            later=data.later,
        )
    return Silo(name, detector, data.train, data.own_hosts, experiment.seed, data.later)


def _facts(coordinator: Coordinator) -> dict[str, Any]:
    return {
        "stopped": coordinator.stopped,
        "best_round": coordinator.best_round,
        "rounds": coordinator.round,
        "privacy": coordinator.privacy_report(),
    }
