"""The shape of a cheating silo: from outside it is one more silo."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays, Bundle
from entente.detectors import create
from entente.detectors.base import Detector
from entente.federation.messages import Reply, Task, TrainTask, Update
from entente.federation.own_weights import OwnWeights
from entente.federation.silo import Silo
from entente.graphs.temporal import TemporalGraph
from entente_lab.attacks.options import Attack
from entente_lab.attacks.poison import Pairs, malicious_pairs

SHADOWS = 2
"""Imagined colleagues; each costs the attacker one more training per round."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What a cheating silo has: its own data, what it will do in the test, and who is in it with it."""

    silo: str
    detector: Detector
    graph: TemporalGraph
    hosts: int
    seed: int
    future: TemporalGraph
    colluders: tuple[str, ...]
    later: TemporalGraph | None = None

    @property
    def place(self) -> int:
        """This silo's number among the colluders."""
        return self.colluders.index(self.silo)

    def rng(self, *more: int) -> np.random.Generator:
        """Randomness of its own, the same whenever it is asked for."""
        return np.random.default_rng([self.seed, 7919, self.place, *more])


class Attacker(ABC):
    """A silo that is honest until `from_round` and cheats from then on.

    A new attack overrides one or more of `targets`, `poison`, `craft` and `handle`. It keeps no memory
    of its own between rounds, so that a run with it can be resumed like any other.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, config: Attack, scene: Scene) -> None:
        self.config = config
        self.scene = scene
        self.poisoned = self.poison(scene.graph)
        self._colleagues: dict[int, tuple[TemporalGraph, Detector]] = {}
        self._silo = Silo(scene.silo, scene.detector, scene.graph, scene.hosts, scene.seed, scene.later)

    @property
    def injected(self) -> int:
        """Edges that it added to its training graph, over all windows."""
        return self.poisoned.num_edges - self.scene.graph.num_edges

    @property
    def poisoned_windows(self) -> int:
        """Training windows that it adds edges to."""
        return 0

    def targets(self) -> Pairs:
        """The malicious pairs this silo works for."""
        return malicious_pairs(self.scene.future)

    def poison(self, graph: TemporalGraph) -> TemporalGraph:
        """The graph it trains on once it cheats."""
        return graph

    def craft(self, task: TrainTask, update: Update) -> Update:
        """What it sends instead of the update it trained."""
        return update

    def handle(self, task: Task) -> Reply:
        cheats = isinstance(task, TrainTask) and task.round >= self.config.from_round
        # One silo for both faces: the optimiser's memory goes on, whatever it trains on.
        self._silo.graph = self.poisoned if cheats else self.scene.graph
        reply = self._silo.handle(task)
        if cheats and isinstance(task, TrainTask) and isinstance(reply, Update):
            return self.craft(task, reply)
        return reply

    def state(self) -> Bundle:
        return self._silo.state()

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._silo.restore(facts, arrays)

    def shadows(self, task: TrainTask, count: int) -> list[Arrays]:
        """Steps of imagined colleagues: each has a random half of the own edges and keeps it over the rounds.

        They start with the optimiser state that the own round started with, so that their steps are as
        long as those of silos that have been at it for as many rounds.
        """
        prefix = "before/"
        own = OwnWeights.of(self.state()[1])
        before = {k.removeprefix(prefix): a for k, a in self.state()[1].items() if k.startswith(prefix)}
        found = []
        for k in range(count):
            half, detector = self._colleague(k)
            detector.load_optimiser_state(before)
            detector.load_weights(task.weights)
            detector.load_own_weights(own.after(task.round - 1))
            detector.train(half, task.epochs, self.scene.rng(task.round, k), task.proximal)
            found.append(difference(detector.weights(), task.weights))
        return found

    def _colleague(self, k: int) -> tuple[TemporalGraph, Detector]:
        """Made from the seed when first asked for, so that nothing has to survive a restart."""
        if k not in self._colleagues:
            own, graph = self.scene.detector, self.scene.graph
            half = graph.select(self.scene.rng(0, k).random(graph.num_edges) < 0.5)
            self._colleagues[k] = half, create(own.config, own.shape, self.scene.seed)
        return self._colleagues[k]

    def estimate(self, task: TrainTask, update: Update) -> NDArray[np.float64]:
        """What it believes the honest steps of this round to be, one per line: its own and two shadows'."""
        own = difference(update.weights, task.weights)
        return np.stack([flat(own), *(flat(step) for step in self.shadows(task, SHADOWS))])


def difference(weights: Arrays, start: Arrays) -> Arrays:
    """The step from `start` to `weights`."""
    return {name: weights[name] - start[name] for name in start}


def norm(step: Arrays) -> float:
    return float(np.sqrt(sum(float((a.astype(np.float64) ** 2).sum()) for a in step.values())))


def stretched(step: Arrays, length: float) -> Arrays:
    """The same direction with another length; a step of no length stays where it is."""
    own = norm(step)
    return {name: a * np.float32(length / own) for name, a in step.items()} if own > 0 else step


def sent(task: TrainTask, update: Update, step: Arrays, factor: float = 1.0) -> Update:
    """The update with w_i + factor * step as its weights; too large a factor gives infinities."""
    with np.errstate(over="ignore", invalid="ignore"):
        weights = {name: (a + factor * step[name]).astype(np.float32) for name, a in task.weights.items()}
    return replace(update, weights=weights)


def scaled(config: Attack, task: TrainTask, update: Update) -> Update:
    """gamma x ClientUpdate, in either reading: of the difference (default) or of the weights."""
    if config.scaling == "weights":
        with np.errstate(over="ignore"):
            weights = {name: (config.gamma * a).astype(np.float32) for name, a in update.weights.items()}
        return replace(update, weights=weights)
    return sent(task, update, difference(update.weights, task.weights), config.gamma)


def flat(step: Arrays) -> NDArray[np.float64]:
    return np.concatenate([step[name].reshape(-1) for name in sorted(step)]).astype(np.float64)


def unflat(vector: NDArray[np.float64], like: Arrays) -> Arrays:
    """A vector as `flat` makes it, cut into arrays shaped like those of `like`."""
    found, at = {}, 0
    for name in sorted(like):
        found[name] = vector[at : at + like[name].size].reshape(like[name].shape).astype(np.float32)
        at += like[name].size
    return found
