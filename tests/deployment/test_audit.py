"""The audit record: nothing in it can be changed, moved or dropped unnoticed."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from entente.deployment.audit import START, Audit, verify, witness
from entente.errors import StorageError


def _written(path: Path, entries: int = 6) -> Audit:
    audit = Audit(path / "audit.jsonl", "east")
    for number in range(entries):
        audit.append("task", task=number)
    return audit


def test_an_untouched_record_verifies(tmp_path: Path) -> None:
    audit = _written(tmp_path)
    summary = verify(audit.path)
    assert (summary.entries, summary.events) == (6, {"task": 6})
    assert summary.head == audit.head()
    assert audit.path.stat().st_mode & 0o077 == 0


def test_an_empty_record_has_the_starting_head(tmp_path: Path) -> None:
    assert Audit(tmp_path / "none.jsonl", "east").head() == START


@pytest.mark.parametrize("line", range(6))
def test_a_changed_entry_is_found_with_its_line(tmp_path: Path, line: int) -> None:
    audit = _written(tmp_path)
    lines = audit.path.read_text().splitlines()
    lines[line] = json.dumps(json.loads(lines[line]) | {"task": 99}, sort_keys=True)
    audit.path.write_text("\n".join(lines) + "\n")
    with pytest.raises(StorageError, match=f":{line + 1}: this entry was changed"):
        verify(audit.path)


@pytest.mark.parametrize("line", range(5))
def test_a_removed_entry_is_found(tmp_path: Path, line: int) -> None:
    audit = _written(tmp_path)
    lines = audit.path.read_text().splitlines()
    audit.path.write_text("\n".join(lines[:line] + lines[line + 1 :]) + "\n")
    with pytest.raises(StorageError, match=f":{line + 1}: the chain is broken"):
        verify(audit.path)


def test_swapped_entries_are_found(tmp_path: Path) -> None:
    audit = _written(tmp_path)
    lines = audit.path.read_text().splitlines()
    lines[2], lines[3] = lines[3], lines[2]
    audit.path.write_text("\n".join(lines) + "\n")
    with pytest.raises(StorageError, match=":3: the chain is broken"):
        verify(audit.path)


def test_a_cut_off_end_is_found_by_what_another_site_recorded(tmp_path: Path) -> None:
    audit = _written(tmp_path)
    other = Audit(tmp_path / "coordinator.jsonl", "coordinator")
    other.append("step", heads={"east": audit.head(), "west": "f" * 64})
    assert witness(audit.path, other.path) == 1
    lines = audit.path.read_text().splitlines()
    audit.path.write_text("\n".join(lines[:-1]) + "\n")
    assert verify(audit.path).entries == 5  # the chain alone cannot tell
    with pytest.raises(StorageError, match="missing here"):
        witness(audit.path, other.path)


def test_damage_is_a_storage_error_not_a_traceback(tmp_path: Path) -> None:
    audit = _written(tmp_path)
    with audit.path.open("a") as file:
        file.write('{"half": ')
    with pytest.raises(StorageError, match=":7: is not a JSON line"):
        verify(audit.path)
    with pytest.raises(StorageError, match="damaged"):
        audit.append("task")
    audit.path.write_bytes(b"\xff\xfe")
    with pytest.raises(StorageError, match="cannot be read"):
        verify(audit.path)


def test_writers_at_the_same_time_leave_one_chain(tmp_path: Path) -> None:
    def write(name: str) -> None:
        audit = Audit(tmp_path / "audit.jsonl", "east")
        for number in range(20):
            audit.append(name, number_in_thread=number, padding="x" * 3000)

    threads = [threading.Thread(target=write, args=(f"writer-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify(tmp_path / "audit.jsonl").entries == 80


def test_an_entry_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(StorageError, match="cannot be written"):
        Audit(tmp_path / "audit.jsonl", "east").append("task")


def test_an_entry_holds_no_endless_text_and_no_escape_sequence(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl", "site")
    audit.append("update-refused", reason="\x1b[2J" + "x" * 5_000_000, missing={"a\u202e": ["\x07" * 10]})
    text = audit.path.read_text(encoding="utf-8")
    assert len(text) < 3000
    assert "\\\\u001b" in text
    assert "\\\\u202e" in text
    assert verify(audit.path).entries == 1


@pytest.mark.parametrize("line", [b"[" * 5000, b'{"a":' * 5000, b"\xff", b"9" * 5000, b"[]", b'"x"'])
def test_a_record_with_any_line_at_its_end_is_an_error_in_words(tmp_path: Path, line: bytes) -> None:
    audit, other = _written(tmp_path), Audit(tmp_path / "other.jsonl", "west")
    other.append("round", heads={"east": audit.head()})
    audit.path.write_bytes(audit.path.read_bytes() + line + b"\n")
    for look in (lambda: verify(audit.path), lambda: witness(audit.path, other.path), audit.head):
        with pytest.raises(StorageError):
            look()


@pytest.mark.parametrize("key", ["hash", "site", "event", "time", "previous"])
def test_another_sites_record_may_hold_anything(tmp_path: Path, key: str) -> None:
    audit, other = _written(tmp_path), Audit(tmp_path / "other.jsonl", "west")
    other.append("round", heads={"east": audit.head()})
    for name in (key, "heads"):
        for value in ([[1]], {"east": [1]}, 1.5, None, "x"):
            entry = json.loads(other.path.read_text().splitlines()[0]) | {name: value}
            strange = tmp_path / "strange.jsonl"
            strange.write_text(json.dumps(entry) + "\n")
            for first, second in ((audit.path, strange), (strange, audit.path)):
                with suppress(StorageError):
                    witness(first, second)
            with pytest.raises(StorageError):
                verify(strange)
