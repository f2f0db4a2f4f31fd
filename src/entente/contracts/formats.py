"""What every log format promises, checked on its own sample."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import zstandard

from entente.contracts.base import Check, claims, require
from entente.errors import EntenteError, LogError
from entente.logs.events import load_events, read_manifest
from entente.logs.formats import formats, recognise
from entente.logs.formats.base import Format, Head
from entente.logs.ingest import Request, ingest
from entente.logs.schema import EVENT_SCHEMA

GARBAGE = "?! this is no row of any log"
DIARY = "Dear diary,\ntoday nothing happened.\n"
CHECKS: list[Check] = []


def head(text: str, name: str = "some.log") -> Head:
    return Head(name, tuple(text.splitlines()))


def read(path: Path, out: Path, format: str = "auto", engine: str = "duckdb") -> pa.Table:
    ingest(Request([str(path)], out, format, engine=engine))
    return load_events(out)


def directory_bytes(path: Path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}


@contextmanager
def _written(text: str) -> Iterator[tuple[Path, Path]]:
    """A scratch folder and a log with that text in it."""
    with tempfile.TemporaryDirectory(prefix="entente-contract-") as folder:
        path = Path(folder) / "some.log"
        path.write_text(text, encoding="utf-8")
        yield Path(folder), path


@claims(CHECKS, "its sample is recognised as itself and as nothing else")
def own_sample(format: Format) -> None:
    known = formats()
    claimed = [name for name, other in known.items() if other.recognise(head(format.sample)) is not None]
    require(format.name in claimed, "it does not recognise its own sample")
    others = [name for name in claimed if known[name].rank == 0 and name != format.name]
    require(not others, f"{', '.join(others)} would take it too")
    found = recognise(head(format.sample))
    require(found is not None and found[0].name == format.name and found[1], "another format is found first")


@claims(CHECKS, "plain text is not recognised")
def plain_text(format: Format) -> None:
    for text in (DIARY, "{}\n[1, 2]\n", ""):
        require(format.recognise(head(text)) is None, f"it recognises {text!r}")


@claims(CHECKS, "its sample becomes events, and every row is accounted for")
def sample_events(format: Format) -> None:
    with _written(format.sample) as (folder, path):
        events = read(path, folder / "events")
        require(events.schema.equals(EVENT_SCHEMA), "the events have another schema")
        require(events.num_rows >= 2, "fewer than two events")
        (source,) = read_manifest(folder / "events").sources
        require(source.format == format.name, f"the manifest names {source.format}")
        require(source.seen == source.kept + sum(source.filtered.values()), "rows are missing")
        require(not source.bad, "rows of the sample are bad")


@claims(CHECKS, "line ends, a byte order mark, blank lines and compression change nothing")
def variants(format: Format) -> None:
    text = format.sample.encode()
    written = {
        "crlf.log": text.replace(b"\n", b"\r\n"),
        "bom.log": b"\xef\xbb\xbf" + text,
        "open.log": text.rstrip(b"\n"),
        "packed.log.gz": gzip.compress(text),
        "two.log.gz": gzip.compress(text[:40]) + gzip.compress(text[40:]),
        "packed.log.zst": zstandard.compress(text),
        "blank.log": text + b"\n\n",
    }
    with _written(format.sample) as (folder, path):
        expected = read(path, folder / "plain")
        for name, content in written.items():
            (folder / name).write_bytes(content)
            require(read(folder / name, folder / "out").equals(expected), f"{name} gives other events")


@claims(CHECKS, "a bad row goes to quarantine with its line number")
def bad_row(format: Format) -> None:
    lines = format.sample.splitlines()
    with _written(format.sample) as (folder, path):
        good = read(path, folder / "good")
        for place in (len(lines) - 1, len(lines)):
            path.write_text("\n".join([*lines[:place], GARBAGE, *lines[place:]]) + "\n", encoding="utf-8")
            require(read(path, folder / "out").equals(good), "the other events differ")
            rows = (folder / "out" / "quarantine" / "rows.jsonl").read_text().splitlines()
            require(len(rows) == 1, f"{len(rows)} rows are in quarantine")
            entry = json.loads(rows[0])
            require((entry["line"], entry["text"]) == (place + 1, GARBAGE), f"the entry is {entry}")
            require(entry["reason"], "there is no reason")


@claims(CHECKS, "an empty file and a file of another kind are errors that leave nothing")
def wrong_file(format: Format) -> None:
    for text, kind in (("", LogError), (DIARY * 5, EntenteError)):
        with _written(text) as (folder, path):
            try:
                read(path, folder / "out", format.name)
            except kind:
                require(not (folder / "out").exists(), "something was written")
                continue
            require(False, f"{text[:20]!r} was read")


@claims(CHECKS, "running it again, or on the other engine, gives the same bytes")
def again(format: Format) -> None:
    lines = format.sample.splitlines()
    with _written("\n".join([*lines, GARBAGE, lines[-1]]) + "\n") as (folder, path):
        for out, engine in (("one", "duckdb"), ("two", "duckdb"), ("three", "polars")):
            read(path, folder / out, engine=engine)
        first = directory_bytes(folder / "one")
        require(directory_bytes(folder / "two") == first, "the second run differs")
        require(directory_bytes(folder / "three") == first, "polars differs from duckdb")
