"""A folder of logs is read line by line, each line once, however files grow and rotate."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

from entente.service.sources.base import Position
from entente.service.sources.spool import Spool, SpoolOptions

MOST = 1 << 20


class Reader:
    """Reads a spool as the service does: positions go through JSON, and the source may be made anew."""

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self.folder, self.most = folder, most
        self.position: Position = None
        self.lines: list[str] = []
        self.spool = Spool(SpoolOptions(path=folder), "sources.logs")

    def read(self) -> list[str]:
        batch = self.spool.read(self.position, self.most)
        self.position = json.loads(json.dumps(batch.position))
        new = [line for part in batch.lines for line in part.block.decode().splitlines()]
        self.lines += new
        return new

    def drain(self) -> list[str]:
        found = []
        while new := self.read():
            found += new
        return found

    def restart(self) -> None:
        self.spool.close()
        self.spool = Spool(SpoolOptions(path=self.folder), "sources.logs")


def test_a_growing_file_gives_each_line_once_and_no_half_line(tmp_path: Path) -> None:
    log, reader = tmp_path / "conn.log", Reader(tmp_path)
    log.write_text("one\ntw")
    assert reader.drain() == ["one"]
    with log.open("a") as file:
        file.write("o\nthree\n")
    assert reader.drain() == ["two", "three"]
    assert reader.drain() == []


def test_a_rotated_file_is_read_to_its_end_and_the_new_one_from_its_beginning(tmp_path: Path) -> None:
    log, reader = tmp_path / "conn.log", Reader(tmp_path)
    log.write_text("a 1\na 2\n")
    reader.drain()
    with log.open("a") as file:
        file.write("a 3\n")
    log.rename(tmp_path / "conn.log.1")
    log.write_text("b 1\n")
    reader.restart()
    reader.drain()
    assert sorted(reader.lines) == ["a 1", "a 2", "a 3", "b 1"]


def test_a_file_that_was_compressed_after_reading_is_read_on_and_not_again(tmp_path: Path) -> None:
    log, reader = tmp_path / "conn.log", Reader(tmp_path)
    log.write_text("a 1\na 2\n")
    reader.drain()
    whole = "a 1\na 2\na 3\n"  # one more line came before it was compressed
    with gzip.open(tmp_path / "conn.log.1.gz", "wt") as file:
        file.write(whole)
    log.unlink()
    reader.drain()
    assert reader.lines == ["a 1", "a 2", "a 3"]


def test_a_file_that_is_cut_and_written_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    log, reader = tmp_path / "conn.log", Reader(tmp_path)
    log.write_text("a 1\na 2\n")
    reader.drain()
    log.write_text("b 1\n")
    assert reader.drain() == ["b 1"]


def test_a_large_file_is_read_in_parts_and_keeps_its_line_numbers(tmp_path: Path) -> None:
    (tmp_path / "conn.log").write_text("".join(f"line {i}\n" for i in range(5000)))
    reader = Reader(tmp_path, most=1000)
    numbers = []
    while (batch := reader.spool.read(reader.position, 1000)).lines:
        numbers.append(batch.lines[0].first)
        reader.position = batch.position
        reader.lines += batch.lines[0].block.decode().splitlines()
        assert batch.lines[0].head.startswith(b"line 0\n") == (batch.lines[0].first > 1)
    assert reader.lines == [f"line {i}" for i in range(5000)]
    assert all(reader.lines[number - 1] == f"line {number - 1}" for number in numbers)


def test_a_line_longer_than_the_room_left_is_read_whole_and_shifts_no_number(tmp_path: Path) -> None:
    (tmp_path / "conn.log").write_text("".join(f"line {i:0200d}\n" for i in range(4)))
    spool, position, numbers = Spool(SpoolOptions(path=tmp_path), "sources.logs"), None, list[int]()
    while (batch := spool.read(position, 50)).lines:
        position = batch.position
        numbers += [part.first + i for part in batch.lines for i in range(part.block.count(b"\n"))]
        assert not any(part.block.startswith(b"\n") for part in batch.lines)
    assert numbers == [1, 2, 3, 4]


def test_a_position_that_was_not_kept_reads_the_same_lines_again(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "conn.log.gz", "wt") as file:
        file.write("a 1\na 2\n")
    spool = Spool(SpoolOptions(path=tmp_path), "sources.logs")
    first = spool.read(None, MOST)
    again = spool.read(None, MOST)
    assert [part.block for part in first.lines] == [part.block for part in again.lines]


def test_the_last_line_of_a_file_that_rests_needs_no_line_feed(tmp_path: Path) -> None:
    log, reader = tmp_path / "conn.log", Reader(tmp_path)
    log.write_text("one\ntwo")
    assert reader.drain() == ["one"]
    os.utime(log, (0, 0))
    assert reader.drain() == ["two"]
    assert reader.drain() == []
