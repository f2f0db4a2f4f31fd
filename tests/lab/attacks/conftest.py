"""A federation of four small silos, any of which may cheat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from entente.config import Federation, Privacy, aggregation_options
from entente.detectors import create
from entente.detectors.base import GraphShape
from entente.detectors.euler.options import EulerOptions
from entente.errors import EntenteError
from entente.federation.aggregators.base import Layout
from entente.federation.coordinator import Coordinator
from entente.federation.messages import Reply, Task, pack, unpack
from entente.federation.records import RoundRecord
from entente.federation.silo import Silo
from entente.graphs.temporal import TemporalGraph
from entente_lab.attacks import corrupt
from entente_lab.attacks.options import Attack

NODES, WINDOWS, EDGES = 14, 6, 12
SHAPE = GraphShape(NODES)
EULER = EulerOptions(hidden=4, embedding=3)
NAMES = ("a", "b", "c", "d")


def random_graph(
    seed: int, *, windows: int = WINDOWS, malicious: int = 0, merged: bool = True
) -> TemporalGraph:
    """Distinct pairs per window, sorted; the first `malicious` edges of each window are labelled."""
    rng = np.random.default_rng(seed)
    pairs = [np.sort(rng.choice(NODES * (NODES - 1), EDGES, replace=False)) for _ in range(windows)]
    codes = np.concatenate(pairs)
    src, other = codes // (NODES - 1), codes % (NODES - 1)
    dst = other + (other >= src)
    label = np.tile((np.arange(EDGES) < malicious).astype(np.uint8), windows)
    return TemporalGraph(
        rows=np.arange(NODES, dtype=np.int32)[:, None],
        table_size=NODES,
        start=0,
        width=1_000_000,
        offsets=np.arange(windows + 1, dtype=np.int64) * EDGES,
        src=src.astype(np.int32),
        dst=dst.astype(np.int32),
        time=np.repeat(np.arange(windows, dtype=np.int64) * 1_000_000, EDGES),
        weight=np.ones(len(src), dtype=np.float32),
        label=label if malicious else None,
        merged=merged,
    )


def detector(seed: int = 0) -> Any:
    return create(EULER, SHAPE, seed)


def cheat(attack: Attack, name: str = "d", seed: int = 0) -> Any:
    """One silo of the federation below, under an attack."""
    graph, future = random_graph(NAMES.index(name)), random_graph(90, windows=2, malicious=3)
    return corrupt(attack, name, detector(seed), graph, 10, seed, future=future)


class Arena:
    """Coordinator and silos in one process; messages cross as packed facts and arrays."""

    def __init__(
        self,
        attack: Attack | None = None,
        *,
        rounds: int = 4,
        seed: int = 0,
        rule: Mapping[str, Any] | None = None,
    ) -> None:
        aggregation = aggregation_options({"rule": "entente"} | dict(rule or {}))
        self.config = Federation(aggregation=aggregation, rounds=rounds)
        self.attack, self.seed = attack, seed
        self.coordinator = self.new_coordinator()
        self.silos = {name: self.new_silo(name) for name in NAMES}
        self.records: list[RoundRecord] = []
        self.models: list[np.ndarray] = []

    def new_coordinator(self) -> Coordinator:
        model = detector(self.seed)
        return Coordinator(
            self.config, Privacy(), Layout.of(model), model.weights(), NAMES, self.seed, "euler"
        )

    def new_silo(self, name: str) -> Any:
        if self.attack is not None and name in self.attack.silos:
            return cheat(self.attack, name, self.seed)
        return Silo(name, detector(self.seed), random_graph(NAMES.index(name)), 10, self.seed)

    def ask(self, task: Task) -> tuple[list[Reply], dict[str, str]]:
        replies: list[Any] = []
        failures: dict[str, str] = {}
        for name, silo in self.silos.items():
            try:
                replies.append(unpack(*pack(silo.handle(unpack(*pack(task))))))
            except EntenteError as error:
                failures[name] = error.what
        return replies, failures

    def step(self) -> bool:
        task = self.coordinator.next_task()
        if task is None:
            return False
        record = self.coordinator.conclude(*self.ask(task))
        if record is not None:
            self.records.append(record)
        self.models.append(self.coordinator.layout.flatten(self.coordinator.weights))
        return True

    def run(self) -> Arena:
        while self.step():
            pass
        return self


@pytest.fixture
def arena() -> type[Arena]:
    return Arena
