"""Warnings name the silo, the reason and the round it began."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from entente.federation.records import RoundRecord, SiloRecord
from entente.federation.watch import SiloWatch


def record(round_: int, kind: Literal["train", "validate"] = "train", **silos: dict[str, Any]) -> RoundRecord:
    usual = {"norm": 1.0, "shared": 0.5}
    entries = {name: SiloRecord(**(usual | silo)) for name, silo in silos.items()}
    return RoundRecord(kind=kind, id=round_, round=round_, attempt=1, validation=None, silos=entries)


def test_a_loud_silo_is_named_from_its_second_round_on() -> None:
    watch = SiloWatch()
    assert watch.observe(record(3, a={}, b={}, c={})) == []
    assert watch.observe(record(4, a={}, b={"norm": 61.0}, c={})) == []
    assert watch.observe(record(5, a={}, b={"norm": 61.0}, c={})) == [
        "b: update norm 61× the median since round 4"
    ]
    assert watch.observe(record(6, a={}, b={}, c={})) == []


def test_a_silo_with_many_hosts_may_go_far_but_not_in_the_weights_that_all_share() -> None:
    many, cheat = {"norm": 4.0, "shared": 0.6}, {"norm": 4.0, "shared": 2.0}
    watch = SiloWatch()
    assert watch.observe(record(1, a={}, b=many, c=cheat | {"norm": 9.0}, d={})) == []
    assert watch.observe(record(2, a={}, b=many, c=cheat, d={})) == [
        "c: update norm 4× the median in the weights all share since round 1"
    ]


def test_a_silo_that_moves_identity_rows_alone_is_named() -> None:
    watch = SiloWatch()
    said = [watch.observe(record(i, a={}, b={"norm": 1.2, "shared": 0.0}, c={}, d={})) for i in (1, 2, 3)]
    assert said == [[], [], ["b: hardly changes the weights all share (0× the median) since round 1"]]


def test_a_loud_silo_an_idle_one_and_a_refused_one_are_told_apart() -> None:
    watch, said = SiloWatch(), []
    for i in range(1, 4):
        said = watch.observe(
            record(i, a={}, b={}, c={"norm": 6.0}, d={"norm": 0.001}, e={"refused": "not finite"})
        )
    assert [line.split(":")[0] for line in said] == ["c", "d", "e"]
    assert "update norm 6×" in said[0]
    assert "hardly changes" in said[1]
    assert "not finite" in said[2]
    assert all(line.endswith("since round 1") for line in said)


@pytest.mark.parametrize("cheats", [1, 2])
def test_cheats_that_shout_do_not_make_the_honest_look_idle(cheats: int) -> None:
    """The median of an even number is a mean: one cheat of three silos makes it as long as it likes."""
    watch = SiloWatch()
    honest: dict[str, dict[str, Any]] = {name: {} for name in "abc"[: cheats + 1]}
    loud = {name: {"norm": 500.0, "shared": 400.0} for name in "yz"[:cheats]}
    said = [watch.observe(record(i, "train", **honest, **loud)) for i in range(1, 6)]
    assert not any(line.startswith(tuple(honest)) for lines in said for line in lines)
    assert cheats > 1 or said[-1] == ["y: update norm 500× the median since round 1"]


@pytest.mark.parametrize("norm", [0.0, 0.001])
def test_one_idle_silo_of_three_does_not_make_the_honest_look_loud(norm: float) -> None:
    watch = SiloWatch()
    idle = {"norm": norm, "shared": norm}
    said = [watch.observe(record(i, a={}, b={}, c=idle)) for i in range(1, 5)]
    assert {line.partition(":")[0] for lines in said for line in lines} == {"c"}


def test_two_silos_cannot_be_compared_with_each_other() -> None:
    watch = SiloWatch()
    for i in range(1, 5):
        assert watch.observe(record(i, a={}, b={"norm": 500.0})) == []


def test_watching_goes_on_after_a_restart() -> None:
    watch, other = SiloWatch(), SiloWatch()
    watch.observe(record(1, a={}, b={"norm": 50.0}, c={}))
    other.restore(watch.state())
    assert other.observe(record(2, a={}, b={"norm": 50.0}, c={})) == [
        "b: update norm 50× the median since round 1"
    ]


def test_a_silo_where_the_model_gets_worse_is_named_and_one_without_validation_is_not() -> None:
    watch, said = SiloWatch(), []
    for i, auc in enumerate((0.8, 0.95, 0.6, 0.61, 0.59), start=1):
        said = watch.observe(
            record(i, a={"ap": 0.9, "auc": auc, "edges": 90}, b={}, c={"auc": 0.1, "edges": 0})
        )
        assert i == 5 or said == []
    assert said == ["a: validation AUC fell to 0.59 from 0.95 since round 3"]


def test_claims_of_perfect_validation_are_named() -> None:
    watch = SiloWatch()
    for i in (1, 2):
        said = watch.observe(record(i, a={"ap": 1.0, "auc": 1.0, "edges": 90}, b={}, c={}))
    assert said == ["a: claims perfect validation since round 1"]


def test_the_best_validation_survives_a_restart() -> None:
    watch, other = SiloWatch(), SiloWatch()
    watch.observe(record(1, a={"ap": 0.9, "auc": 0.9, "edges": 90}, b={}, c={}))
    other.restore(watch.state())
    for i in (2, 3, 4):
        said = other.observe(record(i, a={"ap": 0.5, "auc": 0.5, "edges": 90}, b={}, c={}))
    assert said == ["a: validation AUC fell to 0.50 from 0.90 since round 2"]


def test_a_handful_of_validation_edges_says_nothing() -> None:
    watch = SiloWatch()
    for i, auc in enumerate((1.0, 1.0, 0.2, 0.2, 0.2, 0.2), start=1):
        assert watch.observe(record(i, a={"ap": auc, "auc": auc, "edges": 4}, b={}, c={})) == []
