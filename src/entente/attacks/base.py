"""The shape of a cheating silo: from outside it is one more silo."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.attacks.poison import Pairs, malicious_pairs
from entente.config import Attack
from entente.detectors import create
from entente.detectors.base import Detector
from entente.federation.messages import Reply, Task, TrainTask, Update
from entente.federation.silo import Silo
from entente.graphs.temporal import TemporalGraph


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

    @property
    def place(self) -> int:
        """This silo's number among the colluders."""
        return self.colluders.index(self.silo)

    def rng(self, *more: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, 7919, self.place, *more])


class Attacker(ABC):
    """A silo that is honest until `from_round` and cheats from then on."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, config: Attack, scene: Scene) -> None:
        self.config = config
        self.scene = scene
        self.honest = Silo(scene.silo, scene.detector, scene.graph, scene.hosts, scene.seed)
        poisoned = self.poison(scene.graph)
        self.injected = poisoned.num_edges - scene.graph.num_edges
        self.trainer = (
            self.honest
            if poisoned is scene.graph
            else Silo(scene.silo, scene.detector, poisoned, scene.hosts, scene.seed)
        )

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
        if not isinstance(task, TrainTask) or task.round < self.config.from_round:
            return self.honest.handle(task)
        update = self.trainer.handle(task)
        return self.craft(task, update) if isinstance(update, Update) else update

    def state(self) -> tuple[dict[str, Any], Arrays]:
        return self.trainer.state()

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.trainer.restore(facts, arrays)

    def shadows(self, task: TrainTask, count: int) -> list[Arrays]:
        """Honest updates of imagined colleagues: the own data, trained with other randomness."""
        found = []
        for k in range(count):
            detector = create(self.scene.detector.config, self.scene.detector.shape, self.scene.seed)
            silo = Silo(
                self.scene.silo, detector, self.scene.graph, self.scene.hosts, self.scene.seed + 1 + k
            )
            reply = silo.handle(task)
            if isinstance(reply, Update):
                found.append(difference(reply.weights, task.weights))
        return found


def difference(weights: Arrays, start: Arrays) -> Arrays:
    return {name: weights[name] - start[name] for name in start}


def norm(update: Arrays) -> float:
    return float(np.sqrt(sum(float((a.astype(np.float64) ** 2).sum()) for a in update.values())))


def moved(start: Arrays, update: Arrays, factor: float = 1.0) -> Arrays:
    """start + factor * update, as float32; too large a factor gives infinities."""
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: (start[name] + factor * update[name]).astype(np.float32) for name in start}


def scaled(config: Attack, task: TrainTask, update: Update) -> Update:
    """gamma x ClientUpdate, in either reading: of the difference (default) or of the weights."""
    if config.scaling == "weights":
        weights = {name: (config.gamma * a).astype(np.float32) for name, a in update.weights.items()}
    else:
        weights = moved(task.weights, difference(update.weights, task.weights), config.gamma)
    return replace(update, weights=weights)


def flat(update: Arrays) -> NDArray[np.float64]:
    return np.concatenate([update[name].reshape(-1) for name in sorted(update)]).astype(np.float64)


def unflat(vector: NDArray[np.float64], like: Arrays) -> Arrays:
    found, at = {}, 0
    for name in sorted(like):
        found[name] = vector[at : at + like[name].size].reshape(like[name].shape).astype(np.float32)
        at += like[name].size
    return found
