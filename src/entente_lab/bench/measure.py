"""What a cell does: train, score the test windows, and boil everything down to figures (JSON)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from entente.artifacts import Arrays
from entente.config import Experiment
from entente.detection.metrics import Metrics, pr_curve
from entente.detection.scored import ScoredEdges
from entente.errors import UsageError
from entente.federation.records import RoundRecord
from entente.partition.base import read_silos
from entente.runs.folder import RunFolder
from entente.runs.records import TrainingRecord
from entente.runtime.assembly import Dataset, initial_model, trained_detector
from entente.runtime.evaluation import Evaluation, evaluate_models
from entente.runtime.local import fit
from entente.runtime.participants import HONEST
from entente_lab.bench.equal import equal_weights
from entente_lab.bench.gradients import condition, watched_gradients
from entente_lab.bench.methods import change
from entente_lab.bench.sharing import MEMORY, shared_dataset, sharing

CURVE_POINTS = 100
WITHIN = 0.05
CREDITS = ("j", "s", "d", "r", "norm", "shared", "clipped", "refused", "bytes_up", "bytes_down", "seconds")


def measure(experiment: Experiment, options: Mapping[str, Any], work: Path) -> dict[str, Any]:
    """Train and evaluate one experiment; training goes on from the checkpoint that `work` may hold.

    Options: `task` is "detection" (labelled test edges) or "link-prediction" (test edges against
    sampled non-edges), with `inductive` for edges of hosts that training never saw. `model` is "best"
    (by validation, the default), "last", or "within": the last one whose validation is within 5 % of the
    best; `equal` gives every silo the mean similarity.
    """
    dataset = shared_dataset(experiment)
    began = time.perf_counter()
    if options.get("equal"):
        experiment = equal_weights(experiment, dataset)
    folder = cell_folder(experiment, work)
    participants = sharing(dataset) if options.get("sharing", True) else HONEST
    with watched_gradients(MEMORY.gradients) as gradients:
        models, training = fit(experiment, folder, dataset, participants=participants)
    rounds = folder.rounds()
    if options.get("model") == "last":
        models = {"": last_model(experiment, dataset, folder)}
    elif options.get("model") == "within":
        models = {"": model_within(experiment, dataset, rounds, work)}
    trained = time.perf_counter()
    detectors = {name: trained_detector(experiment, dataset.shape, models, name) for name in dataset.silos}
    if options.get("task", "detection") == "link-prediction":
        from entente_lab.bench.link_prediction import evaluate_links

        outcome = evaluate_links(experiment, dataset, detectors, inductive=bool(options.get("inductive")))
    else:
        outcome = detection(experiment, evaluate_models(dataset, detectors, experiment.detection))
    outcome["values"] |= {
        "train_seconds": round(trained - began, 3),
        "test_seconds": round(time.perf_counter() - trained, 3),
        **training_figures(rounds, training),
        **condition(experiment, dataset, gradients, rounds),
    }
    outcome["model"] = model_digest(models)
    outcome["rounds"] = [shortened(record) for record in rounds]
    outcome["training"] = training_facts(training)
    return outcome


def cell_folder(experiment: Experiment, work: Path) -> RunFolder:
    """The cell's run folder; `fit` goes on from the checkpoint that an earlier attempt may have left."""
    folder = RunFolder(work / "run")
    folder.begin(experiment, resume=folder.started)
    return folder


def last_model(experiment: Experiment, dataset: Dataset, folder: RunFolder) -> Arrays:
    """The global model after the last round, whatever its validation was."""
    saved = folder.checkpoints().load()
    if saved is None:
        raise UsageError("the model of the last round is that of a federated run")
    layout, _ = initial_model(experiment, dataset.shape)
    return layout.unflatten(saved.coordinator[1]["current"])


