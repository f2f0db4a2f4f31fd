"""What a silo remembers comes back as it was, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from entente.artifacts import encode_bundle, sealed_directory
from entente.detection.budget import DayBudget
from entente.detection.thresholds import Calibration
from entente.errors import StorageError
from entente.graphs.hosts import HostTable
from entente.logs.events import with_all_columns
from entente.runs.folder import RunFolder
from entente.runs.state import SiloState


def a_state(calibration: Calibration | None) -> SiloState:
    names = np.array(["a", "b"])
    return SiloState(
        until=7_200_000_000,
        hosts=HostTable(names, np.array([True, False]), np.array([[1, 2], [3, 4]], dtype=np.int32)),
        detector={"hidden": np.ones((2, 3), dtype=np.float32), "empty": np.zeros((0, 2), dtype=np.float32)},
        history=(np.array([0, 5]), np.array([0, 1], dtype=np.int32), np.array([1, 0], dtype=np.int32)),
        calibration=calibration,
        budget=None if calibration is None else DayBudget(3, 2.5, 1),
    )


@pytest.mark.parametrize("calibration", [None, Calibration(10, (0.5, 0.75))])
def test_a_state_comes_back_as_it_was(tmp_path: Path, calibration: Calibration | None) -> None:
    state, folder = a_state(calibration), RunFolder(tmp_path)
    assert not folder.states.has("a silo/with odd name")
    folder.states.write({"a silo/with odd name": state})
    back = folder.states.read("a silo/with odd name")
    assert (back.until, back.calibration, back.budget) == (state.until, calibration, state.budget)
    assert back.detector is not None
    assert state.detector is not None
    assert back.detector.keys() == state.detector.keys()
    for name, array in state.detector.items():
        np.testing.assert_array_equal(back.detector[name], array)
    for one, two in zip(back.history, state.history, strict=True):
        np.testing.assert_array_equal(one, two)
        assert np.asarray(one).dtype == np.asarray(two).dtype
    for name in ("names", "own", "rows"):
        np.testing.assert_array_equal(getattr(back.hosts, name), getattr(state.hosts, name))


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    a_state(None).store(tmp_path / "state")
    table = tmp_path / "state" / "hosts.parquet"
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(StorageError, match="damaged"):
        SiloState.load(tmp_path / "state")


@pytest.mark.parametrize("name", ["recent.parquet", "waiting.parquet"])
def test_a_flipped_bit_in_what_lies_beside_the_silos_is_noticed(tmp_path: Path, name: str) -> None:
    states = RunFolder(tmp_path).states
    row = {"time": [5], "src": ["a"], "dst": ["b"]}
    states.write({"a": a_state(None)}, waiting=with_all_columns(pa.table(row)))
    assert (states.recent(), states.waiting().num_rows) == ((), 1)
    file = next(tmp_path.rglob(name))
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    for look in (states.recent, states.waiting):
        with pytest.raises(StorageError, match=name):
            look()


def test_a_state_of_another_version_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with sealed_directory(tmp_path / "state") as folder:
        (folder / "state.safetensors").write_bytes(encode_bundle({"until": 1, "hosts": ["a"]}, {}))
    with pytest.raises(StorageError, match="another version") as caught:
        SiloState.load(tmp_path / "state")
    assert "Train again" in (caught.value.remedy or "")


def test_a_generation_keeps_the_silos_that_it_does_not_name_and_the_one_before_stays(tmp_path: Path) -> None:
    states = RunFolder(tmp_path).states
    assert states.recent() is None
    states.write({"north": a_state(None), "south": a_state(None)})
    for until in (8, 9):
        states.write({"north": replace(a_state(None), until=until)})
    assert (states.read("north").until, states.read("south").until) == (9, 7_200_000_000)
    assert sorted(path.name for path in states.path.iterdir()) == ["00000002", "00000003"]
    assert states.recent() == ()
    with pytest.raises(StorageError, match="no state of silo 'west'"):
        states.read("west")
