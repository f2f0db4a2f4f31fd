"""The ablation's equal initial weights: every silo counts with the mean similarity of all."""

from __future__ import annotations

from entente.config import Experiment
from entente.errors import UsageError
from entente.federation.aggregators.entente import EntenteOptions
from entente.federation.messages import TrainTask
from entente.runtime.assembly import Dataset
from entente.runtime.loop import make_coordinator
from entente.runtime.participants import HONEST
from entente.runtime.transport import SerialTransport
from entente_lab.bench.methods import AGGREGATION, change


def mean_similarity(experiment: Experiment, dataset: Dataset) -> float:
    """The mean J over silos, from the same bootstrap that a run begins with."""
    names = sorted(dataset.silos)
    coordinator = make_coordinator(experiment, dataset.shape, names)
    silos = SerialTransport({name: HONEST.build(experiment, dataset, name) for name in names})
    while (task := coordinator.next_task()) is not None and not isinstance(task, TrainTask):
        coordinator.conclude(*silos.ask(task, coordinator.config.deadline))
    found = coordinator.bootstrap.similarity
    return float(sum(found.values()) / len(found))


def equal_weights(experiment: Experiment, dataset: Dataset) -> Experiment:
    """J = 1 for everybody would raise every r and compare two step lengths; so c1 carries the mean J."""
    options = experiment.federation.aggregation
    if not isinstance(options, EntenteOptions):
        raise UsageError(f"{options.rule} has no initial weights", remedy="Choose entente.")
    c1 = options.settings().c1 * mean_similarity(experiment, dataset)
    equal = {**options.model_dump(), "rule": "lab-entente", "sketch": False, "c1": c1}
    return change(experiment, {AGGREGATION + name: value for name, value in equal.items()})
