"""Baselines really are what their names say: each leaves FedAVG's path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entente.config import Federation, Privacy, aggregation_options
from entente.detectors import create
from entente.detectors.base import Detector, GraphShape
from entente.detectors.euler.options import EulerOptions
from entente.federation.aggregators.base import Layout
from entente.federation.coordinator import Coordinator
from entente.federation.silo import Silo
from entente.graphs.temporal import TemporalGraph


def apart(one: Any, other: Any) -> float:
    return max(float(np.abs(one[name] - other[name]).max()) for name in one)


@pytest.mark.parametrize("rule", ["fedprox", "fedopt"])
def test_fedprox_and_fedopt_leave_fedavgs_path(federated: Any, rule: str) -> None:
    fedavg = federated(rule="fedavg", epochs=3).run().coordinator.weights
    assert apart(federated(rule=rule, epochs=3).run().coordinator.weights, fedavg) > 1e-3


def test_fedprox_without_mu_is_fedavg(federated: Any) -> None:
    fedavg = federated(rule="fedavg", epochs=3).run().coordinator.weights
    prox = federated(rule="fedprox", epochs=3, options={"mu": 0.0}).run().coordinator.weights
    assert apart(prox, fedavg) == 0.0


def euler_run(rule: str, **options: Any) -> dict[str, np.ndarray]:
    def make() -> Detector:
        return create(EulerOptions(lr=0.01), GraphShape(20), seed=1)

    first = make()
    weights = first.weights()
    coordinator = Coordinator(
        Federation(aggregation=aggregation_options({"rule": rule, **options}), rounds=2, epochs=3),
        Privacy(),
        Layout.of(first),
        weights,
        ["a", "b", "c"],
        seed=1,
        detector="euler",
    )
    silos = [Silo(name, make(), three_windows(k), 20, seed=1) for k, name in enumerate("abc")]
    while (task := coordinator.next_task()) is not None:
        coordinator.conclude([silo.handle(task) for silo in silos])
    return coordinator.weights


def three_windows(seed: int) -> TemporalGraph:
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, 20, (60, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]].astype(np.int32)
    edges = len(pairs)
    return TemporalGraph(
        rows=np.arange(20, dtype=np.int32)[:, None],
        table_size=20,
        start=0,
        width=1,
        offsets=np.array([0, edges, 2 * edges, 3 * edges]),
        src=np.tile(pairs[:, 0], 3),
        dst=np.tile(pairs[:, 1], 3),
        time=np.repeat(np.arange(3, dtype=np.int64), edges),
        weight=np.ones(3 * edges, dtype=np.float32),
    )


def test_with_euler_too_every_rule_takes_its_own_path() -> None:
    runs = {rule: euler_run(rule) for rule in ("fedavg", "fedopt", "entente")}
    runs["fedprox"] = euler_run("fedprox", mu=5.0)
    for rule in ("fedopt", "entente", "fedprox"):
        assert apart(runs[rule], runs["fedavg"]) > 1e-4
    assert apart(euler_run("fedprox", mu=0.0), runs["fedavg"]) == 0.0
