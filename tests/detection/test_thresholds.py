"""The learnt threshold keeps its promise and refuses what it cannot promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.detection.thresholds import learn_threshold
from entente.errors import DetectorError, GraphError, UsageError


@given(
    st.lists(st.floats(-5, 5), min_size=1, max_size=300),
    st.sampled_from([0.001, 0.01, 0.1, 0.5]),
)
def test_no_more_validation_edges_exceed_it_than_allowed(scores: list[float], share: float) -> None:
    threshold = learn_threshold(scores, share)
    assert threshold in scores
    assert (np.array(scores) > threshold).sum() <= share * (len(scores) + 1)


def test_few_edges_give_the_highest_score_so_that_none_of_them_is_an_alert() -> None:
    assert learn_threshold([0.1, 0.7, 0.3], 0.001) == 0.7


def test_new_benign_edges_raise_at_most_the_promised_share_of_alarms() -> None:
    rng = np.random.default_rng(3)
    shares = [(rng.random(2000) > learn_threshold(rng.random(200), 0.02)).mean() for _ in range(300)]
    assert np.mean(shares) == pytest.approx(0.02, abs=0.003)


def test_an_order_of_scores_does_not_matter() -> None:
    scores = np.random.default_rng(0).normal(size=5000)
    expected = np.sort(scores)[int(np.ceil(5001 * 0.999)) - 1]
    assert learn_threshold(scores, 0.001) == expected


def test_no_edges_are_refused_with_a_remedy() -> None:
    with pytest.raises(GraphError, match=r"data\.validation"):
        learn_threshold([], 0.001)


def test_broken_scores_and_impossible_shares_are_refused() -> None:
    with pytest.raises(DetectorError):
        learn_threshold([0.1, float("nan")], 0.001)
    with pytest.raises(UsageError):
        learn_threshold([0.1], 1.0)
