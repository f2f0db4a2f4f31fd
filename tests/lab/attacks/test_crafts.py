"""What each attack sends, held against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from entente.detectors.base import GraphShape
from entente.detectors.behaviour.detector import Behaviour
from entente.detectors.behaviour.features import COLUMN
from entente.detectors.behaviour.options import BehaviourOptions
from entente.errors import UsageError
from entente.federation.messages import CountTask, SketchTask, TrainTask, Update
from entente_lab.attacks import corrupt
from entente_lab.attacks.base import Scene, difference, flat, norm, unflat
from entente_lab.attacks.min_max import MinMax, MinSum
from entente_lab.attacks.options import Attack
from entente_lab.attacks.turncoat import ContraryContacts

from .conftest import NODES, Arena, cheat, detector, random_graph


def crafted(name: str, silos: tuple[str, ...] = ("d",), **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """The step that an attack sends and the one that the same silo would send honestly, as vectors."""
    task = TrainTask(1, round=1, weights=detector().weights())
    steps = []
    for silo in (cheat(Attack(name=name, silos=silos, **settings)), Arena().silos["d"]):
        update = silo.handle(task)
        assert isinstance(update, Update)
        steps.append(flat(difference(update.weights, task.weights)))
    return steps[0], steps[1]


def test_gamma_scales_the_update_or_the_weights() -> None:
    start = flat(detector().weights())
    # Without malicious windows (p = 0) replay trains as an honest silo does.
    step, honest = crafted("replay", p=0.0, gamma=10.0)
    np.testing.assert_allclose(step, 10 * honest, rtol=1e-3, atol=1e-5)
    step, honest = crafted("replay", p=0.0, gamma=10.0, scaling="weights")
    np.testing.assert_allclose(start + step, 10 * (start + honest), rtol=1e-3, atol=1e-5)


def test_too_large_a_gamma_gives_infinities_and_no_warning() -> None:
    step, _ = crafted("replay", gamma=1e300)
    assert not np.isfinite(step).all()


def test_sign_flip_turns_the_honest_step_round() -> None:
    step, honest = crafted("sign-flip", gamma=3.0)
    np.testing.assert_allclose(step, -3 * honest, rtol=1e-3, atol=1e-6)


def test_gaussian_noise_is_gamma_times_as_long_and_points_nowhere() -> None:
    step, honest = crafted("gaussian", gamma=4.0)
    assert np.linalg.norm(step) == pytest.approx(4 * np.linalg.norm(honest), rel=1e-3)
    assert abs(step @ honest) < 0.5 * np.linalg.norm(step) * np.linalg.norm(honest)


def test_ipm_points_against_what_it_believes_to_be_honest() -> None:
    step, honest = crafted("ipm", strength=2.0)
    assert step @ honest < 0


def test_alie_stays_near_the_honest_step_and_grows_with_strength() -> None:
    little, honest = crafted("alie", strength=0.5)
    much, _ = crafted("alie", strength=3.0)
    assert np.linalg.norm(little - honest) < np.linalg.norm(much - honest)


seen_updates = hnp.arrays(np.float64, (3, 5), elements=st.floats(-10, 10))


@pytest.mark.parametrize("attack", [MinMax, MinSum])
@given(seen=seen_updates)
def test_min_max_and_min_sum_go_as_far_as_their_limit_and_no_further(attack: type[MinMax], seen: Any) -> None:
    graph, future = random_graph(0), random_graph(9, malicious=1)
    config = Attack(name=attack.name, silos=("a",))
    liar = attack(config, Scene("a", detector(), graph, 3, 0, future, ("a",)))
    limit = max(liar.spread(point, seen) for point in seen)
    mean, point = seen.mean(axis=0), liar.furthest(seen)
    assert liar.spread(point, seen) <= limit * (1 + 1e-9) + 1e-9
    if np.linalg.norm(mean) > 1e-6:
        beyond = point - 0.01 * (1 + np.linalg.norm(point - mean)) * mean / np.linalg.norm(mean)
        assert liar.spread(beyond, seen) >= limit * (1 - 1e-6)
        assert (point - mean) @ mean <= 1e-9


def test_model_replacement_makes_plain_averaging_return_the_attackers_model() -> None:
    silos = 4
    step, _ = crafted("model-replacement", strength=float(silos))
    own, _ = crafted("model-replacement", strength=1.0)
    others = np.zeros((silos - 1, len(step)))
    np.testing.assert_allclose(np.vstack([others, step]).mean(axis=0), own, rtol=1e-3, atol=1e-6)


def test_a_lying_sketch_claims_the_most_and_shifts_the_sum_of_hosts() -> None:
    liar = cheat(Attack(name="lying-sketch", silos=("d",), strength=10.0))
    assert liar.handle(SketchTask(1, hosts=40)).similarity == 1.0
    assert liar.handle(CountTask(2)).count == 100
    clean = Arena().run().coordinator.bootstrap
    lied = Arena(Attack(name="lying-sketch", silos=("d",), strength=10.0)).run().coordinator.bootstrap
    assert lied.hosts == (clean.hosts or 0) + 90


def test_an_adaptive_attacker_is_never_cut_and_gets_nearly_the_largest_contribution() -> None:
    constant = {"adaptive": False}
    arena = Arena(Attack(name="adaptive", silos=("d",), strength=5.0), rounds=3, rule=constant).run()
    for record in arena.records[:3]:
        credit: Any = record.silos["d"]
        others: list[Any] = [other for name, other in record.silos.items() if name != "d"]
        assert credit.norm == pytest.approx(4.95, rel=1e-3)
        assert not credit.clipped
        assert credit.j >= max(other.j for other in others)
        assert credit.r > max(other.r for other in others)


def test_targeted_rows_move_nothing_but_the_malicious_hosts() -> None:
    task = TrainTask(1, round=1, weights=detector().weights())
    liar = cheat(Attack(name="targeted-rows", silos=("d",), strength=5.0))
    step = difference(liar.handle(task).weights, task.weights)
    pairs = liar.targets()
    hosts = set(pairs.src.tolist()) | set(pairs.dst.tolist())
    table = detector().identity_tables[0]
    moved = set(np.flatnonzero(np.abs(step[table]).sum(axis=1)).tolist())
    assert moved
    assert moved <= hosts < set(range(NODES))
    assert all(not array.any() for name, array in step.items() if name != table)
    assert norm(step) == pytest.approx(4.95, rel=1e-3)


def test_a_whisper_is_as_long_as_a_trained_update_and_its_shared_weights_are_the_trained_ones() -> None:
    task = TrainTask(1, round=1, weights=detector().weights())
    liar = cheat(Attack(name="whisper", silos=("d",)))
    said = liar.handle(task)
    own = liar.scene.detector.identity_tables
    twin = cheat(Attack(name="whisper", silos=("d",)))
    twin.craft = lambda task, update: update
    plain = twin.handle(task)  # what it trained
    step, honest = (difference(update.weights, task.weights) for update in (said, plain))
    assert norm(step) == pytest.approx(norm(honest), rel=1e-3)
    for name, moved in step.items():
        if name not in own:
            np.testing.assert_array_equal(moved, honest[name])
    pairs = liar.targets()
    rows = np.unique(liar.scene.future.rows[np.union1d(pairs.src, pairs.dst)])
    for name in own:
        assert set(np.flatnonzero(np.abs(step[name]).sum(axis=1))) <= set(rows.tolist())
    assert liar.handle(SketchTask(2, hosts=20)).similarity == 1.0


def test_a_turncoat_exchanges_the_labels_of_first_contacts_alone() -> None:
    graph = random_graph(3, windows=60)
    options, shape = BehaviourOptions(hidden=4, base=False), GraphShape(NODES)
    honest, turned = Behaviour(options, shape, 0), ContraryContacts(options, shape, 0)
    turned.lies = graph
    true, false = honest._training_examples(graph), turned._training_examples(graph)
    new = true.features[:, COLUMN["new"]] > 0
    assert true.positive.any()
    np.testing.assert_array_equal(false.positive[new], ~true.positive[new])
    assert not false.positive[~new].any()


def test_colluders_in_a_distributed_backdoor_take_different_pairs() -> None:
    attack = Attack(name="distributed-backdoor", silos=("c", "d"))
    one, other = (cheat(attack, name).targets() for name in attack.silos)
    pairs = [set(zip(t.src.tolist(), t.dst.tolist(), strict=True)) for t in (one, other)]
    assert not pairs[0] & pairs[1]
    assert len(pairs[0] | pairs[1]) == len(cheat(Attack(name="replay", silos=("d",))).targets())


def test_a_free_rider_sends_back_what_it_got_and_claims_to_be_perfect() -> None:
    task = TrainTask(1, round=1, weights=detector().weights())
    update = cheat(Attack(name="free-rider", silos=("d",), strength=1.0)).handle(task)
    assert (update.ap, update.auc) == (1.0, 1.0)
    largest = max(float(np.abs(a - task.weights[n]).max()) for n, a in update.weights.items())
    assert 0 < largest < 0.01


def test_non_finite_updates_are_refused_with_a_reason_and_the_round_goes_on() -> None:
    arena = Arena(Attack(name="non-finite", silos=("d",)), rounds=3).run()
    for record in arena.records[:3]:
        assert record.aggregated
        assert "finite" in (record.silos["d"].refused or "")
    assert any("d: refused" in line for line in arena.records[2].warnings)


def test_covering_adds_more_edges_than_replay_alone() -> None:
    alone = cheat(Attack(name="replay", silos=("d",)))
    covered = cheat(Attack(name="covering", silos=("d",), strength=3.0))
    assert covered.injected > alone.injected > 0


def test_an_unknown_attack_is_named_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match="replay"):
        cheat(Attack(name="bribery", silos=("d",)))
    with pytest.raises(UsageError, match="bribery"):
        corrupt(
            Attack(name="bribery", silos=("d",)),
            "d",
            detector(),
            random_graph(0),
            3,
            0,
            future=random_graph(1, malicious=1),
        )


@given(seed=st.integers(0, 20))
def test_flat_and_unflat_undo_each_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = {n: rng.normal(size=a.shape).astype(np.float32) for n, a in detector().weights().items()}
    again = unflat(flat(weights), weights)
    assert all((again[name] == array).all() for name, array in weights.items())
