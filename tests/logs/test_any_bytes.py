"""Any bytes become events or an EntenteError, for every reader; nothing else ever reaches the user."""

from __future__ import annotations

import base64
import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entente.errors import EntenteError, LogError
from entente.logs.formats import formats
from entente.logs.formats.base import Format
from entente.logs.ingest import Request, ingest
from entente.logs.leases import read_hosts
from entente.logs.refine import read_labels
from entente.logs.sources import find_files, opened_log

FORMATS = list(formats().values())
SPICE = [
    b"",
    b"\x00",
    b"\xff",
    b'"',
    b"\\",
    b"\t",
    b"\n",
    b",",
    b"{",
    b"}",
    b"[",
    b"-1",
    b"1e999",
    b"null",
    b"9" * 30,
]
"""What breaks parsers, put into samples that would otherwise be read."""
calm = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def damaged(draw: st.DrawFn, sample: bytes) -> bytes:
    """A sample with a few places changed, cut or doubled."""
    data = sample
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, max(0, len(data) - 1)))
        end = min(len(data), start + draw(st.sampled_from([0, 1, 2, 8, 60])))
        new = draw(st.sampled_from(SPICE) | st.binary(max_size=4) | st.just(data[start:end] * 2))
        data = data[:start] + new + data[end:]
    return data


def swallow(path: Path, out: Path, format: str, engine: str = "duckdb") -> None:
    try:
        manifest = ingest(Request([str(path)], out, format, engine=engine, workers=1))
    except EntenteError:
        return
    assert manifest.seen == manifest.rows + sum(manifest.filtered.values()) + sum(manifest.bad.values())


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
@calm
@given(data=st.data())
def test_a_damaged_log_gives_events_or_an_error(tmp_path: Path, format: Format, data: st.DataObject) -> None:
    (tmp_path / "some.log").write_bytes(data.draw(damaged(format.sample.encode())))
    swallow(tmp_path / "some.log", tmp_path / "events", data.draw(st.sampled_from(["auto", format.name])))


@calm
@given(data=st.data())
def test_a_damaged_array_or_envelope_gives_events_or_an_error(tmp_path: Path, data: st.DataObject) -> None:
    format = data.draw(st.sampled_from([f for f in FORMATS if f.sample.startswith("{")]))
    rows = [json.loads(line) for line in format.sample.splitlines()]
    shapes = [rows, [{"_source": row} for row in rows], {"hits": {"hits": rows}}, {"results": rows}]
    text = json.dumps(data.draw(st.sampled_from(shapes)), indent=data.draw(st.sampled_from([None, 1])))
    (tmp_path / "some.json").write_bytes(data.draw(damaged(text.encode())))
    swallow(tmp_path / "some.json", tmp_path / "events", "auto")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400), st.sampled_from(["auto", *formats()]))
def test_plain_noise_gives_an_error_or_events(tmp_path: Path, data: bytes, format: str) -> None:
    (tmp_path / "some.log").write_bytes(data)
    swallow(tmp_path / "some.log", tmp_path / "events", format)


def packed() -> dict[str, bytes]:
    text = formats()["lanl-auth"].sample.encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("auth.txt", text)
    return {"zip": archive.getvalue(), "gzip": gzip.compress(text)}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_archive_gives_text_or_an_error(tmp_path: Path, data: st.DataObject) -> None:
    (tmp_path / "a").write_bytes(data.draw(damaged(data.draw(st.sampled_from(list(packed().values()))))))
    try:
        for file in find_files([str(tmp_path / "a")]):
            with opened_log(file) as chunks:
                b"".join(chunks)
    except EntenteError:
        return


