"""Each rule against its formula, written plainly in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.config import AggregationOptions, aggregation_options
from entente.detectors import find
from entente.errors import UsageError
from entente.federation.aggregators import build
from entente.federation.aggregators.base import Contribution, Layout

LAYOUT = Layout(
    names=("enc.table", "temp.gate"), shapes=((40, 3), (7,)), component=("ENC", "TEMP"), tables=("enc.table",)
)
LARGE = Layout(names=("enc", "temp"), shapes=((50_000,), (301,)), component=("ENC", "TEMP"), tables=("enc",))


def models(seed: int, silos: int, layout: Layout, spread: float = 1.0) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    current = rng.normal(size=layout.size).astype(np.float32)
    return current, [
        (current + spread * rng.normal(size=layout.size)).astype(np.float32) for _ in range(silos)
    ]


def options(rule: str = "lab-entente", **settings: object) -> Any:
    return aggregation_options({"rule": rule, **settings})


def run(
    config: AggregationOptions,
    layout: Layout,
    current: Any,
    given_: Any,
    similarities: Any = None,
    shares: Any = None,
) -> Any:
    rule = build(config, layout)
    rule.begin(current)
    credits_ = [
        rule.add(
            Contribution(f"s{k}", w, similarities[k] if similarities else 1.0, shares[k] if shares else 1.0)
        )
        for k, w in enumerate(given_)
    ]
    return rule.finish(), credits_


def plain_entente(
    current: Any,
    given_: Any,
    similarities: Any,
    *,
    M: Any,
    c1: Any = 0.8,
    c2: Any = 0.2,
    omega: Any = 5.0,
    parts: Any = None,
) -> Any:
    """Spec section 5, one silo after the other; also gives r."""
    w_i, K = current.astype(np.float64), len(given_)
    total, contributions = np.zeros_like(w_i), []
    for w_k, J in zip(given_, similarities, strict=True):
        w_k = w_k.astype(np.float64)
        delta = w_k - w_i
        S = max(0.0, float(w_k @ w_i) / (np.linalg.norm(w_k) * np.linalg.norm(w_i)))
        D = min(omega, float(np.linalg.norm(delta)))
        r = c1 * J + c2 * S * D
        for part in parts or [slice(0, len(w_i))]:
            total[part] += r * delta[part] / max(1.0, np.linalg.norm(delta[part]) / M)
        contributions.append(r)
    return w_i + total / K, contributions


@pytest.mark.parametrize("layout", [LAYOUT, LARGE], ids=["small", "many pieces"])
@pytest.mark.parametrize("spread", [1e-4, 0.1, 3.0])
@pytest.mark.parametrize("scope", ["model", "component", "tables"])
def test_entente_is_its_formula(layout: Layout, spread: float, scope: str) -> None:
    current, given_ = models(0, 4, layout, spread)
    js = [0.1, 0.9, 0.0, 1.0]
    result, credits_ = run(options(bound=5.0, scope=scope), layout, current, given_, js)
    parts = [np.r_[spans] for spans in layout.groups(scope)]
    assert len(parts) == {"model": 1, "component": len(set(layout.component)), "tables": 2}[scope]
    expected, contributions = plain_entente(current, given_, js, M=5.0, parts=parts)
    assert [c.r for c in credits_] == pytest.approx(contributions, rel=1e-12)
    # Precision as float64: only the last rounding to float32 is left.
    np.testing.assert_allclose(result, expected, rtol=6.1e-8, atol=1e-12)


def test_entente_ub_is_entente_with_an_endless_bound() -> None:
    current, given_ = models(1, 3, LAYOUT, 5.0)
    js = [0.5, 0.5, 0.5]
    result, credits_ = run(options(rule="entente-ub"), LAYOUT, current, given_, js)
    expected, _ = plain_entente(current, given_, js, M=np.inf)
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert not any(c.clipped for c in credits_)


def test_a_sign_flipped_model_scores_no_similarity() -> None:
    current, _ = models(2, 1, LAYOUT)
    _, (credit,) = run(options(), LAYOUT, current, [-current], [0.0])
    assert credit.s == 0.0
    assert credit.r == 0.0


def test_a_lie_about_j_gains_what_the_clamp_allows_and_no_more() -> None:
    current, given_ = models(3, 1, LAYOUT)
    _, (honest,) = run(options(), LAYOUT, current, given_, [1.0])
    _, (liar,) = run(options(), LAYOUT, current, given_, [1e300])
    assert liar == honest


def test_a_row_that_one_silo_holds_is_not_divided_among_all() -> None:
    current = np.ones(LAYOUT.size, dtype=np.float32)
    given_ = [current.copy() for _ in range(4)]
    given_[2][0:3] += 0.01  # the first identity row, in one silo
    for vector in given_:
        vector[-7:] += 0.01  # TEMP, in all
    plain, _ = run(options(rows="all"), LAYOUT, current, given_, [1.0] * 4)
    aware, _ = run(options(rows="holders"), LAYOUT, current, given_, [1.0] * 4)
    np.testing.assert_allclose(aware[:3] - 1, 4 * (plain[:3] - 1), rtol=1e-3)
    np.testing.assert_array_equal(aware[3:], plain[3:])


@given(seed=st.integers(0, 50), silos=st.integers(2, 8))
@settings(max_examples=30, deadline=None)
def test_rows_of_holders_stay_inside_the_bound(seed: int, silos: int) -> None:
    rng = np.random.default_rng(seed)
    current = rng.normal(size=LAYOUT.size).astype(np.float32)
    given_ = []
    for k in range(silos):  # rows of their own: without the bound the steps would add up to sqrt(K) * M
        vector = current.copy()
        rows = np.arange(40) % silos == k
        vector[:120].reshape(40, 3)[rows] += rng.normal(size=(rows.sum(), 3)).astype(np.float32) * 100
        given_.append(vector)
    result, _ = run(options(rows="holders"), LAYOUT, current, given_, [1.0] * silos)
    assert np.linalg.norm(result.astype(np.float64) - current) <= 1.8 * 5 * (1 + 1e-5)


def test_a_row_moves_no_further_than_the_cap_times_a_typical_row() -> None:
    layout = Layout(("t", "b"), ((6, 2), (3,)), ("ENC", "DEC"), tables=("t",))
    rule = build(options(row_cap=2.0, acs=False, sketch=False, c1=1.0, c2=0.0), layout)
    current = np.zeros(layout.size, dtype=np.float32)
    honest = np.zeros(layout.size, dtype=np.float32)
    honest[:12:2] = 0.1  # every row moves by 0.1
    honest[12:] = 0.5
    rule.begin(current)
    for name in "abc":
        assert not rule.add(Contribution(name, honest)).clipped
    rule.finish()
    targeted = np.zeros(layout.size, dtype=np.float32)
    targeted[0] = 3.0
    targeted[12:] = 0.5
    rule.begin(current)
    credit = rule.add(Contribution("a", targeted))
    assert credit.clipped
    assert credit.norm == pytest.approx(np.linalg.norm(targeted))  # as it was sent
    step = rule.finish()
    assert step[0] == pytest.approx(0.2)  # twice the typical row
    assert np.array_equal(step[12:], targeted[12:])  # other weights are not rows


def test_the_bound_follows_the_median_norm_and_no_minority_moves_it() -> None:
    rule = build(options(bound=5.0, adaptive_factor=2.0), LAYOUT)
    bounds = [rule.bound]
    for size in (0.1, 0.1, 50.0):
        current = np.zeros(LAYOUT.size, dtype=np.float32)
        rule.begin(current)
        for k in range(5):
            vector = current.copy()
            vector[k] = size if k < 4 else 1000 * size  # one of five exaggerates
            rule.add(Contribution(f"s{k}", vector))
        rule.finish()
        bounds.append(rule.bound)
    assert bounds == pytest.approx([5.0, 0.2, 0.2, 0.2])  # the constant first; one odd round changes nothing


def test_half_of_the_silos_cannot_raise_the_bound_at_will() -> None:
    rule = build(options(), LAYOUT)
    rule.begin(np.zeros(LAYOUT.size, dtype=np.float32))
    for k, size in enumerate((1.0, 1.5, 400.0, 400.0)):
        vector = np.zeros(LAYOUT.size, dtype=np.float32)
        vector[k] = size
        rule.add(Contribution(f"s{k}", vector))
    rule.finish()
    assert rule.bound == pytest.approx(3.0)  # twice the lower of the middle two


def test_fedavg_is_the_mean_and_fedavg_n_the_weighted_mean_of_those_present() -> None:
    current, given_ = models(4, 3, LAYOUT)
    stack = np.array(given_, dtype=np.float64)
    mean, _ = run(options(rule="fedavg"), LAYOUT, current, given_)
    np.testing.assert_allclose(mean, stack.mean(axis=0), atol=1e-6)
    shares = [0.5, 0.2, 0.1]  # a silo with 0.2 is missing
    weighted, _ = run(options(rule="fedavg-n"), LAYOUT, current, given_, shares=shares)
    np.testing.assert_allclose(weighted, np.average(stack, axis=0, weights=shares), atol=1e-6)


def test_median_and_trimmed_mean_are_numpys_and_scipys() -> None:
    from scipy.stats import trim_mean

    current, given_ = models(5, 5, LAYOUT)
    stack = np.array(given_, dtype=np.float64)
    median, _ = run(options(rule="median"), LAYOUT, current, given_)
    np.testing.assert_allclose(median, np.median(stack, axis=0), atol=1e-6)
    trimmed, _ = run(options(rule="trimmed-mean", trim=0.2), LAYOUT, current, given_)
    np.testing.assert_allclose(trimmed, trim_mean(stack, 0.2, axis=0), atol=1e-6)


def test_krum_picks_the_update_in_the_middle_of_the_crowd() -> None:
    current = np.zeros(LAYOUT.size, dtype=np.float32)
    given_ = [np.full(LAYOUT.size, v, dtype=np.float32) for v in (1.0, 1.1, 1.2, 1.3, 1.4, 9.0, 1.25)]
    krum, _ = run(options(rule="krum"), LAYOUT, current, given_)
    # To the four nearest others: 0.0025 + 0.0025 + 0.0225 + 0.0225 for 1.25, 0.0625 for 1.2.
    assert krum[0] == np.float32(1.25)
    multi, _ = run(options(rule="multi-krum", multi=6), LAYOUT, current, given_)
    assert multi[0] == pytest.approx(np.mean([1.0, 1.1, 1.2, 1.3, 1.4, 1.25]), rel=1e-6)


def test_the_geometric_median_has_the_least_sum_of_distances() -> None:
    current, given_ = models(6, 6, LAYOUT)
    stack = np.array(given_, dtype=np.float64)
    point, _ = run(options(rule="geometric-median"), LAYOUT, current, given_)

    def cost(x: np.ndarray) -> float:
        return float(np.linalg.norm(stack - x, axis=1).sum())

    rng = np.random.default_rng(0)
    for _ in range(50):
        assert cost(point.astype(np.float64)) <= cost(point + 0.05 * rng.normal(size=LAYOUT.size)) + 1e-6


def test_centred_clipping_moves_by_the_radius_at_most_and_remembers() -> None:
    current = np.zeros(LAYOUT.size, dtype=np.float32)
    rule = build(options(rule="centred-clipping", radius=1.0), LAYOUT)
    far = np.zeros(LAYOUT.size, dtype=np.float32)
    far[0] = 10.0
    lengths = []
    for _ in range(12):
        rule.begin(current)
        rule.add(Contribution("s0", far))
        lengths.append(float(rule.finish()[0]))
    assert lengths[:3] == pytest.approx([1.0, 2.0, 3.0])
    assert lengths[-1] == pytest.approx(10.0)


@pytest.mark.parametrize("server", ["adam", "yogi"])
def test_fedopt_is_a_server_optimiser_with_moments(server: str) -> None:
    current = np.zeros(LAYOUT.size, dtype=np.float32)
    rule = build(options(rule="fedopt", server=server, server_lr=0.1), LAYOUT)
    m, v = np.zeros(LAYOUT.size), np.full(LAYOUT.size, 1e-6)
    for turn in range(3):
        given_ = [np.full(LAYOUT.size, x + turn, dtype=np.float32) for x in (0.5, 1.5)]
        rule.begin(current)
        for k, vector in enumerate(given_):
            rule.add(Contribution(f"s{k}", vector))
        result = rule.finish()
        g = np.full(LAYOUT.size, 1.0 + turn)
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g**2 if server == "adam" else v - 0.01 * g**2 * np.sign(v - g**2)
        np.testing.assert_allclose(result, 0.1 * m / (np.sqrt(v) + 1e-3), rtol=1e-6)


def test_auto_is_the_papers_bound_for_the_detector() -> None:
    assert build(options(), LAYOUT, find("euler").norm_bound).bound == 5.0
    assert build(options(), LAYOUT, find("jbeil").norm_bound).bound == 70.0


def test_an_unknown_rule_is_named_with_those_known() -> None:
    with pytest.raises(UsageError, match=r"'fedsgd'[\s\S]*fedavg"):
        build(AggregationOptions(rule="fedsgd"), LAYOUT)
