"""What holds for every log format: a new one passes these checks unchanged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from entente.contracts.base import Check
from entente.contracts.formats import CHECKS, GARBAGE, directory_bytes, read
from entente.errors import LogError
from entente.logs.events import read_manifest
from entente.logs.formats import formats
from entente.logs.formats.base import Format
from entente.logs.ingest import Request, ingest

FORMATS = list(formats().values())
each_format = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)


@each_format
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.claim)
def test_every_claim_of_the_contract_holds(format: Format, check: Check) -> None:
    check.run(format)


@pytest.fixture
def sample(format: Format, tmp_path: Path) -> Path:
    path = tmp_path / "some.log"
    path.write_text(format.sample)
    return path


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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_spark_gives_the_same_bytes_for_every_format(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("no Java here")
    for format in FORMATS:
        lines = format.sample.splitlines()
        path = tmp_path / f"{format.name}.log"
        path.write_text("\n".join([*lines, GARBAGE, lines[-1]]) + "\n")
        for engine in ("duckdb", "spark"):
            read(path, tmp_path / engine, engine=engine)
        assert directory_bytes(tmp_path / "duckdb") == directory_bytes(tmp_path / "spark"), format.name
