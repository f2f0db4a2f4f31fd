"""Suspicion: handed on along new edges, fading, used to by those who always look odd."""

from __future__ import annotations

import numpy as np

from entente.detectors.base import named, with_names
from entente.detectors.suspicion import PRIOR, STANDS_OUT, STRENGTH, Suspicion

ONE = np.ones(1, dtype=np.float32)


def fresh(nodes: int = 4, hours: float = 0.5) -> Suspicion:
    return Suspicion(Suspicion.empty(nodes), nodes, hours)


def edge(
    suspicion: Suspicion, source: int, target: int, logit: float, sources: float = 0.0, number: int = 0
) -> None:
    suspicion.fade()
    ends = np.array([source], dtype=np.int32), np.array([target], dtype=np.int32)
    suspicion.learn(np.array([logit]), *ends, ONE * np.float32(sources), number)


def raised(suspicion: Suspicion, source: int) -> float:
    return float(suspicion.raised(np.zeros(1), np.array([source], dtype=np.int32))[0])


def test_unusual_contacts_raise_the_next_edge_of_source_and_target_alone() -> None:
    suspicion = fresh()
    for _ in range(3):
        edge(suspicion, 0, 1, 5.0)
    assert raised(suspicion, 0) > 0.5
    assert raised(suspicion, 1) > 0.5
    assert raised(suspicion, 2) == 0.0


def test_a_popular_target_inherits_less() -> None:
    rare, popular = fresh(), fresh()
    edge(rare, 0, 1, 5.0, sources=0)
    edge(popular, 0, 1, 5.0, sources=500)
    assert PRIOR < popular.p[1] < rare.p[1]
    assert popular.p[0] == rare.p[0]


def test_suspicion_fades_with_its_half_life() -> None:
    suspicion = fresh()
    edge(suspicion, 0, 1, 5.0)
    before = suspicion.p[0] - PRIOR
    for _ in range(48):
        suspicion.fade()
    np.testing.assert_allclose(suspicion.p[0] - PRIOR, before / 2)


def test_one_edge_counts_for_a_bounded_step_however_high_its_logit() -> None:
    high, endless = fresh(), fresh()
    edge(high, 0, 1, 5.0)
    edge(endless, 0, 1, 1e6)
    assert high.p[0] == endless.p[0]


def test_a_host_that_always_looks_odd_is_raised_less_than_one_that_suddenly_does() -> None:
    suspicion = fresh()
    for _ in range(400):
        edge(suspicion, 2, 3, 2.0)
    for _ in range(6):
        edge(suspicion, 0, 1, 5.0)
    assert suspicion.p[2] >= suspicion.p[0] / 2
    assert raised(suspicion, 2) < raised(suspicion, 0)


def test_the_level_follows_a_silo_in_which_every_new_edge_looks_odd() -> None:
    suspicion = fresh(2)
    for _ in range(200):
        suspicion.fade()
        suspicion.learn(
            np.full(20, 4.0), np.zeros(20, np.int32), np.ones(20, np.int32), np.zeros(20, np.float32), 0
        )
    assert suspicion.level > 3.5


def test_it_never_lowers_a_logit() -> None:
    suspicion = fresh()
    edge(suspicion, 0, 1, -9.0)
    assert raised(suspicion, 0) >= 0.0
    assert STRENGTH > 0


def test_hosts_that_became_more_suspicious_now_and_stand_out_are_named_with_how_far() -> None:
    suspicion = fresh()
    for _ in range(4):
        before = suspicion.p
        edge(suspicion, 0, 1, 5.0)
    hosts, above = suspicion.risen(before)
    assert hosts.tolist() == [0, 1]
    assert (above > STANDS_OUT).all()
    before = suspicion.p
    edge(suspicion, 2, 3, -3.0)
    assert suspicion.risen(before)[0].tolist() == []  # 0 and 1 still stand out, and did nothing


def test_it_is_told_from_whom_a_host_has_its_suspicion_and_what_that_one_did() -> None:
    suspicion = fresh()
    assert suspicion.story(1, 0) == ""
    for number, target in enumerate((2, 3, 1)):
        edge(suspicion, 0, target, 5.0, number=number)
    said = suspicion.story(1, 12)  # ten windows of half an hour after it was reached
    assert with_names(said, ["ws-12", "srv-3", "a", "b"]) == (
        "the source was reached 5 hours ago from ws-12, which had 3 unusual contacts"
    )
    assert suspicion.story(0, 12) == "the source had 3 unusual contacts before"
    again = Suspicion(suspicion.state(), 4, 0.5)
    assert again.story(1, 12) == said
    assert "reached" not in suspicion.story(1, 1000)  # too long ago


def test_a_host_that_was_not_met_at_that_time_has_no_name_in_a_sentence() -> None:
    assert with_names(f"from {named(7)} and {named(0)}", ["{1}"]) == "from another host and {1}"