TABLES = [
    '{"10.0.0.1": "ws1"}',
    "ip,name,from,until\n10.0.0.1,ws1,2024-01-01T00:00:00Z,1704153600\n",
    'lease 10.0.0.1 {\n  starts 4 2020/08/06 12:00:00;\n  ends never;\n  client-hostname "ws1";\n}\n',
    '{"ts":1.5,"mac":"aa","host_name":"ws1","assigned_addr":"10.0.0.1","lease_time":60.0}\n',
    "#separator \\x09\n#fields\tts\thost_name\tassigned_addr\tlease_time\n1.5\tws1\t10.0.0.1\t60\n",
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_table_of_hosts_or_labels_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    table = data.draw(
        st.sampled_from([*TABLES, "1,U1@D,C1,C2\n", "fa54c298-dbc2-41ce-aa34-0351bf5a71d0,x\n"])
    )
    (tmp_path / "table").write_bytes(data.draw(damaged(table.encode())))
    for read in (read_hosts, *((lambda path, f=f: read_labels(path, [f])) for f in FORMATS if f.labels)):
        try:
            assert len(read(tmp_path / "table")) > 0
        except EntenteError:
            continue


def test_a_header_that_names_a_column_twice_is_read_by_the_first(tmp_path: Path) -> None:
    (tmp_path / "conn.log").write_text(
        "#separator \\x09\n#path\tconn\n#fields\tts\tid.orig_h\tid.resp_h\tproto\tproto\n"
        "1.5\ta\tb\ttcp\tudp\n"
    )
    assert ingest(Request([str(tmp_path / "conn.log")], tmp_path / "events")).rows == 1
    (tmp_path / "flow.log").write_text("srcaddr dstaddr start srcaddr\n10.0.0.1 10.0.0.2 1418530010 x\n")
    assert ingest(Request([str(tmp_path / "flow.log")], tmp_path / "events")).rows == 1


def test_an_offset_before_the_archive_is_a_damaged_archive(tmp_path: Path) -> None:
    whole = packed()["zip"]
    shifted = bytearray(whole)
    end = whole.rindex(b"PK\x05\x06")
    shifted[end + 16 : end + 20] = (int.from_bytes(whole[end + 16 : end + 20], "little") + 9).to_bytes(
        4, "little"
    )
    (tmp_path / "a.zip").write_bytes(shifted)
    with pytest.raises(LogError, match="damaged zip"):
        ingest(Request([str(tmp_path / "a.zip")], tmp_path / "events"))


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_malformed_row_that_is_not_utf8_is_quarantined_and_not_lost(tmp_path: Path) -> None:
    good = b"1,U1@D,U1@D,C1,C2,NTLM,Network,LogOn,Success\n"
    (tmp_path / "auth.txt").write_bytes(good + b"2,J\xfcrgen\n" + good)
    manifest = ingest(Request([str(tmp_path / "auth.txt")], tmp_path / "events"))
    assert (manifest.seen, manifest.rows, manifest.bad) == (3, 2, {"2 fields instead of 9": 1})


def test_a_member_without_a_name_is_no_log(tmp_path: Path) -> None:
    found_by_fuzzing = (
        "UEsDBBTy0/3z4HqNdELNTSygmuEsZ0NzM0tjHWdjA1MdvxAfXxyaAVBLAQIUAxQAAAAIACsDcl2W+t0AvmsAALEAAAAI"
        "AAAAAAAAAAAAAACAAAAAYXUAAXRoLnR4dFBLBQYAAAAAAQABADYAAACRAAAAAAA="
    )
    (tmp_path / "a.zip").write_bytes(base64.b64decode(found_by_fuzzing))
    with pytest.raises(LogError, match="archive without any file"):
        ingest(Request([str(tmp_path / "a.zip")], tmp_path / "events"))


@pytest.mark.parametrize("odd", ['"a"\rb', '"' + "x" * 200_000 + '"'], ids=["carriage return", "long field"])
def test_a_quoted_field_that_cannot_be_read_is_a_bad_row(tmp_path: Path, odd: str) -> None:
    (tmp_path / "t.csv").write_bytes(f"time,src,dst,user\n1,a,b,c\n2,a,b,{odd}\n3,a,b,c\n".encode())
    manifest = ingest(Request([str(tmp_path / "t.csv")], tmp_path / "events"))
    assert manifest.seen == manifest.rows + sum(manifest.bad.values()) == 3
