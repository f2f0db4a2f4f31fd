"""What every attack promises, checked over all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entente.federation.messages import CountTask, SketchTask, TrainTask, Update, ValidateTask, pack
from entente_lab.attacks import Attack, available

from .conftest import NAMES, Arena, cheat, detector

ATTACKS = sorted(available())
every_attack = pytest.mark.parametrize("name", ATTACKS)
PARAMETERS: dict[str, Any] = {"p": 1.0, "gamma": 100.0, "strength": 5.0}
MOST = (0.8 + 0.2 * 5.0) * 5.0  # (c1 + c2 * omega) * M


def attack_of(name: str, **changes: Any) -> Attack:
    return Attack(name=name, **({"silos": ("d",)} | PARAMETERS | changes))


def task_of(round_: int = 1) -> TrainTask:
    return TrainTask(7, round=round_, weights=detector().weights())


def bytes_of(reply: Any) -> tuple[Any, ...]:
    """A reply without the time it took."""
    facts, arrays = pack(reply)
    facts = {k: v for k, v in facts.items() if k != "seconds"}
    return repr(sorted(facts.items(), key=repr)), {k: a.tobytes() for k, a in arrays.items()}


def test_the_registry_finds_all_attacks() -> None:
    assert set(ATTACKS) == {
        *("replay", "covering", "sign-flip", "gaussian", "alie", "ipm", "min-max", "min-sum"),
        *("model-replacement", "distributed-backdoor", "lying-sketch", "free-rider", "non-finite"),
        *("adaptive", "targeted-rows", "label-flip", "whisper", "turncoat"),
    }
    assert all(attack.summary for attack in available().values())


@every_attack
def test_its_messages_have_the_shape_of_honest_ones(name: str) -> None:
    liar, honest = cheat(attack_of(name)), Arena().silos["d"]
    for task in (
        CountTask(1),
        SketchTask(2, hosts=40),
        task_of(),
        ValidateTask(9, round=2, weights=detector().weights()),
    ):
        said, expected = liar.handle(task), honest.handle(task)
        assert type(said) is type(expected)
        assert (said.id, said.silo) == (expected.id, expected.silo)
        if isinstance(said, Update):
            assert {n: (a.shape, a.dtype) for n, a in said.weights.items()} == {
                n: (a.shape, a.dtype) for n, a in expected.weights.items()
            }


@every_attack
def test_it_is_honest_before_its_first_round_and_not_after(name: str) -> None:
    liar, honest = cheat(attack_of(name, from_round=3)), Arena().silos["d"]
    for task in (CountTask(1), SketchTask(2, hosts=40), task_of(1), task_of(2)):
        assert bytes_of(liar.handle(task)) == bytes_of(honest.handle(task))
    assert bytes_of(liar.handle(task_of(3))) != bytes_of(honest.handle(task_of(3)))


@every_attack
def test_the_same_task_gets_the_same_answer_from_it_and_from_a_twin(name: str) -> None:
    liar, twin = cheat(attack_of(name)), cheat(attack_of(name))
    first = bytes_of(liar.handle(task_of()))
    assert bytes_of(liar.handle(task_of())) == first
    assert bytes_of(twin.handle(task_of())) == first


@every_attack
@pytest.mark.parametrize("from_round", [1, 3])
def test_after_a_restart_it_goes_on_bit_for_bit(name: str, from_round: int) -> None:
    attack = attack_of(name, from_round=from_round)
    straight, broken = cheat(attack), cheat(attack)
    for round_ in (1, 2):
        straight.handle(task_of(round_))
        broken.handle(task_of(round_))
    again = cheat(attack)
    again.restore(*broken.state())
    # The last round may be asked for again, and the next one must not notice.
    for round_ in (2, 3, 4):
        assert bytes_of(again.handle(task_of(round_))) == bytes_of(straight.handle(task_of(round_)))


@every_attack
def test_under_entente_the_model_stays_finite_and_within_the_bound(name: str) -> None:
    arena = Arena(attack_of(name), rounds=3).run()
    assert arena.coordinator.round == 3
    assert all(np.isfinite(model).all() for model in arena.models)
    steps = np.diff(np.stack(arena.models).astype(np.float64), axis=0)
    assert np.linalg.norm(steps, axis=1).max() <= MOST * (1 + 1e-6)


@every_attack
def test_two_of_four_may_collude(name: str) -> None:
    arena = Arena(attack_of(name, silos=("a", "d")), rounds=2).run()
    assert arena.coordinator.round == 2
    assert all(np.isfinite(model).all() for model in arena.models)
    assert set(arena.records[0].silos) == set(NAMES)
