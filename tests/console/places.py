"""A run folder and a coordinator's kit, as `entente train` and `entente federation` leave them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from entente.config import Experiment, to_toml
from entente.deployment.provision import provision
from entente.deployment.settings import parse_federation
from entente.deployment.site import Site
from entente.detection.metrics import evaluate
from entente.runs.folder import RunFolder
from entente.runs.records import RunMetrics

SITES = ("graz", "lyon", "porto")


def make_run(folder: Path, seed: int = 0, rounds: int = 8) -> Path:
    """Rounds with contributions, one refusal and a warning, and metrics of random scores."""
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(to_toml(Experiment(name="console", seed=seed)))
    rng = np.random.default_rng(seed)
    with (folder / "rounds.jsonl").open("w") as file:
        for i in range(1, rounds + 1):
            silos: dict[str, dict[str, Any]] = {
                site: {"refused": None, "j": 0.1 * k, "s": 0.9, "d": 1.0, "r": 0.3 + 0.1 * k,
                       "ap": 0.6 + 0.1 * k + 0.02 * i, "norm": 2.0 / i + k, "clipped": k == 2,
                       "bytes_up": 8300, "bytes_down": 8300, "seconds": 0.4 + k}
                for k, site in enumerate(SITES)
            }  # fmt: skip
            if i == 3:
                silos["porto"] = {"refused": "an update that is not finite"}
            record = {
                "kind": "train", "id": i, "round": i, "attempt": 1, "loss": 1.0 / i, "bound": 2.0,
                "silos": silos,
                "validation": {"ap": 1 - 0.5 / i, "auc": 1 - 0.3 / i}, "aggregated": True, "privacy": None,
                "warnings": ["lyon stands out"] if i == 4 else [],
            }  # fmt: skip
            file.write(json.dumps(record) + "\n")
    label = rng.random(400) < 0.1
    score = rng.random(400) + label
    window = np.arange(400, dtype=np.int64) // 10 * 1_800_000_000
    overall = evaluate(score.astype(np.float32), label.astype(np.uint8), window, 1.0, 1800)
    RunFolder(folder).write_metrics(RunMetrics(overall=overall, per_silo={}, baselines={}))
    return folder


def write_status(service: Path, at: float) -> None:
    """What a service says of itself at some time, with a source that is silent and an output that is down."""
    status = {
        "at": at, "model": "3f9c2ab1", "scored_until": "2026-09-24 12:30", "pending": 412,
        "events": 1_284_113, "windows": 164, "alerts": 7, "suppressed": 0, "open_alerts": 7, "drift": 4.2,
        "dropped": {"late": 7, "from the future": 2},
        "sources": [
            {"name": "zeek", "silent": False, "reached": "2026-09-24 12:41", "behind": 0, "notes": []},
            {"name": "vpn", "silent": True, "reached": None, "behind": None, "notes": ["no file yet"]},
        ],
        "outputs": [{"name": "siem", "waiting": 3, "refused": 1, "attempts": 2}],
    }  # fmt: skip
    (service / "status.json").write_text(json.dumps(status))


def make_kit(folder: Path) -> Path:
    """A coordinator's kit with two of three silos in."""
    ports = {"port": 18102, "operator_port": 18103}
    table = {"name": "test", "silos": ["east", "north", "west"], "coordinator": ports}
    kit = provision(parse_federation(table, folder / "federation.toml"), folder / "federation")["coordinator"]
    site = Site.load(kit)
    for silo in ("east", "north"):
        site.audit.append("silo-joined", silo=silo, session="x")
    site.audit.append("silo-version", silo="north", version="0.0.9")
    site.write_members({silo: {"session": "x", "seen": time.time()} for silo in ("east", "north")})
    return kit
