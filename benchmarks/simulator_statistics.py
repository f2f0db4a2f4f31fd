"""The simulated companies beside LANL: degrees, novelty, bursts, accounts, failures, attack share.

    python benchmarks/simulator_statistics.py [--lanl DIR] [--auth FILE] [--days 9.5] [--edges 2000]
        [--seed 0] [--quick]

DIR holds LANL's topology.npz, redteam.txt.gz and replay.py, FILE the beginning of LANL's auth.txt (public
sample data, not part of this repository); without them only the simulation is described.
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
    parser.add_argument("--auth", type=Path)
    parser.add_argument("--days", type=float, default=9.5)
    parser.add_argument("--edges", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a two-day replay with few edges")
    options = parser.parse_args()

    columns = {preset: simulated(preset, options.seed) for preset in ("classic", "lifelike")}
    if options.lanl:
        days, edges = (3.0, 300) if options.quick else (options.days, options.edges)
        with tempfile.TemporaryDirectory() as scratch:
            replayed = replay(options.lanl, Path(scratch), days, edges, options.seed)
        topology = np.load(options.lanl / "topology.npz")
        columns["LANL replay"] = statistics(replayed, 42 * 3600, len(topology["host"]), weekday=0)
        columns["LANL topology (58 days)"] = degrees(topology["src"], topology["dst"], len(topology["host"]))
    if options.auth:
        columns["LANL auth.txt, sample"] = sample(options.auth)
    names = list(columns["lifelike"])
    print("| |", " | ".join(columns), "|\n|---|", "---|" * len(columns), sep="")
    for name in names:
        print(f"| {name} |", " | ".join(f"{column.get(name, '–')}" for column in columns.values()), "|")
    ratios = {}
    if options.lanl:
        ratios = {
            name: round(columns["classic"][name] / columns["LANL replay"][name], 3)
            for name in names
            if columns["LANL replay"].get(name)
        }
    print(json.dumps({"benchmark": "simulator_statistics", "ratios": ratios}))


def simulated(preset: str, seed: int) -> dict[str, float]:
    """The classic company's NTLM events, as in the replay; all of the lifelike one's, where NTLM is rarer."""
    config = SimulationConfig(seed=seed, preset=preset)
    events = pl.from_arrow(simulate(config).events)
    assert isinstance(events, pl.DataFrame)
    if preset == "classic":
        events = events.filter(kind="NTLM")
    return statistics(
        events.with_columns(time=pl.col("time") // 1_000_000), config.attack_start, config.hosts, weekday=3
    )


def sample(auth: Path) -> dict[str, float]:
    """What a few thousand lines can tell: failures, and how many accounts a source has."""
    lines = read_auth(auth).filter(pl.col("src") != pl.col("dst"))
    return {
        "events": len(lines),
        "share of events that failed": round(float((lines["result"] == "Fail").mean()), 4),  # type: ignore[arg-type]
        **accounts(lines),
    }


def read_auth(path: Path) -> pl.DataFrame:
    names = ["time", "user", "user2", "src", "dst", "kind", "logon", "orientation", "result"]
    return pl.read_csv(path, has_header=False, new_columns=names)


def replay(lanl: Path, out: Path, days: float, edges: int, seed: int) -> pl.DataFrame:
    command = [sys.executable, lanl / "replay.py", out, "--days", days, "--edges", edges, "--seed", seed]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    auth = read_auth(out / "auth.txt.gz").filter(kind="NTLM")
    auth = auth.with_columns(outcome=pl.col("result") == "Success")
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


def accounts(events: pl.DataFrame) -> dict[str, float]:
    """Accounts per source and sources per account."""
    pairs = events.select("src", "user").unique()
    per_source = pairs.group_by("src").len()["len"]
    per_user = pairs.group_by("user").len()["len"]
    return {
        "sources with more than one account": round(float((per_source > 1).mean()), 3),  # type: ignore[arg-type]
        "accounts with more than one source": round(float((per_user > 1).mean()), 3),  # type: ignore[arg-type]
    }


def novelty(edges: pl.DataFrame, hosts: int, days: float) -> dict[str, float]:
    """Of benign edges: how often, how many at once, and how often one new contact leads to another."""
    new = edges.filter(pl.col("new") & (pl.col("label") == 0))
    bursts = new.group_by("src", "window").len()["len"]
    host_days = edges.select("src", day=pl.col("window") * WINDOW // 86_400).unique()
    chained = (
        new.select("window", "src", host="dst")
        .join(new.select(later="window", host="src"), on="host")
        .filter(pl.col("later").is_between(pl.col("window"), pl.col("window") + 4))
        .select("window", "src", "host")
        .unique()
    )
    scale = 1000 / hosts / days
    return {
        "test: benign new pairs per acting host and day": round(len(new) / len(host_days), 3),
        "test: largest benign burst (new targets of a source in a window)": int(bursts.max() or 0),  # type: ignore[call-overload]
        "test: p99 of benign bursts": float(bursts.quantile(0.99) or 0),
        "test: benign bursts of 5 or more, per day and 1,000 hosts": round(
            float((bursts >= 5).sum()) * scale, 2
        ),
        "test: benign bursts of 20 or more, per day and 1,000 hosts": round(
            float((bursts >= 20).sum()) * scale, 2
        ),
        "test: benign new edges after which the target makes one within 2 h, per day and 1,000 hosts": round(
            len(chained) * scale, 2
        ),
    }


def newcomers(events: pl.DataFrame, train: float) -> dict[str, float]:
    """How often an account is seen on a source for the first time, of benign events after training."""
    ordered = events.filter(pl.col("src") != pl.col("dst")).sort("time", maintain_order=True)
    ordered = ordered.with_columns(fresh=pl.struct("src", "user").is_first_distinct())
    # An account stays fresh on a source for the rest of the window in which it came.
    first = ordered.filter("fresh").select("src", "user", since=pl.col("time") // WINDOW)
    edges = (
        ordered.filter((pl.col("time") >= train) & (pl.col("label") == 0))
        .join(first, on=["src", "user"])
        .with_columns(window=pl.col("time") // WINDOW)
        .group_by("window", "src", "dst")
        .agg(fresh=(pl.col("since") == pl.col("window")).any(), failed=(~pl.col("outcome")).all())
    )
    host_days = edges.group_by("src", day=pl.col("window") * WINDOW // 86_400).agg(pl.col("fresh").any())
    return {
        "test: share of benign edges with an account new on the source": round(
            float(edges["fresh"].mean()), 4
        ),  # type: ignore[arg-type]
        "test: share of benign host-days with such an edge": round(float(host_days["fresh"].mean()), 4),  # type: ignore[arg-type]
        "share of events that failed": round(float((~events["outcome"]).mean()), 4),  # type: ignore[arg-type]
        "test: share of benign edges that only failed": round(float(edges["failed"].mean()), 4),  # type: ignore[arg-type]
    }


def weekend(events: pl.DataFrame, weekday: int) -> float:
    """Events of a whole Saturday or Sunday over those of a whole weekday; day 0 is that day of the week."""
    days = int(events["time"].max() + 1) // 86_400  # type: ignore[operator]
    per_day = np.bincount(events["time"].to_numpy() // 86_400, minlength=days)[:days]
    rest = (np.arange(days) + weekday) % 7 >= 5
    return round(float(per_day[rest].mean() / per_day[~rest].mean()), 3) if rest.any() else float("nan")


def statistics(events: pl.DataFrame, train: float, hosts: int, weekday: int) -> dict[str, float]:
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
    return (
        found
        | {
            "events": len(events),
            "edges per window": round(len(edges) / edges["window"].n_unique(), 1),
            "a weekend day's events over a weekday's": weekend(events, weekday),
            "test: share of edges whose pair was seen before": round(1 - float(new.mean()), 4),
            "test: new pairs per hour and 1,000 hosts": round(float(new.sum()) / hours / hosts * 1000, 2),
        }
        | novelty(test, hosts, hours / 24)
        | accounts(events)
        | newcomers(events, train)
        | {
            "test: malicious edges": int(label.sum()),
            "test: attack share of edges": round(float(label.mean()), 6),
            "test: attack share of new pairs": round(float(label[new].mean()), 4),
            "first-seen rule, AP": round(float(average_precision_score(label, new + ties)), 4),
        }
    )


if __name__ == "__main__":
    main()
