"""Entente: contributions scaled by ACS, updates held by a norm bound.

    r^k     = c1 * J^k + c2 * S^k * D^k
    NB(D)   = D / max(1, |D| / M)
    w_{i+1} = w_i + (1/K) * sum over k of r^k * NB(w^k - w_i)

S^k = max(0, cos(w^k, w_i)) and D^k = min(omega, |w^k - w_i|) are computed here from the weights, never
taken from a silo. K is the number of updates accepted in the round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from entente.artifacts import Arrays
from entente.config import AggregationOptions
from entente.federation.aggregators.base import (
    NORM_BOUND,
    Aggregator,
    Contribution,
    Credit,
    Layout,
    SketchSettings,
    Vector,
)
from entente.federation.aggregators.streaming import Float64, Summation, moved, pieces

REMEMBERED_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class EntenteSettings:
    """Every number of the rule. Users set some of them (`EntenteOptions`), the lab all."""

    c1: float = 0.8
    """Weight of the sketch similarity J in a contribution r."""
    c2: float = 0.2
    """Weight of S * D in a contribution r."""
    omega: float = 5.0
    """Upper bound of the distance D."""
    acs: bool = True
    """Adaptive contribution scaling; off = r is c1 * J + c2 throughout."""
    sketch: SketchSettings | None = field(default_factory=SketchSettings)
    """How J is found; None = J is 1 for every silo."""
    scope: str = "model"
    """Bound the whole update; ENC, TEMP and DEC apart ("component"); or identity tables apart ("tables")."""
    reduction: str = "mean"
    """Divide the sum of contributions by K, or not ("sum")."""
    rows: str = "all"
    """Average an identity row over all silos, or over those that hold it ("holders")."""
    row_cap: float = 0.0
    """No identity row moves by more than this times a typical row of recent rounds; 0 = no cap."""
    bound: float | Literal["auto"] = "auto"
    """Norm bound M; auto = the detector's own."""
    adaptive: bool = True
    """After the first round M follows the norms of recent updates instead of staying at `bound`."""
    adaptive_factor: float = 1.0
    """Adaptive M = this times the median over the last five rounds of the median norm over silos."""


class EntenteOptions(AggregationOptions):
    """Settings of entente."""

    moved: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("c1", "c2", "omega", "adaptive_factor", "scope", "reduction", "acs", "sketch"),
        'moved to the lab: an option of rule = "lab-entente".',
    )

    rule: str = "entente"
    bound: Annotated[float, Field(gt=0)] | Literal["auto"] = "auto"
    """Norm bound M; auto = the detector's own (the paper's 5 for Euler and 70 for Jbeil)."""
    adaptive: bool = True
    """After the first round M follows the norms of recent updates instead of staying at `bound`."""
    rows: Literal["all", "holders"] = "all"
    """Average an identity row over all silos, or over those that hold it."""
    row_cap: float = Field(default=0.0, ge=0)
    """No identity row moves by more than this times a typical row of recent rounds; 0 = no cap."""

    def settings(self) -> EntenteSettings:
        """The rule's numbers, those that cannot be set included."""
        return EntenteSettings(bound=self.bound, adaptive=self.adaptive, rows=self.rows, row_cap=self.row_cap)


