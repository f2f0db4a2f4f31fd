"""Weights that are trained and never sent: which version goes with which global model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.config import detector_options
from entente.contracts.detectors import random_graph
from entente.detectors import create
from entente.detectors.base import GraphShape
from entente.errors import DetectorError, RefusedError
from entente.federation.agreement import AgreedSilo, Agreement
from entente.federation.messages import TrainTask, Update, ValidateTask
from entente.federation.own_weights import OwnWeights
from entente.federation.silo import Silo
from entente.graphs.temporal import TemporalGraph


def weights(number: int) -> dict[str, Any]:
    return {"table": np.full((2, 2), number, dtype=np.float32)}


def number(found: dict[str, Any]) -> int:
    return int(found["table"][0, 0])


@given(data=st.data(), rounds=st.integers(1, 12))
def test_three_versions_are_as_good_as_all_of_them(data: Any, rounds: int) -> None:
    """Whichever rounds a silo missed and whichever round was the best: what it needs is there."""
    own, all_versions, best = OwnWeights(weights(0)), {0}, 0
    for round_ in range(1, rounds + 1):
        if data.draw(st.booleans(), label="takes part"):
            own.keep(round_, weights(round_), best)
            all_versions.add(round_)
        # The model before this round has been validated now, and may be the best one.
        best = data.draw(st.sampled_from((best, round_ - 1)), label="best")
        for asked in (best, round_ - 1, round_):
            assert number(own.after(asked)) == max(v for v in all_versions if v <= asked)
        assert len(own.arrays()) <= 3
        own = OwnWeights.of(own.arrays())


def test_a_detector_that_sends_all_it_trains_has_none_in_its_state(federated: Any) -> None:
    run = federated().run()
    assert OwnWeights({}).after(3) == OwnWeights.of({}).after(3) == {}
    for silo in run.silos.values():
        assert not any(name.startswith("own/") for name in silo.state().arrays)


def test_a_table_at_home_is_in_no_message_and_in_no_state_of_the_coordinator(federated: Any) -> None:
    run = federated(detector="at home")
    sent: set[str] = set()

    def listen(task: Any, replies: list[Any]) -> list[Any]:
        for message in (task, *replies):
            sent.update(getattr(message, "weights", {}))
        return replies

    run.run(listen)
    assert sent == {"temp.gate"}
    assert run.coordinator.layout.size == 3
    tables = [OwnWeights.of(silo.state().arrays).after(4)["enc.table"] for silo in run.silos.values()]
    assert len({table.tobytes() for table in tables}) == len(tables)


@pytest.fixture
def graph() -> TemporalGraph:
    return random_graph(merged=True)


def euler(graph: TemporalGraph) -> Silo:
    options = {"name": "euler", "hidden": 4, "embedding": 3, "identities": "local"}
    detector = create(detector_options(options), GraphShape(graph.table_size), 1)
    return Silo("a", detector, graph, 3, seed=1)


def trained(silo: Silo, round_: int, best: int = 0) -> Update:
    common = create(silo.detector.config, silo.detector.shape, 1).weights()
    reply = silo.handle(TrainTask(round_, round=round_, best=best, epochs=2, weights=common))
    assert isinstance(reply, Update)
    return reply


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[n].tobytes() == other[n].tobytes() for n in one)


def test_a_round_asked_for_again_starts_from_the_rows_it_started_from(graph: TemporalGraph) -> None:
    silo = euler(graph)
    trained(silo, 1)
    first, rows = trained(silo, 2), silo.detector.own_weights()
    again = trained(silo, 2)
    assert same(first.weights, again.weights)
    assert same(rows, silo.detector.own_weights())


def test_a_model_is_validated_with_the_rows_of_its_round(graph: TemporalGraph) -> None:
    silo = euler(graph)
    for round_ in (1, 2, 3):
        trained(silo, round_, best=1 if round_ > 2 else 0)
    common = create(silo.detector.config, silo.detector.shape, 1).weights()
    kept = OwnWeights.of(silo.state().arrays)
    for best in (1, 2, 3):
        silo.handle(ValidateTask(9, round=best + 1, weights=common))
        assert same(silo.detector.own_weights(), kept.after(best))
    assert not same(kept.after(1), kept.after(2))


def test_a_state_without_the_rows_is_refused_by_name(graph: TemporalGraph) -> None:
    silo = euler(graph)
    trained(silo, 1)
    facts, arrays = silo.state()
    silo.restore(facts, {name: array for name, array in arrays.items() if not name.startswith("own/")})
    with pytest.raises(DetectorError, match=r"own weight names do not fit.*encoder\.first\.map"):
        trained(silo, 2)


def test_a_best_round_that_is_still_to_come_is_refused(graph: TemporalGraph) -> None:
    silo = euler(graph)
    limits: dict[str, Any] = {
        "rounds": 5,
        "epochs": 5,
        "proximal": 0.0,
        "seed": 0,
        "max_hosts": 9,
        "sums": 1,
        "totals": 1,
    }
    agreed = Agreement(silos=("a",), secure_sum=False, fewest=1, sketch=None, share=False, **limits)
    with pytest.raises(RefusedError, match="best is 2, agreed were 0 to 1"):
        AgreedSilo(silo, agreed).handle(TrainTask(1, round=2, best=2))
