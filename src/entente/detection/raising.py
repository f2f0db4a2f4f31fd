"""Scored edges -> alerts: the only place where alerts are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from entente.detection.alerts import Alert, Direction, in_order
from entente.detection.budget import DAY, DayBudget, within_budget
from entente.detection.explanations import SEVERITIES, SiloView, explain, severity
from entente.detection.history import Edges, History
from entente.detection.policy import TAUGHT, AlertPolicy, to_many
from entente.detection.scored import ScoredEdges
from entente.detection.table import AlertTable
from entente.detection.thresholds import Calibration
from entente.detectors.base import with_names

POOL = 20
"""With a budget, so many times as many edges of a day are looked at, since some are never raised."""

Reasons = Callable[[NDArray[np.int64]], Sequence[str]]
"""A detector's own sentences about edges, by their places in the scored edges; an empty one says nothing."""


@dataclass(frozen=True, slots=True)
class Raised:
    """One silo's alerts, and how many edges the policy kept from being alerts, by reason."""

    alerts: tuple[Alert, ...]
    excluded: dict[str, int]
    budget: DayBudget | None = None  # of the last day, where the policy has one


def raise_alerts(
    scored: ScoredEdges,
    own: NDArray[np.bool_],
    history: Iterable[Edges],
    policy: AlertPolicy,
    calibration: Calibration | None = None,
    reasons: Reasons | None = None,
    budget: DayBudget | None = None,
) -> Raised:
    """The alerts of one silo, in order of time and score.

    `own` says which of `scored.hosts` are the silo's own; `history` are its earlier edges, usually those of
    training. The scored edges are history for the windows after them in any case. Everything an alert
    says is from this one silo's view, so that it is the same whoever asks for it. `budget` is what the
    call before left of its last day.
    """
    chosen = _chosen(scored, policy)
    past = History(
        [*history, (scored.window, scored.src, scored.dst)],
        own,
        scored.src[chosen].astype(np.int64),
        scored.dst[chosen].astype(np.int64),
    )
    kept, excluded = allowed(scored, chosen, past, policy)
    if policy.alerts_per_day is not None:
        kept, budget = within_budget(scored, kept, policy.alerts_per_day, budget)
        # Of a pool of high scores, of which most are not raised in any case.
        excluded = Counter({reason: n for reason, n in excluded.items() if reason == TAUGHT})
    # Several events of one pair and window, highest score first, are one alert.
    kept = list({_edge(scored, i): i for i in reversed(kept)}.values())
    said = [""] * len(kept) if reasons is None else reasons(np.array(kept, dtype=np.int64))
    ranks = Ranks(scored)
    alerts = (
        make_alert(scored, i, own, past, ranks, calibration, why) for i, why in zip(kept, said, strict=True)
    )
    return Raised(tuple(sorted(alerts, key=in_order)), dict(excluded), budget)


def joined(raised: Sequence[Raised]) -> AlertTable:
    """What several silos raised, as one table."""
    excluded = Counter[str]()
    for one in raised:
        excluded.update(one.excluded)
    return AlertTable(join_silos(one.alerts for one in raised), dict(excluded))


def join_silos(raised: Iterable[Iterable[Alert]]) -> tuple[Alert, ...]:
    """Alerts of several silos, in order: an edge that two silos raised is one alert.

    It is told by the silo that owns the source, with the higher severity of the two.
    """
    found: dict[str, Alert] = {}
    for alert in (alert for alerts in raised for alert in alerts):
        other = found.get(alert.id)
        if other is None:
            found[alert.id] = alert
            continue
        main, second = (other, alert) if alert.direction == "inbound" else (alert, other)
        worst = max(main.severity, second.severity, key=SEVERITIES.index)
        also = f"also raised by {second.silo}: {second.explanation[0]}"
        found[alert.id] = replace(
            main,
            severity=worst,
            also=second.silos,
            explanation=(*main.explanation, also),
            link=main.link or second.link,
        )
    return tuple(sorted(found.values(), key=in_order))


