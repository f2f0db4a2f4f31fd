"""The threshold: learnt on a silo's benign validation edges, never on test labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entente.errors import DetectorError, GraphError, UsageError

TAIL = 1000
"""How many of the highest validation scores are kept to say how rare a score is."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a silo's benign validation edges scored: their number and the highest scores, ascending."""

    edges: int
    tail: tuple[float, ...]

    @classmethod
    def of(cls, validation_scores: NDArray[Any]) -> Calibration:
        highest = np.sort(np.asarray(validation_scores, dtype=np.float64))[-TAIL:]
        return cls(len(validation_scores), tuple(highest.tolist()))

    def one_in(self, score: float) -> int | None:
        """N such that 1 in N edges scores as high, as far as so many edges can tell; None without any."""
        if not self.edges:
            return None
        as_high = len(self.tail) - int(np.searchsorted(self.tail, score, side="left"))
        return max(1, round((self.edges + 1) / (as_high + 1)))

    def as_dict(self) -> dict[str, Any]:
        return {"edges": self.edges, "tail": list(self.tail)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        return cls(int(values["edges"]), tuple(float(score) for score in values["tail"]))


def learn_threshold(validation_scores: ArrayLike, false_alarms: float) -> float:
    """The score that at most a share `false_alarms` of benign edges exceeds.

    This is the conformal quantile: for a new benign edge drawn like the validation edges the chance of
    an alert is at most `false_alarms`. With fewer than 1 / false_alarms - 1 edges no score can promise
    that; the threshold is then the highest score seen, so that few edges give few alerts, not many.
    """
    if not 0 < false_alarms < 1:
        raise UsageError(
            f"a share of false alarms of {false_alarms:g} is not between 0 and 1",
            remedy="Set detection.false_alarms, for instance to 0.001.",
        )
    scores = np.asarray(validation_scores, dtype=np.float64).ravel()
    if not len(scores):
        raise GraphError(
            "there is no validation edge to learn a threshold from",
            remedy="Raise data.validation or data.train; check that the last training windows have events.",
        )
    if not np.isfinite(scores).all():
        raise DetectorError(
            "validation scores are not finite",
            remedy="The model has diverged: lower the learning rate, or bound the update norm.",
        )
    rank = min(len(scores), math.ceil((len(scores) + 1) * (1 - false_alarms)))
    return float(np.partition(scores, rank - 1)[rank - 1])
