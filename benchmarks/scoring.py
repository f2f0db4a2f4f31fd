"""Scoring with Euler at LANL's size: windows and edges per second, and memory over a longer history."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch

from entente.detectors.base import GraphShape
from entente.detectors.euler.detector import Euler
from entente.detectors.euler.options import EulerOptions
from entente.graphs.temporal import TemporalGraph


def window_of(nodes: int, edges: int, seed: int) -> TemporalGraph:
    """One window of random pairs."""
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, nodes * nodes, edges))
    src, dst = keys // nodes, keys % nodes
    keep = src != dst
    return TemporalGraph(
        rows=np.arange(nodes, dtype=np.int32)[:, None],
        table_size=nodes,
        start=0,
        width=1_800_000_000,
        offsets=np.array([0, int(keep.sum())]),
        src=src[keep].astype(np.int32),
        dst=dst[keep].astype(np.int32),
        time=np.zeros(int(keep.sum()), dtype=np.int64),
        weight=np.ones(int(keep.sum()), dtype=np.float32),
    )


def joined(windows: list[TemporalGraph]) -> TemporalGraph:
    """The same windows as one graph."""
    first = windows[0]
    return TemporalGraph(
        rows=first.rows,
        table_size=first.table_size,
        start=0,
        width=first.width,
        offsets=np.concatenate(([0], np.cumsum([part.num_edges for part in windows]))),
        src=np.concatenate([part.src for part in windows]),
        dst=np.concatenate([part.dst for part in windows]),
        time=np.concatenate([part.time + t * first.width for t, part in enumerate(windows)]),
        weight=np.concatenate([part.weight for part in windows]),
    )


def _measure(size: dict[str, Any]) -> dict[str, float]:
    torch.set_num_threads(1)
    detector = Euler(EulerOptions(), GraphShape(size["nodes"]), 0)
    # Twelve windows are drawn and used in turn, so that the graph is not what memory grows by.
    windows = [window_of(size["nodes"], size["edges"], seed) for seed in range(min(12, size["windows"]))]
    part = joined(windows)
    state = detector.initial_state(part)
    seconds, edges = 0.0, 0
    for first in range(0, size["windows"], len(windows)):
        now = part.windows(0, min(len(windows), size["windows"] - first))
        began = time.process_time()
        if size["one_by_one"]:
            for window in now.each_window():
                _, state = detector.score(window, state)
        else:
            _, state = detector.score(now, state)
        seconds += time.process_time() - began
        edges += now.num_edges
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "edges": edges, "peak_mb": peak}


def _in_own_process(size: dict[str, Any]) -> dict[str, float]:
    words = [sys.executable, __file__, "--size", json.dumps(size)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"{size}: {result['seconds']:.2f} s, {result['peak_mb']:.0f} MB", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--size", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.size:
        print(json.dumps(_measure(options.size)))
        return
    shrink = 10 if options.quick else 1
    lanl = {"nodes": 17649 // shrink, "edges": 8000 // shrink, "windows": 24, "one_by_one": False}
    few, many = _in_own_process(lanl), _in_own_process(lanl | {"windows": 96})
    single = _in_own_process(lanl | {"one_by_one": True})
    ratios = {
        "windows per second": 96 / many["seconds"],
        "edges per second": many["edges"] / many["seconds"],
        "windows per second, one window per call": 24 / single["seconds"],
        "peak memory, 96 windows / 24": many["peak_mb"] / few["peak_mb"],
    }
    for text, value in ratios.items():
        print(f"{text}: {value:.4g}")
    print(json.dumps({"benchmark": "scoring", "ratios": ratios}))


if __name__ == "__main__":
    main()
