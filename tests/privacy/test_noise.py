"""Clipping and noise as steps of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from entente.privacy.noise import clip, perturb

vectors = hnp.arrays(np.float32, 20, elements=st.floats(-1e3, 1e3, width=32))


@given(current=vectors, vector=vectors, bound=st.floats(0.1, 100))
@settings(deadline=None)
def test_a_clipped_update_lies_within_the_bound_and_keeps_its_direction(
    current: Any, vector: Any, bound: float
) -> None:
    clipped, norm = clip(vector, current, bound)
    delta, given_ = clipped.astype(np.float64) - current, vector.astype(np.float64) - current
    rounding = float(np.linalg.norm(np.spacing(np.abs(current) + np.float32(bound))))
    assert norm == pytest.approx(np.linalg.norm(given_))
    assert np.linalg.norm(delta) <= bound + rounding
    if norm <= bound:
        assert clipped is vector
    else:
        np.testing.assert_allclose(delta, given_ * (bound / norm), atol=1e-3 + 2 * rounding)


def test_noise_has_the_deviation_that_was_asked_for() -> None:
    model = np.full(200_000, 3.0, dtype=np.float32)
    noise = perturb(model, 0.5, np.random.default_rng(0)) - model
    assert noise.mean() == pytest.approx(0, abs=0.01)
    assert noise.std() == pytest.approx(0.5, rel=0.01)


def test_noise_is_added_to_the_model_and_does_not_replace_it() -> None:
    model = np.arange(1000, dtype=np.float32)
    assert np.corrcoef(perturb(model, 1.0, np.random.default_rng(0)), model)[0, 1] > 0.99
