"""Every reader on real files, as tools wrote them; skipped where the public data are absent."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from entente.logs.events import load_events
from entente.logs.formats.base import Options
from entente.logs.ingest import Request, ingest
from entente.logs.manifest import Manifest


def read(source: Path, out: Path, format: str = "auto", **more: object) -> Manifest:
    return ingest(Request([str(source)], out, format, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "format", "seen", "kept", "hosts"),
    [
        ("lanl/auth_head.txt.gz", "lanl-auth", 15_000, 15_000, 1_019),
        ("zeek_tsv/conn_labeled.log.gz", "zeek", 5_663, 5_663, 1_757),
        ("zeek_tsv/ssh.log", "zeek", 396, 396, 126),
        ("zeek_json/conn.log.gz", "zeek", 3_230, 3_230, 215),
        ("zeek_json/kerberos.log", "zeek", 101, 101, 4),
        ("zeek_json/ntlm.log", "zeek", 9, 9, 4),
        ("zeek_json/smb_mapping.log", "zeek", 34, 34, 4),
        ("zeek_json/apt29_nashua_conn.log", "zeek", 479, 479, 5),
        ("suricata/eve.json.gz", "suricata-eve", 2_500, 1_012, 280),
        ("netflow/argus.binetflow.gz", "netflow", 6_751, 6_751, 497),
        ("windows_json/*.zip", "windows", 15_015, 86, 16),
    ],
)
def test_a_real_log_is_recognised_and_read_whole(
    shared_data: Path, tmp_path: Path, file: str, format: str, seen: int, kept: int, hosts: int
) -> None:
    manifest = read(shared_data / "logs" / file, tmp_path / "events")
    assert {source.format for source in manifest.sources} == {format}
    assert (manifest.seen, manifest.rows, manifest.hosts) == (seen, kept, hosts)
    assert not manifest.bad
    assert seen == kept + sum(manifest.filtered.values())


def test_the_ntlm_filter_keeps_what_grep_keeps(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "logs/lanl/auth_head.txt.gz"
    manifest = read(source, tmp_path / "events", options=Options(ntlm=True))
    assert manifest.rows == 467
    assert manifest.filtered == {"not NTLM": 14_533}


def test_labels_of_real_zeek_logs_are_read(shared_data: Path, tmp_path: Path) -> None:
    manifest = read(shared_data / "logs/zeek_tsv/conn_labeled.log.gz", tmp_path / "events")
    assert manifest.labelled
    assert manifest.malicious == 4_201


def test_the_red_team_file_labels_exactly_its_events(shared_data: Path, tmp_path: Path) -> None:
    import gzip

    red = gzip.decompress((shared_data / "logs/lanl/redteam.txt.gz").read_bytes()).decode().splitlines()
    time, user, src, dst = red[0].split(",")
    lines = [
        f"{time},{user},{user},{src},{dst},NTLM,Network,LogOn,Success",
        f"{int(time) + 1},{user},{user},{src},{dst},NTLM,Network,LogOn,Success",
        f"{time},{user},{user},{dst},{src},NTLM,Network,LogOn,Success",
    ]
    (tmp_path / "auth.txt").write_text("\n".join(lines) + "\n")
    manifest = read(
        tmp_path / "auth.txt", tmp_path / "events", labels=shared_data / "logs/lanl/redteam.txt.gz"
    )
    assert load_events(tmp_path / "events")["label"].to_pylist() == [1, 0, 0]
    assert manifest.labels == {"entries": len(set(red)), "matched": 1}


def test_optc_ids_and_addresses_become_labels_and_names(shared_data: Path, tmp_path: Path) -> None:
    from entente.logs.formats import formats

    (tmp_path / "ecar.json").write_text(formats()["optc-ecar"].sample)
    optc = shared_data / "logs/optc"
    manifest = read(
        tmp_path / "ecar.json",
        tmp_path / "events",
        labels=optc / "redteam_events.csv",
        hosts=optc / "known_addresses.json",
    )
    events = load_events(tmp_path / "events").to_pylist()
    assert [event["label"] for event in events] == [1, 0]
    assert (events[0]["src"], events[0]["dst"]) == (
        "SysClient0201.systemia.com",
        "SysClient0203.systemia.com",
    )
    assert (events[1]["src"], events[1]["dst"]) == ("SysClient0201.systemia.com", "8.8.8.8")
    assert manifest.labels["matched"] == 1


def test_a_folder_of_zeek_logs_is_read_as_one(shared_data: Path, tmp_path: Path) -> None:
    manifest = read(shared_data / "logs/zeek_json", tmp_path / "events", "zeek")
    assert manifest.rows == 3_230 + 101 + 9 + 34 + 479
    kinds = set(pc.unique(load_events(tmp_path / "events", ["kind"])["kind"]).to_pylist())
    assert {"kerberos", "ntlm", "smb_mapping"} <= kinds


def test_windows_logons_point_from_the_source_to_the_host_that_logged_them(
    shared_data: Path, tmp_path: Path
) -> None:
    read(shared_data / "logs/windows_json/covenant_psremoting_command.zip", tmp_path / "events")
    events = load_events(tmp_path / "events").to_pylist()
    explicit = [event for event in events if event["kind"] == "4648"]
    assert {(event["src"], event["dst"]) for event in explicit} == {("workstation5", "workstation6")}
    tickets = [event for event in events if event["kind"] in ("4768", "4769")]
    assert {(event["src"], event["dst"]) for event in tickets} == {("172.18.39.5", "mordordc")}
