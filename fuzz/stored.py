"""Coverage-guided fuzzing of messages, checkpoints, silo states, kits, experiments, jobs and audit records.

    pip install 'entente[fuzz]'
    python fuzz/stored.py seeds CORPUS
    python fuzz/stored.py TARGET [-max_total_time=600] [CORPUS/TARGET]

TARGET is one of: wire, checkpoint, state, kit, experiment, job, audit. Checksums are made to fit: what
a damaged disk or a clumsy editor cannot do is tried too. Where facts and arrays are bundled, an input that
begins with a byte above 127 is the facts alone, in a bundle that is otherwise right. Whatever the bytes, the
reader gives a value or raises an EntenteError; anything else is a finding; libFuzzer keeps the input.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["entente"]):
    import numpy as np
    from numpy.typing import NDArray

    from entente.artifacts import encode_bundle, seal
    from entente.config import load_experiment, parse_experiment
    from entente.deployment import job
    from entente.deployment.audit import Audit, verify, witness
    from entente.deployment.provision import load_kit
    from entente.deployment.settings import load_federation, parse_federation, template
    from entente.deployment.wire import BUNDLE, decode, encode
    from entente.detectors.base import GraphShape
    from entente.errors import EntenteError
    from entente.federation.coordinator import Coordinator
    from entente.federation.messages import Reply, TrainTask, Update, pack
    from entente.federation.reply_check import ReplyCheck
    from entente.graphs.hosts import HostTable
    from entente.runs.folder import RunFolder
    from entente.runs.state import SiloState
    from entente.runtime.loop import Journal, make_coordinator
    from entente.runtime.transport import SerialTransport

from harness import fuzz

FOLDER = Path(tempfile.mkdtemp(prefix="entente-fuzz-"))
EXPERIMENT = parse_experiment({"detector": {"name": "behaviour", "hidden": 2, "base": False}})
SILOS = ("a", "b", "c")
FEDERATION = parse_federation({"silos": SILOS})
LIMIT = 1 << 20


def coordinator() -> Coordinator:
    return make_coordinator(EXPERIMENT, GraphShape(4), SILOS)


TASK = TrainTask(7, round=1, weights=coordinator().weights)
UPDATE = Update(7, "a", round=1, edges=1, weights=TASK.weights)
SHAPES = {name: array.shape for name, array in TASK.weights.items()}


def bundle(data: bytes, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bundle that an input stands for: itself, or its facts with good arrays."""
    if data[:1] < b"\x80":
        return data[1:]
    try:
        return encode_bundle(json.loads(data[1:]), arrays)
    except (ValueError, RecursionError):
        return b""


def fuzz_wire(data: bytes) -> None:
    """A message as it arrives, and what the coordinator makes of it if it is a reply."""
    message = decode({BUNDLE: bundle(data, pack(UPDATE).arrays)}, LIMIT)
    if isinstance(message, Reply):
        check = ReplyCheck(TASK, SILOS, SHAPES)
        for accepted in check.accepted([message], {}):
            assert isinstance(accepted, Update)
            assert all(np.isfinite(array).all() for array in accepted.weights.values())
        assert all(len(reason) <= 301 for reason in check.refused.values())


def fuzz_checkpoint(data: bytes) -> None:
    """A coordinator's checkpoint whose checksum fits: the run goes on from it or refuses it."""
    step = FOLDER / "run" / "checkpoints" / "00000002"
    step.mkdir(parents=True, exist_ok=True)
    (step / "coordinator.safetensors").write_bytes(bundle(data, coordinator().state().arrays))
    seal(step)
    made = coordinator()
    Journal(RunFolder(FOLDER / "run")).resume(made, SerialTransport({}))
    made.next_task()
    made.state()


def fuzz_state(data: bytes) -> None:
    """A silo's state: the first byte says which of its two files the rest is."""
    folder = FOLDER / "state"
    folder.mkdir(exist_ok=True)
    good_state().store(folder)
    name = "hosts.parquet" if data[:1] < b"\x80" else "state.safetensors"
    (folder / name).write_bytes(data[1:])
    seal(folder)
    SiloState.load(folder)


