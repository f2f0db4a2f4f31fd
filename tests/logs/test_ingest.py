"""Ingest as a whole: sources, refusals, atomic output, labels, zones, several blocks."""

from __future__ import annotations

import bz2
import errno
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import entente.logs.sources as sources
from entente.errors import LogError, StorageError, UsageError
from entente.logs.events import load_events, read_manifest
from entente.logs.formats import formats
from entente.logs.formats.base import Options
from entente.logs.ingest import Request, ingest
from entente.logs.manifest import Manifest

ROW = "{},U1@D,U1@D,C{},C{},NTLM,Network,LogOn,Success\n"


def auth(rows: int, start: int = 0) -> str:
    return "".join(ROW.format(start + i, i % 7, i % 5) for i in range(rows))


def run(source: Path | str, out: Path, format: str = "auto", **more: object) -> Manifest:
    return ingest(Request([str(source)], out, format, **more))  # type: ignore[arg-type]


def directory_bytes(path: Path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "auth.txt"
    path.write_text(auth(100))
    return path


def test_many_blocks_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = auth(3000).splitlines()
    lines[1234] = "nonsense"
    lines[2999] = "x" + lines[2999]
    (tmp_path / "auth.txt").write_text("\n".join(lines) + "\n")
    run(tmp_path / "auth.txt", tmp_path / "one")
    monkeypatch.setattr(sources.line_blocks, "__defaults__", (5_000, None))
    monkeypatch.setattr("entente.logs.decompression.COMPRESSED_PIECE", 700)
    run(tmp_path / "auth.txt", tmp_path / "many")
    assert directory_bytes(tmp_path / "one") == directory_bytes(tmp_path / "many")
    rows = [json.loads(x) for x in (tmp_path / "many/quarantine/rows.jsonl").read_text().splitlines()]
    assert [(row["line"], row["reason"]) for row in rows] == [
        (1235, "1 fields instead of 9"),
        (3000, "no readable time"),
    ]


def test_the_manifest_accounts_for_every_row(tmp_path: Path, log: Path) -> None:
    log.write_text(auth(10) + "5,U,U,C1,C2,Kerberos,Network,LogOn,Success\nbroken\n6,U,U,,C2,NTLM,N,L,Fail\n")
    manifest = run(log, tmp_path / "events", options=Options(ntlm=True))
    assert manifest.seen == 13
    assert manifest.rows == 10
    assert manifest.filtered == {"not NTLM": 1}
    assert manifest.bad == {"1 fields instead of 9": 1, "no source host": 1}
    assert (manifest.first_time, manifest.last_time) == (0, 9_000_000)
    assert read_manifest(tmp_path / "events") == manifest


def test_self_loops_stay_in_the_event_table(tmp_path: Path, log: Path) -> None:
    log.write_text(ROW.format(1, 5, 5))
    assert run(log, tmp_path / "events").rows == 1


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.gz", gzip.compress),
        ("a.zst", zstandard.compress),
        ("a.bz2", bz2.compress),
        ("a.xz", lzma.compress),
    ],
)
def test_every_compression_is_read_and_a_truncated_file_is_refused(
    tmp_path: Path, name: str, pack: object
) -> None:
    packed = pack(auth(5000).encode())  # type: ignore[operator]
    (tmp_path / name).write_bytes(packed)
    assert run(tmp_path / name, tmp_path / "events").rows == 5000
    before = directory_bytes(tmp_path / "events")
    (tmp_path / name).write_bytes(packed[: len(packed) * 2 // 3])
    with pytest.raises(LogError, match="truncated"):
        run(tmp_path / name, tmp_path / "events", "lanl-auth")
    assert directory_bytes(tmp_path / "events") == before


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(auth(5000).encode()))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "a.gz").write_bytes(packed)
    with pytest.raises(LogError, match="damaged gzip"):
        run(tmp_path / "a.gz", tmp_path / "events", "lanl-auth")
    assert not (tmp_path / "events").exists()


def test_zip_members_are_read_and_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "logs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("day2.txt", auth(5, 86_400))
        archive.writestr("day1.txt", auth(5))
    manifest = run(tmp_path / "logs.zip", tmp_path / "events")
    assert [Path(source.file).name for source in manifest.sources] == [
        "logs.zip!day1.txt",
        "logs.zip!day2.txt",
    ]
    assert list(manifest.days) == ["1970-01-01", "1970-01-02"]


