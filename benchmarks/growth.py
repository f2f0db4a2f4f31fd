"""How time and memory grow with windows, edges, hosts and silos, in training and scoring.

Random graphs; one size is doubled at a time while the others stay (edges = edges per window). Every
measurement runs in a process of its own, and memory is what it adds to that process. An exponent of 1 is
linear; below that, a part does not grow. "published" is the published way: Euler with dense features and one
graph convolution per snapshot (benchmarks/euler.py), TGN by recursion (benchmarks/plain_tgn.py).

    python benchmarks/growth.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection

import numpy as np
import torch

from entente.config import aggregation_options, detector_options
from entente.detectors import create
from entente.detectors.base import Candidates, GraphShape
from entente.federation.aggregators import build
from entente.federation.aggregators.base import Contribution, Layout
from entente.graphs.sampling import NonEdges
from entente.graphs.temporal import TemporalGraph
from entente_lab.variants.euler import LabEulerOptions
from euler import made_up_graph, plain_loss
from plain_tgn import PlainTGN

BASE = {"windows": 40, "edges": 1500, "hosts": 2000, "silos": 1}
FACTORS = (1, 2, 4)
LESS = {"jbeil": {"windows": 4, "edges": 400}, "behaviour": {"windows": 10}}
"""An event costs TGN what a hundred edges cost Euler; behaviour trains on twelve versions of the graph."""
Measured = tuple[float, float]
"""Processor seconds and MB."""


def graph_of(name: str, size: dict[str, int], silo: int = 0) -> TemporalGraph:
    graph = made_up_graph(size["hosts"], size["windows"], size["edges"], silo, skewed=True)
    if name != "jbeil":
        return graph
    order = np.random.default_rng(silo).permuted(np.arange(graph.num_edges))
    order = order[np.argsort(graph.window_of_edge()[order], kind="stable")]
    src, dst, weight = graph.src[order], graph.dst[order], graph.weight[order]
    moments = np.linspace(0, graph.num_windows * graph.width - 1, graph.num_edges).astype(np.int64)
    offsets = np.searchsorted(moments, np.arange(graph.num_windows + 1) * graph.width).astype(np.int64)
    return replace(graph, src=src, dst=dst, weight=weight, time=moments, offsets=offsets, merged=False)


def training(name: str, size: dict[str, int]) -> Callable[[], None]:
    """One epoch in each silo, and the aggregation of their updates."""
    graphs = [graph_of(name, size, silo) for silo in range(size["silos"])]
    detector = create(detector_options({"name": name}), GraphShape(size["hosts"]), 0)
    start, layout = detector.weights(), Layout.of(detector)

    def work() -> None:
        aggregator = build(aggregation_options({"rule": "entente"}), layout)
        aggregator.begin(layout.flatten(start))
        for number, graph in enumerate(graphs):
            detector.load_weights(start)
            detector.train(graph, 1, np.random.default_rng(0))
            aggregator.add(Contribution(f"s{number:03d}", layout.flatten(detector.weights())))
        aggregator.finish()

    return work


def scoring(name: str, size: dict[str, int]) -> Callable[[], None]:
    graphs = [graph_of(name, size, silo) for silo in range(size["silos"])]
    detector = create(detector_options({"name": name}), GraphShape(size["hosts"]), 0)

    def work() -> None:
        for graph in graphs:
            detector.score(graph, detector.initial_state(graph))

    return work


def published(name: str, size: dict[str, int]) -> Callable[[], None]:
    """The same training step by plain code; one epoch."""
    graph = graph_of(name, size)
    if name == "euler":
        options = LabEulerOptions(decoder="inner", task="detection", dropout=0.0)
        weights = dict(create(options, GraphShape(size["hosts"]), 0).module.named_parameters())
        drawn = NonEdges(graph).draw(np.diff(graph.offsets), np.random.default_rng(1))
        return lambda: plain_loss(weights, graph, Candidates(*drawn)).backward()
    detector = create(detector_options({"name": name}), GraphShape(size["hosts"]), 0)
    ends = graph.src.astype(np.int64), graph.dst.astype(np.int64)
    plain = PlainTGN(
        detector.module, *ends, graph.time, size["hosts"], detector.settings.neighbours, shared_moment=False
    )

    def work() -> None:
        others = np.random.default_rng(0).permutation(ends[1])
        for first in range(0, graph.num_edges, detector.settings.batch):
            batch = np.arange(first, min(first + detector.settings.batch, graph.num_edges))
            logits = plain.batch(batch, others[batch])
            sign = torch.where(torch.arange(len(logits)) < len(batch), -1.0, 1.0)
            detector.optimiser.zero_grad()
            torch.nn.functional.softplus(sign * logits).mean().backward()
            detector.optimiser.step()

    return work


STEPS = {"training": training, "scoring": scoring, "published": published}


def measure(step: str, name: str, size: dict[str, int], answer: Connection) -> None:
    """In a process of its own."""
    work = STEPS[step](name, size)
    before, began = peak_mb(), time.process_time()
    work()
    answer.send((time.process_time() - began, peak_mb() - before))


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(step: str, name: str, size: dict[str, int]) -> Measured:
    forked = multiprocessing.get_context("fork")
    ours, theirs = forked.Pipe(duplex=False)
    process = forked.Process(target=measure, args=(step, name, size, theirs))
    process.start()
    theirs.close()
    try:
        found: Measured = ours.recv()
    finally:
        process.join()
    return found


def exponent(factors: list[int], values: list[float]) -> float:
    """Of values = c * factor ** exponent, by least squares of the logarithms."""
    return float(np.polyfit(np.log(factors), np.log(np.maximum(values, 1e-6)), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a quarter of the windows, two sizes")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    factors = list(FACTORS[:2] if quick else FACTORS)
    head = "".join(f"{f'x{factor}: s':>10} {'MB':>6}" for factor in factors)
    table, ratios = [f"{'detector':10} {'step':10} {'over':8}{head}  exponents of time, memory"], {}
    for name, step, base in planned(quick):
        first = apart(step, name, base)
        for axis in ("windows", "edges", "hosts") if step == "published" else tuple(BASE):
            sizes = [base | {axis: base[axis] * factor} for factor in factors[1:]]
            found = [first, *(apart(step, name, size) for size in sizes)]
            grown = [exponent(factors, list(values)) for values in zip(*found, strict=True)]
            cells = "".join(f"{seconds:10.3f} {mb:6.0f}" for seconds, mb in found)
            table.append(f"{name:10} {step:10} {axis:8}{cells}  {grown[0]:5.2f} {grown[1]:5.2f}")
            print(table[-1], flush=True)
            ratios[f"{name} {step} over {axis}"] = [round(value, 2) for value in grown]
    print(json.dumps({"benchmark": "growth", "base": BASE | LESS, "ratios": ratios, "table": table}))


def planned(quick: bool) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Detector, step and first size."""
    for name in ("euler", "jbeil", "behaviour"):
        base = BASE | LESS.get(name, {})
        base["windows"] //= 4 if quick else 1
        small = base | {"windows": 4, "edges": 100}
        training(name, small)(), scoring(name, small)()  # what a first call loads is no part of the figures
        for step in STEPS:
            if step != "published" or name != "behaviour":  # which is ours alone
                yield name, step, base


if __name__ == "__main__":
    main()
