"""What scores with a detector and something beside it: everything but the scores is the detector's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.detectors.base import Detector, State, Training, Validation
from entente.graphs.temporal import TemporalGraph


class Wrapper(Detector):
    """Trained, weighed and sent as the model alone; a subclass says what is scored and remembered."""

    def __init__(self, model: Detector) -> None:
        self.model = model
        self.config = model.config
        self.shape = model.shape

    @property
    def components(self) -> dict[str, tuple[str, ...]]:
        return self.model.components

    @property
    def identity_tables(self) -> tuple[str, ...]:
        return self.model.identity_tables

    def weights(self) -> Arrays:
        return self.model.weights()

    def load_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self.model.load_weights(weights)

    def own_weights(self) -> Arrays:
        return self.model.own_weights()

    def load_own_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self.model.load_own_weights(weights)

    def train(
        self, graph: TemporalGraph, epochs: int, rng: np.random.Generator, proximal: float = 0.0
    ) -> Training:
        return self.model.train(graph, epochs, rng, proximal)

    def validate(self, graph: TemporalGraph, rng: np.random.Generator) -> Validation:
        return self.model.validate(graph, rng)

    def optimiser_state(self) -> Arrays:
        return self.model.optimiser_state()

    def load_optimiser_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.model.load_optimiser_state(state)


def parts(state: State, prefix: str) -> tuple[State, State]:
    """The state of the model, and of what stands beside it: the names that begin with `prefix`."""
    own = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
    return {name: array for name, array in state.items() if not name.startswith(prefix)}, own


def joined(of_model: State, own: State, prefix: str) -> State:
    """The other way round."""
    return of_model | {prefix + name: array for name, array in own.items()}
