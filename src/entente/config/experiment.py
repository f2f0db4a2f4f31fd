"""The sections of an experiment file; options of detectors and aggregation rules live with these."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from entente.config.sections import (
    ChosenAggregation,
    ChosenDetector,
    Section,
    aggregation_options,
    detector_options,
)
from entente.errors import UsageError
from entente.registry import DETECTORS


class Data(Section):
    """Where events come from and how time is cut."""

    events: Path = Path("events")
    """Event directory, as `entente ingest` leaves it."""
    silos: Path | None = None
    """Table host,silo as `entente split` leaves it; without it everything is one silo."""
    unknown_hosts: str = "unassigned"
    """Whose a host outside that table is: `unassigned`, `subnet` (most of its /24), or a silo's name."""
    window: float = Field(default=1800.0, gt=0)
    """Seconds of one snapshot (paper: 1800 for LANL, 360 for OpTC)."""
    start: float | None = None
    """Second at which the first window begins; the first event's window by default."""
    train: float = Field(default=42 * 3600.0, gt=0)
    """Seconds from the start that are used for training and validation; the rest is the test."""
    validation: float = Field(default=0.1, ge=0, lt=1)
    """Share of the training windows, the last ones, kept for learning the threshold."""
    end: float | None = None
    """Second at which the test ends; the last event by default."""


class Graph(Section):
    """How a silo's events become its graph."""

    moved: ClassVar[Mapping[str, str]] = {"static": "removed: every window has a graph of its own."}

    augmentation: bool = True
    """1-hop augmentation: keep edges with one foreign endpoint. Off = both endpoints are the silo's own."""
    identity: Literal["shared-index", "keyed-hash"] = "shared-index"
    """Who knows host names: everybody, or nobody outside the silo (hosts are HMAC'd into a table)."""
    table_size: int = Field(default=65536, ge=16, le=1 << 26)
    """Rows of the identity table with keyed-hash; a shared index has one row per host."""
    secret: Path | None = None
    """File with the silos' shared hash secret (keyed-hash); the coordinator never has it."""
    nodes: Literal["hosts", "users", "both"] = "hosts"
    """Edges from host to host, from user to host (bipartite), or both. A user belongs to no silo."""
    weight: Literal["events", "bytes", "users"] = "events"
    """What an edge weighs (Euler, Jbeil): its events, its kilobytes, or its different users."""
    roles: Path | None = None
    """CSV with host and role: hosts of a role share an identity row beside their own (Euler, Jbeil)."""


class Federation(Section):
    """Rounds, quorum, deadlines."""

    moved: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("m", "labels", "iterations"),
        'moved to the lab: an option of federation.aggregation with rule = "lab-entente".',
    )

    aggregation: ChosenAggregation = Field(default_factory=lambda: aggregation_options({}))
    rounds: int = Field(default=30, ge=1)
    """At most this many (paper: 30 Euler, 5 Jbeil)."""
    epochs: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Local epochs E per round; auto = the detector's own number (paper: 1)."""
    patience: int = Field(default=30, ge=1)
    """Stop after this many rounds without a better validation AP + AUC."""
    quorum: float = Field(default=0.5, gt=0, le=1)
    """Share of the silos whose accepted update a round needs."""
    retries: int = Field(default=2, ge=0)
    """How often a round below quorum is repeated before the run stops with a checkpoint."""
    deadline: float = Field(default=3600.0, gt=0)
    """Seconds a silo has for one task."""
    secure_sum: bool = True
    """Learn the total host count by a pairwise-masked sum; needs three silos or more."""
    exchange: bool = False
    """While detecting, silos tell one another under pseudonyms which hosts stand out; needs graph.secret."""
    max_hosts: int = Field(default=1_000_000, ge=2, le=20_000_000)
    """The total host count is cut here: a lie must not make every silo grow an endless reference graph."""


class Privacy(Section):
    """Noise on the aggregated update."""

    moved: ClassVar[Mapping[str, str]] = {"sensitivity": "removed: weak noise is for a sensitivity of 0.001."}

    mechanism: Literal["none", "weak", "central"] = "none"
    """weak = noise for a sensitivity of 0.001, no guarantee; central = for the true sensitivity."""
    sigma: float = Field(default=0.2, gt=0)
    """Noise multiplier (paper: 1.0 weak, 0.2 central)."""
    delta: float = Field(default=1e-5, gt=0, lt=1)
    """Delta at which epsilon is reported (the paper's 0.1 is not a meaningful guarantee)."""
    clip: float | None = Field(default=None, gt=0)
    """Clip every silo's update to this norm before aggregation; central noise needs it for most rules."""
    randomness: Literal["seeded", "secret"] = "seeded"
    """seeded noise can be reproduced, and so removed, by whoever knows the seed; secret is for real runs."""


def _ensemble(name: str) -> str:
    if name not in ("none", "suspicion"):
        try:
            found = DETECTORS.load(name)
        except UsageError as error:
            raise ValueError(f"{error.what}. {error.remedy}") from error
        if found.federated:
            raise ValueError(f"{name!r} is no baseline: it has weights")
    return name


class Detection(Section):
    """Scores -> alerts."""

    false_alarms: float = Field(default=0.001, gt=0, lt=1)
    """Threshold = score that this share of benign validation edges exceeds."""
    budgets: tuple[int, ...] = (3, 5, 10)
    """Alerts per window for which recall is reported."""
    alerts_per_day: float | None = Field(default=None, gt=0)
    """Alerts per silo and day, the highest scores first, instead of all above the threshold."""
    exclude: tuple[Literal["known-pairs", "multicast"], ...] = ("known-pairs", "multicast")
    """Edges that are no alert whatever their score: pairs seen before, targets that are many hosts."""
    ensemble: Annotated[str, AfterValidator(_ensemble)] = "none"
    """A baseline whose score multiplies the model's surprise, or `suspicion` (`behaviour` has it always)."""


class Experiment(Section):
    """The whole experiment file.

    >>> experiment = entente.Experiment(seed=3, federation={"rounds": 5})
    >>> experiment.federation.aggregation.rule
    'entente'
    """

    moved: ClassVar[Mapping[str, str]] = {
        "attack": "moved to the lab: a file of its own, for `entente train --attack FILE`."
    }

    name: str = "experiment"
    """For the run folder and the report."""
    seed: int = Field(default=0, ge=0)
    """Of everything random; the same seed gives the same bits."""
    mode: Literal["federated", "local-only", "non-fl"] = "federated"
    """federated; local-only = each silo alone; non-fl = all data in one place."""
    workers: int = Field(default=1, ge=1)
    """Processes that train silos side by side; the result does not depend on it."""
    data: Data = Data()
    graph: Graph = Graph()
    detector: ChosenDetector = Field(default_factory=lambda: detector_options({}))
    federation: Federation = Field(default_factory=Federation)
    privacy: Privacy = Privacy()
    detection: Detection = Detection()