def test_a_folder_of_rotated_logs_is_read_in_natural_order_without_its_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    (folder / "old").mkdir(parents=True)
    (folder / "auth.txt").write_text(auth(1))
    (folder / "auth.txt.10.gz").write_bytes(gzip.compress(auth(2).encode()))
    (folder / "auth.txt.2").write_text(auth(3))
    (folder / "old" / "auth.txt.zst").write_bytes(zstandard.compress(auth(4).encode()))
    (folder / "README.md").write_text("# Notes\nnothing to see\n")
    (folder / "notes.csv").write_text("time,src,dst\n1,a,b\n")
    (folder / "empty.txt").write_text("")
    (folder / ".hidden").write_text(auth(9))
    manifest = run(folder, tmp_path / "events")
    assert [source.kept for source in manifest.sources] == [1, 3, 2, 4]
    assert {Path(file).name: reason for file, reason in manifest.skipped.items()} == {
        "README.md": "no known format",
        "empty.txt": "empty",
        "notes.csv": "a csv table beside logs",
    }


def test_results_inside_the_folder_of_logs_are_not_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "auth.txt").write_text(auth(3) + "bad\n")
    run(folder, folder / "events")
    manifest = run(folder, folder / "events")
    assert manifest.rows == 3
    assert not manifest.skipped
    with pytest.raises(LogError, match="is an event directory already"):
        run(folder / "events", tmp_path / "more")


def test_tables_of_different_kinds_in_a_folder_are_not_thrown_together(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "events.csv").write_text("time,src,dst\n1,a,b\n")
    (folder / "more.csv").write_text("time,src,dst\n2,a,b\n")
    assert run(folder, tmp_path / "events").rows == 2
    (folder / "attack.csv").write_text("time,src,dst,technique\n1,a,b,T1021\n")
    with pytest.raises(UsageError, match=r"attack.csv and events.csv"):
        run(folder, tmp_path / "events")


def test_a_file_named_twice_is_read_once(tmp_path: Path, log: Path) -> None:
    assert ingest(Request([str(tmp_path), str(log)], tmp_path / "events")).rows == 100


def test_a_pipe_is_refused_because_it_can_be_read_only_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LogError, match="not a regular file"):
        run(tmp_path / "pipe", tmp_path / "events")


def test_a_glob_names_several_files(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"a{i}.txt").write_text(auth(2))
    assert run(str(tmp_path / "a[01].txt"), tmp_path / "events").rows == 4


def test_what_cannot_be_read_is_said_before_anything_is_written(tmp_path: Path, log: Path) -> None:
    (tmp_path / "nothing").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.txt").write_text("Dear diary\n")
    cases = {
        "does not exist": tmp_path / "missing.txt",
        "matches no file": tmp_path / "*.nope",
        "without any log file": tmp_path / "nothing",
        "holds no known log": tmp_path / "notes",
    }
    for message, source in cases.items():
        with pytest.raises(LogError, match=message):
            run(source, tmp_path / "events")
    with pytest.raises(LogError, match=r"is not zeek: it looks like lanl-auth"):
        run(log, tmp_path / "events", "zeek")
    with pytest.raises(UsageError, match="no log format 'syslog'"):
        run(log, tmp_path / "events", "syslog")
    with pytest.raises(UsageError, match="no engine"):
        run(log, tmp_path / "events", engine="abacus")
    with pytest.raises(UsageError, match="time zone"):
        run(log, tmp_path / "events", timezone="Mars/Olympus")
    assert not (tmp_path / "events").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_said(tmp_path: Path, log: Path) -> None:
    log.chmod(0)
    with pytest.raises(LogError, match="cannot be read"):
        run(log, tmp_path / "events")


