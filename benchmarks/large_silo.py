"""Training of Euler in a silo that one pass cannot hold: peak memory and time of a share of an epoch.

Every host has a few targets of its own, servers have most edges, and each window has some new pairs. The
first batches of an epoch are trained on.

    python benchmarks/large_silo.py [--quick] [--hosts N] [--edges N] [--windows N] [--steps N]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from itertools import islice

import numpy as np

from entente.detectors.base import GraphShape
from entente.detectors.euler.detector import Euler
from entente.detectors.euler.options import EulerOptions
from entente.detectors.neural import one_thread
from entente.graphs.temporal import TemporalGraph, distinct


def large_silo(hosts: int, edges: int, windows: int) -> TemporalGraph:
    """Window by window, so that only the graph itself is held."""
    each = edges // windows
    targets = (hosts * np.random.default_rng(0).random((hosts, 8)) ** 4).astype(np.int32)
    src, dst = np.empty((2, each * windows), dtype=np.int32)
    filled, offsets = 0, [0]
    for t in range(windows):
        rng = np.random.default_rng([1, t])
        drawn = int(each * 1.4)
        a = (hosts * rng.random(drawn) ** 1.5).astype(np.int64)
        b = targets[a, rng.integers(0, 8, drawn)].astype(np.int64)
        new = rng.random(drawn) < 0.1
        b[new] = rng.integers(0, hosts, int(new.sum()))
        pairs = distinct(a[a != b] * hosts + b[a != b])
        if len(pairs) > each:
            pairs = np.sort(rng.choice(pairs, each, replace=False))
        src[filled : filled + len(pairs)], dst[filled : filled + len(pairs)] = pairs // hosts, pairs % hosts
        filled += len(pairs)
        offsets.append(filled)
    width = 1_800_000_000
    return TemporalGraph(
        rows=np.arange(hosts, dtype=np.int32)[:, None],
        table_size=hosts,
        start=0,
        width=width,
        offsets=np.array(offsets, dtype=np.int64),
        src=src[:filled],
        dst=dst[:filled],
        time=np.repeat(np.arange(windows, dtype=np.int64) * width, np.diff(offsets)),
        weight=np.ones(filled, dtype=np.float32),
    )


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Share(Euler):
    """Euler that stops after the first batches of an epoch."""

    steps = 0

    def _batches(self, graph, rng, noise):  # type: ignore[no-untyped-def]
        yield from islice(super()._batches(graph, rng, noise), self.steps)


@one_thread()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size")
    parser.add_argument("--hosts", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--windows", type=int, default=200)
    parser.add_argument("--batch-edges", type=int, default=2_000_000)
    parser.add_argument("--steps", type=int, default=3)
    given = parser.parse_args()
    shrink = 100 if given.quick else 1
    graph = large_silo(given.hosts // shrink, given.edges // shrink, given.windows)
    made = peak_mb()
    batch = given.batch_edges // shrink
    detector = Share(EulerOptions(batch_edges=batch), GraphShape(graph.table_size), 0)
    detector.steps = given.steps
    began = time.process_time()
    split = detector._prepare(graph)
    batches = sum(1 for _ in split.batches(batch, np.random.default_rng(0)))
    prepared, before = time.process_time() - began, peak_mb()
    began = time.process_time()
    trained = detector.train(graph, 1, np.random.default_rng(0))
    seconds = (time.process_time() - began) / given.steps
    print(
        f"{graph.num_nodes:,} hosts, {graph.num_edges:,} edges, {graph.num_windows} windows; peak "
        f"{made:,.0f} MB when made, {before:,.0f} MB when prepared ({prepared:.0f} CPU s), "
        f"{peak_mb():,.0f} MB in training"
    )
    print(
        f"{given.steps} of {batches} batches of about {batch:,} edges: {seconds:.1f} CPU s each, loss "
        f"{trained.loss:.3f}; an epoch = batches x that = {batches * seconds / 60:.0f} minutes of one core"
    )
    ratios = {
        "peak_mb": round(peak_mb()),
        "CPU s per batch": round(seconds, 2),
        "batches per epoch": batches,
        "edges per CPU s": round(graph.num_edges / (batches * seconds)),
    }
    print(json.dumps({"benchmark": "large_silo", "ratios": ratios}))


if __name__ == "__main__":
    main()
