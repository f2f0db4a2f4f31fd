"""A real federation on loopback, shared by the tests that need one: a coordinator and three silos.

Silos run with a `sitecustomize` of the tests' making: a site can run whatever it likes, and so it can
be slow, or send rubbish, without a hook in the product.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file as read_arrays

from entente.config import load_experiment
from entente.deployment.job import run_name
from entente.deployment.join import complete, request
from entente.deployment.process import _descendants, pid_of
from entente.deployment.provision import SECRET, provision, read_requests
from entente.deployment.settings import parse_federation
from entente.deployment.site import RunState, Site
from entente.deployment.submit import prepare
from entente.logs.events import write_events
from entente.runs.folder import RunFolder

SILOS = ("east", "north", "west")
DEADLINE = 30

EXPERIMENT = """
name = "{name}"
seed = 3
[data]
events = "{events}"
window = 60
start = 0
end = 2400
train = 1800
[graph]
table_size = {table}
[detector]
name = "euler"
identities = "{identities}"
hidden = 8
embedding = 4
[federation]
rounds = {rounds}
"""

BEHAVIOUR = """
import json, os, time
from dataclasses import replace
from pathlib import Path
import entente.deployment.wire as wire

honest = wire.encode
right = time.time
ahead = json.loads(Path(os.environ["LAB_BEHAVIOUR"]).read_text()).get("clock", 0)
time.time = lambda: right() + ahead

