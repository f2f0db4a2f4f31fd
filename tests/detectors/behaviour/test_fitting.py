"""Training by hand against autograd and torch's own Adam."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from entente.detectors.base import GraphShape
from entente.detectors.behaviour.detector import Behaviour
from entente.detectors.behaviour.features import NAMES
from entente.detectors.behaviour.fitting import Fit, Fitter
from entente.detectors.behaviour.options import BehaviourOptions
from entente.detectors.behaviour.training import Examples


def drawn(count: int = 1300) -> Examples:
    rng = np.random.default_rng(3)
    return Examples(
        rng.standard_normal((count, len(NAMES))).astype(np.float32),
        rng.random(count) < 0.2,
        rng.uniform(0.2, 3.0, count).astype(np.float32),
    )


def by_autograd(detector: Behaviour, examples: Examples, plan: Fit, rng: np.random.Generator) -> float:
    """The plain version: one graph per step, torch's loss, torch's optimiser."""
    features, weight = torch.from_numpy(examples.features), torch.from_numpy(examples.weight)
    truth = torch.from_numpy(examples.positive.astype(np.float32))
    anchor, total = detector.anchor(), 0.0
    for _ in range(plan.epochs):
        total = 0.0
        for batch in torch.split(torch.from_numpy(rng.permutation(len(examples))), plan.batch):
            each = nn.functional.binary_cross_entropy_with_logits(
                detector.module(features[batch]), truth[batch], weight[batch], reduction="sum"
            )
            loss = each / len(batch) + detector.proximal_term(anchor, plan.proximal)
            detector.optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            detector.optimiser.step()
            total += float(each.detach())
    return total / len(examples)


@pytest.mark.parametrize("proximal", [0.0, 0.5])
def test_a_fit_by_hand_is_that_of_autograd_and_adam(proximal: float) -> None:
    plan, examples = Fit(3, 256, 0.003, proximal), drawn()
    plain = Behaviour(BehaviourOptions(base=False, lr=plan.lr), GraphShape(1), 5)
    for _ in range(2):  # the second time Adam has a memory
        fitter = Fitter(plain.weights(), plain.optimiser_state())
        loss = fitter.fit(examples, plan, np.random.default_rng(8))
        assert loss == pytest.approx(by_autograd(plain, examples, plan, np.random.default_rng(8)), rel=1e-4)
        for name, array in plain.weights().items():
            np.testing.assert_allclose(fitter.weights()[name], array, atol=2e-5, err_msg=name)
        for name, array in plain.optimiser_state().items():
            np.testing.assert_allclose(fitter.memory()[name], array, atol=2e-5, err_msg=name)


def test_a_fit_is_the_same_bits_whenever_it_is_made() -> None:
    examples, found = drawn(), []
    for _ in range(2):
        detector = Behaviour(BehaviourOptions(base=False), GraphShape(1), 5)
        fitter = Fitter(detector.weights(), {})
        fitter.fit(examples, Fit(2, 512, 0.003), np.random.default_rng(1))
        found.append(fitter.weights())
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])
