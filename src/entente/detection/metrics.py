"""How good scores are: AP and AUC first, then what a threshold and an analyst's budget make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from entente.detection.ranking import Bools, Floats, Ints, Ranking
from entente.detection.sources import SourceScores, by_source, source_codes
from entente.errors import DetectorError, GraphError

SECONDS_PER_DAY = 86_400
MICROSECONDS = 1_000_000
LONGEST = 100 * 366  # days; no log is longer, so what seems longer has the wrong unit
UNDEFINED = (
    *("ap", "auc", "ap_lift", "precision", "recall", "fpr", "fdr", "positives", "per_source_window"),
    *("per_source_day", "precision_at_half_recall", "false_per_day_at_half_recall"),
)
"""What is not known without labels."""


@dataclass(frozen=True, slots=True)
class SourceMetrics:
    """The figures of sources per period: a source scores as its highest edge does in that period."""

    ap: float | None
    auc: float | None
    ap_lift: float | None
    precision: float | None
    recall: float | None
    positives: int
    pairs: int  # of a source and a period
    recall_at: dict[str, float | None]  # sources that are looked at per period
    alerts_per_day: float | None
    precision_at_half_recall: float | None
    false_per_day_at_half_recall: float | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of one set of scored edges. None where a figure is undefined (0 / 0, no labels)."""

    ap: float | None
    auc: float | None
    ap_lift: float | None  # AP over the share of malicious edges
    precision: float | None
    recall: float | None
    fpr: float | None  # FP / (FP + TN)
    fdr: float | None  # FP / (TP + FP)
    threshold: float | None  # the median when every silo has its own; None when none is finite
    positives: int | None
    edges: int
    recall_at: dict[str, float | None]
    alerts_per_day: float | None
    precision_at_half_recall: float | None
    false_per_day_at_half_recall: float | None
    per_source_window: SourceMetrics | None
    per_source_day: SourceMetrics | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values without NaN, as metrics.json holds them."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Curve:
    """Precision over recall, from the highest score down."""

    recall: tuple[float, ...]
    precision: tuple[float, ...]

    def as_dict(self) -> dict[str, list[float]]:
        return {"recall": list(self.recall), "precision": list(self.precision)}


def evaluate(
    scores: ArrayLike,
    labels: ArrayLike | None,
    windows: ArrayLike,
    threshold: float | ArrayLike,
    window_seconds: float,
    budgets: Sequence[int] = (3, 5, 10),
    sources: ArrayLike | None = None,
    alerts: ArrayLike | None = None,
) -> Metrics:
    """Metrics of scored edges.

    `windows` are window numbers, or starts in microseconds as in scores.parquet; an alert is a score
    *above* the threshold, which is one number or one per edge, unless `alerts` says which edges were
    raised (an edge of two silos may be raised by the one whose score is not counted). Without labels
    only the number of alerts is known. AP treats a group of equal scores as one step; recall at a budget
    is the expected value over a random order of equal scores. `sources`
    (names or numbers) add the figures per source.
    """
    score, window = _finite(scores), np.asarray(windows, dtype=np.int64)
    if len(window) != len(score):
        raise GraphError(f"{len(score)} scores but {len(window)} windows")
    if alerts is None:
        alert = score > np.broadcast_to(np.asarray(threshold, dtype=np.float64), score.shape)
    else:
        alert = np.asarray(alerts, dtype=bool)
    typical = _typical(threshold)
    days = _days(window, window_seconds)
    if labels is None:
        return Metrics(
            **dict.fromkeys(UNDEFINED),
            threshold=typical,
            edges=len(score),
            recall_at={str(budget): None for budget in budgets},
            alerts_per_day=_rate(int(alert.sum()), days),
        )
    truth = _truth(labels, len(score))
    figures = _figures(score, truth, alert, window, days, budgets)
    false = int((alert & ~truth).sum())
    per_window = per_day = None
    if sources is not None:
        source = source_codes(sources)
        if len(source) != len(score):
            raise GraphError(f"{len(score)} scores but {len(source)} sources")
        rows = by_source(score, truth, alert, window, source)
        per_window = _per_source(rows, days, budgets)
        day = _day_of(rows.period, window_seconds)
        rows = by_source(rows.score, rows.truth, rows.alert, day, rows.source)
        per_day = _per_source(rows, days, budgets)
    return Metrics(
        **figures,
        fpr=_ratio(false, len(score) - figures["positives"]),
        fdr=_ratio(false, int(alert.sum())),
        threshold=typical,
        edges=len(score),
        per_source_window=per_window,
        per_source_day=per_day,
    )


def _figures(
    score: Floats, truth: Bools, alert: Bools, period: Ints, days: float | None, budgets: Sequence[int]
) -> dict[str, Any]:
    """What edges and sources have in common."""
    ranking = Ranking.of(score, truth)
    hits, half = int((alert & truth).sum()), ranking.at_half_recall()
    return {
        "ap": ranking.average_precision(),
        "auc": ranking.area_under_roc(),
        "ap_lift": ranking.lift(),
        "precision": _ratio(hits, int(alert.sum())),
        "recall": _ratio(hits, ranking.positives),
        "positives": ranking.positives,
        "recall_at": dict(zip(map(str, budgets), _recalls(score, truth, period, budgets), strict=True)),
        "alerts_per_day": _rate(int(alert.sum()), days),
        "precision_at_half_recall": None if half is None else _ratio(half[0], sum(half)),
        "false_per_day_at_half_recall": None if half is None else _rate(half[1], days),
    }


