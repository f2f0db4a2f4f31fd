"""A small run folder as `entente train` leaves one, made up from a seed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entente.config import Experiment, to_toml
from entente.detection.alerts import Alert
from entente.detection.incidents import assign_incidents
from entente.detection.metrics import Metrics, evaluate
from entente.detection.table import write_table
from entente.runs.folder import RunFolder
from entente.runs.records import RunMetrics

WIDTH = 1800
THRESHOLD = 0.42
STEP = WIDTH * 1_000_000
SITES = ("berlin", "lyon", "osaka", "head-office")
ATTACK = [  # window, source, target
    (20, "berlin-ws04", "berlin-ws11"),
    (24, "berlin-ws04", "berlin-fs01"),
    *((31, "berlin-fs01", f"berlin-ws{i}") for i in range(20, 25)),
    (44, "berlin-fs01", "head-office-dc1"),
    (46, "head-office-dc1", "head-office-ca"),
    (61, "head-office-dc1", "lyon-ws02"),
    (70, "lyon-ws02", "lyon-db01"),
    (71, "lyon-ws02", "lyon-ws09"),
    (80, "head-office-dc1", "osaka-srv3"),
    (88, "osaka-srv3", "osaka-ws07"),
    (90, "osaka-srv3", "osaka-db02"),
]
RULES = {"first-seen": 2.0, "pair-frequency": 1.4, "rare-target": 0.8, "novelty-burst": 0.6}


def make_columns(attack: list[tuple[int, str, str]] = ATTACK, seed: int = 0) -> dict[str, Any]:
    """Scores of four sites: benign edges low, most malicious edges high."""
    rng = np.random.default_rng(seed)
    rows = []
    for window in range(96):
        for site in SITES:
            for _ in range(8):
                a, b = rng.integers(1, 30, 2)
                rows.append((window, f"{site}-ws{a:02d}", f"{site}-ws{b:02d}", rng.beta(1.2, 14), 0, site))
    for i, (window, src, dst) in enumerate(attack):
        site = next((s for s in SITES if dst.startswith(s)), SITES[0])
        rows.append((window, src, dst, rng.beta(9, 3) if i % 5 else rng.beta(2, 9), 1, site))
    windows, sources, targets, score, label, silo = zip(*rows, strict=True)
    numbers = np.array(score, dtype=np.float32)
    return {
        "window": np.array(windows) * STEP,
        "src": list(sources),
        "dst": list(targets),
        "score": numbers,
        "threshold": np.full(len(numbers), THRESHOLD, dtype=np.float32),
        "alert": numbers > THRESHOLD,
        "label": np.array(label, dtype=np.uint8),
        "silo": list(silo),
        "own_source": [name.startswith(site) for name, site in zip(sources, silo, strict=True)],
    }


def make_alerts(columns: dict[str, Any]) -> tuple[Alert, ...]:
    """An alert for every edge above the threshold."""
    names = ("window", "src", "dst", "score", "silo", "alert")
    rows = zip(*(columns[name] for name in names), strict=True)
    alerts = [
        Alert(int(w), int(w) + STEP, str(s), str(d), float(x), THRESHOLD, "medium", str(silo), ("first",))
        for w, s, d, x, silo, raised in rows
        if raised
    ]
    return assign_incidents(alerts)


def make_rounds(rounds: int = 12, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    records = []
    for i in range(1, rounds + 1):
        silos: dict[str, Any] = {}
        for k, site in enumerate(SITES):
            norm = float(rng.gamma(4, 1.2))
            silos[site] = {
                "j": 0.3 + 0.15 * k,
                "s": 0.97,
                "d": min(5.0, norm),
                "r": 0.25 + 0.12 * k + 0.1 * float(rng.random()),
                "norm": norm,
                "clipped": norm > 6,
                "refused": None,
                "bytes_up": 410_000,
                "bytes_down": 410_200,
                "seconds": 1.2 + k,
            }
        if i == 7:
            silos["osaka"] = {"refused": "an update that is not finite"}
        quality = 1 - np.exp(-i / 4)
        records.append(
            {
                "kind": "train",
                "id": i,
                "round": i,
                "attempt": 1,
                "loss": 1.4 * float(np.exp(-i / 5)) + 0.2,
                "validation": {"ap": 0.55 + 0.4 * quality, "auc": 0.6 + 0.38 * quality},
                "silos": silos,
            }
        )
    return records


def make_run(folder: Path, columns: dict[str, Any] | None = None, **more: Any) -> Path:
    """Write a whole run folder; `more` are JSON files by name without suffix."""
    columns = columns or make_columns()
    folder.mkdir(parents=True, exist_ok=True)
    toml = to_toml(Experiment(name="four sites", seed=3))
    (folder / "experiment.toml").write_text("# entente 0.1.0, torch 2.13.0, numpy 2.4.0\n" + toml)
    silo = np.array(columns["silo"])

    def figures(keep: Any, score: Any, threshold: float) -> Metrics:
        part = columns["window"][keep], columns["label"][keep]
        return evaluate(score[keep], part[1], part[0], threshold, WIDTH)

    rng, everything = np.random.default_rng(1), np.ones(len(silo), dtype=bool)
    metrics = RunMetrics(
        overall=figures(everything, columns["score"], 0.42),
        per_silo={
            site: figures(silo == site, columns["score"], 0.42) for site in SITES if (silo == site).any()
        },
        baselines={
            rule: figures(everything, columns["score"] + noise * rng.random(len(silo)), 0.42 + noise)
            for rule, noise in RULES.items()
        },
    )
    RunFolder(folder).write_metrics(metrics)
    (folder / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in make_rounds()))
    pq.write_table(pa.table(columns), folder / "scores.parquet")
    write_table(folder / "alerts.parquet", make_alerts(columns), {"known-pairs": 2})
    for name, value in more.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


@pytest.fixture
def new_run(tmp_path: Path) -> Callable[..., Path]:
    """Make a run folder from given columns and JSON files."""

    def make(columns: dict[str, Any] | None = None, **more: Any) -> Path:
        return make_run(tmp_path / "other", columns, **more)

    return make


@pytest.fixture
def columns() -> dict[str, Any]:
    """The columns of scores.parquet."""
    return make_columns()
