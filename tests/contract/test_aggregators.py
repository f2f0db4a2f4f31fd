"""What every aggregation rule promises, checked over all of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from entente.config import aggregation_options
from entente.contracts.aggregators import CHECKS, LAYOUT, RoundCase, one_round
from entente.contracts.base import Check
from entente.errors import RefusedError
from entente.federation.aggregators import available, build
from entente.federation.aggregators.base import Aggregator, Contribution
from entente.federation.aggregators.entente import Entente

SIZE = LAYOUT.size
RULES = sorted(available())
VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"rule": name} for name in RULES},
    "entente-component": {"rule": "lab-entente", "scope": "component"},
    "entente-tables": {"rule": "lab-entente", "scope": "tables"},
    "entente-holders": {"rule": "entente", "rows": "holders"},
    "entente-constant": {"rule": "lab-entente", "adaptive": False},
    "entente-row-cap": {"rule": "entente", "row_cap": 2.0},
    "entente-no-acs": {"rule": "lab-entente", "acs": False},
    "entente-no-sketch": {"rule": "lab-entente", "sketch": False},
    "fedopt-yogi": {"rule": "fedopt", "server": "yogi"},
}
every_rule = pytest.mark.parametrize("variant", sorted(VARIANTS))
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
modest = st.floats(-100, 100, width=32)
vectors = hnp.arrays(np.float32, SIZE, elements=modest)
any_bytes = hnp.arrays(np.uint32, SIZE, elements=st.integers(0, 2**32 - 1)).map(lambda a: a.view(np.float32))


def rule_of(variant: str, **options: Any) -> Aggregator:
    return build(aggregation_options(VARIANTS[variant] | options), LAYOUT)


@every_rule
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.claim)
@given(current=vectors, updates=st.lists(vectors, min_size=1, max_size=4), wild=any_bytes)
@quick
def test_every_claim_of_the_contract_holds(
    variant: str, check: Check, current: Any, updates: Any, wild: Any
) -> None:
    check.run(RoundCase(lambda: rule_of(variant), current, tuple(updates), wild))


def test_the_registry_finds_all_rules() -> None:
    assert set(RULES) == {
        *("fedavg", "fedavg-n", "fedprox", "fedopt", "entente", "entente-ub", "median", "trimmed-mean"),
        *("krum", "multi-krum", "geometric-median", "centred-clipping", "lab-entente"),
    }
    assert all(rule.summary for rule in available().values())


@every_rule
@given(current=vectors, updates=st.lists(vectors, min_size=1, max_size=6), seed=st.integers(0, 9))
@quick
def test_the_order_of_silos_does_not_matter(variant: str, current: Any, updates: Any, seed: int) -> None:
    """Sums in another order differ in the last bits of float64 at most; ties of Krum are real ties."""
    order = np.random.default_rng(seed).permutation(len(updates))
    straight = one_round(rule_of(variant), current, updates)
    shuffled = one_round(rule_of(variant), current, [updates[k] for k in order])
    if "krum" in variant and not np.allclose(straight, shuffled):
        scores = rule_of(variant)
        scores.begin(current)
        values = np.sort(scores._scores(updates))  # type: ignore[attr-defined]
        assert np.isclose(values[:-1], values[1:]).any()
        return
    scale = 1 + float(np.abs(current).max()) + max(float(np.abs(u).max()) for u in updates)
    np.testing.assert_allclose(shuffled, straight, atol=2e-5 * scale)


@given(current=vectors, update=vectors, silos=st.integers(2, 6))
@quick
def test_reduction_sum_makes_k_steps_of_one(current: Any, update: Any, silos: int) -> None:
    rule = rule_of("entente-constant", reduction="sum")
    alone = one_round(rule, current, [update])
    together = one_round(rule, current, [update.copy() for _ in range(silos)])
    step = alone.astype(np.float64) - current
    np.testing.assert_allclose(together, current + silos * step, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scope": "component"},
        {"scope": "tables"},
        {"rows": "holders"},
        {"rows": "holders", "scope": "component"},
        {"row_cap": 2.0},
        {"acs": False},
        {"c1": 3.0, "omega": 0.1},
    ],
    ids=str,
)
@given(
    current=vectors,
    updates=st.lists(any_bytes | vectors, min_size=1, max_size=5),
    j=st.floats(allow_nan=False),
    bound=st.sampled_from([0.01, 5.0, 70.0]),
)
@quick
def test_ententes_two_bounds_hold_for_any_bytes(
    options: Any, current: Any, updates: Any, j: float, bound: float
) -> None:
    rule = rule_of("lab-entente", bound=bound, **options)
    assert isinstance(rule, Entente)
    config = rule.settings
    most = config.c1 + config.c2 * (config.omega if config.acs else 1.0)
    rule.begin(current)
    for number, vector in enumerate(updates):
        try:
            credit = rule.add(Contribution(f"s{number}", vector, j))
        except RefusedError:
            continue
        assert 0.0 <= credit.r <= most * (1 + 1e-12)
    step = rule.finish().astype(np.float64) - current
    parts = math.sqrt({"model": 1, "component": 3, "tables": 2}[config.scope])
    rounding = float(np.linalg.norm(np.spacing(np.abs(current) + most * bound)))
    assert np.linalg.norm(step) <= most * bound * parts * (1 + 1e-6) + rounding


@given(current=vectors, honest=st.lists(vectors, min_size=2, max_size=5), one=any_bytes, other=any_bytes)
@quick
def test_one_silo_moves_entente_by_no_more_than_its_stated_influence(
    current: Any, honest: Any, one: Any, other: Any
) -> None:
    results = []
    rule = rule_of("entente-constant")
    for wild in (one, other):
        if not np.isfinite(wild).all():
            return
        results.append(one_round(rule, current, [*honest, wild], similarity=1.0).astype(np.float64))
    allowed = rule.influence(len(honest) + 1, None)
    assert allowed == pytest.approx(2 * 1.8 * 5 / (len(honest) + 1))
    assert allowed is not None
    assert np.linalg.norm(results[0] - results[1]) <= allowed * (1 + 1e-6) + 1e-3


@every_rule
@given(
    rounds=st.lists(st.lists(vectors, min_size=1, max_size=3), min_size=2, max_size=4), cut=st.integers(0, 3)
)
@quick
def test_state_and_restore_go_on_bit_for_bit(variant: str, rounds: Any, cut: int) -> None:
    current = np.zeros(SIZE, dtype=np.float32)
    straight, rule = [], rule_of(variant)
    for updates in rounds:
        straight.append(one_round(rule, current, updates))
    broken, rule = [], rule_of(variant)
    for number, updates in enumerate(rounds):
        if number == cut:
            saved, rule = rule.state(), rule_of(variant)
            rule.restore(saved)
        broken.append(one_round(rule, current, updates))
    for one, other in zip(straight, broken, strict=True):
        assert one.tobytes() == other.tobytes()


ROBUST = ["entente", "median", "trimmed-mean", "krum", "multi-krum", "geometric-median", "centred-clipping"]


@pytest.mark.parametrize("variant", ROBUST)
@pytest.mark.parametrize("factor", [100.0, -100.0, 1e30])
def test_one_of_seven_scaling_its_update_carries_a_robust_rule_nowhere(variant: str, factor: float) -> None:
    rng = np.random.default_rng(3)
    current = rng.normal(size=SIZE).astype(np.float32)
    honest = [(current + 0.1 + 0.02 * rng.normal(size=SIZE)).astype(np.float32) for _ in range(6)]
    wild = (current + factor * (honest[0] - current)).astype(np.float32)
    radius = {"radius": 0.5} if variant == "centred-clipping" else {}
    result = one_round(rule_of(variant, **radius), current, [*honest, wild], similarity=1.0)
    clean = one_round(rule_of(variant, **radius), current, honest, similarity=1.0)
    most = 1.8 * 5 / 7 if variant == "entente" else 0.2
    assert np.linalg.norm(result.astype(np.float64) - clean) <= 1.5 * most
