"""Blocks of lines: cut where lines end, split fast as if split slowly, read from every kind of file."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.errors import LogError, MissingExtraError
from entente.logs.blocks import NOT_JSON, Splitter
from entente.logs.events import load_events
from entente.logs.formats.base import Delimited, JsonLines
from entente.logs.ingest import Request, ingest
from entente.logs.sources import LogFile, line_blocks

FIELD = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters='\n\r,"'), max_size=5)
QUOTED = st.one_of(FIELD, FIELD.map(lambda text: f'"{text}"'), FIELD.map(lambda text: f'"{text},{text}"'))


def plainly(text: str, layout: Delimited) -> list[tuple[int, list[str] | None]]:
    """The oracle: (line number, the used fields or None) of every row."""
    rows: list[tuple[int, list[str] | None]] = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        if number <= layout.skip or not line.strip() or (layout.comment and line.startswith(layout.comment)):
            continue
        fields = next(csv.reader([line])) if layout.quoted and '"' in line else line.split(",")
        fits = len(fields) == len(layout.columns)
        rows.append((number, [fields[layout.columns.index(name)] for name in layout.used] if fits else None))
    return rows


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.lists(QUOTED, min_size=3, max_size=3) | st.lists(QUOTED, max_size=5), min_size=1, max_size=12
    ),
    st.integers(0, 2),
)
def test_splitting_gives_what_the_plain_way_gives(lines: list[list[str]], skip: int) -> None:
    layout = Delimited(("a", "b", "c"), used=("c", "a"), quoted=True, skip=skip)
    text = "".join(",".join(line) + "\n" for line in lines)
    raw = Splitter().split(text.encode(), 1, layout)
    rows = raw.fields.to_pylist()
    got = [
        (int(line), None if row in raw.malformed else [rows[row]["c"], rows[row]["a"]])
        for row, line in enumerate(raw.lines)
    ]
    assert got == plainly(text, layout)


def test_encoded_columns_hold_the_same_text() -> None:
    layout = Delimited(("a", "b"), used=("a", "b"))
    text = b"x,1\ny,2\nx,3\n"
    plain, encoded = Splitter().split(text, 1, layout), Splitter().split(text, 1, layout, ["a"])
    assert encoded.fields["a"].to_pylist() == plain.fields["a"].to_pylist() == ["x", "y", "x"]


def test_json_values_become_text_whatever_they_are() -> None:
    layout = JsonLines({"a": ("a",), "deep": ("x.y", "z"), "odd": ('q"', "w")})
    lines = [
        {"a": 12, "x.y": {"z": True}},
        {"a": 1634913054.059956, 'q"': {"w": "é"}},
        {"a": None, "x.y": {"z": {"n": 1}}},
        {"b": 1},
    ]
    text = "\n".join(["", *map(json.dumps, lines), "{broken", "[1]", "7", ""]).encode() + b"\n"
    raw = Splitter().split(text, 1, layout)
    assert raw.fields["a"].to_pylist() == ["12", "1634913054.059956", None, None, None, None, None]
    assert raw.fields["deep"].to_pylist()[:3] == ["true", None, '{"n":1}']
    assert raw.fields["odd"].to_pylist()[1] == "é"
    assert raw.lines.tolist() == [2, 3, 4, 5, 6, 7, 8]
    assert raw.malformed == dict.fromkeys([4, 5, 6], NOT_JSON)


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=300).map(lambda data: data.replace(b"\xef", b"")), st.integers(1, 60), st.booleans()
)
def test_blocks_are_whole_lines_and_together_the_file(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, size: int, packed: bool
) -> None:
    path = tmp_path_factory.mktemp("blocks") / "log"
    if not packed and data[:2] in (b"\x1f\x8b", b"BZ", b"\xfd7", b"\x28\xb5", b"El"):
        data = b"x" + data
    path.write_bytes(gzip.compress(data) if packed else data)
    blocks = list(line_blocks(LogFile(path, "log"), lambda _: None, size))
    assert all(block.endswith(b"\n") for block in blocks)
    joined = b"".join(blocks)
    assert joined in (data, data + b"\n")


def test_a_line_without_end_is_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entente.logs.sources.LONGEST_LINE", 1000)
    (tmp_path / "log").write_bytes(b"x" * 5000)
    with pytest.raises(LogError, match="this is no log"):
        list(line_blocks(LogFile(tmp_path / "log", "log"), lambda _: None, 100))


def test_evtx_records_are_read_as_windows_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = {
        "Event": {
            "System": {
                "EventID": {"#text": 4624, "#attributes": {"Qualifiers": ""}},
                "Computer": "DC.shire.local",
                "TimeCreated": {"#attributes": {"SystemTime": "2020-08-06T15:56:14.123456Z"}},
            },
            "EventData": {"IpAddress": "10.0.0.7", "WorkstationName": "-", "TargetUserName": "sam"},
        }
    }
    parser = SimpleNamespace(records_json=lambda: iter([{"data": json.dumps(record, indent=2)}]))
    monkeypatch.setitem(sys.modules, "evtx", SimpleNamespace(PyEvtxParser=lambda path: parser))
    (tmp_path / "Security.evtx").write_bytes(b"ElfFile\x00...")
    ingest(Request([str(tmp_path / "Security.evtx")], tmp_path / "events"))
    (event,) = load_events(tmp_path / "events").to_pylist()
    assert (event["time"], event["src"], event["dst"]) == (1_596_729_374_123_456, "10.0.0.7", "dc")


def test_evtx_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "evtx", None)
    (tmp_path / "Security.evtx").write_bytes(b"ElfFile\x00...")
    with pytest.raises(MissingExtraError, match=r"entente\[evtx\]"):
        ingest(Request([str(tmp_path / "Security.evtx")], tmp_path / "events"))


def test_a_damaged_evtx_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("evtx")
    (tmp_path / "Security.evtx").write_bytes(b"ElfFile\x00" + b"garbage" * 1000)
    with pytest.raises(LogError, match="damaged evtx"):
        ingest(Request([str(tmp_path / "Security.evtx")], tmp_path / "events"))


def test_records_of_other_kinds_are_counted_without_being_parsed(tmp_path: Path) -> None:
    flow = '{"object":"FLOW","action":"START","id":"1","timestamp":1569245993331,"actorID":"a","properties":'
    ends = '{"src_ip":"142.20.56.202","dest_ip":"142.20.56.204"}}'
    lines = [
        flow + ends,
        (flow + ends).replace("FLOW", "FL\\u004fW"),  # the same word, hidden in an escape
        '{"object":"PROCESS","action":"CREATE","actorID":"a","properties":{}}',
        '{"object":"FLOW","action":"MESSAGE","actorID":"a","properties":{}}',
        '{"object":"PROCESS","action":"START"',  # cut off: it may have been anything
        "not JSON",
        (flow + ends).replace("FLOW", "FILE").replace('"a"', '"FLOW"'),  # has the words, in other places
    ]
    (tmp_path / "ecar.json").write_text("\n".join(lines) + "\n")
    manifest = ingest(Request([str(tmp_path / "ecar.json")], tmp_path / "events", "optc-ecar"))
    assert (manifest.seen, manifest.rows) == (7, 2)
    assert manifest.filtered == {"not FLOW/START": 3}
    assert manifest.bad == {"not a JSON object": 2}
    bad = [json.loads(row) for row in (tmp_path / "events/quarantine/rows.jsonl").read_text().splitlines()]
    assert [row["line"] for row in bad] == [5, 6]
