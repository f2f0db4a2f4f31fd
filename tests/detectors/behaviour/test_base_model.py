"""The base model beside trained weights: where training begins, and how far it can go."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from entente.detectors.base import GraphShape
from entente.detectors.behaviour.base_model import base_weights
from entente.detectors.behaviour.detector import Behaviour
from entente.detectors.behaviour.features import NAMES
from entente.detectors.behaviour.network import STRAY, Forward
from entente.detectors.behaviour.options import BehaviourOptions


def features(seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.random.default_rng(seed).uniform(-5, 5, (200, len(NAMES))).astype(np.float32)


def test_training_begins_with_the_base_model_and_scores_are_its_own_then() -> None:
    detector = Behaviour(BehaviourOptions(), GraphShape(1), 3)
    base = base_weights()
    assert all(np.array_equal(detector.weights()[name], base[name]) for name in base)
    assert np.array_equal(Forward(detector.weights(), base)(features(0)), Forward(base)(features(0)))


@pytest.mark.parametrize("scale", [1.0, -1.0, 1e6, -1e18, float("inf"), float("nan")])
def test_no_weights_move_a_score_by_more_than_the_bound(scale: float) -> None:
    base = base_weights()
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        handed = {
            name: (rng.standard_normal(array.shape) * scale).astype(np.float32)
            for name, array in base.items()
        }
    with np.errstate(all="ignore"):
        moved = Forward(handed, base)(features(2)) - Forward(base)(features(2))
    assert np.abs(moved).max() <= STRAY / 2 + 1e-4


def test_without_it_what_is_trained_alone_decides() -> None:
    detector = Behaviour(BehaviourOptions(base=False, hidden=8), GraphShape(1), 3)
    assert detector.weights()["first.bias"].shape == (8,)


def test_a_width_that_the_base_model_does_not_have_is_refused() -> None:
    with pytest.raises(ValidationError, match="hidden must be 64 with the base model; set base = false"):
        BehaviourOptions(hidden=8)
