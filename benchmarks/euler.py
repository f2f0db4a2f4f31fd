"""Euler's training pass: ours against the published way, and how both time and memory grow with windows.

The published way: dense identity features, one graph convolution per snapshot, torch's GRU over all
hosts, and a loss per snapshot that indexes the stacked embeddings. Every measurement runs in a process
of its own, so that peak memory is its own too. "ours" computes what the published way does, every host in
every window; "visits" is our default, in which only hosts with an edge move on.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entente.detectors.base import Candidates, GraphShape
from entente.detectors.euler.detector import Euler
from entente.graphs.sampling import NonEdges
from entente.graphs.temporal import TemporalGraph
from entente_lab.variants.euler import LabEulerOptions


def made_up_graph(nodes: int, windows: int, edges: int, seed: int, skewed: bool = False) -> TemporalGraph:
    """Windows of `edges` random pairs; skewed: few hosts receive most of them, as servers do."""
    rng = np.random.default_rng(seed)
    drawn = int(edges * windows * (1.6 if skewed else 1.01))
    src = rng.integers(0, nodes, drawn)
    dst = (nodes * rng.random(drawn) ** 6).astype(np.int64) if skewed else rng.integers(0, nodes, drawn)
    window = rng.integers(0, windows, drawn)
    triples = np.unique(((window * nodes) + src)[src != dst] * nodes + dst[src != dst])
    triples = np.sort(rng.choice(triples, min(edges * windows, len(triples)), replace=False))
    window, src, dst = triples // nodes**2, triples // nodes % nodes, triples % nodes
    return TemporalGraph(
        rows=np.arange(nodes, dtype=np.int32)[:, None],
        table_size=nodes,
        start=0,
        width=1_800_000_000,
        offsets=np.searchsorted(window, np.arange(windows + 1)).astype(np.int64),
        src=src.astype(np.int32),
        dst=dst.astype(np.int32),
        time=window * 1_800_000_000,
        weight=(1 + rng.integers(0, 9, len(triples))).astype(np.float32),
    )


def plain_loss(weights: dict[str, Tensor], graph: TemporalGraph, non_edges: Candidates) -> Tensor:
    """The published way, for GCN, GRU and inner product in detection, without dropout."""
    nodes, width = graph.num_nodes, weights["recurrence.weight_hh"].shape[1]
    features = torch.eye(graph.table_size)[torch.from_numpy(graph.rows.astype(np.int64))].sum(dim=1)
    gru = torch.nn.GRU(width, width)
    of_gru = {
        f"{name}_l0": weights[f"recurrence.{name}"]
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    embedded = []
    for t in range(graph.num_windows):
        part = graph.windows(t, t + 1)
        src, dst = (torch.from_numpy(end.astype(np.int64)) for end in (part.src, part.dst))
        weight = torch.log2(1 + torch.from_numpy(part.weight))
        x = torch.relu(
            _convolve(features @ weights["encoder.first.map.weight"], src, dst, weight)
            + weights["encoder.first.bias"]
        )
        x = _convolve(x @ weights["encoder.second.map.weight"].T, src, dst, weight)
        embedded.append(torch.tanh(x + weights["encoder.second.bias"]))
    hidden, _ = torch.func.functional_call(gru, of_gru, (torch.stack(embedded), torch.zeros(1, nodes, width)))
    z = hidden @ weights["projection.weight"].T + weights["projection.bias"]
    losses = []
    for t in range(graph.num_windows):
        part = graph.windows(t, t + 1)
        if not part.num_edges:
            continue
        chosen = non_edges.window == t
        edge_logits = _products(z[t], part.src, part.dst)
        other_logits = _products(z[t], non_edges.src[chosen], non_edges.dst[chosen])
        losses.append(
            (
                torch.nn.functional.softplus(-edge_logits).mean()
                + torch.nn.functional.softplus(other_logits).mean()
            )
            / 2
        )
    return torch.stack(losses).mean()


def _convolve(x: Tensor, src: Tensor, dst: Tensor, weight: Tensor) -> Tensor:
    loops = torch.arange(len(x))
    src, dst = torch.cat((src, loops)), torch.cat((dst, loops))
    weight = torch.cat((weight, torch.ones(len(x))))
    scale = torch.zeros(len(x)).index_add(0, dst, weight).rsqrt()
    values = scale[src] * weight * scale[dst]
    return torch.zeros_like(x).index_add(0, dst, values[:, None] * x[src])


def _products(z: Tensor, src: np.ndarray, dst: np.ndarray) -> Tensor:
    ends = [torch.from_numpy(end.astype(np.int64)) for end in (src, dst)]
    return (z[ends[0]] * z[ends[1]]).sum(dim=1)


def _measure(part: str, size: dict[str, Any], folder: Path) -> dict[str, float]:
    """One pass (forward and backward) with the same weights and non-edges in each way."""
    torch.set_num_threads(1)
    graph = made_up_graph(size["nodes"], size["windows"], size["edges"], 0, size["skewed"])
    advance = "visits" if part == "visits" else "windows"
    config = LabEulerOptions(
        decoder="inner", task="detection", dropout=0.0, advance=advance, validation_edges=1e-9
    )
    detector = Euler(config, GraphShape(table_size=graph.table_size), 0)
    if part == "plain":
        non_edges = Candidates(*NonEdges(graph).draw(np.diff(graph.offsets), np.random.default_rng(1)))
        weights = dict(detector.module.named_parameters())
        seconds, loss = _timed(lambda: plain_loss(weights, graph, non_edges), detector)
    else:
        prepared = detector._prepare(graph)
        seconds, loss = min(
            _timed(lambda: detector._loss(prepared, np.random.default_rng(1), torch.Generator()), detector)
            for _ in range(3)
        )
    gradients = {name: p.grad.numpy() for name, p in detector.module.named_parameters()}
    np.savez(folder / f"{part}.npz", **gradients)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak, "loss": loss, "edges": graph.num_edges}


def _timed(make_loss: Callable[[], Tensor], detector: Euler) -> tuple[float, float]:
    """Processor seconds of forward and backward, and the loss."""
    detector.module.zero_grad()
    began = time.process_time()
    loss = make_loss()
    loss.backward()
    return time.process_time() - began, loss.item()


def _in_own_process(part: str, size: dict[str, Any], folder: Path) -> dict[str, float]:
    words = [sys.executable, __file__, "--part", part, "--size", json.dumps(size), "--folder", str(folder)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{part:6} {size}: {result['seconds']:.2f} s, {result['peak_mb']:.0f} MB, {result['edges']} edges",
        flush=True,
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--part", choices=("plain", "ours", "visits"), help=argparse.SUPPRESS)
    parser.add_argument("--size", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(_measure(options.part, options.size, options.folder)))
        return
    shrink = 8 if options.quick else 1
    lanl = {
        "nodes": 17649 // shrink,
        "windows": 84 // min(shrink, 2),
        "edges": 8000 // shrink,
        "skewed": False,
    }
    optc = {"nodes": 814, "windows": 1513 // shrink, "edges": 1000, "skewed": False}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, plain = _in_own_process("ours", lanl, folder), _in_own_process("plain", lanl, folder)
        with np.load(folder / "ours.npz") as a, np.load(folder / "plain.npz") as b:
            difference = max(float(np.abs(a[key] - b[key]).max()) for key in a.files)
        servers = _in_own_process("ours", lanl | {"skewed": True}, folder)
        sparse = {"nodes": 11000 // shrink, "windows": 76, "edges": 1400 // shrink, "skewed": True}
        every, visits = (_in_own_process(part, sparse, folder) for part in ("ours", "visits"))
        long = _in_own_process("ours", optc, folder)
        short = _in_own_process("ours", optc | {"windows": optc["windows"] // 10 + 1}, folder)
        none = _in_own_process("ours", optc | {"windows": 1}, folder)
    growth = optc["windows"] / (optc["windows"] // 10 + 1)
    memory = (long["peak_mb"] - none["peak_mb"]) / max(short["peak_mb"] - none["peak_mb"], 1e-9)
    ratios = {
        "training pass: published way / ours": plain["seconds"] / ours["seconds"],
        "training pass, edges into few servers: published way / ours": plain["seconds"] / servers["seconds"],
        "training pass, one host in ten at work: every window / visits": every["seconds"] / visits["seconds"],
        "largest gradient difference": difference,
        "peak memory of ours, MB": ours["peak_mb"],
        "time per window, long history / short": long["seconds"] / short["seconds"] / growth,
        "memory per window, long history / short": memory / growth,
    }
    for text, value in ratios.items():
        print(f"{text}: {value:.3g}")
    print(json.dumps({"benchmark": "euler", "ratios": ratios}))


if __name__ == "__main__":
    main()