def fuzz_kit(data: bytes) -> None:
    (FOLDER / "kit.json").write_bytes(data)
    load_kit(FOLDER)


def fuzz_experiment(data: bytes) -> None:
    """Experiment and federation files."""
    file = FOLDER / "some.toml"
    file.write_bytes(data[1:])
    (load_experiment if data[:1] < b"\x80" else load_federation)(file)


def fuzz_job(data: bytes) -> None:
    """A file of a job as a site judges it; the first byte says which of the three."""
    application = job.write_job(FOLDER / "job", job.portable(EXPERIMENT), FEDERATION) / job.APP
    name = (job.SERVER_FILE, job.CLIENT_FILE, job.EXPERIMENT)[data[0] % 3] if data else job.EXPERIMENT
    (application / "config" / name).write_bytes(data[1:])
    job.why_refused(application)


def fuzz_audit(data: bytes) -> None:
    """An audit record, as its own site and as another one reads it."""
    own = Audit(FOLDER / "own.jsonl", "a")
    if not own.path.exists():
        own.append("round", heads={"b": "0" * 64})
    other = FOLDER / "audit.jsonl"
    other.write_bytes(data)
    for look in (
        lambda: verify(other),
        lambda: witness(own.path, other),
        lambda: witness(other, own.path),
        Audit(other, "b").head,
    ):
        with suppress(EntenteError):
            look()


def good_state() -> SiloState:
    hosts = HostTable(
        np.array(["ws1", "srv"]), np.array([True, False]), np.array([[0, 1], [2, 3]], dtype=np.int32)
    )
    return SiloState(until=1, hosts=hosts, detector={"x": np.zeros(2, dtype=np.float32)})


TARGETS: dict[str, Callable[[bytes], None]] = {
    "wire": fuzz_wire,
    "checkpoint": fuzz_checkpoint,
    "state": fuzz_state,
    "kit": fuzz_kit,
    "experiment": fuzz_experiment,
    "job": fuzz_job,
    "audit": fuzz_audit,
}


def write_seeds(folder: Path) -> None:
    """One good input per target."""
    from entente.config import to_toml

    good_state().store(FOLDER / "state")
    record = Audit(FOLDER / "seed.jsonl", "b")
    for number in range(2):
        record.append("round", heads={"a": "0" * 64}, round=number)
    federation = template("x", ("a", "b"), "localhost", 8102, 8103)
    kit = {"site": "a", "role": "silo", "version": "1", "federation": {"silos": ["a", "b"]}}
    seeds = {
        "wire": [
            *(b"\x00" + encode(message)[BUNDLE] for message in (UPDATE, TASK)),
            *(b"\xff" + json.dumps(pack(message).facts).encode() for message in (UPDATE, TASK)),
        ],
        "checkpoint": [
            b"\x00" + encode_bundle(*coordinator().state()),
            b"\xff" + json.dumps(coordinator().state().facts).encode(),
        ],
        "state": [
            b"\x00" + (FOLDER / "state" / "hosts.parquet").read_bytes(),
            b"\xff" + (FOLDER / "state" / "state.safetensors").read_bytes(),
        ],
        "kit": [json.dumps(kit).encode()],
        "experiment": [b"\x00" + to_toml(EXPERIMENT).encode(), b"\xff" + federation.encode()],
        "job": [
            b"\x00" + json.dumps(job.server_config()).encode(),
            b"\x00" + json.dumps(job.server_config({"turns": 2, "pause": 5.0})).encode(),
            b"\x01" + json.dumps(job.client_config()).encode(),
            b"\x02" + to_toml(job.portable(EXPERIMENT)).encode(),
        ],
        "audit": [record.path.read_bytes()],
    }
    for target, inputs in seeds.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(inputs):
            (folder / target / f"seed{number}").write_bytes(content)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "seeds":
        write_seeds(Path(sys.argv[2]))
    else:
        fuzz(TARGETS, __doc__ or "")
