"""What the engine costs: a round over NVIDIA FLARE on loopback beside the same round in one process.

    python benchmarks/flare.py [--quick] [--rounds 12] [--silos 2 5] [--shaped]

The model has 2 MB and the graphs are tiny. Engine overhead = a round's time minus the time the
slowest silo worked on it: polling, serialisation, TLS, the coordinator's checkpoint and records.
`--shaped` (root and iproute2) puts the coordinator and every silo into network namespaces of their
own, each silo behind 1 MB/s up, 10 MB/s down and 50 ms, the link of the paper's estimate.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from entente.config import load_experiment
from entente.deployment import process, submit
from entente.deployment.audit import read
from entente.deployment.provision import SECRET, provision
from entente.deployment.settings import parse_federation
from entente.deployment.site import Site
from entente.detectors.base import GraphShape
from entente.federation.coordinator import Coordinator
from entente.graphs.identity import KeyedHash
from entente.logs.events import write_events
from entente.runs.folder import RunFolder
from entente.runtime.assembly import initial_model
from entente.runtime.participants import HONEST

HUB, COORDINATOR = "en-hub", "10.77.0.1"
TABLE = 15_900
"""Rows of 32 float32: with the other weights, a model of 2.06 MB."""

EXPERIMENT = """
name = "engine"
[data]
events = "{events}"
window = 60
start = 0
end = 600
train = 540
[graph]
identity = "keyed-hash"
table_size = {table}
[detector]
name = "euler"
[federation]
rounds = {rounds}
patience = 1000
"""


def company(root: Path, silos: list[str]) -> None:
    rng = np.random.default_rng(0)
    for silo in silos:
        times = np.sort(rng.integers(0, 600_000_000, 300))
        src = [f"{silo}-{i}" for i in rng.integers(0, 20, 300)]
        dst = [f"{silo}-{20 + i}" for i in rng.integers(0, 20, 300)]
        write_events(pa.table({"time": times, "src": src, "dst": dst}), root / silo / "events")


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        for probe in (one, two):
            probe.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def in_one_process(root: Path, silos: list[str], rounds: int, secret: Path) -> list[float]:
    """Seconds of each round in the plain loop, checkpoint included, silos one after the other."""
    experiment = load_experiment(root / "experiment.toml")
    members = {}
    for name in silos:
        own = experiment.model_copy(
            update={
                "data": experiment.data.model_copy(update={"events": root / name / "events"}),
                "graph": experiment.graph.model_copy(update={"secret": secret}),
            }
        )
        silo = HONEST.load(own, ["all"])["all"]
        silo.name = name
        members[name] = silo
    shape = GraphShape(experiment.graph.table_size, KeyedHash.rows_per_host)
    layout, weights = initial_model(experiment, shape)
    coordinator = Coordinator(experiment.federation, experiment.privacy, layout, weights, silos, 0, "euler")
    folder = RunFolder(root / "plain")
    folder.begin(experiment, resume=False)
    seconds = []
    while (task := coordinator.next_task()) is not None:
        started = time.perf_counter()
        record = coordinator.conclude([members[name].handle(task) for name in silos])
        if record is not None:
            folder.append_round(record)
        states = {name: silo.state() for name, silo in members.items()}
        folder.checkpoints().save(coordinator.task_id, coordinator.state(), states)
        if task.kind == "train":
            seconds.append(time.perf_counter() - started)
    return seconds


def over_flare(root: Path, silos: list[str], shaped: bool) -> dict[str, object]:
    """Seconds of each round, bytes, and memory of idle sites, over a provisioned deployment."""
    port, operator = free_ports()
    host = COORDINATOR if shaped else "localhost"
    federation = parse_federation(
        {
            "name": "engine",
            "silos": silos,
            "coordinator": {"host": host, "port": port, "operator_port": operator},
            "terms": {"deadline": 300, "gathering": 240},
        }
    )
    kits = provision(federation, root / "federation")
    coordinator = Site.load(kits["coordinator"])
    started = []
    try:
        started.append(process.start(coordinator))
        for silo in silos:
            site = Site.load(kits[silo])
            site.save_settings(root / silo / "events", None)
            started.append(launch(site, silo if shaped else None))
        submit.gather(coordinator)
        idle = [memory(pid) for pid in started]
        experiment = submit.prepare(coordinator, load_experiment(root / "experiment.toml"))
        taken = submit.submit(coordinator, experiment)
        submit.follow(coordinator, taken)
    finally:
        for kit in kits.values():
            process.stop(Site.load(kit))
    steps = [entry for _, entry in read(coordinator.audit.path) if entry["event"] == "step"]
    times = [(time_of(entry), entry["kind"]) for entry in steps]
    rounds = [b[0] - a[0] for a, b in itertools.pairwise(times) if b[1] == "train"]
    tasks = {
        silo: [e for _, e in read(Site.load(kits[silo]).audit.path) if e.get("kind") == "train"]
        for silo in silos
    }
    worked = [max(e["seconds"] for e in same) for same in zip(*tasks.values(), strict=True)]
    last = tasks[silos[0]][-1]
    return {
        "seconds": rounds[1:],  # the first one waits for graphs to be built
        "overhead": [whole - work for whole, work in zip(rounds, worked, strict=True)][1:],
        "bytes_up": last["bytes_up"],
        "bytes_down": last["bytes_down"],
        "idle_mb_coordinator": idle[0],
        "idle_mb_silo": statistics.median(idle[1:]),
        "secret": kits[silos[0]] / "local" / SECRET,
    }


def time_of(entry: dict[str, str]) -> float:
    from datetime import datetime

    return datetime.fromisoformat(entry["time"]).timestamp()


def memory(pid: int) -> float:
    """Resident megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return round(int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1000, 1)


