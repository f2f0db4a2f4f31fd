"""Checkpoints on disk: whole or not at all, every bit checked, the older one there for a damaged one."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from entente.artifacts import Bundle, decode_bundle, encode_bundle, replacing_directory
from entente.errors import StorageError
from entente.runs.steps import Checkpoints, Steps


def bundle(number: int) -> Bundle:
    return Bundle({"id": number}, {"w": np.full(4, number, dtype=np.float32)})


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    made = Checkpoints(tmp_path)
    for number in (2, 3, 4):
        made.save(number, bundle(number), {"a/b ü": bundle(-number)})
    return made


def test_the_two_last_checkpoints_are_kept(checkpoints: Checkpoints, tmp_path: Path) -> None:
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000003", "00000004"]
    found = checkpoints.load()
    assert found is not None
    assert found.coordinator.facts == {"id": 4}
    assert found.silos["a/b ü"].arrays["w"].tolist() == [-4.0] * 4
    assert found.damaged == ()


def test_a_flipped_bit_anywhere_makes_the_older_checkpoint_the_last_one_and_is_said(
    checkpoints: Checkpoints, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = sorted((tmp_path / "00000004").iterdir())
    assert len(files) == 3
    for file in files:
        whole = file.read_bytes()
        for place in range(0, len(whole), 7):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            found = checkpoints.load()
            assert found is not None
            assert found.coordinator.facts == {"id": 3}, (file, place)
            assert str(tmp_path / "00000004") in found.damaged[0]
        file.write_bytes(whole)
    assert "going on from the checkpoint before it" in caplog.text


@pytest.mark.parametrize("damage", ["missing", "empty", "extra", "no checksums"])
def test_a_checkpoint_with_other_files_is_damaged(
    checkpoints: Checkpoints, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "00000004"
    if damage == "missing":
        (folder / "coordinator.safetensors").unlink()
    elif damage == "empty":
        (folder / "coordinator.safetensors").write_bytes(b"")
    elif damage == "extra":
        (folder / "silo-x.safetensors").write_bytes(b"")
    else:
        (folder / "SHA256SUMS").unlink()
    found = checkpoints.load()
    assert found is not None
    assert found.coordinator.facts == {"id": 3}


def test_two_damaged_checkpoints_are_an_error_that_names_the_file(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    for name in ("00000003", "00000004"):
        (tmp_path / name / "coordinator.safetensors").write_bytes(b"rubbish")
    with pytest.raises(StorageError, match=r"00000004/coordinator\.safetensors: is damaged"):
        checkpoints.load()


def test_without_a_checkpoint_there_is_nothing_to_load(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "nothing").load() is None


def test_a_step_before_others_drops_them(tmp_path: Path) -> None:
    steps = Steps(tmp_path, 4)
    for number in (1, 2, 3, 2):
        steps.write(number, {"state": bundle(number)})
    assert steps.numbers() == [1, 2]


def test_a_bundle_comes_back_as_it_was(tmp_path: Path) -> None:
    facts = {"b": [1, None, "ü"], "a": {"x": 0.1}}
    arrays = {"t": np.arange(6.0).reshape(2, 3).T, "empty": np.zeros((0, 3), np.int32)}
    back = decode_bundle(encode_bundle(facts, arrays))
    assert back.facts == facts
    assert list(back.facts) == list(facts)
    assert all(np.array_equal(back.arrays[name], arrays[name]) for name in arrays)
    assert decode_bundle(encode_bundle({}, {})) == Bundle({}, {})


def test_a_directory_is_replaced_whole_or_left_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "d"
    with replacing_directory(target) as folder:
        (folder / "a").write_text("1")
    with pytest.raises(ValueError), replacing_directory(target) as folder:
        int((folder / "a").write_text("2") * "x")
    assert (target / "a").read_text() == "1"
    with replacing_directory(target) as folder:
        (folder / "b").write_text("3")
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
    assert [path.name for path in target.iterdir()] == ["b"]


def test_a_directory_that_a_killed_process_had_moved_away_is_put_back(tmp_path: Path) -> None:
    dead = 2**22 + 12345  # beyond the largest process id
    (tmp_path / f".d.{dead}.old").mkdir()
    (tmp_path / f".d.{dead}.old" / "a").write_text("1")
    with pytest.raises(ValueError), replacing_directory(tmp_path / "d"):
        int("x")
    assert (tmp_path / "d" / "a").read_text() == "1"
    shutil.rmtree(tmp_path / "d")