class ContributionScaling(Aggregator):
    """Everything but the norm bound."""

    def __init__(self, config: AggregationOptions, layout: Layout, norm_bound: float = NORM_BOUND) -> None:
        super().__init__(config, layout, norm_bound)
        self.settings = config.settings() if isinstance(config, EntenteOptions) else EntenteSettings()
        self.sketch = self.settings.sketch
        self._groups = layout.groups(self.settings.scope)
        self._recent: Float64 = np.empty((0, len(self._groups)))  # median norms of the last rounds
        self._recent_rows: Float64 = np.empty((0, len(layout.tables)))  # median row steps of the same

    @property
    def largest_contribution(self) -> float:
        """No r exceeds this, whatever a silo sends."""
        return self.settings.c1 + self.settings.c2 * (self.settings.omega if self.settings.acs else 1.0)

    def begin(self, current: Vector) -> None:
        self._sum = Summation(current, self._groups)
        self._bounds = self._round_bounds()
        self._norms: list[tuple[float, ...]] = []
        self._row_steps: list[list[float]] = [[] for _ in self.layout.tables]
        self._holders = {
            name: np.zeros(self.layout.rows(name), dtype=np.int32)
            for name in self.layout.tables
            if self.settings.rows == "holders"
        }

    def add(self, contribution: Contribution) -> Credit:
        geometry = self._sum.measure(contribution.vector)
        vector, sent = contribution.vector, geometry.norm
        if self.settings.row_cap > 0:
            vector = self._cap_rows(vector)
            geometry = self._sum.measure(vector)
        similarity = min(1.0, max(0.0, contribution.similarity)) if self.sketch is not None else 1.0
        cosine, distance = max(0.0, geometry.cosine), min(self.settings.omega, geometry.norm)
        scaling = cosine * distance if self.settings.acs else 1.0
        r = self.settings.c1 * similarity + self.settings.c2 * scaling
        shrink = [
            min(1.0, bound / norm) if norm > 0 else 1.0
            for bound, norm in zip(self._bounds, geometry.norms, strict=True)
        ]
        self._sum.add(vector, [r * factor for factor in shrink])
        self._norms.append(geometry.norms)
        self._count_holders(vector)
        clipped = min(shrink) < 1.0 or geometry.norm < sent
        return Credit(similarity, cosine, distance, r, sent, clipped)

    def finish(self) -> Vector:
        if not self._norms:
            return self._sum.current.copy()
        mean = self.settings.reduction == "mean"
        step = self._sum.step(len(self._norms) if mean else 1.0)
        if self._holders and mean:
            self._average_over_holders(step)
        self._recent = _remember(self._recent, self._norms)
        if self.settings.row_cap > 0:
            self._recent_rows = _remember(self._recent_rows, list(zip(*self._row_steps, strict=True)))
        return moved(self._sum.current, step)

    # ---- the bound -------------------------------------------------------------------------

    def _round_bounds(self) -> list[float]:
        """M per group for this round."""
        return [math.inf] * len(self._groups)

    def influence(self, silos: int, clip: float | None) -> float | None:
        return self._influence(math.inf, silos, clip)

    def _influence(self, bound: float, silos: int, clip: float | None) -> float | None:
        """How far one of `silos` updates of at most norm `bound` moves the model."""
        if self.settings.row_cap > 0:
            return None  # what other silos may send then depends on this one's earlier updates
        mean = self.settings.reduction == "mean"
        if mean and self.settings.rows == "holders":
            # A silo may hold rows alone, so only the ball that the whole step is cut to is certain.
            return 2.0 * self.largest_contribution * bound if math.isfinite(bound) else None
        longest = self.largest_contribution * min(bound, math.inf if clip is None else clip)
        return 2.0 * longest / (silos if mean else 1) if math.isfinite(longest) else None

    # ---- row_cap ---------------------------------------------------------------------------

    def _cap_rows(self, vector: Vector) -> Vector:
        """The update with no identity row's step longer than row_cap times the typical one.

        Typical is the median of recent rounds' medians over silos; before there is a round, the median
        of the silo's own rows. A row that did not move does not count.
        """
        capped = vector.copy()
        spans = self.layout.spans()
        for index, name in enumerate(self.layout.tables):
            count = self.layout.rows(name)
            current = self._sum.current[spans[name]].reshape(count, -1)
            rows = capped[spans[name]].reshape(count, -1)
            step = rows.astype(np.float64) - current
            length = np.sqrt(np.add.reduce(step * step, axis=1))
            moved_rows = length[length > 0]
            own = float(np.median(moved_rows)) if len(moved_rows) else 0.0
            self._row_steps[index].append(own)
            known = self._recent_rows[:, index]
            allowed = self.settings.row_cap * (float(np.median(known)) if len(known) else own)
            over = length > allowed
            rows[over] = current[over] + step[over] * (allowed / length[over])[:, None]
        return capped

    # ---- rows = "holders" ------------------------------------------------------------------

    def _count_holders(self, vector: Vector) -> None:
        """A silo holds an identity row if its training moved it."""
        spans = self.layout.spans()
        for name, holders in self._holders.items():
            width = self.layout.sizes[self.layout.names.index(name)] // max(1, len(holders))
            for piece in pieces(slice(0, len(holders))):
                part = slice(spans[name].start + piece.start * width, spans[name].start + piece.stop * width)
                held = vector[part] != self._sum.current[part]
                holders[piece] += held.reshape(-1, width).any(axis=1)

    def _average_over_holders(self, step: Float64) -> None:
        """Divide each identity row by its holders instead of K, and keep the step inside the same bound."""
        spans = self.layout.spans()
        for name, holders in self._holders.items():
            rows = step[spans[name]].reshape(len(holders), -1)
            rows *= self._row_factors(holders)[:, None]
        for bound, group in zip(self._bounds, self._groups, strict=True):
            length = math.sqrt(sum(float(np.add.reduce(step[span] ** 2)) for span in group))
            allowed = self.largest_contribution * bound
            if length > allowed:
                for span in group:
                    step[span] *= allowed / length

    def _row_factors(self, holders: NDArray[np.int32]) -> Float64:
        """What makes a mean over all silos the mean over each row's holders."""
        return len(self._norms) / np.maximum(holders, 1)

    def state(self) -> Arrays:
        kept = {"norms": self._recent, "rows": self._recent_rows}
        return {name: array.copy() for name, array in kept.items() if array.size}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if "norms" in state:
            self._recent = np.array(state["norms"], dtype=np.float64)
        if "rows" in state:
            self._recent_rows = np.array(state["rows"], dtype=np.float64)


class Entente(ContributionScaling):
    name = "entente"
    summary = "Adaptive contribution scaling within a norm bound (the paper's rule)."
    Options = EntenteOptions

    @property
    def bound(self) -> float | None:
        return math.hypot(*self._round_bounds())

    @property
    def _constant(self) -> float:
        return self.norm_bound if self.settings.bound == "auto" else self.settings.bound

    def _round_bounds(self) -> list[float]:
        """The constant, or what recent norms say. No minority of silos moves a median."""
        if not self.settings.adaptive or not len(self._recent):
            return [self._constant] * len(self._groups)
        typical = self.settings.adaptive_factor * np.median(self._recent, axis=0)
        return [float(value) if value > 0 else self._constant for value in typical]

    def influence(self, silos: int, clip: float | None) -> float | None:
        if self.settings.adaptive:
            return None  # what other silos may send then depends on this one's earlier updates
        return self._influence(self._constant * math.sqrt(len(self._groups)), silos, clip)


def _remember(recent: Float64, found: Sequence[Sequence[float]]) -> Float64:
    """The last rounds' medians over silos, with this round's.

    The median of an even number is the mean of the middle two, which half of the silos could raise at
    will: it counts for at most twice the lower of them.
    """
    ordered = np.sort(np.array(found), axis=0)
    lower = ordered[(len(ordered) - 1) // 2]
    typical = np.minimum(np.median(ordered, axis=0), 2.0 * lower)
    return np.concatenate((recent, typical[None]))[-REMEMBERED_ROUNDS:]
