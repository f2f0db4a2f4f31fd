"""Whatever lies on disk or comes over the wire, with checksums made to fit: a value or an EntenteError."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entente.artifacts import encode_bundle, seal
from entente.config import load_experiment, parse_experiment, to_toml
from entente.deployment.provision import load_kit
from entente.deployment.wire import BUNDLE, decode, encode
from entente.detectors.base import GraphShape
from entente.errors import EntenteError
from entente.federation.coordinator import Coordinator
from entente.federation.messages import Update
from entente.graphs.hosts import HostTable
from entente.runs.folder import RunFolder
from entente.runs.state import SiloState
from entente.runtime.loop import Journal, make_coordinator
from entente.runtime.transport import SerialTransport

EXPERIMENT = parse_experiment({"detector": {"name": "behaviour", "hidden": 2}})
SPICE = [b"", b"\x00", b"\xff", b'"', b"[" * 3000, b"{", b"}", b"-1", b"1e999", b"null", b"9" * 30, b"[]"]
Reader = Callable[[Path, bytes], object]


def coordinator() -> Coordinator:
    return make_coordinator(EXPERIMENT, GraphShape(4), ("a", "b", "c"))


def state() -> SiloState:
    rows = np.array([[0, 1], [2, 3]], dtype=np.int32)
    return SiloState(until=1, hosts=HostTable(np.array(["a", "b"]), np.array([True, False]), rows))


def read_checkpoint(folder: Path, data: bytes) -> None:
    step = folder / "checkpoints" / "00000002"
    step.mkdir(parents=True, exist_ok=True)
    (step / "coordinator.safetensors").write_bytes(data)
    seal(step)
    made = coordinator()
    Journal(RunFolder(folder)).resume(made, SerialTransport({}))
    made.next_task()


def read_state(file: str) -> Reader:
    def read(folder: Path, data: bytes) -> object:
        state().store(folder / "state")
        (folder / "state" / file).write_bytes(data)
        seal(folder / "state")
        return SiloState.load(folder / "state")

    return read


def read_kit(folder: Path, data: bytes) -> object:
    (folder / "kit.json").write_bytes(data)
    return load_kit(folder)


def read_experiment(folder: Path, data: bytes) -> object:
    (folder / "some.toml").write_bytes(data)
    return load_experiment(folder / "some.toml")


def good(tmp: Path) -> dict[str, tuple[Reader, bytes]]:
    state().store(tmp / "good")
    kit = {"site": "a", "role": "silo", "version": "1", "federation": {"silos": ["a", "b"]}}
    update = Update(7, "a", round=1, edges=1, weights=coordinator().weights)
    return {
        "message": (lambda _, data: decode({BUNDLE: data}, 1 << 20), encode(update)[BUNDLE]),
        "checkpoint": (read_checkpoint, encode_bundle(*coordinator().state())),
        "hosts": (read_state("hosts.parquet"), (tmp / "good" / "hosts.parquet").read_bytes()),
        "state": (read_state("state.safetensors"), (tmp / "good" / "state.safetensors").read_bytes()),
        "kit": (read_kit, json.dumps(kit).encode()),
        "experiment": (read_experiment, to_toml(EXPERIMENT).encode()),
    }


@pytest.mark.parametrize("kind", ["message", "checkpoint", "hosts", "state", "kit", "experiment"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes_are_a_value_or_an_error_in_words(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    read, content = good(tmp_path)[kind]
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(content)))
        end = at + data.draw(st.sampled_from([0, 1, 8, 60]))
        content = content[:at] + data.draw(st.sampled_from(SPICE) | st.binary(max_size=4)) + content[end:]
    with suppress(EntenteError):
        read(tmp_path, content)