def encode(message, base=None):
    plan = json.loads(Path(os.environ["LAB_BEHAVIOUR"]).read_text())
    if message.kind == "update" and message.round == plan.get("endless"):
        message = replace(message, loss=10**400)
    content = honest(message, base)
    if message.kind == "update":
        time.sleep(plan.get("pace", 0))
        if message.round == plan.get("oversized"):
            content["bundle"] = content["bundle"] + bytes(1_500_000)
        if message.round == plan.get("damaged"):
            content["bundle"] = content["bundle"][: len(content["bundle"]) // 2]
        if message.round == plan.get("slow"):
            time.sleep(plan["by"])
    return content

wire.encode = encode
"""


class Lab:
    """A provisioned federation in one folder."""

    silos = SILOS
    deadline = DEADLINE

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hosts = root / "hosts.csv"
        _company(root)
        (root / "site").mkdir()
        (root / "site" / "sitecustomize.py").write_text(BEHAVIOUR)
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
            for probe in sockets:
                probe.bind(("127.0.0.1", 0))
            self.port, operator = (probe.getsockname()[1] for probe in sockets)
        terms = {"deadline": DEADLINE, "gathering": 30, "retries": 1, "update_limit": 1.0, "exchange": True}
        self.federation = parse_federation(
            {
                "name": "lab",
                "silos": SILOS,
                "coordinator": {"port": self.port, "operator_port": operator},
                "terms": terms,
            }
        )
        self.kits = self._kits()
        self.coordinator = Site.load(self.kits["coordinator"])
        for silo in SILOS:
            self.behave(silo)

    def _kits(self) -> dict[str, Path]:
        """Two sites make their own keys, the authority makes those of the others."""
        own = {site: self.root / "sites" / site for site in ("coordinator", "west")}
        signed: dict[str, Any] = {}
        for site, folder in own.items():
            for path in request(self.federation, site, folder):
                signed |= read_requests(self.federation, path)
        kits = provision(self.federation, self.root / "federation", requests=signed)
        return kits | {
            site: complete(self.federation, site, folder, kits[site]) for site, folder in own.items()
        }

    def entente(self, *words: object, silo: str = "") -> subprocess.CompletedProcess[str]:
        environment = dict(os.environ)
        if silo:
            environment["PYTHONPATH"] = _path(self.root / "site")
            environment["LAB_BEHAVIOUR"] = str(self.root / f"{silo}.json")
        command = [sys.executable, "-m", "entente", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)

    def behave(self, silo: str, **plan: float) -> None:
        path = self.root / f"{silo}.json"
        path.with_suffix(".new").write_text(json.dumps(plan))
        path.with_suffix(".new").replace(path)

    def start(self, *sites: str) -> None:
        for site in sites:
            words: list[object] = ["federation", "start", self.kits[site], "--background"]
            if site != "coordinator":
                words += ["--events", self.root / site / "events", "--hosts", self.hosts]
            done = self.entente(*words, silo="" if site == "coordinator" else site)
            assert done.returncode == 0, done.stderr

    def kill(self, site: str) -> None:
        """As a power cut would: the site's process and its jobs, without a word."""
        pid = pid_of(Site.load(self.kits[site]))
        assert pid is not None
        for process in (pid, *_descendants(pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def write(self, name: str, rounds: int, table: int = 256, identities: str = "trained") -> Path:
        path = self.root / f"{name}.toml"
        values = {"name": name, "rounds": rounds, "table": table, "identities": identities}
        path.write_text(EXPERIMENT.format(**values, events=self.root / "all" / "events"))
        return path

    def submit(self, experiment: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return self.entente("federation", "submit", experiment, "--kit", self.kits["coordinator"], *words)

    def run(self, experiment: Path) -> RunFolder:
        return RunFolder(
            self.coordinator.run(run_name(prepare(self.coordinator, load_experiment(experiment))))
        )

    def detached(self, experiment: Path) -> RunFolder:
        """Submit, and wait until the second round is done."""
        done = self.submit(experiment, "--detach")
        assert done.returncode == 0, done.stderr
        run = self.run(experiment)
        self.wait(lambda: len(run.rounds()) >= 2, 300, "two rounds")
        return run

    def ended(self, run: RunFolder, seconds: float = 200) -> dict[str, Any]:
        state = RunState(run.path)
        self.wait(lambda: state.read().get("phase") in RunState.ENDED, seconds, "the run's end")
        return state.read()

    def in_one_process(self, experiment: Path) -> dict[str, Any]:
        """The model of `runtime/local.py` for the same experiment, from everybody's events."""
        return self.models_in_one_process(experiment)[""]

    def models_in_one_process(self, experiment: Path) -> dict[str, dict[str, Any]]:
        """The same, and what silos have of their own."""
        from entente.runtime.assembly import load_dataset
        from entente.runtime.local import fit

        agreed = self.federation.terms.apply(load_experiment(experiment))
        secret = self.kits["east"] / "local" / SECRET
        agreed = agreed.model_copy(
            update={
                "data": agreed.data.model_copy(update={"silos": self.hosts}),
                "graph": agreed.graph.model_copy(update={"secret": secret}),
            }
        )
        folder = RunFolder(self.root / "local" / experiment.stem)
        folder.begin(agreed, resume=False)
        return fit(agreed, folder, load_dataset(agreed))[0]

    def session(self, silo: str) -> str:
        return str((self.coordinator.members() or {})[silo]["session"])

    @staticmethod
    def wait(ready: Callable[[], object], seconds: float, what: str) -> None:
        until = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > until:
                pytest.fail(f"{what} did not come within {seconds:g} s")
            time.sleep(0.2)

    def wait_for(self, *silos: str) -> None:
        self.wait(
            lambda: set(self.coordinator.members() or ()) == set(silos), 300, f"only {', '.join(silos)}"
        )

    @staticmethod
    def same(run: RunFolder, wanted: dict[str, Any]) -> bool:
        stored = read_arrays(run.path / "model.safetensors")
        return set(stored) == set(wanted) and all(
            stored[n].tobytes() == a.tobytes() for n, a in wanted.items()
        )

    @staticmethod
    def took_part(run: RunFolder, silo: str) -> list[bool]:
        return [silo not in r.refused for r in run.rounds() if r.trained]

    def close(self) -> None:
        for kit in self.kits.values():
            self.entente("federation", "stop", kit)


def _path(first: Path) -> str:
    """PYTHONPATH with a folder before whatever it holds already."""
    return os.pathsep.join(filter(None, (str(first), os.environ.get("PYTHONPATH", ""))))


def _company(root: Path) -> None:
    """Everybody's events, and for each silo those that touch one of its hosts."""
    rng = np.random.default_rng(0)
    hosts = {silo: [f"{silo}-{i:02d}" for i in range(12)] for silo in SILOS}
    everyone = [host for names in hosts.values() for host in names]
    rows = []
    for second in range(0, 2400, 60):
        for silo in SILOS:
            for _ in range(25):
                source = str(rng.choice(hosts[silo]))
                target = str(rng.choice(hosts[silo] if rng.random() < 0.85 else everyone))
                if source != target:
                    rows.append((int((second + rng.random() * 60) * 1e6), source, target))
    rows.sort()
    for place in ("all", *SILOS):
        own = set(hosts.get(place, everyone))
        kept = [row for row in rows if row[1] in own or row[2] in own]
        columns = {name: [row[i] for row in kept] for i, name in enumerate(("time", "src", "dst"))}
        write_events(pa.table(columns), root / place / "events")
    lines = [f"{host},{silo}" for silo in SILOS for host in hosts[silo]]
    (root / "hosts.csv").write_text("\n".join(["host,silo", *lines]) + "\n")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    pytest.importorskip("nvflare")
    made = Lab(tmp_path_factory.mktemp("lab"))
    try:
        made.start("coordinator", *SILOS)
        made.wait_for(*SILOS)
        yield made
    finally:
        made.close()
