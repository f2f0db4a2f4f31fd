"""What suspicion costs beside the rest of the behaviour detector's scoring, and whether memory stays flat.

    python benchmarks/second_stage.py [--lanl DIR] [--seed 0] [--windows 3000] [--quick]

Processor seconds of `Detector.score` over a whole log with the base model, three times, the median; of these
the part that is spent inside `Suspicion`. Then 2,000 hosts with 1,000 edges in half an hour, a twentieth of
them random and the rest habits, scored night after night for `--windows` half hours: bytes of the state of
suspicion and of all states, and the memory that the process holds, after each sixth. Pairs are forgotten
after 30 days, 1,440 windows. DIR is as in planted_campaigns.py.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from entente.config import detector_options, parse_experiment
from entente.detectors import create
from entente.detectors.base import GraphShape
from entente.detectors.suspicion import Suspicion
from entente.graphs.temporal import TemporalGraph
from entente.logs.events import write_events
from entente.runtime.assembly import load_dataset
from planted_campaigns import REPLAY, WINDOW, read_log

PARTS = ("__init__", "state", "fade", "raised", "learn", "risen")
NIGHT = 48


@contextmanager
def timed() -> Iterator[list[float]]:
    """Processor seconds inside `Suspicion`, one number for each call."""
    spent: list[float] = []

    def around(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            began = time.process_time()
            found = method(*values)
            spent.append(time.process_time() - began)
            return found

        return call

    with ExitStack() as stack:
        for name in PARTS:
            stack.enter_context(mock.patch.object(Suspicion, name, around(getattr(Suspicion, name))))
        yield spent


def parts_of(name: str, seed: int, lanl: Path | None, quick: bool) -> tuple[TemporalGraph, ...]:
    events, end = read_log(name, seed, lanl, quick)
    with tempfile.TemporaryDirectory() as scratch:
        write_events(events, Path(scratch) / "events")
        data = {"events": str(Path(scratch) / "events"), "start": 0.0, "train": end}
        experiment = parse_experiment({"mode": "non-fl", "data": data, "detector": {"name": "behaviour"}})
        (silo,) = load_dataset(experiment).silos.values()
    return silo.train, silo.validation, silo.test


def share(parts: tuple[TemporalGraph, ...], accounts: bool) -> tuple[float, float]:
    """Processor seconds of scoring, and the part of them inside suspicion; of three runs the middle one."""
    options = detector_options({"name": "behaviour", "accounts": accounts})
    detector, found = create(options, GraphShape(parts[0].table_size), 0), []
    for _ in range(3):
        state = detector.initial_state(parts[0])
        with timed() as spent:
            began = time.process_time()
            for part in parts:
                _, state = detector.score(part, state)
            found.append((time.process_time() - began, sum(spent)))
    return sorted(found, key=lambda pair: pair[1] / pair[0])[1]


def held_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def night(number: int, hosts: int, edges: int) -> TemporalGraph:
    """A day of habits and a twentieth of random pairs."""
    habits = np.random.default_rng(0).integers(0, hosts * hosts, 4 * edges)
    rng = np.random.default_rng([1, number])
    keys = []
    for _ in range(NIGHT):
        drawn = np.where(
            rng.random(edges) < 0.05, rng.integers(0, hosts * hosts, edges), rng.choice(habits, edges)
        )
        keys.append(np.unique(drawn[drawn // hosts != drawn % hosts]))
    offsets, key = np.cumsum([0, *map(len, keys)]), np.concatenate(keys)
    start = number * NIGHT * WINDOW
    return TemporalGraph(
        rows=np.arange(hosts, dtype=np.int32)[:, None],
        table_size=hosts,
        start=start,
        width=WINDOW,
        offsets=offsets,
        src=(key // hosts).astype(np.int32),
        dst=(key % hosts).astype(np.int32),
        time=start + WINDOW * np.repeat(np.arange(NIGHT), np.diff(offsets)),
        weight=np.ones(len(key), dtype=np.float32),
    )


def nights(windows: int, quick: bool) -> list[tuple[int, int, int, float]]:
    """Windows so far, bytes of suspicion, bytes of all states, MB held."""
    hosts, edges = (300, 200) if quick else (2000, 1000)
    detector, found = create(detector_options({"name": "behaviour"}), GraphShape(hosts), 0), []
    state = detector.initial_state(night(0, hosts, edges))
    for number in range(windows // NIGHT):
        _, state = detector.score(night(number, hosts, edges), state)
        if (number + 1) % max(1, windows // NIGHT // 6) == 0:
            own = sum(np.asarray(v).nbytes for name, v in state.items() if name.startswith("suspicion"))
            whole = sum(np.asarray(v).nbytes for v in state.values())
            found.append(((number + 1) * NIGHT, own, whole, held_mb()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lanl", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--windows", type=int, default=3000)
    parser.add_argument("--quick", action="store_true", help="small logs, 300 windows")
    options = parser.parse_args()
    ratios: dict[str, float] = {}
    for name in ["classic", "lifelike", *([REPLAY] if options.lanl else [])]:
        parts = parts_of(name, options.seed, options.lanl, options.quick)
        whole, part = share(parts, accounts=name != REPLAY)
        ratios[f"suspicion / scoring, {name}"] = round(part / whole, 4)
        edges, windows = sum(p.num_edges for p in parts), sum(p.num_windows for p in parts)
        print(f"{name}: {edges} edges, {windows} windows, {parts[0].num_nodes} hosts;", end=" ")
        print(f"{whole:.2f} s, in suspicion {part:.3f} s: {part / whole:.1%}", flush=True)
    memory = nights(300 if options.quick else options.windows, options.quick)
    for done, own, states, mb in memory:
        print(f"{done} windows: suspicion {own} bytes, all states {states} bytes, {mb:.0f} MB held")
    ratios["bytes of suspicion, end / first sixth"] = round(memory[-1][1] / memory[0][1], 3)
    ratios["memory held, end / half way"] = round(memory[-1][3] / memory[len(memory) // 2][3], 3)
    print(json.dumps({"benchmark": "second_stage", "ratios": ratios}))


if __name__ == "__main__":
    main()
