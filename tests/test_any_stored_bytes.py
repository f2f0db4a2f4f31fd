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
from entente.console.oidc import load_provider
from entente.deployment import job
from entente.deployment.provision import load_kit
from entente.deployment.settings import load_federation, parse_federation
from entente.deployment.wire import BUNDLE, decode, encode
from entente.detectors.base import GraphShape
from entente.errors import ConfigError, EntenteError, StorageError
from entente.federation.coordinator import Coordinator
from entente.federation.messages import Update
from entente.graphs.hosts import HostTable
from entente.logs.mapping import read_mapping
from entente.runs.folder import RunFolder
from entente.runs.state import SiloState
from entente.runtime.loop import Journal, make_coordinator
from entente.runtime.transport import SerialTransport
from entente.service.config import load_watch
from entente.service.suppression import read_suppressions

EXPERIMENT = parse_experiment({"detector": {"name": "behaviour", "hidden": 2, "base": False}})
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


def _of_a_job(file: Path) -> object:
    return job.read_experiment(file.parent)


@pytest.mark.parametrize(
    "content", [b"a = " + b"[" * 20_000, b"a = " + b"9" * 5000, b"\xff\xfe", b"a = 1\na = 2\n"]
)
@pytest.mark.parametrize(
    "reader",
    [load_experiment, load_federation, load_watch, read_mapping, read_suppressions, load_provider, _of_a_job],
)
def test_a_settings_file_of_any_kind_that_cannot_be_read_is_named(
    reader: Callable[[Path], object], content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "experiment.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        reader(file)
    assert "experiment.toml" in str(caught.value)


@pytest.mark.parametrize("content", [b"[" * 20_000, b'{"a":' * 20_000, b"9" * 5000, b"\xff", b"null", b"[]"])
@pytest.mark.parametrize("name", [job.SERVER_FILE, job.CLIENT_FILE, job.EXPERIMENT])
def test_a_crafted_file_of_a_job_is_a_reason_to_refuse_it(tmp_path: Path, name: str, content: bytes) -> None:
    federation = parse_federation({"silos": ["a", "b"]})
    application = job.write_job(tmp_path, job.portable(parse_experiment({})), federation) / job.APP
    assert job.why_refused(application) is None
    (application / "config" / name).write_bytes(content)
    assert name in (job.why_refused(application) or "")


@pytest.mark.parametrize("content", [b"[" * 20_000 + b"\n", b"\xff\n", b"null\n", b"9" * 5000 + b"\n"])
def test_a_damaged_line_among_the_rounds_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rounds.jsonl").write_bytes(content * 2)
    with pytest.raises(StorageError, match=r"rounds\.jsonl"):
        RunFolder(tmp_path).rounds()
