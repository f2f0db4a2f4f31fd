"""A silo's mailbox: a folder with the packets that it sends and those that others sent.

out/WINDOW.json, in/SILO/WINDOW.json. Whoever carries the packets (a job of the federation, or a person with a
copying tool) needs to understand none of them. Files are written whole or not at all; the same packet
delivered twice is one file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from entente.artifacts import private_files, read_json, write_json
from entente.errors import RefusedError, StorageError
from entente.federation.exchange.notes import LASTS, LATE, Packet
from entente.runs.steps import silo_file

MOST = 1000
"""Packets of one silo that are kept: three days of windows of five minutes."""
LARGEST = 4096
"""Bytes of one packet's file."""


class Mailbox:
    """The folder of one silo."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def post(self, packets: Iterable[Packet]) -> None:
        """Put packets out; those that can no longer matter are removed."""
        for packet in packets:
            _write(self.path / "out", packet)
        _clean(self.path / "out")

    def outgoing(self) -> list[Packet]:
        return _read(self.path / "out")

    def deliver(self, sender: str, packets: Iterable[Packet]) -> int:
        """Put in what `sender` sent, as its carrier knows it; how many of its packets were not its own."""
        folder, foreign = self.path / "in" / silo_file(sender), 0
        for packet in packets:
            if packet.silo != sender:
                foreign += 1
            elif not _file(folder, packet).exists():
                _write(folder, packet)
        _clean(folder)
        return foreign

    def arrived(self) -> list[Packet]:
        """Everything that others sent; what cannot be read is left out."""
        folders = sorted((self.path / "in").glob("silo-*"))
        return [packet for folder in folders for packet in _read(folder)]


def _file(folder: Path, packet: Packet) -> Path:
    return folder / f"{packet.window:020d}.json"


def _write(folder: Path, packet: Packet) -> None:
    with private_files():
        write_json(_file(folder, packet), packet.as_dict())


def _read(folder: Path) -> list[Packet]:
    found = []
    for path in sorted(folder.glob("*.json"))[-MOST:]:
        try:
            if path.stat().st_size <= LARGEST:
                found.append(Packet.from_dict(read_json(path)))
        except (OSError, StorageError, RefusedError):
            continue  # a damaged file is a note that was never made
    return found


def _clean(folder: Path) -> None:
    files = sorted(folder.glob("*.json"))
    newest = int(files[-1].stem) if files and files[-1].stem.isdigit() else 0
    for place, path in enumerate(files):
        old = path.stem.isdigit() and int(path.stem) < newest - LASTS - LATE
        if old or place < len(files) - MOST:
            path.unlink(missing_ok=True)
