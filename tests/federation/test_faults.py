"""One silo of seven sends what it should not: it is refused by name and reason, or bounded."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from entente.errors import FederationError, RefusedError
from entente.federation.aggregators.base import Contribution
from entente.federation.messages import Reply, SketchReply, Update, check_sender
from entente.federation.records import SiloRecord, Surplus

LIAR = "s3"
Make = Callable[..., Any]
Change = Callable[[Any, Any], Any]


def scaled(factor: float) -> Change:
    def change(task: Any, reply: Update) -> Update:
        return replace(
            reply,
            weights={
                name: np.clip(
                    task.weights[name] + factor * (w - task.weights[name]).astype(np.float64), -3e38, 3e38
                ).astype(np.float32)
                for name, w in reply.weights.items()
            },
        )

    return change


def with_weight(make: Any) -> Change:
    return lambda task, reply: replace(reply, weights={**reply.weights, "temp.gate": make(reply.weights)})


FAULTS: dict[str, tuple[Any, str | None]] = {
    "x100": (scaled(100.0), None),
    "x-1e30": (scaled(-1e30), None),
    "NaN": (with_weight(lambda w: np.full(3, np.nan, dtype=np.float32)), "not finite"),
    "inf": (with_weight(lambda w: np.array([1, np.inf, 1], dtype=np.float32)), "not finite"),
    "wrong shape": (with_weight(lambda w: np.ones((3, 1), dtype=np.float32)), "shape"),
    "wrong dtype": (with_weight(lambda w: np.ones(3)), "float64, not float32"),
    "objects": (with_weight(lambda w: np.array([None] * 3)), "object, not float32"),
    "not an array": (with_weight(lambda w: [1, 2, 3]), "not float32"),
    "huge array": (with_weight(lambda w: np.zeros(5_000_000, dtype=np.float32)), "shape"),
    "missing weight": (
        lambda t, r: replace(r, weights={"enc.table": r.weights["enc.table"]}),
        r"missing \['temp.gate'\]",
    ),
    "unknown weight": (lambda t, r: replace(r, weights={**r.weights, "x": np.ones(1)}), "unknown"),
    "no mapping": (lambda t, r: replace(r, weights=None), "not named arrays"),
    "stale round": (lambda t, r: replace(r, round=r.round - 1), "stale"),
    "stale id": (lambda t, r: replace(r, id=r.id - 1), "stale"),
    "AP above 1": (lambda t, r: replace(r, ap=7.0), "ap 7.0 is out of range"),
    "AUC NaN": (lambda t, r: replace(r, auc=float("nan")), "not finite"),
    "negative edges": (lambda t, r: replace(r, edges=-1), "edges"),
    "text for a number": (lambda t, r: replace(r, loss="low"), "loss"),
    "endless loss": (lambda t, r: replace(r, loss=float("inf")), "not finite"),
    "another kind": (lambda t, r: SketchReply(r.id, r.silo, similarity=1.0), "does not answer"),
    "claims all edges": (lambda t, r: replace(r, edges=10**18, ap=1.0, auc=1.0), None),
}


def cheat(change: Any, name: str = LIAR) -> Change:
    def tamper(task: Any, replies: list[Any]) -> list[Any]:
        if task.kind != "train":
            return replies
        return [change(task, reply) if reply.silo == name else reply for reply in replies]

    return tamper


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_bad_update_is_refused_or_bounded_and_the_round_goes_on(federated: Make, fault: str) -> None:
    change, reason = FAULTS[fault]
    run = federated(silos=7, rounds=3).run(cheat(change))
    assert run.coordinator.round == 3
    for record in run.records[:3]:
        entry = record.silos[LIAR]
        if reason is None:
            assert entry.refused is None
        else:
            with pytest.raises(AssertionError, match=reason):
                raise AssertionError(entry.refused)
        assert all(e.refused is None for name, e in record.silos.items() if name != LIAR)
    assert all(np.isfinite(w).all() for w in run.coordinator.weights.values())
    honest = federated(silos=7, rounds=3).run().coordinator.weights
    apart = sum(float(np.square(run.coordinator.weights[n] - honest[n]).sum()) for n in honest) ** 0.5
    assert apart <= 3 * 2 * 1.8 * 5 / 6


@pytest.mark.parametrize("rule", ["fedavg", "median", "krum", "geometric-median", "centred-clipping"])
@pytest.mark.parametrize("fault", ["NaN", "huge array", "stale round", "x-1e30"])
def test_under_other_rules_too_the_model_stays_finite(federated: Make, rule: str, fault: str) -> None:
    run = federated(silos=7, rounds=2, rule=rule).run(cheat(FAULTS[fault][0]))
    assert all(np.isfinite(w).all() for w in run.coordinator.weights.values())


def test_a_duplicate_and_a_stranger_are_refused_and_said(federated: Make) -> None:
    def tamper(task: Any, replies: list[Any]) -> list[Any]:
        if task.kind != "train":
            return replies
        return [*replies, replies[0], replace(replies[1], silo="mallory")]

    run, clean = federated(silos=7, rounds=2).run(tamper), federated(silos=7, rounds=2).run()
    reasons = {entry.silo: entry.reason for entry in run.records[0].surplus}
    assert reasons["s0"].startswith("duplicate")
    assert reasons["mallory"] == "unknown silo"
    for name, w in clean.coordinator.weights.items():
        assert w.tobytes() == run.coordinator.weights[name].tobytes()


def test_a_reply_in_someone_elses_name_is_caught_where_the_sender_is_known(federated: Make) -> None:
    reply = Update(1, "s0", round=1)
    with pytest.raises(RefusedError, match="is in the name of 's0', not in that of 's3'"):
        check_sender(reply, "s3")


def test_a_reply_in_someone_elses_name_stays_bounded_where_the_sender_is_not_known(federated: Make) -> None:
    def tamper(task: Any, replies: list[Any]) -> list[Any]:
        if task.kind != "train":
            return replies
        return [scaled(1e6)(task, replace(r, silo="s0")) if r.silo == LIAR else r for r in replies]

    run = federated(silos=7, rounds=2).run(tamper)
    record = run.records[0]
    assert record.silos[LIAR].refused == "no answer"
    assert Surplus(silo="s0", reason="duplicate: this silo has answered already") in record.surplus
    assert all(np.isfinite(w).all() for w in run.coordinator.weights.values())


def test_a_bad_reply_first_does_not_keep_the_good_one_out(federated: Make) -> None:
    def tamper(task: Any, replies: list[Any]) -> list[Any]:
        return [replace(replies[0], id=0), *replies] if task.kind == "train" else replies

    run = federated(silos=4, rounds=2).run(tamper)
    assert run.records[0].silos["s0"].refused is None


@pytest.mark.parametrize("lie", [-5.0, 7.0, 1e308])
def test_a_lie_about_j_gains_at_most_three_times_the_median(federated: Make, lie: float) -> None:
    def tamper(task: Any, replies: list[Any]) -> list[Any]:
        if task.kind != "sketch":
            return replies
        return [replace(r, similarity=lie) if r.silo == LIAR else r for r in replies]

    run = federated(silos=7).run(tamper)
    claimed = {name: silo.j for name, silo in run.records[0].silos.items()}
    limit = min(1.0, 3.0 * statistics.median(j for name, j in claimed.items() if name != LIAR))
    assert claimed[LIAR] == pytest.approx(limit if lie > 0 else 0.0)
    if lie > 0 and limit < 1.0:
        assert f"J of {LIAR} cut to 3 times the median of the others" in run.records[0].bootstrap.notes


@pytest.mark.parametrize("secure", [True, False])
def test_a_lie_about_the_host_count_cannot_grow_an_endless_graph(federated: Make, secure: bool) -> None:
    run = federated(silos=4, secure_sum=secure, max_hosts=500, rounds=2)
    run.silos[LIAR].hosts = 2**63
    run.run()
    assert run.coordinator.bootstrap.hosts == 500
    assert all(0 <= j <= 1 for j in run.coordinator.bootstrap.similarity.values())


def test_a_liar_cannot_choose_the_best_round(federated: Make) -> None:
    """It praises the first model and claims all edges; the median over silos does not follow."""

    def tamper(task: Any, replies: list[Any]) -> list[Any]:
        if task.kind not in ("train", "validate"):
            return replies
        praise = 1.0 if task.round == 1 else 0.0
        return [replace(r, ap=praise, auc=praise, edges=10**15) if r.silo == LIAR else r for r in replies]

    lied, honest = federated(silos=7).run(tamper), federated(silos=7).run()
    assert lied.coordinator.best_round == honest.coordinator.best_round


def test_below_quorum_the_round_is_repeated_and_then_the_run_stops(federated: Make) -> None:
    run = federated(silos=4, quorum=0.75, retries=2)
    while run.coordinator.round < 1:
        run.step()
    before = {name: w.tobytes() for name, w in run.coordinator.weights.items()}

    def only_two(task: Any, replies: list[Any]) -> list[Any]:
        return replies[:2]

    ids = []
    for attempt in (1, 2):
        ids.append(run.coordinator.next_task().id)
        run.step(only_two)
        assert run.records[-1].attempt == attempt
        assert run.records[-1].aggregated is False
    with pytest.raises(FederationError, match=r"round 2: 2 of 4 silos .* 3 are needed \(s2: no answer"):
        run.step(only_two)
    assert len({*ids, run.coordinator.next_task().id}) == 3
    assert {name: w.tobytes() for name, w in run.coordinator.weights.items()} == before
    run.run()  # the silos are back
    clean = federated(silos=4, quorum=0.75, retries=2).run()
    for name, w in clean.coordinator.weights.items():
        assert w.tobytes() == run.coordinator.weights[name].tobytes()


def test_above_quorum_a_missing_silo_is_named_with_its_reason(federated: Make) -> None:
    run = federated(silos=4)
    while run.coordinator.next_task().kind != "train":
        run.step()
    replies, _ = run.ask(run.coordinator.next_task())
    record = run.coordinator.conclude(replies[1:], {"s0": "no answer before the deadline"})
    assert record.silos["s0"] == SiloRecord(refused="no answer before the deadline")
    assert record.aggregated is True


def test_when_the_last_validation_fails_the_run_ends_with_the_best_model_known(federated: Make) -> None:
    run = federated(silos=3, rounds=2, retries=0)
    while run.coordinator.round < 2:
        run.step()
    run.step(lambda task, replies: [])
    assert run.coordinator.next_task() is None
    assert "not validated" in run.coordinator.stopped
    assert run.coordinator.best_round < 2


def test_replies_in_name_order_are_not_held(federated: Make) -> None:
    run = federated(silos=5)
    while run.coordinator.next_task().kind != "train":
        run.step()
    replies, _ = run.ask(run.coordinator.next_task())
    seen, added = [], run.coordinator._rule.add

    def watched(contribution: Contribution) -> Any:
        seen.append(contribution.silo)
        return added(contribution)

    run.coordinator._rule.add = watched
    progress: list[list[str]] = []
    failures: dict[str, str] = {}

    def arriving() -> Iterator[Reply]:
        for reply in replies:
            if reply.silo == "s2":
                failures["s2"] = "gone"  # learnt while the round runs
                continue
            yield reply
            progress.append(list(seen))

    run.coordinator.conclude(arriving(), failures)
    assert progress == [["s0"], ["s0", "s1"], ["s0", "s1", "s3"], ["s0", "s1", "s3", "s4"]]


@pytest.mark.parametrize("rule", ["entente", "fedavg", "krum"])
def test_the_order_of_arrival_does_not_change_a_bit(federated: Make, rule: str) -> None:
    straight = federated(silos=5, rule=rule).run()
    backwards = federated(silos=5, rule=rule).run(lambda task, replies: replies[::-1])
    for name, w in straight.coordinator.weights.items():
        assert w.tobytes() == backwards.coordinator.weights[name].tobytes()
