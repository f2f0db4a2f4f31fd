"""Stopped anywhere and restored, a run ends with the bits of an undisturbed one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entente.config import Privacy
from entente.errors import FederationError
from entente.federation.messages import CountTask, KeyTask, TrainTask
from entente.federation.own_weights import OwnWeights

RUNS: dict[str, dict[str, Any]] = {
    "entente": {},
    "entente, two silos": {"silos": 2},
    "adaptive, holders": {"options": {"adaptive": True, "rows": "holders"}},
    "fedavg-n": {"rule": "fedavg-n"},
    "fedopt": {"rule": "fedopt"},
    "centred-clipping": {"rule": "centred-clipping"},
    "early stop": {"rounds": 12, "patience": 2},
    "central noise": {
        "privacy": Privacy(mechanism="central", sigma=1.0),
        "options": {"adaptive": False},
    },
    "counts in plain": {"secure_sum": False},
    "a table at home": {"detector": "at home", "rounds": 6},
    "a table at home, early stop": {"detector": "at home", "rounds": 12, "patience": 2},
}


def kept_at_home(run: Any) -> list[bytes]:
    """What the silos have never sent, as it goes with the best model."""
    states = (OwnWeights.of(silo.state().arrays) for silo in run.silos.values())
    return [a.tobytes() for own in states for a in own.after(run.coordinator.best_round).values()]


def outcome(run: Any) -> tuple[Any, ...]:
    c = run.coordinator
    models = [w[name].tobytes() for w in (c.weights, c.best_weights) for name in sorted(w)]
    return (
        *models,
        *kept_at_home(run),
        c.round,
        c.best_round,
        c.stopped,
        c.privacy_report().model_dump_json(),
        c.bootstrap.model_dump_json(),
    )


def through_disk(facts: dict[str, Any], arrays: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return json.loads(json.dumps(facts, allow_nan=False)), {n: np.array(a) for n, a in arrays.items()}


def restart(run: Any, parties: set[str]) -> None:
    """New objects in the place of those killed, with nothing but their last state."""
    if "coordinator" in parties:
        saved = through_disk(*run.coordinator.state())
        run.coordinator = run.new_coordinator()
        run.coordinator.restore(*saved)
    for name in parties & set(run.names):
        saved = through_disk(*run.silos[name].state())
        run.silos[name] = run.new_silo(name)
        run.silos[name].restore(*saved)


@pytest.mark.parametrize("kind", sorted(RUNS))
def test_everybody_killed_after_every_single_step_changes_no_bit(federated: Any, kind: str) -> None:
    expected = outcome(federated(**RUNS[kind]).run())
    steps = 0
    run = federated(**RUNS[kind])
    while run.step():
        steps += 1
    for cut in range(steps + 1):
        run = federated(**RUNS[kind])
        for _ in range(cut):
            run.step()
        restart(run, {"coordinator", *run.names})
        assert outcome(run.run()) == expected, f"killed after step {cut}"


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_party_killed_at_any_time_changes_no_bit(federated: Any, data: Any) -> None:
    """Also in the middle of a step: silos have answered, the coordinator has not concluded."""
    kind = data.draw(st.sampled_from(["entente", "fedopt", "adaptive, holders", "a table at home"]))
    expected = outcome(federated(**RUNS[kind]).run())
    run = federated(retries=20, **RUNS[kind])
    parties = ["coordinator", *run.names]
    for _ in range(60):
        if run.coordinator.next_task() is None:
            break
        chosen = data.draw(st.sets(st.sampled_from(parties), max_size=3))
        event = data.draw(st.sampled_from(["none", "before", "mid-step"]))
        if event == "before":
            restart(run, chosen)
        elif event == "mid-step":
            run.ask(run.coordinator.next_task())  # answers that never arrive
            restart(run, chosen)
        run.step()
    assert outcome(run.run()) == expected


def test_a_silo_that_lost_its_key_makes_the_sum_start_again(federated: Any) -> None:
    run = federated(silos=4)
    run.step()
    assert isinstance(run.coordinator.next_task(), CountTask)
    restart(run, {"s1"})
    run.step()
    assert isinstance(run.coordinator.next_task(), KeyTask)
    run.run()
    assert run.coordinator.bootstrap.hosts == 18
    assert run.coordinator.bootstrap.notes == ()


def test_a_silo_that_stays_away_is_left_out_of_the_sum_and_named(federated: Any) -> None:
    run = federated(silos=4)
    run.step()
    del run.silos["s3"]
    run.run()
    assert run.coordinator.bootstrap.hosts == 3 + 4 + 5
    assert "count: went on without s3" in run.coordinator.bootstrap.notes
    assert run.coordinator.round == 4


def test_a_sum_of_fewer_than_three_of_many_is_never_made(federated: Any) -> None:
    run = federated(silos=4, quorum=0.25, retries=1)
    del run.silos["s2"], run.silos["s3"]
    with pytest.raises(FederationError, match="2 of 4 silos sent a key, 3 are needed"):
        run.run()


@pytest.mark.parametrize(
    ("settings_", "note"),
    [
        ({"silos": 1}, "one silo"),
        ({"silos": 2}, "two silos"),
        ({"silos": 4, "secure_sum": False}, "secure_sum is off"),
        ({"silos": 4, "rule": "fedavg-n"}, "share of the hosts"),
    ],
)
def test_what_does_not_stay_secret_is_said_in_the_first_record(
    federated: Any, settings_: Any, note: str
) -> None:
    record = federated(**settings_).run().records[0]
    assert any(note in line for line in record.bootstrap.notes)


@pytest.mark.parametrize("rule", ["fedavg", "fedprox", "fedopt", "median", "krum"])
def test_a_rule_that_needs_no_bootstrap_asks_for_none(federated: Any, rule: str) -> None:
    assert isinstance(federated(rule=rule).coordinator.next_task(), TrainTask)


def test_tasks_are_the_same_until_concluded_and_ids_never_repeat(federated: Any) -> None:
    run, ids = federated(), []
    while (task := run.coordinator.next_task()) is not None:
        assert run.coordinator.next_task() is task
        ids.append(task.id)
        run.step()
    assert len(set(ids)) == len(ids)
    with pytest.raises(FederationError, match="the run is over"):
        run.coordinator.conclude([])


def test_a_checkpoint_of_another_federation_is_refused(federated: Any) -> None:
    facts, arrays = federated(silos=4).coordinator.state()
    with pytest.raises(FederationError, match="other silos"):
        federated(silos=5).coordinator.restore(facts, arrays)
    with pytest.raises(FederationError, match="another rule"):
        federated(silos=4, rule="fedavg").coordinator.restore(facts, arrays)


def test_a_silo_is_not_sent_back_in_time(federated: Any) -> None:
    run = federated(silos=3, rule="fedavg")
    old = run.coordinator.next_task()
    run.step()
    run.step()
    with pytest.raises(FederationError, match="cannot go back"):
        run.silos["s0"].handle(old)


def test_silos_of_different_names_and_rounds_draw_different_numbers(federated: Any) -> None:
    run = federated(silos=3, rule="fedavg")
    a, b = run.silos["s0"], run.silos["s1"]
    draws = {g.integers(2**60) for g in (a._generator("train", 1), a._generator("train", 2))}
    draws |= {b._generator("train", 1).integers(2**60), a._generator("validate", 1).integers(2**60)}
    assert len(draws) == 4
