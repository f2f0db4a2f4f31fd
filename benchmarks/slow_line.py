"""One silo of three behind a line of 1 MB/s that breaks: a model of 100 MB goes through it.

    python benchmarks/slow_line.py [--megabytes 100] [--rate 1] [--breaks 2] [--rounds 1]

A provisioned federation on loopback. The line breaks in the middle of the first model, each time after
an equal part of it. Said are when each task was done, what the line carried, and whether the silo
took part.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from entente.config import load_experiment
from entente.deployment import process, submit
from entente.deployment.audit import read
from entente.deployment.provision import provision
from entente.deployment.settings import parse_federation
from entente.deployment.site import Site
from entente.runs.folder import RunFolder
from flare import EXPERIMENT, company, free_ports, time_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "deployment"))
from line import Line, point

SILOS = ["s0", "s1", "s2"]
SLOW = SILOS[0]
ROW = 4 * 32
"""Bytes of an identity row: 32 float32."""


def carry(root: Path, megabytes: float, rate: float, breaks: int, rounds: int) -> dict[str, object]:
    company(root, SILOS)
    table = int(megabytes * 1e6 / ROW)
    text = EXPERIMENT.format(events=root / SLOW / "events", table=table, rounds=rounds)
    (root / "experiment.toml").write_text(text, encoding="utf-8")
    port, operator = free_ports()
    federation = parse_federation(
        {
            "name": "slow",
            "silos": SILOS,
            "coordinator": {"port": port, "operator_port": operator},
            "terms": {
                "deadline": 1500,
                "gathering": 240,
                "update_limit": 2 * megabytes + 1,
                "table_size": table,
            },
        }
    )
    kits = provision(federation, root / "federation")
    sites = {name: Site.load(kit) for name, kit in kits.items()}
    line = Line(port, int(rate * 1e6))
    point(kits[SLOW], line.port)
    began = time.monotonic()
    try:
        process.start(sites["coordinator"])
        for silo in SILOS:
            sites[silo].save_settings(root / silo / "events", None)
            process.start(sites[silo])
        submit.gather(sites["coordinator"])
        line.break_after(*(int(megabytes * 1e6 * (1 + i) / (1 + breaks)) for i in range(breaks)))
        submitted = time.monotonic()
        experiment = submit.prepare(sites["coordinator"], load_experiment(root / "experiment.toml"))
        taken = submit.submit(sites["coordinator"], experiment)
        state = submit.follow(sites["coordinator"], taken)
        ended = time.monotonic()
    finally:
        for site in sites.values():
            process.stop(site)
    run = RunFolder(sites["coordinator"].run(taken.run.path))
    steps = [entry for _, entry in read(sites["coordinator"].audit.path) if entry["event"] == "step"]
    tasks = [e for _, e in read(sites[SLOW].audit.path) if e["event"] == "task"]
    return {
        "phase": state["phase"],
        "gathered_after": round(submitted - began, 1),
        "seconds": round(ended - submitted, 1),
        "steps": [(e["kind"], round(time_of(e) - time_of(steps[0]), 1)) for e in steps],
        "bytes_down": max(e.get("bytes_down", 0) for e in tasks),
        "bytes_up": max(e.get("bytes_up", 0) for e in tasks),
        "carried": line.carried,
        "cuts": line.cuts,
        "took_part": [SLOW not in record.refused for record in run.rounds()],
        "has_the_model": (sites[SLOW].run(taken.run.path) / "model.safetensors").exists(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--rate", type=float, default=1.0, help="megabytes a second, each way")
    parser.add_argument("--breaks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the sites, kept afterwards")
    given = parser.parse_args()
    root = given.keep or Path(tempfile.mkdtemp(prefix="entente-line-"))
    try:
        told = carry(root, given.megabytes, given.rate, given.breaks, given.rounds)
    finally:
        if given.keep is None:
            shutil.rmtree(root, ignore_errors=True)
    for name, value in told.items():
        print(f"{name}: {value}")
    print(json.dumps({"benchmark": "slow_line", "told": told}))


if __name__ == "__main__":
    main()
