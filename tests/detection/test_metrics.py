"""Metrics against plain slow versions, and their edges."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.detection.metrics import (
    Metrics,
    area_under_roc,
    average_precision,
    evaluate,
    pr_curve,
    recall_at,
)
from entente.errors import DetectorError, GraphError

WIDTH = 1800
MICRO = 1_000_000

edges = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), st.booleans(), st.integers(0, 2)),
    min_size=1,
    max_size=40,
)


def columns(rows: list[tuple[float, bool, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    score, label, window = zip(*rows, strict=True)
    return np.array(score), np.array(label), np.array(window) * WIDTH * MICRO


def slow_average_precision(scores: np.ndarray, labels: np.ndarray) -> float:
    total, before = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        chosen = scores >= threshold
        recall = (chosen & labels).sum() / labels.sum()
        total += (recall - before) * (chosen & labels).sum() / chosen.sum()
        before = recall
    return total


def slow_auc(scores: np.ndarray, labels: np.ndarray) -> float:
    wins = [1.0 if p > n else 0.5 if p == n else 0.0 for p in scores[labels] for n in scores[~labels]]
    return float(np.mean(wins))


@given(edges)
def test_ap_and_auc_agree_with_their_definitions(rows: list[tuple[float, bool, int]]) -> None:
    score, label, _ = columns(rows)
    if label.any():
        assert average_precision(score, label) == pytest.approx(slow_average_precision(score, label))
    else:
        assert average_precision(score, label) is None
    if label.any() and not label.all():
        assert area_under_roc(score, label) == pytest.approx(slow_auc(score, label))
    else:
        assert area_under_roc(score, label) is None


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans()), min_size=1, max_size=6))
def test_recall_at_a_budget_is_the_mean_over_all_orders_of_ties(rows: list[tuple[float, bool]]) -> None:
    score, label = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    window = np.zeros(len(rows), dtype=np.int64)
    for budget in (1, 2, 3):
        shares = []
        for order in permutations(range(len(rows))):
            ranked = sorted(order, key=lambda i: -score[i])
            shares.append(sum(label[i] for i in ranked[:budget]))
        expected = None if not label.any() else pytest.approx(np.mean(shares) / label.sum())
        assert recall_at(score, label, window, budget) == expected


def test_recall_at_a_budget_counts_each_window_apart() -> None:
    score = [0.9, 0.8, 0.7, 0.2, 0.1]
    label = [0, 0, 1, 1, 0]
    window = [0, 0, 0, 1, 1]
    assert recall_at(score, label, window, 1) == 0.5
    assert recall_at(score, label, window, 3) == 1.0


@given(edges, st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
def test_threshold_metrics_agree_with_counting(rows: list[tuple[float, bool, int]], threshold: float) -> None:
    score, label, window = columns(rows)
    metrics = evaluate(score, label, window, threshold, WIDTH)
    tp = sum(s > threshold and y for s, y, _ in rows)
    fp = sum(s > threshold and not y for s, y, _ in rows)
    tn = sum(s <= threshold and not y for s, y, _ in rows)
    assert metrics.precision == (tp / (tp + fp) if tp + fp else None)
    assert metrics.fdr == (fp / (tp + fp) if tp + fp else None)
    assert metrics.fpr == (fp / (fp + tn) if fp + tn else None)
    assert metrics.recall == (tp / int(label.sum()) if label.any() else None)
    span = (window.max() - window.min()) / MICRO + WIDTH
    assert metrics.alerts_per_day == pytest.approx((tp + fp) * 86_400 / span)
    assert not any("NaN" in text for text in [json.dumps(metrics.as_dict(), allow_nan=False)])


def slow_at_half_recall(scores: np.ndarray, labels: np.ndarray) -> tuple[int, int]:
    for threshold in sorted(set(scores.tolist()), reverse=True):
        chosen = scores >= threshold
        if (chosen & labels).sum() * 2 >= labels.sum():
            return int((chosen & labels).sum()), int((chosen & ~labels).sum())
    raise AssertionError("the lowest score reaches every recall")


@given(edges)
def test_lift_and_half_recall_agree_with_walking_down_the_ranking(
    rows: list[tuple[float, bool, int]],
) -> None:
    score, label, window = columns(rows)
    metrics = evaluate(score, label, window, 0.5, WIDTH)
    if not label.any():
        assert (
            metrics.ap_lift
            is metrics.precision_at_half_recall
            is metrics.false_per_day_at_half_recall
            is None
        )
        return
    assert metrics.ap_lift == pytest.approx(slow_average_precision(score, label) / label.mean())
    hits, false = slow_at_half_recall(score, label)
    days = ((window.max() - window.min()) / MICRO + WIDTH) / 86_400
    assert metrics.precision_at_half_recall == hits / (hits + false)
    assert metrics.false_per_day_at_half_recall == pytest.approx(false / days)


@given(edges, st.sampled_from([WIDTH, 20 * WIDTH]))
def test_figures_per_source_are_those_of_its_highest_edge(
    rows: list[tuple[float, bool, int]], width: int
) -> None:
    score, label, number = columns(rows)
    window = number // (WIDTH * MICRO) * width * MICRO
    source = np.array([f"h{(7 * i) % 3}" for i in range(len(rows))])
    metrics = evaluate(score, label, window, 0.5, width, sources=source)
    days = ((window.max() - window.min()) / MICRO + width) / 86_400
    for found, length in ((metrics.per_source_window, width), (metrics.per_source_day, 86_400)):
        assert found is not None
        best: dict[tuple[int, str], list[tuple[float, bool]]] = {}
        for s, y, w, h in zip(score.tolist(), label.tolist(), window.tolist(), source.tolist(), strict=True):
            best.setdefault((w // (length * MICRO), h), []).append((s, y))
        period = np.array([p for p, _ in best])
        top = np.array([max(s for s, _ in group) for group in best.values()])
        bad = np.array([any(y for _, y in group) for group in best.values()])
        expected = evaluate(top, bad, period, 0.5, length)
        assert found.pairs == len(best)
        for name in ("ap", "auc", "ap_lift", "precision", "recall", "positives", "recall_at"):
            assert getattr(found, name) == getattr(expected, name)
        assert found.precision_at_half_recall == expected.precision_at_half_recall
        assert found.alerts_per_day == pytest.approx((top > 0.5).sum() / days)
        if bad.any():
            assert found.false_per_day_at_half_recall == pytest.approx(
                slow_at_half_recall(top, bad)[1] / days
            )


def test_one_host_that_is_found_twice_counts_once_per_source_and_window() -> None:
    window = np.zeros(5, dtype=np.int64)
    metrics = evaluate(
        [5, 4, 3, 2, 1], [1, 1, 0, 0, 1], window, 3.5, WIDTH, sources=["a", "a", "b", "c", "d"]
    )
    assert metrics.per_source_window is not None
    assert (metrics.per_source_window.pairs, metrics.per_source_window.positives) == (4, 2)
    assert metrics.recall == pytest.approx(2 / 3)
    assert metrics.per_source_window.recall == 0.5


def test_sources_by_number_and_by_name_give_the_same_figures() -> None:
    rng = np.random.default_rng(0)
    score, label, window = rng.random(500), rng.random(500) < 0.05, rng.integers(0, 90, 500)
    number = rng.integers(0, 20, 500)
    names = np.array([f"host{n}" for n in number])
    by_number = evaluate(score, label, window, 0.9, WIDTH, sources=number)
    assert by_number == evaluate(score, label, window, 0.9, WIDTH, sources=names)
    assert by_number == evaluate(score, label, window * WIDTH * MICRO, 0.9, WIDTH, sources=number)


def test_nothing_undefined_becomes_nan() -> None:
    for metrics in (
        evaluate([], [], [], 0.5, WIDTH),
        evaluate([], [], [], 0.5, WIDTH, sources=[]),
        evaluate([0.1], [0], [0], 0.5, WIDTH, sources=["a"]),
        evaluate([0.1], [0], [0], 0.5, WIDTH),
        evaluate([0.9], [1], [0], 0.5, WIDTH),
        evaluate([0.9], None, [0], 0.5, WIDTH),
    ):
        assert json.loads(json.dumps(metrics.as_dict(), allow_nan=False))["edges"] == metrics.edges
    assert evaluate([0.9], None, [0], 0.5, WIDTH).alerts_per_day == 48
    assert evaluate([0.9], None, [0], 0.5, WIDTH).positives is None


def test_the_dictionary_has_the_promised_keys() -> None:
    metrics = evaluate([0.1, 0.9], [0, 1], [0, 0], 0.5, WIDTH).as_dict()
    assert set(metrics) == set(Metrics.__dataclass_fields__)
    assert metrics["recall_at"] == {"3": 1.0, "5": 1.0, "10": 1.0}


def test_a_diverged_model_is_refused_by_name() -> None:
    with pytest.raises(DetectorError, match="1 of 2 scores are not finite"):
        evaluate([float("nan"), 0.1], [0, 1], [0, 0], 0.5, WIDTH)


def test_window_numbers_and_window_starts_mean_the_same() -> None:
    numbers = np.array([3, 3, 7])
    by_number = evaluate([0.1, 0.9, 0.8], [0, 1, 0], numbers, 0.5, WIDTH)
    by_start = evaluate([0.1, 0.9, 0.8], [0, 1, 0], numbers * WIDTH * MICRO, 0.5, WIDTH)
    assert by_number == by_start
    assert by_number.alerts_per_day == pytest.approx(2 * 86_400 / (5 * WIDTH))


def test_starts_that_do_not_fit_the_width_are_refused() -> None:
    with pytest.raises(GraphError, match="neither numbers nor starts"):
        evaluate([0.1, 0.2], [0, 1], [0, 1000 * MICRO], 0.5, WIDTH)


def test_every_edge_may_have_the_threshold_of_its_silo() -> None:
    metrics = evaluate([0.4, 0.4, 0.9], [1, 0, 0], [0, 0, 0], [0.3, 0.5, float("inf")], WIDTH)
    assert (metrics.recall, metrics.precision, metrics.threshold) == (1.0, 1.0, 0.4)
    assert evaluate([0.4], [1], [0], float("inf"), WIDTH).threshold is None


@given(edges)
def test_the_curve_without_downsampling_has_every_threshold(rows: list[tuple[float, bool, int]]) -> None:
    score, label, _ = columns(rows)
    curve = pr_curve(score, label, points=200)
    if not label.any():
        assert curve.recall == ()
        return
    expected = []
    for threshold in sorted(set(score.tolist()), reverse=True):
        chosen = score >= threshold
        expected.append(((chosen & label).sum() / label.sum(), (chosen & label).sum() / chosen.sum()))
        if expected[-1][0] == 1:
            break
    assert list(curve.recall) == pytest.approx([recall for recall, _ in expected])
    assert list(curve.precision) == pytest.approx([precision for _, precision in expected])


def test_a_long_curve_is_cut_to_the_points_asked_for_and_keeps_its_end() -> None:
    rng = np.random.default_rng(0)
    score, label = rng.random(20_000), rng.random(20_000) < 0.1
    curve = pr_curve(score, label, points=50)
    assert len(curve.recall) <= 50
    assert curve.recall[-1] == 1.0
    assert list(curve.recall) == sorted(curve.recall)
