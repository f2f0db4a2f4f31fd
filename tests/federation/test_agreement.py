"""A silo answers within what was agreed, whatever its coordinator asks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.federation.conftest import Pull, small_graph

from entente.config import Experiment
from entente.errors import RefusedError
from entente.federation.aggregators.base import Layout
from entente.federation.agreement import AgreedSilo, Agreement
from entente.federation.messages import (
    CountTask,
    KeyReply,
    KeyTask,
    SketchTask,
    Task,
    TrainTask,
    Update,
    ValidateTask,
)
from entente.federation.silo import Silo

SILOS = ("a", "b", "c", "d")


class SharedPaper:
    """A notary who writes down whose key is whose."""

    def __init__(self) -> None:
        self.paper: set[tuple[str, str, str]] = set()

    def sign(self, silo: str, key: str) -> str:
        self.paper.add((silo, key, f"signed by {silo}"))
        return f"signed by {silo}"

    def verify(self, silo: str, key: str, proof: str) -> None:
        if (silo, key, proof) not in self.paper:
            raise RefusedError(f"the key of silo {silo!r} is not signed by it")


def agreement(**federation: Any) -> Agreement:
    experiment = Experiment.model_validate({"seed": 5, "federation": federation})
    return Agreement.of(experiment, Layout.of(Pull()), SILOS, quorum=2)


def silo(agreed: Agreement, name: str = "a", notary: Any = None) -> AgreedSilo:
    return AgreedSilo(Silo(name, Pull(), small_graph(1), hosts=17, seed=0), agreed, notary)


def keys(silos: dict[str, AgreedSilo]) -> CountTask:
    replies = {name: one.handle(KeyTask(1)) for name, one in silos.items()}
    found = {name: reply for name, reply in replies.items() if isinstance(reply, KeyReply)}
    return CountTask(
        2, keys={n: r.key for n, r in found.items()}, proofs={n: r.proof for n, r in found.items()}
    )


def sketch(agreed: Agreement, **change: Any) -> SketchTask:
    assert agreed.sketch is not None
    task = SketchTask(3, hosts=40, m=agreed.sketch.m, seed=agreed.seed)
    return replace(task, **change)


def training(**change: Any) -> TrainTask:
    task = TrainTask(4, round=1, epochs=1, weights=Pull().weights())
    return replace(task, **change)


def test_a_plain_count_is_refused_where_a_secure_sum_was_agreed() -> None:
    with pytest.raises(RefusedError, match="plain host count"):
        silo(agreement()).handle(CountTask(1))
    with pytest.raises(RefusedError, match="masked count"):
        silo(agreement(secure_sum=False)).handle(CountTask(1, keys={"a": "00"}))
    assert silo(agreement(secure_sum=False)).handle(CountTask(1)).count == 17  # type: ignore[attr-defined]


def test_a_share_is_refused_unless_the_agreed_rule_needs_it() -> None:
    entente = agreement()
    with pytest.raises(RefusedError, match="share of the hosts"):
        silo(entente).handle(sketch(entente, share=True))
    by_hosts = agreement(aggregation={"rule": "fedavg-n"})
    silo(by_hosts).handle(SketchTask(1, similarity=False, share=True, hosts=40))


@pytest.mark.parametrize("task", [KeyTask(1), CountTask(1), SketchTask(1, hosts=10)])
def test_a_rule_without_a_bootstrap_gets_none(task: Task) -> None:
    with pytest.raises(RefusedError, match="needs no host count"):
        silo(agreement(aggregation={"rule": "fedavg"})).handle(task)


def test_a_sum_over_few_silos_or_with_strangers_is_refused() -> None:
    agreed = agreement()
    members = {name: silo(agreed, name) for name in SILOS}
    task = keys(members)
    for names in (("a", "b"), ("a",)):
        few = replace(task, keys={name: task.keys[name] for name in names})
        with pytest.raises(RefusedError, match="agreed were 3 or more"):
            members["a"].handle(few)
    stranger = replace(task, keys={**task.keys, "mallory": task.keys["b"]})
    with pytest.raises(RefusedError, match="mallory"):
        members["a"].handle(stranger)
    total = sum(one.handle(task).count for one in members.values())  # type: ignore[attr-defined]
    assert total % 2**64 == 4 * 17


def test_a_key_that_the_coordinator_swapped_is_refused_before_anything_is_masked() -> None:
    from entente.privacy.secure_sum import Mask

    agreed, notary = agreement(), SharedPaper()
    members = {name: silo(agreed, name, notary) for name in SILOS}
    task = keys(members)
    swapped = replace(task, keys={**task.keys, "b": Mask().public_key})
    with pytest.raises(RefusedError, match="'b' is not signed by it"):
        members["a"].handle(swapped)
    with pytest.raises(RefusedError, match="'b' is not signed by it"):
        members["a"].handle(replace(task, proofs={**task.proofs, "b": ""}))
    assert sum(one.handle(task).count for one in members.values()) % 2**64 == 68  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hosts": 1_000_001}, "hosts is 1000001"),
        ({"hosts": 0}, "hosts is 0"),
        ({"m": 500}, "not the agreed one"),
        ({"iterations": 50}, "not the agreed one"),
        ({"labels": "degree"}, "not the agreed one"),
        ({"seed": 1}, "not the agreed one"),
    ],
)
def test_a_comparison_other_than_the_agreed_one_is_refused(change: dict[str, Any], said: str) -> None:
    agreed = agreement()
    with pytest.raises(RefusedError, match=said):
        silo(agreed).handle(sketch(agreed, **change))


def test_a_graph_is_not_probed_with_many_host_totals_nor_asked_for_many_sums() -> None:
    agreed = agreement(retries=1)
    one = silo(agreed)
    for hosts in (40, 40, 50):
        one.handle(sketch(agreed, hosts=hosts))
    with pytest.raises(RefusedError, match="3 host totals"):
        one.handle(sketch(agreed, hosts=60))
    for _ in range(4 * 2 + 1):
        one.handle(KeyTask(1))
    with pytest.raises(RefusedError, match="10 times"):
        one.handle(KeyTask(1))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epochs": 2}, "epochs is 2"),
        ({"epochs": 0}, "epochs is 0"),
        ({"round": 31}, "round is 31"),
        ({"round": 0}, "round is 0"),
        ({"proximal": 0.5}, "proximal is 0.5"),
    ],
)
def test_training_beyond_what_was_agreed_is_refused(change: dict[str, Any], said: str) -> None:
    one = silo(agreement(epochs=1, rounds=30))
    with pytest.raises(RefusedError, match=said):
        one.handle(training(**change))
    assert isinstance(one.handle(training()), Update)


def test_a_validation_is_of_a_round_there_can_be() -> None:
    one = silo(agreement(rounds=3))
    one.handle(ValidateTask(1, round=4, weights=Pull().weights()))
    with pytest.raises(RefusedError, match="round is 5"):
        one.handle(ValidateTask(1, round=5, weights=Pull().weights()))


def test_state_is_the_silos_own() -> None:
    one, other = silo(agreement()), silo(agreement())
    one.handle(training(epochs=1))
    other.restore(*one.state())
    assert other.state().facts == one.state().facts