def test_a_read_error_in_the_middle_is_said(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> object:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("entente.logs.sources.opened", broken)
    with pytest.raises(LogError, match=r"auth.txt: cannot be read \(Permission denied\)"):
        run(log, tmp_path / "events")


def test_no_event_is_an_error_that_counts_and_explains(tmp_path: Path, log: Path) -> None:
    log.write_text("1,U,U,C1,C2,Kerberos,Network,LogOn,Success\n" * 7 + "hm\n")
    with pytest.raises(LogError, match=r"no event: 8 rows seen \(7 not NTLM; 1 1 fields instead of 9\)"):
        run(log, tmp_path / "events", options=Options(ntlm=True))
    assert list(tmp_path.iterdir()) == [log]


def test_each_source_must_give_an_event(tmp_path: Path, log: Path) -> None:
    (tmp_path / "other.txt").write_text("1,U,U,C1,C2,Kerberos,Network,LogOn,Success\n")
    with pytest.raises(LogError, match=r"other.txt: gives no event"):
        ingest(Request([str(log), str(tmp_path / "other.txt")], tmp_path / "ev", options=Options(ntlm=True)))


def test_a_full_disk_leaves_the_former_result(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(log, tmp_path / "events")
    before = directory_bytes(tmp_path / "events")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    log.write_text(auth(50))
    with pytest.raises(StorageError, match="the disk is full"):
        run(log, tmp_path / "events")
    assert directory_bytes(tmp_path / "events") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["auth.txt", "events"]


KILLED = """
import os, signal, sys
from pathlib import Path
import entente.logs.ingest as module
from entente.logs.ingest import Request, ingest
import entente.logs.store as store
def kill(*_): os.kill(os.getpid(), int(sys.argv[3]))
setattr(store.EventWriter, "close", kill)
ingest(Request([sys.argv[1]], Path(sys.argv[2])))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_ingest_leaves_the_former_result_and_the_next_one_cleans_up(
    tmp_path: Path, log: Path, number: signal.Signals
) -> None:
    run(log, tmp_path / "events")
    before = directory_bytes(tmp_path / "events")
    log.write_text(auth(50))
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(log), str(tmp_path / "events"), str(int(number))],
        capture_output=True,
        check=False,
    )
    assert killed.returncode != 0
    assert directory_bytes(tmp_path / "events") == before
    run(log, tmp_path / "events")
    assert load_events(tmp_path / "events").num_rows == 50
    assert sorted(path.name for path in tmp_path.iterdir()) == ["auth.txt", "events"]


def test_times_without_a_zone_are_utc_unless_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "time,src,dst\n2024-01-15 12:00:00,a,b\n2024-07-15 12:00:00,a,b\n2024-07-15T12:00:00Z,a,b\n"
    )
    run(tmp_path / "a.csv", tmp_path / "utc")
    run(tmp_path / "a.csv", tmp_path / "prague", timezone="Europe/Prague")
    utc, prague = (load_events(tmp_path / name)["time"].to_numpy() for name in ("utc", "prague"))
    assert ((utc - prague) // 3_600_000_000).tolist() == [1, 2, 0]


def test_a_column_may_be_mapped_to_its_own_name_but_not_twice(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("time,src,dst\n1,a,b\n")
    own = (("time", "time"), ("src", "src"), ("dst", "dst"))
    assert run(tmp_path / "t.csv", tmp_path / "events", "csv", options=Options(columns=own)).rows == 1
    twice = (("src", "dst"), ("dst", "dst"))
    with pytest.raises(UsageError, match="mapped twice"):
        run(tmp_path / "t.csv", tmp_path / "events", "csv", options=Options(columns=twice))


def test_times_in_the_wrong_unit_are_noticed_and_the_old_result_stays(tmp_path: Path) -> None:
    lines = "".join(f"{i * 86_400},a,b\n" for i in range(4000))
    (tmp_path / "t.csv").write_text("time,src,dst\n" + lines)
    right = Options(time_unit="ms")
    kept = run(tmp_path / "t.csv", tmp_path / "events", "csv", options=right)
    with pytest.raises(LogError, match="different days"):
        run(tmp_path / "t.csv", tmp_path / "events", "csv")
    assert len(load_events(tmp_path / "events")) == kept.rows == 4000


def test_a_table_is_read_through_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "proxy.txt").write_text(
        "when;client;server;who;n\n1700000000123;ws1;srv 1;anna;3\n1700000000124;ws2;-;bob;4\n"
    )
    columns = (("time", "when"), ("src", "client"), ("dst", "3"), ("user", "who"))
    manifest = run(
        tmp_path / "proxy.txt", tmp_path / "events", "csv", options=Options(columns=columns, time_unit="ms")
    )
    (event,) = load_events(tmp_path / "events").to_pylist()
    assert (event["time"], event["src"], event["dst"], event["user"]) == (
        1_700_000_000_123_000,
        "ws1",
        "srv 1",
        "anna",
    )
    assert manifest.bad == {"no destination host": 1}
    with pytest.raises(UsageError, match="no column for 'time'"):
        run(tmp_path / "proxy.txt", tmp_path / "events", "csv")
    with pytest.raises(UsageError, match="no such column"):
        run(tmp_path / "proxy.txt", tmp_path / "events", "csv", options=Options(columns=(("time", "t"),)))


def test_a_headless_table_is_read_by_position(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("5\ta\tb\n6\ta\tc\n")
    options = Options(columns=(("time", "1"), ("src", "2"), ("dst", "3")), header=False, delimiter="\t")
    assert run(tmp_path / "a.tsv", tmp_path / "events", "csv", options=options).rows == 2


def test_labels_for_a_format_without_them_are_refused(tmp_path: Path) -> None:
    (tmp_path / "conn.log").write_text(formats()["zeek"].sample)
    (tmp_path / "red.txt").write_text("1,U,A,B\n")
    with pytest.raises(UsageError, match="zeek logs take no --labels"):
        run(tmp_path / "conn.log", tmp_path / "events", labels=tmp_path / "red.txt")
    with pytest.raises(UsageError, match="--ntlm does not apply to zeek"):
        run(tmp_path / "conn.log", tmp_path / "events", options=Options(ntlm=True))


def test_a_wrong_line_in_a_labels_file_is_named(tmp_path: Path, log: Path) -> None:
    (tmp_path / "red.txt").write_text("1,U1@D,C1,C1\noops\n")
    with pytest.raises(LogError, match=r"red.txt:2: is not a label"):
        run(log, tmp_path / "events", labels=tmp_path / "red.txt")


def test_text_that_is_not_utf8_is_kept_as_well_as_it_can(tmp_path: Path) -> None:
    (tmp_path / "auth.txt").write_bytes(
        auth(2).encode() + b"3,J\xfcrgen,U,C1,C2,NTLM,Network,LogOn,Success\n"
    )
    run(tmp_path / "auth.txt", tmp_path / "events")
    assert load_events(tmp_path / "events")["user"].to_pylist()[2] == "J�rgen"


def test_utf16_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "auth.txt").write_bytes(auth(2).encode("utf-16"))
    with pytest.raises(LogError, match="UTF-16"):
        run(tmp_path / "auth.txt", tmp_path / "events")


def test_nfdumps_summary_is_no_row(tmp_path: Path) -> None:
    (tmp_path / "nf.csv").write_text(
        "ts,te,td,sa,da,sp,dp,pr,flg,ipkt,ibyt,opkt,obyt\n"
        "2024-03-01 08:00:00,2024-03-01 08:00:01,1.0,10.0.0.1,10.0.0.2,4000,445,TCP,.AP.,5,700,4,300\n"
        "Summary\nflows,bytes,packets,avg_bps,avg_pps,avg_bpp\n1,1000,9,8000,9,111\n"
    )
    manifest = run(tmp_path / "nf.csv", tmp_path / "events")
    assert not manifest.bad
    (event,) = load_events(tmp_path / "events").to_pylist()
    assert (event["port"], event["bytes"], event["kind"]) == (445, 1000, "tcp")


def test_iot23s_three_columns_in_one_still_give_the_label(tmp_path: Path) -> None:
    (tmp_path / "conn.log.labeled").write_text(
        "#separator \\x09\n#path\tconn\n"
        "#fields\tts\tid.orig_h\tid.resp_h\tid.resp_p\tproto\ttunnel_parents   label   detailed-label\n"
        "1.5\t10.0.0.1\t10.0.0.2\t23\ttcp\t(empty)   Malicious   PartOfAHorizontalPortScan\n"
        "2.5\t10.0.0.1\t10.0.0.3\t23\ttcp\t(empty)   Benign   -\n"
    )
    run(tmp_path / "conn.log.labeled", tmp_path / "events")
    assert load_events(tmp_path / "events")["label"].to_pylist() == [1, 0]


def test_a_zeek_log_without_two_hosts_is_skipped_by_name(tmp_path: Path) -> None:
    (tmp_path / "conn.log").write_text(formats()["zeek"].sample)
    (tmp_path / "dns.log").write_text(formats()["zeek"].sample.replace("#path\tconn", "#path\tdns"))
    out = tmp_path / "out"
    manifest = ingest(Request([str(tmp_path / "*.log")], out))
    assert [Path(source.file).name for source in manifest.sources] == ["conn.log"]
    assert next(iter(manifest.skipped.values())).startswith("a dns log")


def test_events_of_a_table_keep_their_types(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(formats()["csv"].sample)
    run(tmp_path / "a.csv", tmp_path / "events")
    table = load_events(tmp_path / "events")
    assert isinstance(table, pa.Table)
    assert {row["src"]: (row["port"], row["bytes"], row["label"]) for row in table.to_pylist()} == {
        "ws-1": (445, 1200, 0),
        "fe80::1": (22, None, 1),
    }
