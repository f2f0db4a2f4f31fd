"""Silos that try to stop a run, to flood its records or to take it over: named, cut and bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from entente.errors import FederationError, RefusedError
from entente.federation.messages import CountReply, KeyReply, SketchReply, TrainTask, Update, pack, unpack

LIAR = "s3"


def tamper(change: Any) -> Any:
    """Every update of the liar, changed."""

    def apply(task: Any, replies: Any) -> Any:
        return [change(task, r) if r.silo == LIAR and isinstance(r, Update) else r for r in replies]

    return apply


# ---- one number does not empty a round --------------------------------------------------------


@pytest.mark.parametrize("field", ["loss", "ap", "auc", "seconds", "edges", "round", "id"])
@pytest.mark.parametrize("value", [10**400, -(10**400), 2**70])
def test_a_number_without_end_is_refused_by_name_and_the_round_goes_on(
    federated: Any, field: Any, value: Any
) -> None:
    run = federated(rounds=2).run(tamper(lambda task, r: replace(r, **{field: value})))
    assert set(run.records[0].refused) == {LIAR}
    assert field in run.records[0].refused[LIAR] or "stale" in run.records[0].refused[LIAR]
    assert run.coordinator.round == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [("loss", 1.7e308), ("loss", -1.7e308), ("seconds", 1.7e308), ("edges", 2**64 - 1), ("edges", 2**63)],
)
def test_a_number_that_no_sum_or_table_could_hold_is_refused_by_name(
    federated: Any, field: Any, value: Any
) -> None:
    """Two such losses have an infinite median; 2**64 - 1 edges fit no column of integers."""
    run = federated(rounds=2).run(tamper(lambda task, r: replace(r, **{field: value})))
    assert set(run.records[0].refused) == {LIAR}
    assert "out of range" in run.records[0].refused[LIAR]


class Bomb(Mapping[str, Any]):
    """Weights that raise whatever is done with them."""

    def __getitem__(self, name: str) -> Any:
        raise ZeroDivisionError("boom")

    def __iter__(self) -> Any:
        raise MemoryError("boom")

    def __len__(self) -> int:
        return 1


def test_any_exception_while_reading_an_answer_is_that_silos_refusal(federated: Any) -> None:
    run = federated(rounds=2).run(tamper(lambda task, r: replace(r, weights=Bomb())))
    assert set(run.records[0].refused) == {LIAR}
    assert "could not be read" in run.records[0].refused[LIAR]


def test_integers_are_bounded_on_the_wire() -> None:
    facts = pack(Update(1, "a", round=1)).facts
    for name in ("id", "round", "edges", "loss"):
        with pytest.raises(RefusedError, match=name):
            unpack({**facts, name: 10**400}, {})
    assert isinstance(unpack(pack(CountReply(1, "a", count=2**64 - 1)).facts, {}), CountReply)


# ---- the bootstrap ends ------------------------------------------------------------------------


def withholding(*liars: str) -> Any:
    """Send a key and never a count."""
    return lambda task, replies: [r for r in replies if not (isinstance(r, CountReply) and r.silo in liars)]


def test_a_silo_that_sends_a_key_and_no_count_is_named_and_left_out_of_the_sum(federated: Any) -> None:
    run = federated(silos=5, retries=2)
    for _ in range(60):
        if not run.step(withholding("s3")):
            break
    assert run.coordinator.round == 4
    assert run.coordinator.bootstrap.hosts == 3 + 4 + 5 + 7
    assert any("s3" in note and "no count" in note for note in run.coordinator.bootstrap.notes)


def test_a_restart_does_not_make_it_forget_who_voids_the_sum(federated: Any) -> None:
    run = federated(silos=5, retries=2)
    for _ in range(60):
        saved = json.loads(json.dumps(run.coordinator.state().facts)), run.coordinator.state().arrays
        run.coordinator = run.new_coordinator()
        run.coordinator.restore(*saved)
        if not run.step(withholding("s3")) or not run.step(withholding("s3")):
            break
    assert run.coordinator.round == 4


def test_too_many_that_withhold_end_the_run_within_a_stated_number_of_tasks(federated: Any) -> None:
    run = federated(silos=5, retries=1)
    withhold = withholding("s2", "s3", "s4")
    with pytest.raises(FederationError, match=r"2 of 5 silos sent a key, 3 are needed.*no count"):
        all(run.step(withhold) for _ in range(30))


# ---- text from silos ---------------------------------------------------------------------------

ESCAPE = "\x1b]0;owned\x07\u202e" + "x" * 2_000_000


def test_text_from_a_silo_is_cut_and_made_visible_in_the_record(federated: Any) -> None:
    def name_and_kind(task: Any, replies: Any) -> Any:
        kept = [r for r in replies if r.silo != LIAR]
        kept.append(KeyReply(task.id, ESCAPE))
        if isinstance(task, TrainTask):
            update = next(r for r in replies if r.silo == LIAR)
            kept.append(replace(update, weights={ESCAPE: np.ones(1, dtype=np.float32)}))
        return kept

    run = federated(rounds=2).run(name_and_kind)
    line = json.dumps(run.records[0].to_json(), ensure_ascii=False)
    assert len(line) < 10_000
    assert "\\u001b" in line
    assert not set(line) & {"\x1b", "\x07", "\u202e"}


def test_a_kind_of_megabytes_makes_a_short_refusal() -> None:
    with pytest.raises(RefusedError) as refused:
        unpack({"kind": ESCAPE}, {})
    assert len(str(refused.value)) < 1000


# ---- nobody takes the model over ----------------------------------------------------------------


@pytest.mark.parametrize("rule", ["fedavg", "fedprox", "fedavg-n", "entente-ub"])
def test_a_step_beyond_all_others_is_refused_by_name(federated: Any, rule: str) -> None:
    def far(task: Any, update: Update) -> Update:
        weights = {name: (a + np.float32(1e30)).astype(np.float32) for name, a in update.weights.items()}
        return replace(update, weights=weights)

    run = federated(silos=5, rule=rule).run(tamper(far))
    honest = federated(silos=5, rule=rule).run()
    assert all("times the median" in record.refused[LIAR] for record in run.records if record.trained)
    assert not any(record.refused for record in honest.records)
    for name, array in run.coordinator.weights.items():
        assert np.abs(array - honest.coordinator.weights[name]).max() < 1.0


@pytest.mark.parametrize("rule", ["fedavg", "fedprox", "fedavg-n", "entente-ub"])
def test_the_limit_can_be_switched_off_for_the_papers_tables(federated: Any, rule: str) -> None:
    def far(task: Any, update: Update) -> Update:
        return replace(update, weights={n: (a + np.float32(1e6)) for n, a in update.weights.items()})

    run = federated(silos=5, rule=rule, rounds=1, options={"step_limit": 0.0}).run(tamper(far))
    assert not run.records[0].refused
    assert max(np.abs(array).max() for array in run.coordinator.weights.values()) > 1e4


def test_a_garbage_count_does_not_make_the_cheats_share_everything(federated: Any) -> None:
    """It adds a million hosts to the sum, so that every honest share is next to nothing, and claims all."""

    def lie(task: Any, replies: Any) -> Any:
        found = []
        for r in replies:
            if r.silo == LIAR and isinstance(r, CountReply):
                r = replace(r, count=(r.count + 10**6) % 2**64)
            if r.silo == LIAR and isinstance(r, SketchReply):
                r = replace(r, share=1.0)
            found.append(r)
        return found

    run = federated(silos=5, rule="fedavg-n").run(lie)
    shares = run.coordinator.bootstrap.share
    assert shares[LIAR] <= 10 * float(np.median([s for n, s in shares.items() if n != LIAR])) + 1e-12
    assert any("s3" in note and "share" in note for note in run.coordinator.bootstrap.notes)
    honest = federated(silos=5, rule="fedavg-n").run().coordinator.bootstrap
    assert not any("cut" in note for note in honest.notes)
