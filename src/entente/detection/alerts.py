"""Scored edges -> alerts that say why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any
from uuid import UUID, uuid5

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entente.detection.explanations import Severity, explain, severity, technique_hint
from entente.detection.history import History, encode
from entente.detection.metrics import MICROSECONDS
from entente.errors import StorageError

NAMESPACE = UUID("0b6a2f1e-6a52-5d0b-9f0e-6d1c3c3b7a11")
"""All ids of alerts and incidents derive from this and their contents: the same alert, the same id."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One edge of one window that is less expected than the threshold allows. Times are microseconds."""

    start: int
    end: int
    src: str
    dst: str
    score: float
    threshold: float
    severity: Severity
    silo: str
    explanation: tuple[str, ...]
    user: str | None = None
    kind: str | None = None
    technique: str | None = None  # ATT&CK id that the log's own words suggest; a hint, not a finding

    @property
    def id(self) -> str:
        """The same edge in the same window has the same id, whatever its score."""
        key = f"{self.start}\0{self.src}\0{self.dst}".encode("utf-8", errors="surrogatepass")
        return str(uuid5(NAMESPACE, key.hex()))

    def as_dict(self) -> dict[str, Any]:
        return {"id": self.id, **asdict(self), "explanation": list(self.explanation)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Alert:
        """What `as_dict` gave; StorageError when a field is missing."""
        try:
            known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
            return cls(**{**known, "explanation": tuple(values["explanation"])})
        except (KeyError, TypeError) as error:
            raise StorageError(
                f"is not an alert ({error})", remedy="Write alerts again with `entente detect`."
            ) from error


@dataclass(frozen=True, slots=True, eq=False)
class ScoredEdges:
    """The columns of scores.parquet, and what else the log has; all of one length."""

    window: NDArray[np.int64]  # start, microseconds
    src: NDArray[Any]
    dst: NDArray[Any]
    score: NDArray[np.float64]
    silo: NDArray[Any] | None = None
    user: NDArray[Any] | None = None
    kind: NDArray[Any] | None = None
    port: NDArray[Any] | None = None


def build_alerts(
    edges: ScoredEdges,
    threshold: float | ArrayLike,
    window_seconds: float,
    *,
    history: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    home: Mapping[str, str] | None = None,
) -> tuple[Alert, ...]:
    """Alerts for the edges above the threshold (one, or one per edge), in order of time and score.

    `history` are (window, src, dst) of earlier edges, usually those of training; the scored edges are
    history for the windows after them in any case. `home` says which silo a host belongs to. An edge
    between two silos that both score above their threshold is one alert.
    """
    silo = np.full(len(edges.score), "") if edges.silo is None else edges.silo
    limit = np.broadcast_to(np.asarray(threshold, dtype=np.float64), edges.score.shape)
    rank, count = _ranks(edges.window, silo, edges.score)
    chosen = np.flatnonzero(edges.score > limit)
    chosen = chosen[np.lexsort((-edges.score[chosen], edges.window[chosen]))]
    if not len(chosen):
        return ()
    columns: Sequence[ArrayLike] = (edges.window, edges.src, edges.dst)
    if history is not None:
        columns = [np.concatenate((old, new)) for old, new in zip(history, columns, strict=True)]
    known = History(*columns, sources=edges.src[chosen], targets=edges.dst[chosen], home=home)
    alerts: dict[tuple[int, str, str], Alert] = {}
    for i in chosen.tolist():
        start, pair = int(edges.window[i]), (str(edges.src[i]), str(edges.dst[i]))
        key = (start, *pair)
        if key in alerts:
            alerts[key] = _seen_twice(alerts[key], str(silo[i]))
            continue
        novelty = known.novelty(start, *pair)
        kind, port = _optional(edges.kind, i), _optional(edges.port, i)
        days = (start - known.start) / (86_400 * MICROSECONDS)
        alerts[key] = Alert(
            start=start,
            end=start + round(window_seconds * MICROSECONDS),
            src=pair[0],
            dst=pair[1],
            score=float(edges.score[i]),
            threshold=float(limit[i]),
            severity=severity(novelty, days),
            silo=str(silo[i]),
            explanation=(
                *explain(*pair, novelty, days, (home or {}).get(pair[1])),
                f"rank {rank[i]} of {count[i]} edges in this window",
            ),
            user=_optional(edges.user, i),
            kind=kind,
            technique=technique_hint(kind, port),
        )
    return tuple(sorted(alerts.values(), key=lambda alert: (alert.start, -alert.score, alert.src, alert.dst)))


def _seen_twice(alert: Alert, silo: str) -> Alert:
    if silo == alert.silo:
        return alert
    return replace(alert, explanation=(*alert.explanation, f"also above the threshold of {silo}"))


def _ranks(
    window: NDArray[np.int64], silo: NDArray[Any], score: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Place of every edge in its silo's window (1 = highest; equals share the best), and of how many."""
    if not len(score):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, (number,) = encode(silo)
    order = np.lexsort((-score, number, window))
    w, n, s = window[order], number[order], score[order]
    new_group = np.concatenate(([True], (w[1:] != w[:-1]) | (n[1:] != n[:-1])))
    new_score = new_group | np.concatenate(([True], s[1:] != s[:-1]))
    place = np.arange(len(s))
    group_start = np.maximum.accumulate(np.where(new_group, place, 0))
    tie_start = np.maximum.accumulate(np.where(new_score, place, 0))
    sizes = np.diff(np.append(np.flatnonzero(new_group), len(s)))
    rank, count = np.empty_like(place), np.empty_like(place)
    rank[order] = tie_start - group_start + 1
    count[order] = np.repeat(sizes, sizes)
    return rank, count


def _optional(values: NDArray[Any] | None, i: int) -> str | None:
    if values is None or values[i] is None or values[i] != values[i]:
        return None
    return str(values[i])