def model_within(
    experiment: Experiment, dataset: Dataset, rounds: Sequence[RoundRecord], work: Path
) -> Arrays:
    """The model of the last round whose validation (AP + AUC) is within 5 % of the best.

    The run is made again up to that round; what the silos computed is remembered.
    """
    scores = [-1.0 if r.validation is None else r.validation.ap + r.validation.auc for r in rounds]
    last = max(done for done, score in enumerate(scores) if score >= (1.0 - WITHIN) * max(scores))
    shorter = change(experiment, {"federation.rounds": max(1, last)})
    folder = cell_folder(shorter, work / "within")
    fit(shorter, folder, dataset, participants=sharing(dataset))
    return last_model(shorter, dataset, folder)


def model_digest(models: Mapping[str, Arrays]) -> str | None:
    """Tells whether two methods ended with the same bits; None for a rule, which has no weights."""
    whole = hashlib.sha256()
    for owner, weights in sorted(models.items()):
        for name, array in sorted(weights.items()):
            whole.update(f"{owner}/{name}".encode() + array.tobytes())
    return whole.hexdigest()[:16] if any(models.values()) else None


def detection(experiment: Experiment, evaluation: Evaluation) -> dict[str, Any]:
    """Figures of labelled test edges: overall, per silo, and the precision-recall curve."""
    budgets = experiment.detection.budgets
    whole = evaluation.overall()
    parts = evaluation.scored
    if experiment.mode == "non-fl" and experiment.data.silos is not None:
        owners = read_silos(experiment.data.silos).as_dict()
        parts = seen_by_silos(whole, owners, augmentation=experiment.graph.augmentation)
    curve = {} if whole.label is None else pr_curve(whole.score, whole.label, CURVE_POINTS).as_dict()
    return {
        "values": flat(whole.metrics(budgets)),
        "per_silo": {name: scored.metrics(budgets).as_dict() for name, scored in parts.items()},
        "curve": {name: [round(v, 5) for v in values] for name, values in curve.items()},
    }


def seen_by_silos(
    whole: ScoredEdges, owners: Mapping[str, str], *, augmentation: bool
) -> dict[str, ScoredEdges]:
    """The central model's scores of the edges that each silo sees; `owners` is {host: silo}."""
    owner = np.array([owners.get(host, "") for host in whole.hosts.tolist()])
    found = {}
    for name in sorted(set(owners.values())):
        from_own, to_own = (owner == name)[whole.src], (owner == name)[whole.dst]
        seen = from_own | to_own if augmentation else from_own & to_own
        if seen.any():
            found[name] = whole.chosen(seen)
    return found


def flat(metrics: Metrics) -> dict[str, Any]:
    """Metrics without nesting; what a group lacks altogether is left out."""
    return _unnested(metrics.as_dict())


def _unnested(figures: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in figures.items():
        if isinstance(value, Mapping):
            found |= _unnested(value, f"{prefix}{name}_")
        elif not name.startswith("per_source"):
            found[prefix + name] = value
    return found


def training_figures(rounds: Iterable[RoundRecord], training: Mapping[str, TrainingRecord]) -> dict[str, Any]:
    """How long training took in rounds, and what it sent. Alone or in one place nothing is sent."""
    silos = [entry for record in rounds for entry in record.silos.values()]
    best = [story.best_round for story in training.values() if story.best_round is not None]
    return {
        "best_round": float(np.mean(best)) if best else None,
        "rounds": max((story.rounds or 0 for story in training.values()), default=0),
        "bytes_up": sum(entry.bytes_up or 0 for entry in silos),
        "bytes_down": sum(entry.bytes_down or 0 for entry in silos),
        "refused": sum(entry.refused is not None for entry in silos),
    }


def training_facts(training: Mapping[str, TrainingRecord]) -> dict[str, Any]:
    """How training ended, as JSON: of the one model, or of every silo's."""
    stories = {name: story.model_dump(mode="json") for name, story in training.items()}
    return stories.get("", {"silos": stories})


def shortened(record: RoundRecord) -> dict[str, Any]:
    """A round as tables and plots need it."""
    table = record.to_json()
    return {
        "round": record.round,
        "kind": record.kind,
        "silo": record.silo or None,
        "loss": record.loss,
        "validation": table["validation"],
        "bound": record.bound,
        "silos": {
            name: {key: _short(entry[key]) for key in CREDITS if key in entry}
            for name, entry in table["silos"].items()
        },
    }


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
