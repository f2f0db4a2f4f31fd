"""What holds for every log format: a new one passes these checks unchanged."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

from entente.errors import EntenteError, LogError
from entente.logs.engines import ENGINES
from entente.logs.events import load_events, read_manifest
from entente.logs.formats import formats, recognise
from entente.logs.formats.base import Format, Head
from entente.logs.ingest import Request, ingest
from entente.logs.schema import EVENT_SCHEMA

FORMATS = list(formats().values())
each_format = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
GARBAGE = "?! this is no row of any log"


def head(text: str, name: str = "some.log") -> Head:
    return Head(name, tuple(text.splitlines()))


def read(path: Path, out: Path, format: str = "auto", engine: str = "duckdb") -> pa.Table:
    ingest(Request([str(path)], out, format, engine=engine))
    return load_events(out)


def directory_bytes(path: Path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}


@pytest.fixture
def sample(format: Format, tmp_path: Path) -> Path:
    path = tmp_path / "some.log"
    path.write_text(format.sample)
    return path


@each_format
def test_its_sample_is_recognised_as_itself_and_as_nothing_else(format: Format) -> None:
    claims = [other.name for other in FORMATS if other.recognise(head(format.sample)) is not None]
    assert format.name in claims
    assert [name for name in claims if formats()[name].rank == 0 or name == format.name] == [format.name]
    found = recognise(head(format.sample))
    assert found is not None
    assert found[0] is format
    assert found[1]


@each_format
def test_plain_text_is_not_recognised(format: Format) -> None:
    assert format.recognise(head("Dear diary,\ntoday nothing happened.\n")) is None
    assert format.recognise(head("{}\n[1, 2]\n")) is None
    assert format.recognise(head("")) is None


@each_format
def test_its_sample_becomes_events_and_every_row_is_accounted_for(
    format: Format, sample: Path, tmp_path: Path
) -> None:
    events = read(sample, tmp_path / "events")
    assert events.schema.equals(EVENT_SCHEMA)
    assert events.num_rows >= 2
    manifest = read_manifest(tmp_path / "events")
    (source,) = manifest.sources
    assert source.format == format.name
    assert source.seen == source.kept + sum(source.filtered.values())
    assert not source.bad
    assert not (tmp_path / "events" / "quarantine").exists()


@each_format
def test_windows_line_ends_compression_and_a_missing_last_line_end_change_nothing(
    format: Format, sample: Path, tmp_path: Path
) -> None:
    expected = read(sample, tmp_path / "plain")
    text = format.sample.encode()
    variants = {
        "crlf.log": text.replace(b"\n", b"\r\n"),
        "bom.log": b"\xef\xbb\xbf" + text,
        "open.log": text.rstrip(b"\n"),
        "packed.log.gz": gzip.compress(text),
        "two.log.gz": gzip.compress(text[:40]) + gzip.compress(text[40:]),
        "packed.log.zst": zstandard.compress(text),
        "blank.log": text + b"\n\n",
    }
    for name, content in variants.items():
        (tmp_path / name).write_bytes(content)
        assert read(tmp_path / name, tmp_path / "out").equals(expected), name


@each_format
def test_a_bad_row_goes_to_quarantine_with_its_line_number(
    format: Format, sample: Path, tmp_path: Path
) -> None:
    good = read(sample, tmp_path / "good")
    lines = format.sample.splitlines()
    for place in (len(lines) - 1, len(lines)):
        broken = tmp_path / "broken.log"
        broken.write_text("\n".join([*lines[:place], GARBAGE, *lines[place:]]) + "\n")
        events = read(broken, tmp_path / "out")
        assert events.equals(good)
        (entry,) = map(json.loads, (tmp_path / "out" / "quarantine" / "rows.jsonl").read_text().splitlines())
        assert (entry["file"], entry["line"], entry["text"]) == (str(broken), place + 1, GARBAGE)
        assert entry["reason"]
        assert sum(read_manifest(tmp_path / "out").bad.values()) == 1
        with pytest.raises(LogError, match=f"broken.log:{place + 1}: bad row"):
            ingest(Request([str(broken)], tmp_path / "out", on_bad="fail"))


@each_format
def test_an_empty_file_is_an_error_that_leaves_nothing(format: Format, tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("")
    with pytest.raises(LogError, match="is empty"):
        read(tmp_path / "empty.log", tmp_path / "out", format.name)
    assert not (tmp_path / "out").exists()


@each_format
def test_a_file_of_another_kind_is_an_error(format: Format, tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("Dear diary,\ntoday nothing happened.\n" * 5)
    with pytest.raises(EntenteError):
        read(tmp_path / "diary.txt", tmp_path / "out", format.name)
    assert not (tmp_path / "out").exists()


@each_format
def test_running_it_again_gives_the_same_bytes(format: Format, sample: Path, tmp_path: Path) -> None:
    read(sample, tmp_path / "one")
    read(sample, tmp_path / "two")
    assert directory_bytes(tmp_path / "one") == directory_bytes(tmp_path / "two")


@each_format
def test_duckdb_and_polars_give_the_same_bytes(format: Format, tmp_path: Path) -> None:
    lines = format.sample.splitlines()
    (tmp_path / "some.log").write_text("\n".join([*lines, GARBAGE, lines[-1]]) + "\n")
    for engine in ("duckdb", "polars"):
        read(tmp_path / "some.log", tmp_path / engine, engine=engine)
    assert directory_bytes(tmp_path / "duckdb") == directory_bytes(tmp_path / "polars")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pyspark_gives_the_same_bytes_for_every_format(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("no Java here")
    assert "pyspark" in ENGINES
    for format in FORMATS:
        lines = format.sample.splitlines()
        path = tmp_path / f"{format.name}.log"
        path.write_text("\n".join([*lines, GARBAGE, lines[-1]]) + "\n")
        for engine in ("duckdb", "pyspark"):
            read(path, tmp_path / engine, engine=engine)
        assert directory_bytes(tmp_path / "duckdb") == directory_bytes(tmp_path / "pyspark"), format.name
