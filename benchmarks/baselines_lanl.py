"""The rules on the LANL replay: AP, AUC and recall at 10 alerts per window, mean over replays.

    python benchmarks/baselines_lanl.py DATA [--seeds 3] [--orders 5] [--quick]

DATA is the folder that holds replay.py. NTLM rows, 30-minute windows, 42 hours of counting before the test,
counts online; a red edge is one that merges an event of redteam.txt (same time, source and target). Ties are
told apart by a hash of pair and window; means are over several such orders, drawn by moving all clocks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.metrics import average_precision_score, roc_auc_score

from entente.detectors import baseline
from entente.detectors.base import GraphShape
from entente.graphs.temporal import TemporalGraph

WINDOW = 1800
TRAIN = 42 * 3600 // WINDOW
RULES = ("first-seen", "pair-frequency", "rare-target", "novelty-burst", "edgebank", "midas")
SPECIFIED = {
    "first-seen": (0.006, 0.857, 0.14),
    "pair-frequency": (0.007, 0.960, 0.14),
    "rare-target": (0.044, 0.976, 0.50),
    "novelty-burst": (0.064, 0.977, 0.57),
}


def replay(folder: Path, seed: int, days: float, out: Path) -> TemporalGraph:
    """One replay as a graph of NTLM edges, labelled."""
    script = [sys.executable, str(folder / "replay.py"), str(out), "--days", str(days), "--edges", "2000"]
    subprocess.run([*script, "--seed", str(seed)], check=True, stdout=subprocess.DEVNULL)
    auth = pl.read_csv(out / "auth.txt.gz", has_header=False)
    at = auth.columns
    auth = auth.select(time=at[0], src=at[3], dst=at[4], kind=at[5])
    red = pl.read_csv(out / "redteam.txt", has_header=False)
    at = red.columns
    red = red.select(time=at[0], src=at[2], dst=at[3]).unique()
    events = auth.filter((pl.col("kind") == "NTLM") & (pl.col("src") != pl.col("dst")))
    events = events.join(red.with_columns(label=pl.lit(1)), on=["time", "src", "dst"], how="left")
    hosts = np.unique(np.concatenate((events["src"].to_numpy(), events["dst"].to_numpy())).astype(str))
    events = events.with_columns(
        src=pl.Series(np.searchsorted(hosts, events["src"].to_numpy().astype(str)).astype(np.int32)),
        dst=pl.Series(np.searchsorted(hosts, events["dst"].to_numpy().astype(str)).astype(np.int32)),
        window=pl.col("time") // WINDOW,
    )
    edges = (
        events.group_by("window", "src", "dst")
        .agg(time=pl.col("time").min(), weight=pl.len(), label=pl.col("label").max().fill_null(0))
        .sort("window", "src", "dst")
    )
    window = edges["window"].to_numpy()
    return TemporalGraph(
        rows=np.arange(len(hosts), dtype=np.int32)[:, None],
        table_size=len(hosts),
        start=0,
        width=WINDOW * 1_000_000,
        offsets=np.searchsorted(window, np.arange(window.max() + 2)).astype(np.int64),
        src=edges["src"].to_numpy(),
        dst=edges["dst"].to_numpy(),
        time=edges["time"].to_numpy().astype(np.int64) * 1_000_000,
        weight=edges["weight"].to_numpy().astype(np.float32),
        label=edges["label"].to_numpy().astype(np.uint8),
    )


def measure(graph: TemporalGraph, name: str, order: int) -> tuple[float, float, float]:
    """AP, AUC and recall; no rule looks at absolute time, so another start is another order of ties."""
    shift = order * 1_000 * graph.width
    graph = replace(graph, start=graph.start + shift, time=graph.time + shift)
    detector = baseline(name, GraphShape(graph.table_size), 0)
    scores, _ = detector.score(graph, detector.initial_state(graph))
    window = graph.window_of_edge()
    test = window >= TRAIN
    scores, window, red = scores[test], window[test], graph.label[test] == 1
    order = np.lexsort((-scores, window))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(window, window[order])
    return average_precision_score(red, scores), roc_auc_score(red, scores), float((rank[red] < 10).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one replay of three days")
    options = parser.parse_args()
    seeds, days = (1, 3.0) if options.quick else (options.seeds, 9.5)
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in RULES}
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            graph = replay(options.data, seed, days, Path(folder))
        for name in RULES:
            found[name] += [measure(graph, name, order) for order in range(options.orders)]
    means = {name: np.mean(values, axis=0) for name, values in found.items()}
    print(f"{'rule':<16}{'AP':>8}{'AUC':>8}{'rec@10':>8}   specified")
    for name, (ap, auc, recall) in means.items():
        stated = "/".join(f"{value:.3f}" for value in SPECIFIED.get(name, ()))
        print(f"{name:<16}{ap:8.4f}{auc:8.4f}{recall:8.3f}   {stated}")
    rounded = {name: [round(float(value), 4) for value in values] for name, values in means.items()}
    print(json.dumps({"benchmark": "baselines_lanl", "seeds": seeds, "days": days, "ratios": rounded}))


if __name__ == "__main__":
    main()
