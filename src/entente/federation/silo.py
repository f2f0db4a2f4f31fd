"""A silo's half of the protocol: answers tasks, keeps logs, keys and optimiser state at home."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays, Bundle
from entente.detectors.base import Detector, Validation
from entente.errors import FederationError, RefusedError
from entente.federation.messages import (
    CountReply,
    CountTask,
    KeyReply,
    KeyTask,
    Reply,
    SketchReply,
    SketchTask,
    Task,
    TrainTask,
    Update,
    ValidateReply,
    ValidateTask,
)
from entente.federation.own_weights import OwnWeights
from entente.federation.reference import barabasi_albert
from entente.federation.sketch import jaccard, sketch
from entente.graphs.temporal import TemporalGraph
from entente.privacy.secure_sum import Mask

ENOUGH = 100
"""Edges that later windows must have for a validation on them."""


class Participant(Protocol):
    """A silo, honest or not: what a runtime needs of it."""

    def handle(self, task: Task) -> Reply: ...

    def state(self) -> Bundle: ...

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None: ...


class Silo:
    """One silo with its detector and training graph; `hosts` counts the hosts it owns.

    A model is validated on the windows `later`, which nothing is trained on; where they have too few
    edges to tell one round from another, on the edges that the detector itself holds out of `graph`.

    The same task gives the same reply, bit for bit: randomness depends on (seed, name, round) alone,
    and a round asked for again starts from the optimiser state and the own weights that it started from
    the first time.
    """

    def __init__(
        self,
        name: str,
        detector: Detector,
        graph: TemporalGraph,
        hosts: int,
        seed: int,
        later: TemporalGraph | None = None,
    ) -> None:
        self.name = name
        self.detector = detector
        self.graph = graph
        self.hosts = hosts
        self.seed = seed
        self.later = later
        self._mask: Mask | None = None
        self._round = 0  # the last round trained
        self._before = detector.optimiser_state()  # as that round found it
        self._own = OwnWeights(detector.own_weights())

    def handle(self, task: Task) -> Reply:
        """The answer to any task; FederationError if this silo cannot give it."""
        if isinstance(task, KeyTask):
            self._mask = Mask()
            return KeyReply(task.id, self.name, key=self._mask.public_key)
        if isinstance(task, CountTask):
            return CountReply(task.id, self.name, count=self._count(task.keys))
        if isinstance(task, SketchTask):
            return self._compare(task)
        if isinstance(task, TrainTask):
            return self._train(task)
        if isinstance(task, ValidateTask):
            self._load(task.weights, task.round)
            found = self._validate()
            return ValidateReply(
                task.id, self.name, round=task.round, ap=found.ap, auc=found.auc, edges=found.edges
            )
        raise RefusedError(f"silo {self.name!r} knows no task of kind {task.kind!r}")

    def _count(self, keys: Mapping[str, str]) -> int:
        if not keys:
            return self.hosts
        mask, self._mask = self._mask, None
        if mask is None:
            raise FederationError(
                f"silo {self.name!r} has no key for this sum; it was restarted since or has used it"
            )
        return mask.apply(self.hosts, self.name, keys)

    def _compare(self, task: SketchTask) -> SketchReply:
        similarity = 0.0
        if task.similarity:
            reference = sketch(*barabasi_albert(task.hosts, task.m, task.seed), task.labels, task.iterations)
            own = sketch(self.graph.src, self.graph.dst, task.labels, task.iterations)
            similarity = jaccard(own, reference)
        share = min(1.0, self.hosts / max(1, task.hosts)) if task.share else 0.0
        return SketchReply(task.id, self.name, similarity=similarity, share=share)

    def _train(self, task: TrainTask) -> Update:
        if task.round < self._round:
            raise FederationError(
                f"silo {self.name!r} has trained round {self._round}, it cannot go back to {task.round}",
                remedy="Resume coordinator and silos from the same run.",
            )
        if task.round == self._round:
            self.detector.load_optimiser_state(self._before)
        else:
            self._before = self.detector.optimiser_state()
            self._round = task.round
        self._load(task.weights, task.round)
        found = self._validate()
        trained = self.detector.train(
            self.graph, task.epochs, self._generator("train", task.round), task.proximal
        )
        self._own.keep(task.round, self.detector.own_weights(), task.best)
        return Update(
            task.id,
            self.name,
            round=task.round,
            loss=trained.loss,
            ap=found.ap,
            auc=found.auc,
            edges=found.edges,
            seconds=trained.seconds,
            weights=self.detector.weights(),
        )

    def _load(self, weights: Arrays, round_: int) -> None:
        """Take the model that a round begins with, and what this silo had then."""
        self.detector.load_weights(weights)
        self.detector.load_own_weights(self._own.after(round_ - 1))

    def _validate(self) -> Validation:
        # The same non-edges or campaigns every round: rounds are compared with each other.
        rng = self._generator("validate", 0)
        if self.later is not None and self.later.num_edges >= ENOUGH:
            found = self.detector.validate_later(self.graph, self.later, rng)
        else:
            found = self.detector.validate(self.graph, rng)
        if found.edges < 1 or not (math.isfinite(found.ap) and math.isfinite(found.auc)):
            return Validation(0.0, 0.0, 0)
        return found

    def _generator(self, purpose: str, round_: int) -> np.random.Generator:
        digest = hashlib.sha256(f"{purpose}\0{self.name}".encode()).digest()
        words = np.frombuffer(digest, dtype="<u4").tolist()
        return np.random.default_rng([self.seed, round_, *words])

    def state(self) -> Bundle:
        """What has to survive a restart: the optimiser's state around the last round, and what is trained and
        never sent. Keys never do."""
        after = self.detector.optimiser_state()
        arrays = {f"before/{name}": array for name, array in self._before.items()}
        arrays |= {f"after/{name}": array for name, array in after.items()}
        return Bundle({"silo": self.name, "round": self._round}, arrays | self._own.arrays())

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        if facts.get("silo") != self.name:
            raise FederationError(f"state of silo {facts.get('silo')!r} given to silo {self.name!r}")
        self._round = int(facts["round"])
        self._before = _under("before/", arrays)
        self._own = OwnWeights.of(arrays)
        self.detector.load_optimiser_state(_under("after/", arrays))


def _under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
