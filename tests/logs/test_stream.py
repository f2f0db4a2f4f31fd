"""Lines as they arrive: many workers give what one gives."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import entente.logs.stream as stream_module
from entente.logs.formats.base import Options
from entente.logs.refine import Refinement
from entente.logs.stream import LineReader


def row(number: int) -> str:
    ends = {"id.orig_h": f"10.0.0.{number % 200}", "id.resp_h": f"10.0.1.{number % 7}", "id.resp_p": 445}
    return json.dumps({"ts": 1_700_000_000.25 + number, "uid": f"C{number}", "proto": "tcp", **ends})


def read(lines: bytes) -> tuple[pa.Table, list[tuple[int, str]]]:
    found = LineReader("auto", Options(), Refinement()).read("conn.log", b"", lines, 11)
    assert not isinstance(found, str)
    return pa.concat_tables([piece.events for piece in found]).unify_dictionaries(), [
        (bad.line, bad.reason) for piece in found for bad in piece.bad
    ]


def test_a_block_that_several_workers_read_gives_the_same_rows_lines_and_bad_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = "".join(f"{row(i)}\n" if i % 50 else "no JSON\n" for i in range(1, 301)).encode()
    alone = read(lines)
    monkeypatch.setattr(stream_module, "LEAST", 5000)
    monkeypatch.setattr(stream_module, "WORKERS", 4)
    together = read(lines)
    assert together[0].to_pylist() == alone[0].to_pylist()
    assert together[1] == alone[1]
    assert [line for line, _ in alone[1]] == [60, 110, 160, 210, 260, 310]
    assert alone[0]["line"].to_pylist()[:2] == [11, 12]