def allowed(
    scored: ScoredEdges, chosen: NDArray[np.int64], past: History, policy: AlertPolicy
) -> tuple[list[int], Counter[str]]:
    """The chosen places that the policy does not exclude, and how many it does, by reason."""
    many = {int(d): to_many(str(scored.hosts[d])) for d in np.unique(scored.dst[chosen])}
    kept, excluded = [], Counter[str]()
    for i in chosen.tolist():
        if "multicast" in policy.exclude and many[int(scored.dst[i])]:
            excluded["multicast"] += 1
        elif "known-pairs" in policy.exclude and past.known(*_edge(scored, i)):
            excluded["known-pairs"] += 1
        elif _is_taught(scored, i, policy):
            excluded[TAUGHT] += 1
        else:
            kept.append(i)
    return kept, excluded


def _chosen(scored: ScoredEdges, policy: AlertPolicy) -> NDArray[np.int64]:
    """Places of the edges that may be raised, highest score first."""
    places = np.flatnonzero(scored.alert)
    if policy.alerts_per_day is not None:
        most = max(100, round(policy.alerts_per_day * POOL))
        day = scored.window // DAY
        order = np.lexsort((-scored.score, day))
        starts = np.flatnonzero(np.diff(day[order], prepend=day[order[:1]] - 1))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
        places = order[rank < most]
    names = scored.hosts
    ties = np.lexsort((names[scored.dst[places]], names[scored.src[places]], scored.window[places]))
    places = places[ties]
    found: NDArray[np.int64] = places[np.argsort(-scored.score[places], kind="stable")]
    return found


def _is_taught(scored: ScoredEdges, i: int, policy: AlertPolicy) -> bool:
    """Whether people have closed such edges of this source as benign."""
    if not policy.lessons.of:
        return False
    silo = int(scored.silo[i])
    excess = float(scored.score[i]) - float(np.float32(scored.thresholds[silo]))
    return policy.lessons.quiet(scored.silos[silo], str(scored.hosts[scored.src[i]]), excess)


def _edge(scored: ScoredEdges, i: int) -> tuple[int, int, int]:
    return int(scored.window[i]), int(scored.src[i]), int(scored.dst[i])


def make_alert(
    scored: ScoredEdges,
    i: int,
    own: NDArray[np.bool_],
    past: History,
    ranks: Ranks | None,
    calibration: Calibration | None,
    why: str,
) -> Alert:
    """The alert on one edge; `why` is said first, and its rank where `ranks` knows the whole window."""
    start, s, d = _edge(scored, i)
    src, dst = str(scored.hosts[s]), str(scored.hosts[d])
    silo = scored.silos[int(scored.silo[i])]
    view = SiloView(silo, bool(own[s]), bool(own[d]))
    novelty, days = past.novelty(start, s, d), (start - past.start) / DAY
    score = float(scored.score[i])
    rarity = None if calibration is None else calibration.one_in(score)
    ranked = (
        ()
        if ranks is None
        else ("rank {:,} of {:,} edges of this window in ".format(*ranks.of(i)) + view.logs,)
    )
    return Alert(
        start=start,
        end=start + scored.width,
        src=src,
        dst=dst,
        score=score,
        threshold=float(np.float32(scored.thresholds[int(scored.silo[i])])),
        severity=severity(novelty, days),
        silo=silo,
        explanation=(
            *((with_names(why, scored.hosts),) if why else ()),
            *explain(src, dst, novelty, days, view),
            *(() if rarity is None else (_rare(rarity, view),)),
            *ranked,
        ),
        direction=direction(view.owns_source, view.owns_target),
        rarity=rarity,
        source_role=past.role(start, s),
        target_role=past.role(start, d),
    )


def _rare(rarity: int, view: SiloView) -> str:
    return f"1 in {rarity:,} edges scores as high in the validation windows of {view.logs}"


def direction(own_source: bool, own_target: bool) -> Direction:
    """Of an edge, seen from a silo that owns one end of it or both."""
    if own_source and own_target:
        return "internal"
    return "outbound" if own_source else "inbound"


class Ranks:
    """Places of edges in their window, 1 = highest; equal scores share the best."""

    def __init__(self, scored: ScoredEdges) -> None:
        self._window, self._score = scored.window, scored.score
        self._order = np.argsort(scored.window, kind="stable")
        self._sorted = scored.window[self._order]

    def of(self, i: int) -> tuple[int, int]:
        """The place of edge `i`, and among how many."""
        window = self._window[i]
        low, high = np.searchsorted(self._sorted, (window, window + 1)).tolist()
        higher = self._score[self._order[low:high]] > self._score[i]
        return int(higher.sum()) + 1, high - low
