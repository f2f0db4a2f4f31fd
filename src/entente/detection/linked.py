"""Alerts on what enters a silo from a host that stood out in another one.

What others say never touches a silo's own alerts: those are chosen by its own scores, as without it. A part
of the day's budget is set aside for entries: a silo that lies can fill that part and hide nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from entente.detection.alerts import Alert, in_order
from entente.detection.budget import DAY, DayBudget, within_budget
from entente.detection.history import Edges, History
from entente.detection.incidents import HOURS
from entente.detection.metrics import MICROSECONDS
from entente.detection.policy import AlertPolicy
from entente.detection.raising import Raised, allowed, make_alert
from entente.detection.scored import ScoredEdges
from entente.detection.thresholds import Calibration
from entente.logs.store import time_text

SHARE = 0.2
"""Of the alerts per day, set aside for entries."""
WITHOUT_BUDGET = 2.0
"""Entries per day where alerts are raised by a threshold."""
KNOWN = round(HOURS * 3600 * MICROSECONDS)
"""A source that was raised within this time before is no entry any more: its incident is open."""


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What other silos said of the sources of scored edges; one entry per edge."""

    odds: NDArray[np.float64]  # log odds above what is usual for the source, 0 where nothing was said
    silo: Sequence[str]  # who said it
    window: NDArray[np.int64]  # in which the source stood out there
    score: NDArray[np.float32]  # of the edge with what was said; never below its own


def told_words(silo: str, window: int) -> str:
    """The sentence on a source that another silo spoke of."""
    return f"entered here from a host of {silo} that stood out there at {time_text(window)[:16]} UTC"


def own_part(policy: AlertPolicy) -> AlertPolicy:
    """The policy for a silo's own alerts where a part of the budget is set aside."""
    if policy.alerts_per_day is None:
        return policy
    return replace(policy, alerts_per_day=policy.alerts_per_day * (1 - SHARE))


def raise_entries(
    inbound: ScoredEdges,
    told: Told,
    own: NDArray[np.bool_],
    history: Iterable[Edges],
    policy: AlertPolicy,
    calibration: Calibration | None,
    entered: Mapping[int, Sequence[int]],
    budget: DayBudget | None,
    span: tuple[int, int],
) -> Raised:
    """Of each source that others spoke of, the first edge of a day into the silo, within the budget.

    `entered` are the windows in which alerts named a foreign source before; `span` are the first and the last
    window that are new: earlier edges are here because notes may come late. Silos that speak take turns, each
    with its highest score first: one that says much takes no place from one that says little.
    """
    chosen = np.flatnonzero((told.odds > 0) & own[inbound.dst] & ~own[inbound.src])
    past = History(history, own, inbound.src[chosen].astype(np.int64), inbound.dst[chosen].astype(np.int64))
    kept, excluded = allowed(inbound, chosen, past, policy)
    first = _first_of_day(inbound, told, kept, entered)
    per_day = WITHOUT_BUDGET if policy.alerts_per_day is None else policy.alerts_per_day * SHARE
    kept, budget = within_budget(inbound, _in_turns(told, first), per_day, budget, span)
    alerts = []
    for i in kept:
        alert = make_alert(
            inbound, i, own, past, None, calibration, told_words(told.silo[i], int(told.window[i]))
        )
        alerts.append(replace(alert, score=float(told.score[i])))
    return Raised(tuple(sorted(alerts, key=in_order)), dict(excluded), budget)


def _first_of_day(
    inbound: ScoredEdges, told: Told, places: Sequence[int], entered: Mapping[int, Sequence[int]]
) -> list[int]:
    """Of each source and day the first edge, of several in one window the highest."""
    found: dict[tuple[int, int], int] = {}
    for i in sorted(places, key=lambda i: (inbound.window[i], -told.score[i], inbound.dst[i])):
        source, window = int(inbound.src[i]), int(inbound.window[i])
        if any(0 <= window - before <= KNOWN for before in entered.get(source, ())):
            continue
        found.setdefault((window // DAY, source), i)
    return list(found.values())


def _in_turns(told: Told, places: Sequence[int]) -> list[int]:
    """The places in the order in which they are served."""
    turns: dict[str, int] = {}
    ranked = []
    for i in sorted(places, key=lambda i: (-told.score[i], -told.odds[i], i)):
        turn = turns.get(told.silo[i], 0)
        turns[told.silo[i]] = turn + 1
        ranked.append((turn, i))
    return [i for _, i in sorted(ranked, key=lambda pair: pair[0])]


@dataclass(frozen=True, slots=True)
class Mention:
    """What an alert says of a source that silos spoke of."""

    link: str
    words: str | None = None  # None where this silo was the one to speak


def annotate(alerts: Iterable[Alert], mentions: Mapping[tuple[int, str], Mention]) -> tuple[Alert, ...]:
    """The alerts, those with a source in `mentions` (window, source) with its link and what was said."""
    found = []
    for alert in alerts:
        mention = mentions.get((alert.start, alert.src))
        if mention is not None:
            more = (mention.words,) if mention.words is not None else ()
            explanation = alert.explanation + tuple(one for one in more if one not in alert.explanation)
            alert = replace(alert, explanation=explanation, elsewhere=more, link=mention.link)
        found.append(alert)
    return tuple(found)