def launch(site: Site, namespace: str | None) -> int:
    if namespace is None:
        return process.start(site)
    (site.path / "transfer").mkdir(exist_ok=True)
    with (site.path / "console.log").open("ab") as console:
        started = subprocess.Popen(
            ["ip", "netns", "exec", f"en-{namespace}", *process.command(site)],
            cwd=site.path,
            env=process.environment(),
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    (site.path / "site.pid").write_text(f"{started.pid}\n", encoding="utf-8")
    return started.pid


@contextlib.contextmanager
def network(silos: list[str]) -> Iterator[None]:
    """A namespace with a bridge for the coordinator and one per silo; nothing leaves this machine."""

    def run(*words: str, check: bool = True) -> None:
        subprocess.run(words, check=check, capture_output=True)

    hub = ("ip", "-n", HUB)
    delayed = True
    try:
        run("ip", "netns", "add", HUB)
        run(*hub, "link", "set", "lo", "up")
        run(*hub, "link", "add", "bridge", "type", "bridge")
        run(*hub, "addr", "add", f"{COORDINATOR}/24", "dev", "bridge")
        run(*hub, "link", "set", "bridge", "up")
        for number, silo in enumerate(silos, start=2):
            space = f"en-{silo}"
            run("ip", "netns", "add", space)
            run(*hub, "link", "add", silo, "type", "veth", "peer", "name", "line", "netns", space)
            run(*hub, "link", "set", silo, "master", "bridge")
            run(*hub, "link", "set", silo, "up")
            run("ip", "-n", space, "addr", "add", f"10.77.0.{number}/24", "dev", "line")
            run("ip", "-n", space, "link", "set", "lo", "up")
            run("ip", "-n", space, "link", "set", "line", "up")
            delayed = shape(space, "line", "8mbit") and shape(HUB, silo, "80mbit")
        if not delayed:
            print("this kernel has no netem: the links have the rates, but not the delay of 50 ms")
        yield
    finally:
        for name in (HUB, *(f"en-{silo}" for silo in silos)):
            run("ip", "netns", "del", name, check=False)


def shape(space: str, device: str, rate: str) -> bool:
    """Limit what leaves through `device`; whether 25 ms (of 50 both ways) could be added too."""
    link = ["tc", "-n", space, "qdisc", "add", "dev", device, "root"]
    both = [*link, "netem", "delay", "25ms", "rate", rate, "limit", "10000"]
    if subprocess.run(both, capture_output=True, check=False).returncode == 0:
        return True
    bucket = [*link, "tbf", "rate", rate, "burst", "64kb", "latency", "2s"]
    subprocess.run(bucket, capture_output=True, check=True)
    return False


def measure(count: int, rounds: int, shaped: bool, table: int) -> dict[str, float]:
    silos = [f"s{number}" for number in range(count)]
    root = Path(tempfile.mkdtemp(prefix="entente-flare-"))
    try:
        company(root, silos)
        text = EXPERIMENT.format(events=root / silos[0] / "events", table=table, rounds=rounds)
        (root / "experiment.toml").write_text(text, encoding="utf-8")
        carried = over_flare(root, silos, shaped)
        plain = in_one_process(root, silos, rounds, Path(str(carried.pop("secret"))))[1:]
    finally:
        shutil.rmtree(root, ignore_errors=True)
    seconds: list[float] = carried.pop("seconds")  # type: ignore[assignment]
    overhead: list[float] = carried.pop("overhead")  # type: ignore[assignment]
    flare, loop = statistics.median(seconds), statistics.median(plain)
    return {
        "round_flare": round(flare, 3),
        "round_in_one_process": round(loop, 3),
        "engine_overhead": round(statistics.median(overhead), 3),
        "ratio": round(flare / loop, 2),
        **carried,  # type: ignore[dict-item]
    }


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--quick", action="store_true", help="two silos, few rounds")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--silos", type=int, nargs="+", default=[2, 5])
    parser.add_argument("--table", type=int, default=TABLE, help="rows of the model's identity table")
    parser.add_argument("--shaped", action="store_true", help="network namespaces, 1 MB/s up, 10 down, 50 ms")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    counts, rounds = ([2], 6) if options.quick else (options.silos, options.rounds)
    if options.shaped and not options.inside:
        if os.geteuid() != 0 or not shutil.which("tc"):
            sys.exit("--shaped needs root and iproute2 (tc)")
        for count in counts:
            with network([f"s{number}" for number in range(count)]):
                words = ["--shaped", "--inside", "--rounds", str(rounds), "--silos", str(count)]
                words += ["--table", str(options.table)]
                enter = ["ip", "netns", "exec", HUB]
                subprocess.run([*enter, sys.executable, __file__, *words], check=True)
        return
    ratios = {}
    for count in counts:
        told = measure(count, rounds, options.shaped, options.table)
        print(f"K = {count}: " + ", ".join(f"{name} {value}" for name, value in told.items()))
        ratios |= {f"K={count} {name}": value for name, value in told.items()}
    print(json.dumps({"benchmark": "flare", "ratios": ratios}))


if __name__ == "__main__":
    main()
