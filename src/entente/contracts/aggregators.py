"""What every aggregation rule promises, checked on the updates of one round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from entente.config import aggregation_options
from entente.contracts.base import Check, claims, require
from entente.errors import RefusedError
from entente.federation.aggregators import build
from entente.federation.aggregators.base import Aggregator, Contribution, Layout, Vector

LAYOUT = Layout(
    names=("enc.table", "enc.bias", "temp.gate", "dec.out"),
    shapes=((4, 3), (3,), (2, 2), ()),
    component=("ENC", "ENC", "TEMP", "DEC"),
    tables=("enc.table",),
)
CHECKS: list[Check] = []


@dataclass(frozen=True, slots=True, eq=False)
class RoundCase:
    """An aggregation rule, a global model and what silos send."""

    make: Callable[[], Aggregator]
    current: Vector
    updates: tuple[Vector, ...]
    wild: Vector
    """An update of arbitrary bytes."""

    @classmethod
    def named(cls, name: str) -> RoundCase:
        rng = np.random.default_rng(0)
        current, *updates = rng.normal(size=(6, LAYOUT.size)).astype(np.float32)
        wild = rng.integers(0, 2**32, LAYOUT.size, dtype=np.uint32).view(np.float32)
        return cls(lambda: build(aggregation_options({"rule": name}), LAYOUT), current, tuple(updates), wild)


def one_round(
    rule: Aggregator, current: Vector, updates: Sequence[Vector], similarity: float = 0.5
) -> Vector:
    """The next model after one round."""
    rule.begin(current)
    for number, vector in enumerate(updates):
        rule.add(Contribution(f"s{number}", vector, similarity, share=1 / len(updates)))
    return rule.finish()


@claims(CHECKS, "identical silos make the step of one")
def identical(case: RoundCase) -> None:
    alone = one_round(case.make(), case.current, case.updates[:1])
    together = one_round(case.make(), case.current, case.updates[:1] * 4)
    require(np.allclose(together, alone, rtol=1e-5, atol=1e-4), "the steps differ")


@claims(CHECKS, "without any update the model stays")
def nobody(case: RoundCase) -> None:
    rule = case.make()
    rule.begin(case.current)
    require(np.array_equal(rule.finish(), case.current), "the model has changed")


@claims(CHECKS, "silos that did not train leave the model bit for bit")
def idle(case: RoundCase) -> None:
    copies = tuple(case.current.copy() for _ in range(5))
    require(
        np.array_equal(one_round(case.make(), case.current, copies), case.current), "the model has changed"
    )


@claims(CHECKS, "any bytes are refused or leave the model finite")
def any_bytes(case: RoundCase) -> None:
    rule = case.make()
    rule.begin(case.current)
    for number, vector in enumerate(case.updates):
        rule.add(Contribution(f"s{number}", vector, 0.5, 0.2))
    try:
        rule.add(Contribution("wild", case.wild, 1.0, 1.0))
    except RefusedError:
        require(not np.isfinite(case.wild).all(), "a finite update was refused")
    result = rule.finish()
    require(result.dtype == np.float32, "the model is not float32")
    require(np.isfinite(result).all(), "the model is not finite")


@claims(CHECKS, "an update that is not finite is refused")
def not_finite(case: RoundCase) -> None:
    rule = case.make()
    rule.begin(case.current)
    for value in (np.nan, np.inf):
        vector = case.updates[0].copy()
        vector[0] = value
        try:
            rule.add(Contribution("wild", vector, 1.0, 1.0))
        except RefusedError:
            continue
        require(False, f"{value} was accepted")


@claims(CHECKS, "state and restore go on bit for bit")
def restored(case: RoundCase) -> None:
    one, two = case.make(), case.make()
    first = one_round(one, case.current, case.updates)
    one_round(two, case.current, case.updates)
    again = case.make()
    again.restore(two.state())
    require(
        one_round(one, first, case.updates).tobytes() == one_round(again, first, case.updates).tobytes(),
        "the next rounds differ",
    )


@claims(CHECKS, "a round begun anew forgets the unfinished one")
def begun_anew(case: RoundCase) -> None:
    clean = one_round(case.make(), case.current, case.updates)
    rule = case.make()
    rule.begin(case.current)
    rule.add(Contribution("s0", 100 * case.updates[0], 1.0, 1.0))
    require(one_round(rule, case.current, case.updates).tobytes() == clean.tobytes(), "the models differ")


@claims(CHECKS, "adding does not change what was given")
def given_stays(case: RoundCase) -> None:
    before = [vector.tobytes() for vector in (case.current, *case.updates)]
    one_round(case.make(), case.current, case.updates)
    require([v.tobytes() for v in (case.current, *case.updates)] == before, "an array has changed")
