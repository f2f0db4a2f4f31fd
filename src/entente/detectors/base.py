"""What every detector is: built from a config and a shape, trained on a graph, scoring edges.

Weights travel in a federation; own weights and temporal state (a GRU's hidden state, a TGN's memory, a
baseline's counts) never do. All are plain arrays by name.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.config import DetectorOptions
from entente.graphs.temporal import Float32, Int32, Int64, TemporalGraph

State = Arrays
"""Temporal state of a detector at the end of a window; safetensors can hold it."""


@dataclass(frozen=True, slots=True)
class GraphShape:
    """All that a detector may know of the data before it trains: sizes, never contents."""

    table_size: int  # rows of the federated identity table
    rows_per_host: int = 1
    roles: int = 0  # the table's last rows, which stand for roles: a host's last row is one of them
    weighted: bool = False  # whether graphs say what their edges weigh besides events


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Pairs to be scored against a graph's windows; sorted by window."""

    window: Int64
    src: Int32
    dst: Int32
    time: Int64 | None = None  # microseconds; the window's end where absent


@dataclass(frozen=True, slots=True)
class Training:
    loss: float
    edges: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Validation:
    ap: float
    auc: float
    edges: int


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Hosts that stood out in windows: one entry per host and window, in order of the windows."""

    window: Int64  # start, microseconds
    host: Int64
    above: NDArray[np.float64]  # log odds above what is usual for the host

    @classmethod
    def nobody(cls) -> Standing:
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))

    @classmethod
    def of(cls, risen: Sequence[tuple[int, Int64, NDArray[np.float64]]]) -> Standing:
        """From windows: start, hosts that stood out there, and how far."""
        nobody = cls.nobody()
        return cls(
            np.concatenate([nobody.window, *(np.full(len(hosts), start) for start, hosts, _ in risen)]),
            np.concatenate([nobody.host, *(hosts for _, hosts, _ in risen)]),
            np.concatenate([nobody.above, *(above for _, _, above in risen)]),
        )


class Detector(ABC):
    """One model or baseline. Scores are anomaly scores: higher means less expected.

    A package adds one by a subclass and an entry point `entente.detectors`; see docs/plugins.md.

    >>> from entente.detectors import find
    >>> issubclass(find("rare-target"), entente.Detector)
    True
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    merged: ClassVar[bool] = True
    """Wants one edge per pair and window (True) or every event as an edge of its own (False)."""
    reads_context: ClassVar[bool] = False
    """Wants `TemporalGraph.context`: accounts, kinds, ports and failures of edges. Else it is not read."""
    federated: ClassVar[bool] = True
    """Has weights, so that silos can train it together; a baseline has none."""
    suspects: ClassVar[bool] = False
    """Keeps suspicion of hosts itself, so that `detection.ensemble = "suspicion"` adds none."""
    reference: ClassVar[bool] = False
    """A baseline that every run is compared with."""
    local_epochs: ClassVar[int] = 1
    """Epochs per round where an experiment says `epochs = "auto"`."""
    norm_bound: ClassVar[float] = 5.0
    """Norm of an update that is usual for this detector, where an aggregation rule has to assume one."""
    Options: ClassVar[type[DetectorOptions]] = DetectorOptions
    """What may be set in `[detector]`."""

    config: DetectorOptions
    shape: GraphShape

    @property
    @abstractmethod
    def components(self) -> dict[str, tuple[str, ...]]:
        """Weight names by component: ENC, TEMP, DEC; a component without weights is left out."""

    @property
    def identity_tables(self) -> tuple[str, ...]:
        """Names of weights whose first axis is the identity table's row."""
        return ()

    @abstractmethod
    def weights(self) -> Arrays:
        """A copy of all trained parameters that silos share, float32, by name."""

    @abstractmethod
    def load_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Take over weights; DetectorError if a name, shape or dtype differs or a value is not finite."""

    def own_weights(self) -> Arrays:
        """A copy of what is trained and stays in the silo, float32, by names that `weights` does not have."""
        return {}

    def load_own_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:  # noqa: B027 - optional
        """Take over what `own_weights` gave; DetectorError as for `load_weights`."""

    @abstractmethod
    def train(
        self, graph: TemporalGraph, epochs: int, rng: np.random.Generator, proximal: float = 0.0
    ) -> Training:
        """Train from the present weights. `proximal` is FedProx's mu, anchored at the weights on entry."""

    @abstractmethod
    def validate(self, graph: TemporalGraph, rng: np.random.Generator) -> Validation:
        """AP and AUC of held-out edges against sampled non-edges; changes nothing."""

    def validate_later(
        self, graph: TemporalGraph, later: TemporalGraph, rng: np.random.Generator
    ) -> Validation:
        """AP and AUC on the windows `later`, which follow `graph`; rounds are chosen by it. Changes nothing.

        Edges against sampled non-edges, unless the detector knows something better.
        """
        from entente.detectors.validation import validate_later

        return validate_later(self, graph, later, rng)

    @abstractmethod
    def initial_state(self, graph: TemporalGraph) -> State:
        """The state before any window has been seen."""

    @abstractmethod
    def score(
        self, graph: TemporalGraph, state: State, candidates: Candidates | None = None
    ) -> tuple[Float32, State]:
        """Scores of the graph's own edges (or of `candidates`), and the state after its last window.

        `state` is what the preceding windows left; nodes appended since then get a fresh state.
        Neither the detector nor `state` is changed.
        """

    def score_hosts(self, graph: TemporalGraph, state: State) -> tuple[Float32, State, Standing]:
        """As `score` of the graph's own edges, and the hosts that stood out; nobody where it cannot say."""
        return *self.score(graph, state), Standing.nobody()

    def with_told(self, scores: Float32, odds: NDArray[np.float64]) -> Float32:
        """Scores of edges whose sources stand out elsewhere, by log odds of 0 or more; never lower."""
        return np.maximum(scores, scores * np.exp(0.25 * odds)).astype(np.float32)

    def short_windows(self, graph: TemporalGraph, state: State) -> int:
        """Windows of `graph` that a baseline scores, since the history before them is too short."""
        return 0

    def explain(self, graph: TemporalGraph, state: State, edges: Int64) -> list[str]:
        """Why the edges of `graph` at these positions score as they do: a sentence each, or an empty one.

        `state` is the one that `score` was given for this graph. Asked for alerts only: it may take long.
        A host of the graph is written as `named(node)`; whoever knows its name puts it in (`with_names`).
        """
        return [""] * len(edges)

    def optimiser_state(self) -> Arrays:
        """What the optimiser remembers between rounds; stays in the silo."""
        return {}

    def load_optimiser_state(self, state: Mapping[str, NDArray[Any]]) -> None:  # noqa: B027 - optional
        """Take over what `optimiser_state` gave."""


def named(node: int) -> str:
    """How a sentence of `Detector.explain` speaks of a host."""
    return f"{{{node}}}"


def with_names(sentence: str, names: Sequence[str] | NDArray[np.str_]) -> str:
    """The sentence with the hosts' names in it."""

    def name(found: re.Match[str]) -> str:
        node = int(found[1])
        return str(names[node]) if node < len(names) else "another host"

    return re.sub(r"\{(\d{1,9})\}", name, sentence)
