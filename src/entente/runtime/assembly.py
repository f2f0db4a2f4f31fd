"""An experiment and an event directory -> what each silo has, and the model they start from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from entente.artifacts import Arrays
from entente.config import Data, Experiment, Graph
from entente.detectors import baseline, create, find
from entente.detectors.base import Detector, GraphShape
from entente.detectors.ensemble import Ensemble
from entente.detectors.with_suspicion import WithSuspicion
from entente.errors import ConfigError, DetectorError, UsageError
from entente.federation.aggregators.base import Layout
from entente.graphs.hosts import HostTable
from entente.graphs.identity import ROLES, make_identity
from entente.graphs.silo import SiloGraph, silo_graph
from entente.graphs.snapshots import read_timeline
from entente.graphs.temporal import TemporalGraph
from entente.partition.base import read_silos
from entente.partition.ownership import BY_SUBNET, UNASSIGNED, Ownership

EVERYTHING = "all"
"""The only silo's name where there is no partition, unless it has one of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class SiloData:
    """One silo's graph, cut into training, validation (for the threshold) and test windows."""

    name: str
    hosts: HostTable
    train: TemporalGraph
    validation: TemporalGraph
    test: TemporalGraph

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


def load_dataset(
    experiment: Experiment,
    only: Collection[str] | None = None,
    *,
    home: str = EVERYTHING,
) -> Dataset:
    """Read the events and cut them by silo and by time; `only` limits which silos are built.

    Where there is no partition, everything belongs to one silo, `home`.
    """
    data = experiment.data
    kind = find(experiment.detector.name)
    timeline = read_timeline(
        data.events,
        data.window,
        data.start,
        data.end,
        merged=kind.merged,
        context=reads_context(experiment),
        nodes=experiment.graph.nodes,
    )
    identity = make_identity(experiment.graph, timeline.hosts.tolist())
    ownership = silo_owners(experiment, home)
    owner = ownership.owners(timeline.hosts.tolist())
    names = [name for name in np.unique(owner).tolist() if ownership.has(name)]
    unknown = sorted(set(only or ()) - set(names))
    if unknown:
        raise UsageError(f"there is no silo {unknown[0]!r}", remedy=f"Silos are: {', '.join(names)}.")
    silos = {}
    for name in names:
        if only is None or name in only:
            silo = silo_graph(
                timeline,
                owner == name,
                identity,
                augmentation=experiment.graph.augmentation,
                weight=experiment.graph.weight,
            )
            silos[name] = cut(name, silo, data)
    return Dataset(silos, graph_shape(experiment.graph, identity.table_size, identity.rows_per_host))


def graph_shape(config: Graph, table_size: int, rows_per_host: int) -> GraphShape:
    """What a detector is told of graphs with such an identity table."""
    roles = 0 if config.roles is None else ROLES
    return GraphShape(table_size, rows_per_host, roles, weighted=config.weight != "events")


def reads_context(experiment: Experiment) -> bool:
    """Whether more of the events is needed than their number."""
    return find(experiment.detector.name).reads_context or experiment.graph.weight != "events"


def silo_owners(experiment: Experiment, home: str = EVERYTHING) -> Ownership:
    """Which silo each host belongs to; without a partition everything belongs to `home`."""
    if experiment.mode == "non-fl" or experiment.data.silos is None:
        return Ownership.whole(home)
    assignment = read_silos(experiment.data.silos)
    unknown = experiment.data.unknown_hosts
    if unknown not in (UNASSIGNED, BY_SUBNET, *assignment.silos):
        raise ConfigError(
            f"data.unknown_hosts = {unknown!r} is neither a policy nor a silo",
            where=experiment.data.silos,
            remedy=f"Choose {UNASSIGNED}, {BY_SUBNET} or one of: {', '.join(assignment.silos)}.",
        )
    return Ownership(assignment.as_dict(), unknown)


def cut(name: str, silo: SiloGraph, data: Data) -> SiloData:
    """Training windows first, then validation windows, then the test; nothing overlaps.

    Each part knows the hosts and accounts that have been met by its end and none that will only be met
    later: to train on a future host as one that never does anything would be to be told of the attack.
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
        silo.graph.windows(first, last).alone(silo.graph.known_before(last))
        for first, last in ((0, fitted), (fitted, known))
    ]
    parts.append(silo.graph.windows(known).alone(len(silo.hosts)))
    # What the future will call malicious is no business of training.
    train, validation = (replace(part, label=None) for part in parts[:2])
    return SiloData(name, silo.hosts, train, validation, parts[2])


def initial_model(experiment: Experiment, shape: GraphShape) -> tuple[Layout, Arrays]:
    """The coordinator's w_1, from which every silo starts."""
    detector = make_detector(experiment, shape)
    return Layout.of(detector), detector.weights()


def make_detector(experiment: Experiment, shape: GraphShape) -> Detector:
    """The detector that a silo trains."""
    return create(experiment.detector, shape, experiment.seed)


def trained_detector(
    experiment: Experiment, shape: GraphShape, models: Mapping[str, Arrays], silo: str
) -> Detector:
    """The detector that a silo scores with: the model of all (""), with what the silo has of its own."""
    found = {**models.get("", {}), **models.get(silo, {})}
    detector = make_detector(experiment, shape)
    own = detector.own_weights().keys()
    if not own <= found.keys():
        raise DetectorError(
            f"there are no identity rows of silo {silo!r}",
            remedy='With detector.identities = "local" they are in that silo\'s own run folder alone.',
        )
    weights = {name: array for name, array in found.items() if name not in own}
    detector.load_weights(weights)
    detector.load_own_weights({name: found[name] for name in own})
    ensemble = experiment.detection.ensemble
    if ensemble == "suspicion" and not detector.suspects:
        return WithSuspicion(detector)
    if ensemble in ("none", "suspicion") or not weights:
        return detector
    return Ensemble(detector, baseline(ensemble, shape, experiment.seed))
