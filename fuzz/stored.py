"""Coverage-guided fuzzing of messages, checkpoints, silo states, kits and experiment files.

    pip install 'entente[fuzz]'
    python fuzz/stored.py seeds CORPUS
    python fuzz/stored.py TARGET [-max_total_time=600] [CORPUS/TARGET]

TARGET is one of: wire, checkpoint, state, kit, experiment. Checksums are made to fit, so that what a damaged
disk or a clumsy editor cannot do is tried too. Whatever the bytes, the reader gives a value or raises an
EntenteError; anything else is a finding; libFuzzer keeps the input.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["entente"]):
    import numpy as np

    from entente.artifacts import encode_bundle, seal
    from entente.config import load_experiment, parse_experiment
    from entente.deployment.provision import load_kit
    from entente.deployment.settings import load_federation, template
    from entente.deployment.wire import BUNDLE, decode, encode
    from entente.detectors.base import GraphShape
    from entente.errors import EntenteError
    from entente.federation.coordinator import Coordinator
    from entente.federation.messages import Reply, TrainTask, Update
    from entente.federation.reply_check import ReplyCheck
    from entente.graphs.hosts import HostTable
    from entente.runs.folder import RunFolder
    from entente.runs.state import SiloState
    from entente.runtime.loop import Journal, make_coordinator
    from entente.runtime.transport import SerialTransport

FOLDER = Path(tempfile.mkdtemp(prefix="entente-fuzz-"))
EXPERIMENT = parse_experiment({"detector": {"name": "behaviour", "hidden": 2}})
SILOS = ("a", "b", "c")
LIMIT = 1 << 20


def coordinator() -> Coordinator:
    return make_coordinator(EXPERIMENT, GraphShape(4), SILOS)


TASK = TrainTask(7, round=1, weights=coordinator().weights)
SHAPES = {name: array.shape for name, array in TASK.weights.items()}


def fuzz_wire(data: bytes) -> None:
    """A message as it arrives, and what the coordinator makes of it if it is a reply."""
    message = decode({BUNDLE: data}, LIMIT)
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
    (step / "coordinator.safetensors").write_bytes(data)
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
}


def write_seeds(folder: Path) -> None:
    """One good input per target."""
    import json

    from entente.config import to_toml

    good_state().store(FOLDER / "state")
    update = Update(7, "a", round=1, edges=1, weights=TASK.weights)
    federation = template("x", ("a", "b"), "localhost", 8102, 8103)
    kit = {"site": "a", "role": "silo", "version": "1", "federation": {"silos": ["a", "b"]}}
    seeds = {
        "wire": [encode(update)[BUNDLE], encode(TASK)[BUNDLE]],
        "checkpoint": [encode_bundle(*coordinator().state())],
        "state": [
            b"\x00" + (FOLDER / "state" / "hosts.parquet").read_bytes(),
            b"\xff" + (FOLDER / "state" / "state.safetensors").read_bytes(),
        ],
        "kit": [json.dumps(kit).encode()],
        "experiment": [b"\x00" + to_toml(EXPERIMENT).encode(), b"\xff" + federation.encode()],
    }
    for target, inputs in seeds.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(inputs):
            (folder / target / f"seed{number}").write_bytes(content)


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "seeds":
        write_seeds(Path(sys.argv[2]))
        return
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"{__doc__}\ntargets: {', '.join(TARGETS)}")
    target = TARGETS[sys.argv.pop(1)]

    def one(data: bytes) -> None:
        try:
            target(data)
        except EntenteError:
            return

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
