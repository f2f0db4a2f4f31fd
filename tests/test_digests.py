"""The same seed gives the same bits as before: recorded digests of models and scores.

`python tests/test_digests.py` records them again, which is right only after a change that is meant to
change numbers. Another processor may round differently: there the recorded sums have to agree closely.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entente.config import Experiment, parse_experiment
from entente.federation.aggregators import available as aggregators
from entente.logs.events import write_events
from entente.partition.base import Assignment, write_silos
from entente.runs.folder import RunFolder
from entente.runtime.local import train
from entente_lab.simulator import SimulationConfig, simulate

RECORD = Path(__file__).with_name("digests.json")
SMALL_EULER = {"name": "euler", "hidden": 8, "embedding": 4}
SMALL_JBEIL = {"name": "lab-jbeil", "memory": 8, "time": 4, "embedding": 8, "layers": 1, "neighbours": 3}
OTHER_EULER = SMALL_EULER | {
    "name": "lab-euler",
    "encoder": "gat",
    "temporal": "lstm",
    "decoder": "inner",
    "task": "detection",
    "advance": "windows",
}
CASES: dict[str, dict[str, Any]] = {
    "euler": {"detector": SMALL_EULER},
    "euler, two workers": {"detector": SMALL_EULER, "workers": 2},
    "euler, other layers": {"detector": OTHER_EULER},
    "euler, each alone": {"detector": SMALL_EULER, "mode": "local-only"},
    "jbeil": {"detector": SMALL_JBEIL},
    "first-seen": {"detector": {"name": "first-seen"}},
    "novelty-burst": {"detector": {"name": "novelty-burst"}},
    "midas": {"detector": {"name": "midas"}},
    **{
        f"aggregation rule {rule}": {
            "detector": SMALL_EULER,
            "federation": {"rounds": 2, "aggregation": {"rule": rule}},
        }
        for rule in aggregators()
        if not rule.startswith("lab-")
    },
}


def company(folder: Path) -> None:
    simulation = simulate(SimulationConfig(sites=3, hosts=60, days=4.0, seed=1))
    write_events(simulation.events, folder / "events")
    hosts, sites = simulation.hosts["host"].to_pylist(), simulation.hosts["site"].to_pylist()
    write_silos(folder / "silos.csv", Assignment.from_mapping(dict(zip(hosts, sites, strict=True))))


def experiment(folder: Path, settings: dict[str, Any]) -> Experiment:
    data = {"train": 2.4 * 86400, "window": 7200.0, "validation": 0.2}
    paths = {"events": str(folder / "events"), "silos": str(folder / "silos.csv")}
    return parse_experiment({"federation": {"rounds": 3}, **settings, "data": data | paths})


def outcome(folder: Path, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Digest and a sum of everything that a run trained and scored."""
    run = train(experiment(folder, settings), RunFolder(folder / re.sub(r"\W+", "-", name)), baselines=())
    arrays = {f"model/{owner}/{key}": a for owner, m in run.models.items() for key, a in m.items()}
    arrays |= {f"scores/{silo}": scored.score for silo, scored in run.evaluation.scored.items()}
    digest = hashlib.sha256()
    for key in sorted(arrays):
        digest.update(key.encode() + np.ascontiguousarray(arrays[key]).tobytes())
    total = float(sum(np.abs(array.astype(np.float64)).sum() for array in arrays.values()))
    return {"sha256": digest.hexdigest(), "sum": total}


def processor() -> str:
    """Names the processor, since libraries choose their kernels by it."""
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return platform.processor()
    kept = re.findall(r"^(?:vendor_id|cpu family|model|model name|flags)\s*:.*$", about, re.MULTILINE)
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:16]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("company")
    company(folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_the_same_seed_gives_the_recorded_bits(name: str, folder: Path) -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    found = outcome(folder, name, CASES[name])
    if record["processor"] == processor():
        assert found["sha256"] == record["cases"][name]["sha256"]
    assert found["sum"] == pytest.approx(record["cases"][name]["sum"], rel=1e-3)


def record_again() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        company(Path(scratch))
        cases = {name: outcome(Path(scratch), name, settings) for name, settings in CASES.items()}
    table = {"processor": processor(), "cases": cases}
    RECORD.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record_again()
