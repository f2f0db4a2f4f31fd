"""Coverage-guided fuzzing of everything that reads what strangers wrote: logs, archives, tables, labels.

    pip install 'entente[fuzz]'
    python fuzz/readers.py TARGET [-max_total_time=600] [CORPUS]

TARGET is one of: format, told, framing, archive, hosts, labels. Whatever the bytes, the reader gives events
or raises an EntenteError; anything else, a crash or a hang included, is a finding; libFuzzer keeps the input.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["entente.logs"]):
    from entente.logs.blocks import Splitter, raw_columns
    from entente.logs.formats import formats
    from entente.logs.formats.base import Options
    from entente.logs.framing import framed, possible_depths
    from entente.logs.leases import read_hosts
    from entente.logs.plan import make_plan
    from entente.logs.refine import read_labels
    from entente.logs.sources import find_files, line_blocks, opened_log

from harness import fuzz

FOLDER = Path(tempfile.mkdtemp(prefix="entente-fuzz-"))
FILE = FOLDER / "some.log"
SPLITTER = Splitter()


def fuzz_format(data: bytes) -> None:
    """Recognising a file, its layout, and its rows cut into fields."""
    FILE.write_bytes(data)
    for job in make_plan([str(FILE)], "auto", Options()).jobs:
        line = 1
        for block in line_blocks(job.file, lambda _: None, depth=job.depth):
            raw = SPLITTER.split(block, line, job.layout)
            assert raw.fields.num_rows == len(raw.lines)
            assert tuple(raw.fields.column_names) == raw_columns(job.layout)
            line += block.count(b"\n")


def fuzz_told(data: bytes) -> None:
    """The same where the user says which format it is."""
    chosen = list(formats().values())[data[0] % len(formats())] if data else formats()["csv"]
    FILE.write_bytes(data[1:])
    for job in make_plan([str(FILE)], chosen.name, Options()).jobs:
        for block in line_blocks(job.file, lambda _: None, depth=job.depth):
            SPLITTER.split(block, 1, job.layout)


def fuzz_framing(data: bytes) -> None:
    for depth in {len(data) % 4, *possible_depths(data)}:
        whole = b"".join(framed(iter([data]), depth)) if data else b""
        half = len(data) // 2
        assert b"".join(framed(iter(part for part in (data[:half], data[half:]) if part), depth)) == whole
        assert not whole or whole.endswith(b"\n")


def fuzz_archive(data: bytes) -> None:
    FILE.write_bytes(data)
    for file in find_files([str(FILE)]):
        with opened_log(file) as chunks:
            left = 1 << 24
            for chunk in chunks:
                left -= len(chunk)
                if left < 0:
                    break


def fuzz_hosts(data: bytes) -> None:
    FILE.write_bytes(data)
    book = read_hosts(FILE)
    assert len(book)


def fuzz_labels(data: bytes) -> None:
    FILE.write_bytes(data)
    for format in formats().values():
        if format.labels:
            read_labels(FILE, [format])


TARGETS: dict[str, Callable[[bytes], None]] = {
    "format": fuzz_format,
    "told": fuzz_told,
    "framing": fuzz_framing,
    "archive": fuzz_archive,
    "hosts": fuzz_hosts,
    "labels": fuzz_labels,
}

if __name__ == "__main__":
    fuzz(TARGETS, __doc__ or "")
