"""The simulated company beside the LANL topology: degree tail, novelty, attack share.

    python benchmarks/simulator_statistics.py --lanl DIR [--days 9.5] [--edges 2000] [--seed 0] [--quick]

DIR holds LANL's topology.npz, redteam.txt.gz and replay.py (public sample data, not part of this
repository); without it only the simulation is described.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.metrics import average_precision_score

from entente_lab.simulator import SimulationConfig, simulate

WINDOW = 1800


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lanl", type=Path)
    parser.add_argument("--days", type=float, default=9.5)
    parser.add_argument("--edges", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a two-day replay with few edges")
    options = parser.parse_args()

    config = SimulationConfig(seed=options.seed)
    simulation = simulate(config)
    events = pl.from_arrow(simulation.events)
    assert isinstance(events, pl.DataFrame)
    events = events.filter(kind="NTLM").with_columns(time=pl.col("time") // 1_000_000)
    columns = {"simulated": statistics(events, config.attack_start, config.hosts)}
    if options.lanl:
        days, edges = (3.0, 300) if options.quick else (options.days, options.edges)
        with tempfile.TemporaryDirectory() as scratch:
            replayed = replay(options.lanl, Path(scratch), days, edges, options.seed)
        topology = np.load(options.lanl / "topology.npz")
        columns["LANL replay"] = statistics(replayed, 42 * 3600, len(topology["host"]))
        columns["LANL topology (58 days)"] = degrees(topology["src"], topology["dst"], len(topology["host"]))
    names = list(columns["simulated"])
    print("| |", " | ".join(columns), "|\n|---|", "---|" * len(columns), sep="")
    for name in names:
        print(f"| {name} |", " | ".join(f"{column.get(name, '–')}" for column in columns.values()), "|")
    ratios = {}
    if options.lanl:
        ratios = {
            name: round(columns["simulated"][name] / columns["LANL replay"][name], 3)
            for name in names
            if columns["LANL replay"].get(name)
        }
    print(json.dumps({"benchmark": "simulator_statistics", "ratios": ratios}))


def replay(lanl: Path, out: Path, days: float, edges: int, seed: int) -> pl.DataFrame:
    command = [sys.executable, lanl / "replay.py", out, "--days", days, "--edges", edges, "--seed", seed]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    names = ["time", "user", "user2", "src", "dst", "kind", "logon", "orientation", "result"]
    auth = pl.read_csv(out / "auth.txt.gz", has_header=False, new_columns=names).filter(kind="NTLM")
    red = pl.read_csv(out / "redteam.txt", has_header=False, new_columns=["time", "user", "src", "dst"])
    red = red.unique().with_columns(label=pl.lit(1))
    return auth.join(red, on=["time", "user", "src", "dst"], how="left").with_columns(
        pl.col("label").fill_null(0)
    )


def degrees(src: np.ndarray, dst: np.ndarray, hosts: int) -> dict[str, float]:
    """Of distinct pairs: percentiles over the hosts that have any, and how much the top hosts hold."""
    found: dict[str, float] = {"hosts": hosts, "distinct pairs": len(src)}
    found["pairs per host"] = round(len(src) / hosts, 1)
    for name, ends in (("out", src), ("in", dst)):
        degree = np.bincount(ends, minlength=hosts)
        degree = np.sort(degree[degree > 0])
        for percentile in (50, 90, 99):
            found[f"{name}-degree p{percentile}"] = float(np.percentile(degree, percentile).round())
        found[f"{name}-degree max, share of hosts"] = round(float(degree[-1]) / hosts, 3)
        top = max(1, len(degree) // 100)
        found[f"{name}-degree, share held by the top 1 %"] = round(
            float(degree[-top:].sum() / degree.sum()), 3
        )
    return found


def statistics(events: pl.DataFrame, train: float, hosts: int) -> dict[str, float]:
    edges = (
        events.filter(pl.col("src") != pl.col("dst"))
        .group_by(window=pl.col("time") // WINDOW, src="src", dst="dst")
        .agg(pl.col("label").max())
        .sort("window", "src", "dst")
        .with_columns(new=pl.struct("src", "dst").is_first_distinct())
    )
    codes = pl.Enum(pl.concat([edges["src"], edges["dst"]]).unique().sort())
    pairs = edges.select("src", "dst").unique().cast(codes)
    src, dst = (pairs[name].to_physical().to_numpy() for name in ("src", "dst"))
    found = degrees(src, dst, hosts)
    test = edges.filter(pl.col("window") * WINDOW >= train)
    hours = (test["window"].max() - test["window"].min() + 1) * WINDOW / 3600  # type: ignore[operator]
    new, label = test["new"].to_numpy(), test["label"].to_numpy()
    ties = np.random.default_rng(0).random(len(new)) * 1e-6
    return found | {
        "events": len(events),
        "edges per window": round(len(edges) / edges["window"].n_unique(), 1),
        "test: share of edges whose pair was seen before": round(1 - float(new.mean()), 4),
        "test: new pairs per hour and 1,000 hosts": round(float(new.sum()) / hours / hosts * 1000, 2),
        "test: malicious edges": int(label.sum()),
        "test: attack share of edges": round(float(label.mean()), 6),
        "test: attack share of new pairs": round(float(label[new].mean()), 4),
        "first-seen rule, AP": round(float(average_precision_score(label, new + ties)), 4),
    }


if __name__ == "__main__":
    main()
