"""What a report shows, as plain data: `build` reads it from a run, a caller may add to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from entente.detection.alerts import Alert
from entente.detection.incidents import Incident
from entente.detection.metrics import Metrics
from entente.federation.records import RoundRecord


@dataclass(frozen=True, slots=True)
class AttackEdge:
    """One hop of the attack (or of an incident, where nobody knows the truth: found is None)."""

    time: int  # microseconds
    src: str
    dst: str
    found: bool | None = None
    score: float | None = None
    technique: str | None = None


@dataclass(frozen=True, slots=True)
class Points:
    """A curve: x and y of equal length."""

    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything on the page. Only `title`, `method` and `overall` must be given."""

    title: str
    method: str  # name of the run's own method, as in `methods`
    overall: Metrics
    facts: tuple[tuple[str, str], ...] = ()  # experiment, seed, data ... in the order shown
    command: str | None = None
    simulated: bool | None = None  # None: not known
    methods: Mapping[str, Metrics] = field(default_factory=dict)  # others to compare with
    baselines: Mapping[str, Metrics] = field(default_factory=dict)
    note: str | None = None  # about the comparison
    per_silo: Mapping[str, Metrics] = field(default_factory=dict)
    rounds: tuple[RoundRecord, ...] = ()
    other_rounds: Mapping[str, tuple[RoundRecord, ...]] = field(default_factory=dict)  # of other methods
    curves: Mapping[str, Points] = field(default_factory=dict)  # recall -> precision, by method
    alerts: tuple[Alert, ...] = ()
    incidents: tuple[Incident, ...] = ()
    further: tuple[Alert, ...] = ()  # edges of incidents that are no alerts
    excluded: Mapping[str, int] = field(default_factory=dict)  # above a threshold, not raised: reasons
    attack: tuple[AttackEdge, ...] = ()
    homes: Mapping[str, str] = field(default_factory=dict)  # host -> silo
    silo_hosts: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    privacy: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def all_methods(self) -> dict[str, Metrics]:
        """The run's own method first, then the others."""
        others = {name: figures for name, figures in self.methods.items() if name != self.method}
        return {self.method: self.overall, **others}

    def colours(self) -> dict[str, int]:
        """A number per method and baseline, so that one has the same colour in every chart."""
        names = [*self.all_methods(), *self.other_rounds, *self.baselines, *self.curves]
        return {name: i for i, name in enumerate(dict.fromkeys(names))}