def _per_source(rows: SourceScores, days: float | None, budgets: Sequence[int]) -> SourceMetrics:
    figures = _figures(rows.score, rows.truth, rows.alert, rows.period, days, budgets)
    return SourceMetrics(**figures, pairs=len(rows.score))


def average_precision(scores: ArrayLike, labels: ArrayLike) -> float | None:
    """Average precision; None without a malicious edge."""
    score = _finite(scores)
    truth = _truth(labels, len(score))
    return Ranking.of(score, truth).average_precision()


def area_under_roc(scores: ArrayLike, labels: ArrayLike) -> float | None:
    """Area under the ROC curve; None unless there are both malicious and benign edges."""
    score = _finite(scores)
    truth = _truth(labels, len(score))
    return Ranking.of(score, truth).area_under_roc()


def recall_at(scores: ArrayLike, labels: ArrayLike, windows: ArrayLike, budget: int) -> float | None:
    """Share of malicious edges among the `budget` highest scores of their window.

    Edges with equal scores come in random order; this is the expected share. None without positives.
    """
    score, window = _finite(scores), np.asarray(windows, dtype=np.int64)
    return _recalls(score, _truth(labels, len(score)), window, (budget,))[0]


def _recalls(score: Floats, truth: Bools, window: Ints, budgets: Sequence[int]) -> list[float | None]:
    if not truth.any():
        return [None] * len(budgets)
    relevant = np.isin(window, np.unique(window[truth]))  # other windows cannot matter: sort less
    score, window, truth = score[relevant], window[relevant], truth[relevant]
    order = np.lexsort((-score, window))
    score, window, truth = score[order], window[order], truth[order]
    new_window = np.concatenate(([True], window[1:] != window[:-1]))
    new_tie = new_window | np.concatenate(([True], score[1:] != score[:-1]))
    first = np.flatnonzero(new_tie)
    size = np.diff(np.append(first, len(score)))
    window_start = np.maximum.accumulate(np.where(new_window, np.arange(len(score)), 0))
    higher = first - window_start[first]
    tie = (np.cumsum(new_tie) - 1)[truth]
    return [float(np.clip((budget - higher) / size, 0.0, 1.0)[tie].mean()) for budget in budgets]


def pr_curve(scores: ArrayLike, labels: ArrayLike, points: int = 200) -> Curve:
    """Precision over recall at up to `points` thresholds, even over recall; empty without positives."""
    score = _finite(scores)
    truth = _truth(labels, len(score))
    if not truth.any():
        return Curve((), ())
    order = np.argsort(-score, kind="stable")
    last_of_tie = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    hits = np.cumsum(truth[order])[last_of_tie]
    recall, precision = hits / hits[-1], hits / (last_of_tie + 1)
    # What lies beyond full recall only lowers precision; the plot ends there.
    end = int(np.argmax(recall >= 1.0)) + 1
    recall, precision = recall[:end], precision[:end]
    if end > points:
        chosen = np.searchsorted(recall, np.linspace(recall[0], 1.0, points))
        chosen = np.unique(np.append(chosen[: points - 1], end - 1))
        recall, precision = recall[chosen], precision[chosen]
    return Curve(tuple(recall.tolist()), tuple(precision.tolist()))


def _finite(scores: ArrayLike) -> Floats:
    score = np.asarray(scores, dtype=np.float64)
    broken = int((~np.isfinite(score)).sum())
    if broken:
        raise DetectorError(
            f"{broken} of {len(score)} scores are not finite",
            remedy="The model has diverged: lower the learning rate, or bound the update norm.",
        )
    return score


def _truth(labels: ArrayLike, edges: int) -> Bools:
    truth = np.asarray(labels) > 0
    if len(truth) != edges:
        raise GraphError(f"{edges} scores but {len(truth)} labels")
    return truth


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _rate(count: int, days: float | None) -> float | None:
    return None if days is None else count / days


def _typical(threshold: float | ArrayLike) -> float | None:
    values = np.asarray(threshold, dtype=np.float64).ravel()
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else None


def _days(windows: Ints, window_seconds: float) -> float | None:
    """Days from the first window's start to the last one's end; quiet windows in between count."""
    if not len(windows):
        return None
    first, last = int(windows.min()), int(windows.max())
    width = _width(windows, window_seconds)
    days = ((last - first) // width + 1) * window_seconds / SECONDS_PER_DAY
    if not 0 < days < LONGEST:
        raise GraphError(
            f"windows {first} to {last} are neither numbers nor starts of windows of {window_seconds:g} s",
            remedy="Give the width that the windows were cut with.",
        )
    return days


def _day_of(windows: Ints, window_seconds: float) -> Ints:
    """The day that each window begins in, counted from the epoch that the windows are counted from."""
    seconds = windows / (_width(windows, window_seconds) / window_seconds)
    return (seconds // SECONDS_PER_DAY).astype(np.int64)


def _width(windows: Ints, window_seconds: float) -> int:
    """By how much `windows` grows from one window to the next: 1, or a width in microseconds."""
    width = round(window_seconds * MICROSECONDS)
    starts = len(windows) > 0 and width > 0 and not ((windows - windows.min()) % width).any()
    return width if starts else 1
