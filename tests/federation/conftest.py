"""A detector small enough to follow by hand, and a loop that drives coordinator and silos."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from entente.config import Federation, Privacy, aggregation_options
from entente.detectors.base import Detector, GraphShape, Training, Validation
from entente.errors import EntenteError
from entente.federation.aggregators.base import Layout
from entente.federation.coordinator import Coordinator
from entente.federation.messages import Reply, Task, pack, unpack
from entente.federation.records import RoundRecord
from entente.federation.silo import Silo
from entente.graphs.temporal import TemporalGraph


class Pull(Detector):
    """Weights are pulled towards the mean source and target of the silo's edges, with momentum and noise."""

    name = "pull"
    summary = "for tests"

    def __init__(self, size: int = 6, rate: float = 0.3) -> None:
        self.config: Any = None
        self.shape, self.rate = GraphShape(size), rate
        self._weights = {
            "enc.table": np.zeros((size, 2), dtype=np.float32),
            "temp.gate": np.ones(3, dtype=np.float32),
        }
        self._momentum: dict[str, Any] = {}

    @property
    def components(self) -> dict[str, tuple[str, ...]]:
        return {"ENC": ("enc.table",), "TEMP": ("temp.gate",)}

    @property
    def identity_tables(self) -> tuple[str, ...]:
        return ("enc.table",)

    def weights(self) -> dict[str, Any]:
        return {name: array.copy() for name, array in self._weights.items()}

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        self._weights = {name: np.array(array, dtype=np.float32) for name, array in weights.items()}

    def train(
        self, graph: TemporalGraph, epochs: int, rng: np.random.Generator, proximal: float = 0.0
    ) -> Training:
        anchor = {name: array.copy() for name, array in self._weights.items()}
        for _ in range(epochs):
            for name, array in self._weights.items():
                goal = np.full(array.shape, graph.src.mean() / 4 - graph.dst.mean() / 8 + 0.5)
                gradient = array - goal + 0.01 * rng.normal(size=array.shape)
                gradient += 20 * proximal * (array - anchor[name])
                momentum = 0.5 * self._momentum.get(name, 0.0) + gradient
                self._momentum[name] = momentum.astype(np.float32)
                self._weights[name] = (array - self.rate * momentum).astype(np.float32)
        loss = float(sum(np.square(w - graph.src.mean() / 4).sum() for w in self._weights.values()))
        return Training(loss, graph.num_edges, 0.0)

    def validate(self, graph: TemporalGraph, rng: np.random.Generator) -> Validation:
        quality = 1 / (1 + float(np.square(self._weights["temp.gate"].astype(np.float64) - 0.7).sum()))
        return Validation(quality, quality, graph.num_edges)

    def initial_state(self, graph: TemporalGraph) -> dict[str, Any]:
        return {}

    def score(self, graph: TemporalGraph, state: Any, candidates: Any = None) -> Any:
        return np.zeros(graph.num_edges, dtype=np.float32), state

    def optimiser_state(self) -> dict[str, Any]:
        return {name: array.copy() for name, array in self._momentum.items()}

    def load_optimiser_state(self, state: Mapping[str, Any]) -> None:
        self._momentum = {name: np.array(array) for name, array in state.items()}


class PullAtHome(Pull):
    """Pull whose table never leaves the silo; a model is the better the nearer both parts are to a goal."""

    @property
    def components(self) -> dict[str, tuple[str, ...]]:
        return {"TEMP": ("temp.gate",)}

    @property
    def identity_tables(self) -> tuple[str, ...]:
        return ()

    def weights(self) -> dict[str, Any]:
        return {"temp.gate": self._weights["temp.gate"].copy()}

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        self._weights["temp.gate"] = np.array(weights["temp.gate"], dtype=np.float32)

    def own_weights(self) -> dict[str, Any]:
        return {"enc.table": self._weights["enc.table"].copy()}

    def load_own_weights(self, weights: Mapping[str, Any]) -> None:
        self._weights["enc.table"] = np.array(weights["enc.table"], dtype=np.float32)

    def validate(self, graph: TemporalGraph, rng: np.random.Generator) -> Validation:
        table = self._weights["enc.table"].astype(np.float64)
        quality = super().validate(graph, rng).ap / (1 + float(np.square(table - 0.3).sum()))
        return Validation(quality, quality, graph.num_edges)


def small_graph(seed: int, nodes: int = 6, edges: int = 12) -> TemporalGraph:
    rng = np.random.default_rng(seed)
    return TemporalGraph(
        rows=np.arange(nodes, dtype=np.int32)[:, None],
        table_size=nodes,
        start=0,
        width=1,
        offsets=np.array([0, edges]),
        src=rng.integers(0, nodes, edges).astype(np.int32),
        dst=rng.integers(0, nodes, edges).astype(np.int32),
        time=np.zeros(edges, dtype=np.int64),
        weight=np.ones(edges, dtype=np.float32),
    )


class Federated:
    """Coordinator and silos in one process; messages cross as packed facts and arrays."""

    def __init__(
        self,
        silos: int = 4,
        rule: str = "entente",
        privacy: Privacy | None = None,
        seed: int = 7,
        options: Mapping[str, Any] | None = None,
        detector: str = "pull",
        **settings: Any,
    ) -> None:
        self.detector = {"pull": Pull, "at home": PullAtHome}[detector]
        aggregation = aggregation_options({"rule": rule, **(options or {})})
        self.config = Federation(aggregation=aggregation, **({"rounds": 4} | settings))
        self.privacy, self.seed = privacy or Privacy(), seed
        self.names = [f"s{k}" for k in range(silos)]
        self.coordinator = self.new_coordinator()
        self.silos = {name: self.new_silo(name) for name in self.names}
        self.records: list[RoundRecord] = []

    def new_coordinator(self) -> Coordinator:
        model = self.detector()
        return Coordinator(
            self.config, self.privacy, Layout.of(model), model.weights(), self.names, self.seed, "euler"
        )

    def new_silo(self, name: str) -> Silo:
        number = int(name[1:])
        return Silo(name, self.detector(), small_graph(number), hosts=3 + number, seed=self.seed)

    def ask(self, task: Task) -> tuple[list[Reply], dict[str, str]]:
        replies, failures = [], {}
        for name, silo in self.silos.items():
            try:
                asked: Any = unpack(*pack(task))
                answer: Any = unpack(*pack(silo.handle(asked)))
                replies.append(answer)
            except EntenteError as error:
                failures[name] = error.what
        return replies, failures

    def step(self, tamper: Callable[[Task, list[Reply]], list[Reply]] | None = None) -> bool:
        task = self.coordinator.next_task()
        if task is None:
            return False
        replies, failures = self.ask(task)
        record = self.coordinator.conclude(tamper(task, replies) if tamper else replies, failures)
        if record is not None:
            self.records.append(record)
        return True

    def run(self, tamper: Callable[[Task, list[Reply]], list[Reply]] | None = None) -> Federated:
        while self.step(tamper):
            pass
        return self


@pytest.fixture
def federated() -> type[Federated]:
    return Federated
