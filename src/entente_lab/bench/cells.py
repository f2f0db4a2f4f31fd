"""A cell of a grid: one experiment to be run once, and the record it leaves in `cells/<key>.json`."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from entente.artifacts import read_json, write_json
from entente.config import Experiment, parse_experiment
from entente.errors import StorageError

MEASURE = "entente_lab.bench.measure:measure"
"""The usual runner: train, evaluate on the test windows, keep the figures."""
ATTACK = "entente_lab.bench.robustness.measure:measure_attack"
INFER = "entente_lab.bench.inference:measure_inference"
TOGETHER = (MEASURE, ATTACK, INFER)
"""Runners whose cells may follow one another in a process."""

MEASURING = (
    "measure.py",
    "link_prediction.py",
    "equal.py",
    "suite.py",
    "figures.py",
    "injection.py",
    "shared.py",
    "inference.py",
    "sharing.py",
    "gradients.py",
    "cutoff.py",
    "scale.py",
)
"""Files of this room that can change a cell's outcome; the others only plan and draw."""

SINCE = {
    ("detection", "ensemble"): "none",
    ("detector", "identities"): "trained",
    ("detector", "device"): "cpu",
    ("detector", "batch_edges"): None,
    ("graph", "nodes"): "hosts",
    ("graph", "weight"): "events",
    ("graph", "roles"): None,
}
"""Settings younger than recorded cells. With these values nothing changes, so they are no part of a key."""

Label = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One recorded run to be.

    `experiment` is fully resolved, seed included. `data` is the hash of the events and silos it names:
    the paths themselves are no part of the cell's identity, so that a folder may move. `runner` is
    `module:function`, called in a process of its own as function(experiment, options, work); `work` is a
    folder that is still there when a stopped cell is run again. `labels` place the cell in tables (method,
    K, seed, ...) and do not matter to its identity either: two tables that ask for the same run share it.
    """

    experiment: Experiment
    data: str
    labels: Mapping[str, Label] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    runner: str = MEASURE

    @property
    def key(self) -> str:
        resolved = self.experiment.model_dump(mode="json")
        resolved["data"] = {k: v for k, v in resolved["data"].items() if k not in ("events", "silos")}
        for (section, name), value in SINCE.items():
            if resolved[section].get(name) == value:
                resolved[section].pop(name, None)
        # Neither the name nor the number of workers changes a result.
        resolved = {k: v for k, v in resolved.items() if k not in ("name", "workers")}
        identity = {
            "experiment": resolved,
            "data": self.data,
            "options": dict(self.options),
            "runner": self.runner,
        }
        text = json.dumps(identity, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def family(self) -> Hashable:
        """Cells of one family run one after another in a process, which loads their data once.

        They may differ in everything but data, detector and seed. Non-FL does not depend on the silos, so
        it is one family for all K. A runner that measures time or memory has a process for each cell.
        """
        if self.runner not in TOGETHER:
            return self.key
        data, central = self.experiment.data, self.experiment.mode == "non-fl"
        return (
            self.runner,
            data.events,
            None if central else data.silos,
            self.experiment.detector.name,
            self.experiment.seed,
        )


@dataclass(frozen=True, slots=True)
class Record:
    """What became of a cell."""

    key: str
    status: Literal["done", "failed"]
    experiment: dict[str, Any]
    seed: int
    data: str
    options: dict[str, Any]
    runner: str
    command: str
    versions: dict[str, str]
    outcome: dict[str, Any]
    seconds: float
    peak_memory_mb: float | None
    finished: str
    error: str | None = None

    @property
    def values(self) -> dict[str, float | None]:
        """The outcome's plain figures, by name."""
        found: dict[str, float | None] = self.outcome.get("values", {})
        return found

    @property
    def config(self) -> Experiment:
        return parse_experiment(self.experiment)


Row = tuple[dict[str, Label], Record]
"""A planned cell's labels and what became of it."""


class Store:
    """The folder of a benchmark: `cells/`, one plan per grid, tables beside them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, key: str) -> Path:
        return self.path / "cells" / f"{key}.json"

    def read(self, key: str) -> Record | None:
        """The record of a cell, or None when there is none that can be read."""
        try:
            return Record(**read_json(self.file(key)))
        except (StorageError, TypeError):
            return None

    def write(self, record: Record) -> None:
        write_json(self.file(record.key), asdict(record))

    def work(self, key: str) -> Path:
        """Folder in which a cell keeps its checkpoints until it has come to an end of its own."""
        return self.path / "work" / key

    def write_plan(self, grid: str, cells: Sequence[Cell], facts: Mapping[str, Any]) -> None:
        """Remember which cells make up a grid, and under which labels."""
        plan = {"cells": [{"key": c.key, "labels": dict(c.labels)} for c in cells], "facts": dict(facts)}
        write_json(self.path / f"{grid}.plan.json", plan)

    def rows(self, grid: str) -> tuple[list[Row], dict[str, Any]]:
        """All recorded cells of a grid in the order of its plan, and the plan's facts.

        `planned` counts all cells of the plan, recorded or not.
        """
        path = self.path / f"{grid}.plan.json"
        if not path.exists():
            raise StorageError(
                f"holds no results of `bench {grid}`",
                where=self.path,
                remedy=f"Run `entente bench {grid} --out {self.path}` first.",
            )
        plan = read_json(path)
        rows = []
        for planned in plan["cells"]:
            record = self.read(planned["key"])
            if record is not None:
                rows.append((dict(planned["labels"]), record))
        return rows, {**plan["facts"], "planned": len({planned["key"] for planned in plan["cells"]})}

    def has(self, grid: str) -> bool:
        return (self.path / f"{grid}.plan.json").exists()


@cache
def versions() -> dict[str, str]:
    """What a result depends on besides its configuration; `code` is a digest of this package's own files."""
    from importlib.metadata import version

    found = {name: version(name) for name in ("entente", "torch", "numpy", "scipy", "duckdb")}
    return {**found, "python": platform.python_version(), "code": code_digest()}


def code_digest() -> str:
    """Digest of every source file that can change a result (tables, reports and commands cannot)."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for file in sorted(root.glob("entente*/**/*.py")):
        part = file.relative_to(root)
        if not {"bench", "report", "cli"} & set(part.parts) or part.name in MEASURING:
            digest.update(str(part).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]
