"""An experiment and an event directory -> what each silo has, and the model they start from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.config import Data, Experiment
from entente.detectors import baseline, create, find
from entente.detectors.base import Detector, GraphShape
from entente.detectors.ensemble import Ensemble
from entente.errors import ConfigError, UsageError
from entente.federation.aggregators.base import Layout
from entente.graphs.augmentation import SiloGraph, silo_graph
from entente.graphs.identity import make_identity
from entente.graphs.snapshots import Timeline, as_static, read_timeline
from entente.graphs.temporal import TemporalGraph

EVERYTHING = "all"
"""The only silo's name when there is but one."""


@dataclass(frozen=True, slots=True, eq=False)
class SiloData:
    """One silo's graph, cut into training, validation (for the threshold) and test windows."""

    name: str
    names: NDArray[np.str_]
    own: NDArray[np.bool_]
    train: TemporalGraph
    validation: TemporalGraph
    test: TemporalGraph

    @property
    def own_hosts(self) -> int:
        return int(self.own.sum())

    @property
    def later(self) -> TemporalGraph | None:
        """The windows that rounds are validated on; a detector of single events holds out its own."""
        return self.validation if self.validation.merged else None


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """All that a run in one process knows; in a deployment each silo builds only its own part."""

    silos: dict[str, SiloData]
    shape: GraphShape

    @property
    def labelled(self) -> bool:
        return any(silo.test.label is not None for silo in self.silos.values())


def load_dataset(experiment: Experiment, only: Collection[str] | None = None) -> Dataset:
    """Read the events and cut them by silo and by time; `only` limits which silos are built."""
    data = experiment.data
    merged = find(experiment.detector.name).merged
    timeline = read_timeline(data.events, data.window, data.start, data.end, merged=merged)
    identity = make_identity(experiment.graph, timeline.hosts.tolist())
    owners = silo_owners(experiment, timeline)
    unknown = sorted(set(only or ()) - set(owners))
    if unknown:
        raise UsageError(f"there is no silo {unknown[0]!r}", remedy=f"Silos are: {', '.join(owners)}.")
    silos = {}
    for name, own in owners.items():
        if only is None or name in only:
            silo = silo_graph(timeline, own, identity, augmentation=experiment.graph.augmentation)
            silos[name] = cut(name, silo, data, static=experiment.graph.static)
    return Dataset(silos, GraphShape(identity.table_size, identity.rows_per_host))


def silo_owners(experiment: Experiment, timeline: Timeline) -> dict[str, NDArray[np.bool_]]:
    """For each silo, which of the timeline's hosts are its own."""
    if experiment.mode == "non-fl" or experiment.data.silos is None:
        return {EVERYTHING: np.ones(len(timeline.hosts), dtype=bool)}
    from entente.partition.base import read_silos

    assignment = read_silos(experiment.data.silos)
    silo_of = assignment.as_dict()
    owner = np.array([silo_of.get(host, "") for host in timeline.hosts.tolist()])
    return {name: owner == name for name in sorted(assignment.silos) if (owner == name).any()}


def cut(name: str, silo: SiloGraph, data: Data, *, static: bool = False) -> SiloData:
    """Training windows first, then validation windows, then the test; nothing overlaps.

    Each part knows the hosts that have been met by its end and none that will only be met later: to train
    on a future host as one that never does anything would be to be told of the attack.
    """
    windows = silo.graph.num_windows
    known = min(round(data.train / data.window), windows)
    fitted = known - round(known * data.validation)
    if fitted < 1:
        raise ConfigError(
            f"data.train = {data.train:g} s leaves no training window of {data.window:g} s",
            remedy="Lengthen data.train or shorten data.window.",
        )
    parts = [
        known_hosts(silo.graph.windows(first, last), silo.graph.known_before(last))
        for first, last in ((0, fitted), (fitted, known))
    ]
    parts.append(silo.graph.windows(known))
    if static:
        parts = [as_static(part) for part in parts]
    # What the future will call malicious is no business of training.
    train, validation = (replace(part, label=None) for part in parts[:2])
    return SiloData(name, silo.names, silo.own, train, validation, parts[2])


def known_hosts(graph: TemporalGraph, count: int) -> TemporalGraph:
    """The graph with only its first `count` nodes, which all its edges are between."""
    return replace(graph, rows=graph.rows[:count])


def initial_model(experiment: Experiment, shape: GraphShape) -> tuple[Layout, Arrays]:
    """The coordinator's w_1, from which every silo starts."""
    detector = make_detector(experiment, shape)
    weights = detector.weights()
    component = {name: part for part, names in detector.components.items() for name in names}
    names = tuple(sorted(weights))
    layout = Layout(
        names=names,
        shapes=tuple(weights[name].shape for name in names),
        component=tuple(component[name] for name in names),
        tables=tuple(sorted(detector.identity_tables)),
    )
    return layout, weights


def make_detector(experiment: Experiment, shape: GraphShape) -> Detector:
    """The detector that a silo trains."""
    return create(experiment.detector, shape, experiment.seed)


def trained_detector(
    experiment: Experiment, shape: GraphShape, models: Mapping[str, Arrays], silo: str
) -> Detector:
    """The detector that a silo scores with: its own model where it has one, else the model of all ("")."""
    weights = models.get(silo, models.get("", {}))
    detector = make_detector(experiment, shape)
    detector.load_weights(weights)
    ensemble = experiment.detection.ensemble
    if ensemble == "none" or not weights:
        return detector
    return Ensemble(detector, baseline(ensemble, shape, experiment.seed))
