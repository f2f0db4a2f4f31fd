"""The weights that a detector trains and never sends, as rounds left them.

The global model of round r goes with what the silo had after round r. Which round is the best one is known
only later, so that a silo keeps what it had then, what the present round began with and what it made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from numpy.typing import NDArray

from entente.artifacts import Arrays

PREFIX = "own/"


class OwnWeights:
    """At most three versions by round; none of a detector that sends all it trains."""

    def __init__(self, first: Arrays) -> None:
        """`first` are those before any round."""
        self._by_round: dict[int, Arrays] = {0: first} if first else {}

    def after(self, round_: int) -> Arrays:
        """The weights after a round; of a round that the silo missed, those of its last one before it."""
        if not self._by_round:
            return {}
        return self._by_round[self._number(round_)]

    def keep(self, round_: int, weights: Arrays, best: int) -> None:
        """Keep what a round has made; what is neither of the best round nor of the one before is dropped."""
        if weights:
            wanted = {self._number(best), self._number(round_ - 1)}
            self._by_round = {number: self._by_round[number] for number in wanted} | {round_: weights}

    def arrays(self) -> Arrays:
        """All versions, for a silo's state."""
        return {
            f"{PREFIX}{number}/{name}": array
            for number, weights in sorted(self._by_round.items())
            for name, array in weights.items()
        }

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """What `arrays` gave, found among the arrays of a silo's state; ValueError if a number is none."""
        found = cls({})
        for name, array in arrays.items():
            if name.startswith(PREFIX):
                number, _, weight = name.removeprefix(PREFIX).partition("/")
                found._by_round.setdefault(int(number), {})[weight] = array
        return found

    def _number(self, round_: int) -> int:
        """The version that a round goes with; the oldest where it is of before that."""
        return max((n for n in self._by_round if n <= round_), default=min(self._by_round))
