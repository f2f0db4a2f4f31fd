from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from entente_lab.bench.statistics import compare, ranked, summarise

figures = st.lists(st.floats(0, 1, width=32), min_size=2, max_size=8)


def by_seed(values: list[float]) -> dict[int, float | None]:
    return dict(enumerate(values))


def test_a_failed_run_is_counted_and_not_averaged() -> None:
    summary = summarise([0.2, None, 0.4])
    assert summary.mean == pytest.approx(0.3)
    assert summary.std == pytest.approx(math.sqrt(0.02))
    assert (summary.runs, summary.failed) == (2, 1)
    assert summarise([None]).mean is None


def test_one_run_has_no_standard_deviation() -> None:
    assert summarise([0.5]).std is None


def test_nothing_is_called_better_on_fewer_than_five_seeds() -> None:
    assert compare({0: 0.9}, {0: 0.1}).verdict == "too few seeds"
    four, five = ([0.9 + seed / 1000 for seed in range(count)] for count in (4, 5))
    assert compare(by_seed(four), by_seed([0.1] * 4)).verdict == "too few seeds"
    assert compare(by_seed([0.1] * 4), by_seed(four)).verdict == "too few seeds"
    assert compare(by_seed(five), by_seed([0.1] * 5)).verdict == "better"
    assert compare({0: 0.9, 1: 0.8}, {2: 0.1}).verdict == "too few seeds"


def test_a_steady_gain_is_better_and_its_mirror_is_worse() -> None:
    ours = by_seed([0.50, 0.61, 0.70, 0.42, 0.55])
    theirs = by_seed([0.40, 0.50, 0.61, 0.31, 0.46])
    assert compare(ours, theirs).verdict == "better"
    assert compare(theirs, ours).verdict == "worse"


def test_a_gain_that_one_seed_makes_is_not_called_better() -> None:
    comparison = compare(by_seed([0.9, *[0.5] * 4]), by_seed([0.1, 0.51, 0.49, 0.51, 0.49]))
    assert comparison.difference is not None
    assert comparison.difference > 0
    assert comparison.verdict == "no difference shown"


def test_the_same_figures_are_equal() -> None:
    assert compare(by_seed([0.3, 0.4]), by_seed([0.3, 0.4])).verdict == "equal"


def test_only_seeds_that_both_finished_are_compared() -> None:
    comparison = compare({0: 0.5, 1: None, 2: 0.7}, {0: 0.4, 1: 0.1, 2: 0.5, 3: 0.9})
    assert comparison.seeds == 2
    assert comparison.difference == pytest.approx(0.15)


@given(figures, st.integers(0, 2**32 - 1))
def test_the_interval_is_that_of_the_paired_t_test(ours: list[float], seed: int) -> None:
    theirs = (np.array(ours) + np.random.default_rng(seed).normal(0, 0.1, len(ours))).tolist()
    comparison = compare(by_seed(ours), by_seed(theirs))
    interval = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert comparison.low == pytest.approx(interval.low, abs=1e-9)
    assert comparison.high == pytest.approx(interval.high, abs=1e-9)


def test_ties_share_a_place() -> None:
    assert ranked({"a": 0.5, "b": 0.5, "c": 0.4, "d": None}) == ({"a", "b"}, {"c"})
    assert ranked({"a": None}) == (set(), set())
