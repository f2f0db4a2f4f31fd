"""What the cells of one process share: their data, and local trainings that are the same in several of them.

A silo's answer to a training task depends on its graph, its settings, the weights it starts from, its
optimiser's state and (seed, round) alone. Rules that differ only later ask the same in round 1; Entente and
Entente-UB ask the same until an update is cut; a method with an ensemble asks all that the method alone does.
What was computed once is answered again, bit for bit.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays, Bundle
from entente.config import Experiment, parse_experiment
from entente.federation.messages import Reply, Task, TrainTask, Update, ValidateTask
from entente.federation.silo import Silo
from entente.graphs.temporal import TemporalGraph
from entente.runtime.assembly import Dataset, load_dataset
from entente.runtime.participants import HONEST, Participants
from entente_lab.bench.gradients import Gradients

CAPACITY = 1 << 30
"""Bytes of remembered weights and optimiser states; the oldest go first."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a silo said, and what that left behind in it."""

    reply: Reply
    state: Bundle
    gradient: float

    @property
    def size(self) -> int:
        weights = self.reply.weights if isinstance(self.reply, Update) else {}
        return sum(array.nbytes for part in (weights, self.state.arrays) for array in part.values())


class Memory:
    """Answers by the question's digest, up to CAPACITY bytes."""

    def __init__(self) -> None:
        self.gradients = Gradients()
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._size = 0

    def get(self, question: str) -> Answer | None:
        found = self._answers.get(question)
        if found is not None:
            self._answers.move_to_end(question)
        return found

    def put(self, question: str, answer: Answer) -> None:
        self._answers[question] = answer
        self._size += answer.size
        while self._size > CAPACITY:
            self._size -= self._answers.popitem(last=False)[1].size


MEMORY = Memory()
"""Of this process; a cell's process ends with its family."""


class RememberingSilo:
    """A silo that asks MEMORY before it trains or validates."""

    def __init__(self, silo: Silo, settings: str) -> None:
        self._silo = silo
        parts = (
            settings,
            silo.name,
            silo.hosts,
            silo.seed,
            graph_digest(silo.graph),
            graph_digest(silo.later),
        )
        self._identity = repr(parts).encode()

    def handle(self, task: Task) -> Reply:
        if not isinstance(task, TrainTask | ValidateTask):
            return self._silo.handle(task)
        question = self._question(task)
        known = MEMORY.get(question)
        if known is None:
            known = self._ask(task)
            MEMORY.put(question, known)
        else:
            self._silo.restore(*known.state)
        MEMORY.gradients.largest = max(MEMORY.gradients.largest, known.gradient)
        return replace(known.reply, id=task.id)

    def state(self) -> Bundle:
        return self._silo.state()

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._silo.restore(facts, arrays)

    def _ask(self, task: Task) -> Answer:
        before, MEMORY.gradients.largest = MEMORY.gradients.largest, 0.0
        reply = self._silo.handle(task)
        largest, MEMORY.gradients.largest = MEMORY.gradients.largest, before
        return Answer(reply, self._silo.state(), largest)

    def _question(self, task: TrainTask | ValidateTask) -> str:
        facts, arrays = self._silo.state()
        asked = (
            task.kind,
            task.round,
            *((task.epochs, task.proximal, task.best) if isinstance(task, TrainTask) else ()),
        )
        whole = hashlib.sha256(self._identity + repr((asked, facts)).encode())
        for part in (task.weights, arrays):
            _add(whole, part)
        return whole.hexdigest()


def remembering(experiment: Experiment, dataset: Dataset, name: str) -> RememberingSilo:
    """Who plays a silo in a cell that shares its trainings."""
    silo = HONEST.build(experiment, dataset, name)
    assert isinstance(silo, Silo)
    return RememberingSilo(silo, experiment.detector.model_dump_json())


def sharing(dataset: Dataset) -> Participants:
    """All silos of the dataset, remembering."""
    return Participants(f"{__name__}:{remembering.__name__}", tuple(dataset.silos))


def shared_dataset(experiment: Experiment) -> Dataset:
    """`load_dataset`, which the next cell of the same data does not repeat."""
    kept = experiment.model_dump(mode="json", include={"mode", "data", "graph", "detector"})
    if kept["mode"] != "non-fl":
        kept["mode"] = "federated"
    return _load(json.dumps(kept))


@lru_cache(maxsize=1)
def _load(text: str) -> Dataset:
    return load_dataset(parse_experiment(json.loads(text)))


def graph_digest(graph: TemporalGraph | None) -> str:
    if graph is None:
        return ""
    whole = hashlib.sha256(repr((graph.table_size, graph.start, graph.width, graph.merged)).encode())
    _add(whole, arrays_of(graph))
    return whole.hexdigest()


def arrays_of(value: Any, name: str = "") -> dict[str, NDArray[Any]]:
    """All arrays in a value object, those of its parts included."""
    if isinstance(value, np.ndarray):
        return {name: value}
    parts = {field.name: getattr(value, field.name) for field in fields(value)} if is_dataclass(value) else {}
    found: dict[str, NDArray[Any]] = {}
    for key, part in parts.items():
        found |= arrays_of(part, f"{name}/{key}")
    return found


def _add(whole: Any, arrays: Arrays | Mapping[str, NDArray[Any]]) -> None:
    for name, array in sorted(arrays.items()):
        whole.update(f"{name} {array.dtype} {array.shape}".encode())
        whole.update(np.ascontiguousarray(array).data)
