"""Clipping, noise and their account inside a run, with any rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from entente.config import Privacy
from entente.errors import ConfigError
from entente.registry import AGGREGATORS

CONSTANT = {"adaptive": False}
"""A bound that follows the silos' norms cannot be calibrated to."""


def constant(rule: str) -> dict[str, bool]:
    return CONSTANT if rule == "entente" else {}


def test_central_noise_is_scaled_to_the_sensitivity_of_the_round(federated: Any) -> None:
    privacy = Privacy(mechanism="central", sigma=2.0)
    run = federated(silos=4, privacy=privacy, options=CONSTANT).run()
    lines = [record.privacy for record in run.records if record.trained]
    for line in lines:
        assert line.sensitivity == pytest.approx(2 * (0.8 + 0.2 * 5) * 5 / 4)
        assert line.deviation == pytest.approx(2.0 * line.sensitivity)
    epsilons = [line.epsilon for line in lines]
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] == run.coordinator.privacy_report().epsilon
    assert run.coordinator.privacy_report().releases == 4


def test_a_round_below_quorum_releases_nothing(federated: Any) -> None:
    run = federated(silos=4, privacy=Privacy(mechanism="central"), options=CONSTANT)
    while run.coordinator.next_task().kind != "train":
        run.step()
    run.step(lambda task, replies: replies[:1])
    assert run.coordinator.privacy_report().releases == 0


def test_weak_noise_says_that_it_guarantees_nothing(federated: Any) -> None:
    run = federated(privacy=Privacy(mechanism="weak", sigma=1.0)).run()
    report = run.coordinator.privacy_report()
    assert report.epsilon is None
    assert report.guarantee.startswith("no guarantee")
    assert run.records[0].privacy.deviation == pytest.approx(0.001)


def test_without_noise_no_guarantee_is_claimed(federated: Any) -> None:
    assert federated().coordinator.privacy_report().guarantee.startswith("no guarantee")


CALIBRATED = {
    "entente",
    "entente-ub",
    "fedavg",
    "fedavg-n",
    "fedprox",
    "krum",
    "multi-krum",
    "geometric-median",
}


@pytest.mark.parametrize("rule", sorted(AGGREGATORS.names()))
def test_central_noise_needs_a_rule_with_a_bound_on_one_silo(federated: Any, rule: str) -> None:
    clipped = Privacy(mechanism="central", clip=1.0)
    if rule in CALIBRATED:
        federated(rule=rule, privacy=clipped, options=constant(rule)).run()
    else:
        with pytest.raises(ConfigError, match="cannot be calibrated"):
            federated(rule=rule, privacy=clipped)
    if rule != "entente":
        with pytest.raises(ConfigError, match=r"privacy\.clip"):
            federated(rule=rule, privacy=Privacy(mechanism="central"))


def test_rows_of_holders_have_the_influence_of_the_whole_step(federated: Any) -> None:
    holders = {"rows": "holders", **CONSTANT}
    rule = federated(options=holders).coordinator._rule
    assert rule.influence(4, None) == rule.influence(4, 0.1) == pytest.approx(2 * 1.8 * 5)


def test_central_noise_refuses_a_bound_that_depends_on_the_silos(federated: Any) -> None:
    with pytest.raises(ConfigError, match="adaptive"):
        federated(privacy=Privacy(mechanism="central", clip=1.0))
    with pytest.raises(ConfigError, match="cannot be calibrated"):
        federated(privacy=Privacy(mechanism="central", clip=1.0), options={"row_cap": 2.0, **CONSTANT})


@pytest.mark.parametrize("rule", sorted(AGGREGATORS.names()))
@pytest.mark.parametrize("mechanism", ["none", "weak"])
def test_clipping_and_weak_noise_go_with_any_rule(federated: Any, rule: str, mechanism: Any) -> None:
    run = federated(rule=rule, privacy=Privacy(mechanism=mechanism, clip=0.05), rounds=2).run()
    for record in run.records[:2]:
        for entry in record.silos.values():
            assert entry.clipped is True
            assert entry.norm > 0.05
    assert all(np.isfinite(w).all() for w in run.coordinator.weights.values())


@pytest.mark.parametrize("rule", ["fedavg", "entente", "krum", "geometric-median", "fedavg-n"])
def test_no_silo_moves_the_model_further_than_the_noise_is_scaled_to(federated: Any, rule: str) -> None:
    clip, results = 0.5, []
    for goal in (1e3, -1e3):

        def tamper(task: Any, replies: Any, goal: Any = goal) -> Any:
            if task.kind != "train":
                return replies
            for w in replies[2].weights.values():
                w[...] = goal
            return replies

        run = federated(silos=5, rule=rule, rounds=1, privacy=Privacy(clip=clip), options=constant(rule)).run(
            tamper
        )
        results.append(run.coordinator.layout.flatten(run.coordinator.weights).astype(np.float64))
    allowed = run.coordinator._rule.influence(5, clip)
    assert math.isfinite(allowed)
    assert np.linalg.norm(results[0] - results[1]) <= allowed * (1 + 1e-5)


def test_secret_noise_differs_from_run_to_run_and_seeded_noise_does_not(federated: Any) -> None:
    def final(randomness: Any) -> Any:
        privacy = Privacy(mechanism="weak", sigma=1.0, randomness=randomness)
        return federated(privacy=privacy).run().coordinator.weights["temp.gate"].tobytes()

    assert final("seeded") == final("seeded")
    assert final("secret") != final("secret")


def test_seeded_noise_is_said_to_protect_from_nobody_who_knows_the_seed(federated: Any) -> None:
    seeded, secret = (
        federated(
            privacy=Privacy(mechanism="central", randomness=kind), options=CONSTANT
        ).coordinator.privacy_report()
        for kind in ("seeded", "secret")
    )
    assert "knows the seed" in seeded.guarantee
    assert "knows the seed" not in secret.guarantee
