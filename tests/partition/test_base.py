"""Silo tables: read back what was written, and say where a table is wrong."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from entente.errors import ConfigError
from entente.partition.base import Assignment, read_silos, write_silos

names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@given(placed=st.dictionaries(names, names, min_size=1, max_size=20))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_back(suffix: str, placed: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / f"silos.{suffix}"
    write_silos(path, Assignment.from_mapping(placed))
    assert read_silos(path).as_dict() == placed


def test_hosts_and_silos_are_sorted_and_counted() -> None:
    assignment = Assignment.from_mapping({"b": "y", "a": "x", "c": "y"})
    assert assignment.hosts == ("a", "b", "c")
    assert assignment.silos == ("x", "y")
    assert assignment.silo_of.tolist() == [0, 1, 1]
    assert assignment.sizes() == {"x": 1, "y": 2}


def test_windows_line_ends_byte_order_mark_and_further_columns_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "silos.csv"
    path.write_bytes("\ufeffrole,silo,host\r\nws,north,a\r\n\r\nsrv,south,b\r\n".encode())
    assert read_silos(path).as_dict() == {"a": "north", "b": "south"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("host,silo\na,x\nb,y\na,y\n", r"silos.csv:4: host 'a' appears a second time"),
        ("host,silo\na,x\nb,\n", r"silos.csv:3: silo is empty"),
        ("host,silo\na,x\n,y\n", r"silos.csv:3: host is empty"),
        ("host,site\na,x\n", r"silos.csv:1: has no column 'silo'"),
        ("host,silo\na\n", r"silos.csv:2: has 1 of 2 columns"),
        ("host,silo\n", r"silos.csv: holds no row"),
        ("", r"has no column 'host'"),
    ],
)
def test_a_wrong_table_is_refused_with_file_and_line(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "silos.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_silos(path)


def test_a_missing_binary_or_damaged_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_silos(tmp_path / "absent.csv")
    (tmp_path / "noise.csv").write_bytes(b"\xff\xfe\x00\x01" * 20)
    with pytest.raises(ConfigError, match="not a readable CSV"):
        read_silos(tmp_path / "noise.csv")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ConfigError, match="not a readable Parquet"):
        read_silos(tmp_path / "cut.parquet")


def test_a_parquet_table_with_a_null_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "silos.parquet"
    parquet.write_table(pa.table({"host": ["a", "b"], "silo": ["x", None]}), path)
    with pytest.raises(ConfigError, match=r"silos.parquet:2: silo is empty"):
        read_silos(path)
