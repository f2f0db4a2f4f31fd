"""New events as each silo sees them, going on from what it remembers: the graphs that `detect` scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from entente.config import Experiment
from entente.detection.feedback import NOTHING_LEARNT, Lessons
from entente.detectors import find
from entente.detectors.base import GraphShape
from entente.errors import UsageError
from entente.graphs.hosts import HostTable
from entente.graphs.identity import later_identity
from entente.graphs.silo import silo_graph
from entente.graphs.snapshots import Timeline, log_summary, read_timeline
from entente.graphs.temporal import TemporalGraph
from entente.logs.schema import MICROSECONDS
from entente.partition.base import read_silos
from entente.partition.ownership import UNASSIGNED, Ownership
from entente.runs.folder import RunFolder
from entente.runs.mailbox import Mailbox
from entente.runs.state import SiloState
from entente.runtime.assembly import reads_context
from entente.runtime.waiting import ALL_OF_IT, Closing


@dataclass(frozen=True, slots=True, eq=False)
class SiloNight:
    """One silo's view of new windows; `graph` is None where no event is new."""

    silo: str
    judge: str
    """The silo whose model and threshold are used: itself, or the largest one for unassigned hosts."""
    before: SiloState
    hosts: HostTable
    """The hosts known before, and the new ones after them."""
    graph: TemporalGraph | None

    @property
    def new_hosts(self) -> int:
        return len(self.hosts) - len(self.before.hosts)

    @property
    def until(self) -> int:
        graph = self.graph
        return self.before.until if graph is None else graph.start + graph.num_windows * graph.width


@dataclass(frozen=True, slots=True)
class NightRequest:
    """What is to be scored: which run's silos, on which events."""

    run: RunFolder
    events: Path
    silos: Sequence[str] = ()
    """All of the run's by default, and then also what happens among hosts that no silo owns."""
    memory: RunFolder | None = None
    """Where a silo goes on from; from the end of the run where this has nothing of it."""
    partition: Path | None = None
    """A newer table host,silo than the one of the run."""
    lessons: Lessons = NOTHING_LEARNT
    """What people taught by closing alerts."""
    closing: Closing = ALL_OF_IT
    """Which windows are complete; all of them by default."""
    mailbox: Mailbox | None = None
    """What silos elsewhere say of hosts, where the run exchanges it."""


def read_past(request: NightRequest, silo: str) -> SiloState:
    """What the silo remembers, in the given memory or else in the run."""
    memory = request.memory
    return (memory if memory is not None and memory.states.has(silo) else request.run).states.read(silo)


def nights(
    request: NightRequest, experiment: Experiment, shape: GraphShape, known: Sequence[str]
) -> Iterator[SiloNight]:
    """The new windows of each silo that is asked about, the event table being read once for all of them.

    `known` are the silos of the run. A host that no table assigns belongs to whom `data.unknown_hosts` says;
    what happens among hosts without an owner is the last night, under the name UNASSIGNED.
    """
    for name in request.silos:
        if name not in known:
            raise UsageError(f"the run has no silo {name!r}", remedy=f"It has: {', '.join(known)}.")
    if not known:
        raise UsageError(
            "holds no silo that could detect", where=request.run.path, remedy="Name a silo's own run folder."
        )
    pasts = {name: read_past(request, name) for name in known}
    ownership = _ownership(request, experiment, pasts)
    largest = max(sorted(pasts), key=lambda name: pasts[name].hosts.own_hosts)
    timelines: dict[int, Timeline | None] = {}
    wanted = list(request.silos or known)
    if not request.silos and UNASSIGNED not in known:
        wanted.append(UNASSIGNED)
        pasts[UNASSIGNED] = _past_of_nobody(request, min(p.until for p in pasts.values()), shape)
    for name in wanted:
        before = pasts[name]
        if before.until not in timelines:
            timelines[before.until] = _read(experiment, request, before.until)
        night = _night(name, before, timelines[before.until], ownership, experiment, shape)
        if name in known:
            yield night
        elif before.detector is not None or (night.graph is not None and night.graph.num_edges):
            yield SiloNight(name, largest, night.before, night.hosts, night.graph)


def _past_of_nobody(request: NightRequest, until: int, shape: GraphShape) -> SiloState:
    """What is remembered of hosts without an owner; at first nothing."""
    if request.memory is not None and request.memory.states.has(UNASSIGNED):
        return request.memory.states.read(UNASSIGNED)
    return SiloState(until, HostTable.empty(shape.rows_per_host))


def _night(
    name: str,
    before: SiloState,
    timeline: Timeline | None,
    ownership: Ownership,
    experiment: Experiment,
    shape: GraphShape,
) -> SiloNight:
    known = before.hosts.owning(ownership.owners(before.hosts.names.tolist()) == name)
    if timeline is None:
        return SiloNight(name, name, before, known, None)
    found = silo_graph(
        timeline,
        ownership.owners(timeline.hosts.tolist()) == name,
        later_identity(experiment.graph, shape.table_size),
        known=known,
        # An edge with an owner at one end is that silo's to score.
        augmentation=experiment.graph.augmentation and name != UNASSIGNED,
        weight=experiment.graph.weight,
    )
    return SiloNight(name, name, before, found.hosts, found.graph)


def _ownership(request: NightRequest, experiment: Experiment, pasts: Mapping[str, SiloState]) -> Ownership:
    """By the newer table where there is one, else by what the silos remember of their hosts."""
    if request.partition is not None:
        assignment = read_silos(request.partition)
        if not set(assignment.silos) & set(pasts):
            raise UsageError(
                "names no silo of the run", where=request.partition, remedy=f"It has: {', '.join(pasts)}."
            )
        return Ownership(assignment.as_dict(), experiment.data.unknown_hosts)
    if len(pasts) == 1 and (experiment.mode == "non-fl" or experiment.data.silos is None):
        return Ownership.whole(next(iter(pasts)))
    silo_of = {
        host: name for name, past in pasts.items() for host in past.hosts.names[past.hosts.own].tolist()
    }
    table = experiment.data.silos
    if table is not None and table.is_file():  # it may also name hosts that nobody has met yet
        silo_of = read_silos(table).as_dict() | silo_of
    return Ownership(silo_of, experiment.data.unknown_hosts)


def _read(experiment: Experiment, request: NightRequest, until: int) -> Timeline | None:
    """Whole windows from `until` on, None where none is complete: earlier ones have been scored."""
    width = round(experiment.data.window * MICROSECONDS)
    end = request.closing.end(until, width, log_summary(request.events).last_time)
    if end <= until:
        return None
    return read_timeline(
        request.events,
        experiment.data.window,
        until / MICROSECONDS,
        end / MICROSECONDS,
        merged=find(experiment.detector.name).merged,
        context=reads_context(experiment),
        nodes=experiment.graph.nodes,
    )
