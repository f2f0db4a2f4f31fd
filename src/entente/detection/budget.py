"""So many alerts per day: the highest scores of each day, or of the part of it that has been read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from entente.detection.metrics import MICROSECONDS, SECONDS_PER_DAY
from entente.detection.scored import ScoredEdges

DAY = SECONDS_PER_DAY * MICROSECONDS


@dataclass(frozen=True, slots=True)
class DayBudget:
    """What a silo may raise of its last day: a share of the budget for every window, less what was raised."""

    day: int
    earned: float = 0.0
    spent: int = 0

    @property
    def left(self) -> int:
        return max(0, math.ceil(self.earned - 1e-9) - self.spent)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DayBudget:
        return cls(int(values["day"]), float(values["earned"]), int(values["spent"]))


def within_budget(
    scored: ScoredEdges,
    places: Sequence[int],
    per_day: float,
    before: DayBudget | None = None,
    span: tuple[int, int] | None = None,
) -> tuple[list[int], DayBudget | None]:
    """The places that the budget allows, and the last day's budget after them.

    `places` come highest score first; several of one edge and window count once. A whole day has
    `per_day`; a day that is read in parts has as much as the parts read so far amount to. `span` are the
    first and the last window that were read, where that is not told by the edges.
    """
    if not len(scored) and span is None:
        return [], before
    first, last = span or (int(scored.window.min()), int(scored.window.max()))
    days = {day: DayBudget(day) for day in range(first // DAY, last // DAY + 1)}
    days |= {int(day): DayBudget(int(day)) for day in scored.window[list(places)] // DAY if day not in days}
    if before is not None and before.day in days:
        days[before.day] = before
    for day, budget in days.items():
        if day < first // DAY:
            continue  # read by an earlier call, whose budget is all there is
        windows = range(
            max(first, _first_in(day, first, scored.width)), min(last + 1, (day + 1) * DAY), scored.width
        )
        earned = budget.earned + per_day * len(windows) * scored.width / DAY
        days[day] = replace(budget, earned=earned)
    kept, edges = [], set()
    for place in places:
        edge = (int(scored.window[place]), int(scored.src[place]), int(scored.dst[place]))
        budget = days[edge[0] // DAY]
        if edge not in edges and budget.left:
            edges.add(edge)
            kept.append(place)
            days[budget.day] = replace(budget, spent=budget.spent + 1)
    return kept, days[last // DAY]


def _first_in(day: int, start: int, width: int) -> int:
    """The first window of the grid through `start` that begins in the day."""
    return start + -(-(day * DAY - start) // width) * width
