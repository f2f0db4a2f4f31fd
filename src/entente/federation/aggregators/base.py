"""The contract of an aggregation rule: one streaming pass over a round's accepted updates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.config import AggregationOptions
from entente.detectors.base import Detector

Vector = NDArray[np.float32]

NORM_BOUND = 5.0
"""The paper's norm bound M for its first detector."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a model's named weights lie in one flat vector, and which component each belongs to."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    component: tuple[str, ...]  # ENC, TEMP or DEC, per name
    tables: tuple[str, ...] = ()  # names whose first axis is an identity-table row

    @classmethod
    def of(cls, detector: Detector) -> Layout:
        """The layout of a detector's weights, sorted by name."""
        weights = detector.weights()
        component = {name: part for part, names in detector.components.items() for name in names}
        names = tuple(sorted(weights))
        return cls(
            names=names,
            shapes=tuple(weights[name].shape for name in names),
            component=tuple(component[name] for name in names),
            tables=tuple(sorted(detector.identity_tables)),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(int(np.prod(shape)) for shape in self.shapes)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def rows(self, name: str) -> int:
        """How many rows a weight has along its first axis."""
        return self.shapes[self.names.index(name)][0]

    def spans(self) -> dict[str, slice]:
        """Where each name lies in the vector."""
        ends = np.cumsum((0, *self.sizes)).tolist()
        return {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(self.names)}

    def groups(self, scope: str) -> tuple[tuple[slice, ...], ...]:
        """Where the groups of weights lie that are bounded apart: "model", "component" or "tables".

        With "tables" they are the identity tables and the weights that every silo trains.
        """
        if scope == "model":
            return ((slice(0, self.size),),)
        kinds = self.component if scope == "component" else [name in self.tables for name in self.names]
        spans = tuple(self.spans().values())
        return tuple(
            tuple(span for span, own in zip(spans, kinds, strict=True) if own == kind)
            for kind in dict.fromkeys(kinds)
        )

    def shared_norm(self, vector: Vector, current: Vector) -> float:
        """How far `vector` lies from `current` in the weights that every silo trains: all but the tables."""
        spans = [span for name, span in self.spans().items() if name not in self.tables]
        steps = (vector[span].astype(np.float64) - current[span] for span in spans)
        return math.sqrt(sum(float(np.einsum("i,i->", step, step)) for step in steps))

    def flatten(self, weights: Mapping[str, NDArray[Any]], out: Vector | None = None) -> Vector:
        """All weights in one vector: a new one, or `out`."""
        vector = np.empty(self.size, dtype=np.float32) if out is None else out
        for name, span in self.spans().items():
            vector[span] = weights[name].reshape(-1)
        return vector

    def unflatten(self, vector: NDArray[Any]) -> Arrays:
        spans = self.spans()
        return {
            name: vector[spans[name]].reshape(shape).astype(np.float32)
            for name, shape in zip(self.names, self.shapes, strict=True)
        }


@dataclass(frozen=True, slots=True)
class SketchSettings:
    """How a silo's graph is compared with the reference graph."""

    m: int = 5
    """Edges per new node of the Barabási–Albert reference graph."""
    labels: str = "log-degree"
    """First labels of the Weisfeiler–Lehman sketch: degree, log-degree or relative-degree."""
    iterations: int = 3
    """Weisfeiler–Lehman iterations."""


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """One silo's accepted update: its weights w^k as a flat vector, and what is known of the silo.

    The vector is only lent: a rule that needs it after `add` keeps a copy.
    """

    silo: str
    vector: Vector
    similarity: float = 1.0  # J, already clamped to [0, 1]
    share: float = 1.0  # n^k / n where it is known (FedAVG-N)


@dataclass(frozen=True, slots=True)
class Credit:
    """What the rule made of one contribution; goes into rounds.jsonl."""

    j: float = 1.0
    s: float = 1.0
    d: float = 0.0
    r: float = 1.0
    norm: float = 0.0
    clipped: bool = False


class Aggregator(ABC):
    """One aggregation rule. Used as begin -> add, add, ... -> finish, once per round, silos sorted by name.

    A round may be begun anew before it is finished (below quorum), so what a rule remembers between
    rounds changes in `finish` alone. `add` raises RefusedError for a vector that is not finite.

    >>> class First(entente.Aggregator):
    ...     name, summary = "first", "The update of the first silo."
    >>> sorted(First.__abstractmethods__)
    ['add', 'begin', 'finish']
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    sketch: SketchSettings | None = None
    """How the sketch similarity J is found, which the bootstrap then asks for; None where it is not used."""
    needs_share: ClassVar[bool] = False
    """Uses n^k / n, so every silo has to reveal its share of the hosts."""
    Options: ClassVar[type[AggregationOptions]] = AggregationOptions
    """What may be set in `[federation.aggregation]`."""

    config: AggregationOptions

    def __init__(self, config: AggregationOptions, layout: Layout, norm_bound: float = NORM_BOUND) -> None:
        """`norm_bound` is the detector's usual norm of an update, for a rule that has to assume one."""
        self.config = config
        self.layout = layout
        self.norm_bound = norm_bound

    @abstractmethod
    def begin(self, current: Vector) -> None:
        """Start a round from the global model w_i."""

    @abstractmethod
    def add(self, contribution: Contribution) -> Credit:
        """Take one silo's update."""

    @abstractmethod
    def finish(self) -> Vector:
        """The next global model w_{i+1}; w_i itself when nothing was added."""

    @property
    def step_limit(self) -> float:
        """Updates longer than this times the round's median do not reach the rule; 0 = no limit."""
        return 0.0

    @property
    def proximal(self) -> float:
        """FedProx's mu for the silos; 0 for every other rule."""
        return 0.0

    def influence(self, silos: int, clip: float | None) -> float | None:
        """How far (L2) the next model can move when one of `silos` updates is replaced by any other.

        `clip` is the norm that updates were clipped to beforehand, if they were. None: no bound is
        known, and noise cannot be calibrated to this rule.
        """
        return None

    @property
    def bound(self) -> float | None:
        """The norm bound M of this round; None for a rule without one."""
        return None

    def state(self) -> Arrays:
        """What the rule remembers between rounds (server optimiser, recent norms)."""
        return {}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:  # noqa: B027 - optional
        """Take over what `state` gave."""
