"""Whether there is enough to train, to validate and to test on, in words for whoever started the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from entente.config import Experiment
from entente.runtime.assembly import Dataset

FEW = 300
"""Validation edges below which AP and AUC say little: chance alone moves them by some hundredths."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One thing that there is too little of."""

    of: Literal["training", "test", "validation", "threshold", "labels"]
    text: str


def shortages(experiment: Experiment, dataset: Dataset) -> tuple[Shortage, ...]:
    """What there is too little of; empty where everything is as it should be."""
    data, silos = experiment.data, dataset.silos
    wanted = round(data.train / data.window)
    had = max(silo.train.num_windows + silo.validation.num_windows for silo in silos.values())
    found = []
    if had < wanted:
        covered, asked = _time(had * data.window), _time(wanted * data.window)
        found.append(
            Shortage(
                "training",
                f"the events cover {covered}, data.train asks for {asked}: all of it is used for training. "
                "Read more logs, or lower data.train.",
            )
        )
    if not any(silo.test.num_edges for silo in silos.values()):
        found.append(
            Shortage(
                "test", "no event is left to test on: nothing says how good the model is. Lower data.train."
            )
        )
    elif not dataset.labelled:
        found.append(
            Shortage("labels", "the events carry no labels: AP, AUC, precision and recall are unknown")
        )
    edges = {name: silo.validation.num_edges for name, silo in silos.items()}
    total = sum(edges.values())
    if total < FEW:
        found.append(
            Shortage(
                "validation",
                f"the validation windows hold {total} edges, too few to choose a round by or to mean "
                "anything: raise data.validation, or read more logs",
            )
        )
    needed = round(1 / experiment.detection.false_alarms) - 1
    small = {name: count for name, count in edges.items() if count < needed}
    if small and experiment.detection.alerts_per_day is None:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(small.items()))
        found.append(
            Shortage(
                "threshold",
                f"fewer than {needed:,} validation edges cannot promise a share of false alarms of "
                f"{experiment.detection.false_alarms:g}; the highest score is the threshold: {names}",
            )
        )
    return tuple(found)


def _time(seconds: float) -> str:
    return f"{seconds / 86400:.1f} days" if seconds >= 86400 else f"{seconds / 3600:.1f} hours"
