"""One machine, one name: spelling, domains, addresses that change hands; rows from the future; odd labels."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.cli import main
from entente.errors import LogError, UsageError
from entente.logs.addresses import address_of
from entente.logs.events import load_events
from entente.logs.hosts import HostNames
from entente.logs.ingest import Request, ingest
from entente.logs.leases import ALWAYS, NEVER, AddressBook, Lease, read_hosts
from entente.logs.manifest import Manifest

HOUR = 3_600_000_000
NOW = 1_700_000_000_000_000


def read(folder: Path, rows: list[tuple[Any, ...]], **more: Any) -> tuple[Manifest, list[dict[str, Any]]]:
    lines = [",".join(str(cell) for cell in row) for row in rows]
    (folder / "t.csv").write_text("\n".join(["time,src,dst", *lines]) + "\n")
    manifest = ingest(Request([str(folder / "t.csv")], folder / "events", "csv", **more))
    return manifest, load_events(folder / "events").to_pylist()


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::FFFF:0a00:0001", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("FE80:0:0:0::1%eth0", "fe80::1"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("WS1", "ws1"),
        ("\\\\WS1", "ws1"),
        ("Srv.Corp.Example.", "srv.corp.example"),
        ("1.2.3", "1.2.3"),
        ("17", "17"),
        ("aa:bb:cc:dd:ee:ff", "aa:bb:cc:dd:ee:ff"),
        ("null", None), ("NULL", None), ("-", None), ("(empty)", None), ("None", None), ("N/A", None),
    ],
)  # fmt: skip
def test_a_host_has_one_spelling(written: str, known: str | None) -> None:
    assert HostNames().spelling(exact=False, short=False).of(written) == known


def test_domains_are_cut_off_as_told() -> None:
    def spelt(name: str, domains: tuple[str, ...], short: bool) -> str | None:
        return HostNames(domains=domains).spelling(exact=False, short=short).of(name)

    assert spelt("srv.corp.example", (), False) == "srv.corp.example"
    assert spelt("srv.corp.example", (), True) == "srv"
    assert spelt("srv.corp.example", ("none",), True) == "srv.corp.example"
    assert spelt("srv.corp.example", (".Corp.Example", "lab"), True) == "srv"
    assert spelt("srv.other.example", ("corp.example",), True) == "srv.other.example"
    assert spelt("10.0.0.1", ("all",), True) == "10.0.0.1"
    assert spelt("corp.example", ("corp.example",), True) == "corp.example"


def test_published_data_sets_keep_their_names_unless_told() -> None:
    assert HostNames().spelling(exact=True, short=False).of("C17") == "C17"
    assert HostNames(case="lower").spelling(exact=True, short=False).of("C17") == "c17"
    assert HostNames(case="keep").spelling(exact=False, short=False).of("WS1") == "WS1"
    with pytest.raises(UsageError, match="--host-case"):
        HostNames(case="upper")
    with pytest.raises(UsageError, match="stands alone"):
        HostNames(domains=("all", "corp"))


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_two_spellings_of_a_machine_are_one_host(tmp_path: Path, engine: str) -> None:
    rows = [(1, "WS1", "::ffff:10.0.0.1"), (2, "ws1", "10.0.0.1"), (3, "Null", "10.0.0.1"), (4, "ws1", "-")]
    manifest, events = read(tmp_path, rows, engine=engine)
    assert manifest.hosts == 2
    assert {(event["src"], event["dst"]) for event in events} == {("ws1", "10.0.0.1")}
    assert manifest.bad == {"no destination host": 1, "no source host": 1}
    assert manifest.names == {"respelt": 2}


def test_an_address_is_the_machine_that_had_it_at_the_time(tmp_path: Path) -> None:
    (tmp_path / "leases.csv").write_text(
        "ip,hostname,from,until\n"
        "10.0.0.1,WS-A,2023-11-14T00:00:00Z,2023-11-14T12:00:00Z\n"
        "::ffff:10.0.0.1,ws-b,2023-11-14T12:00:00Z,2023-11-14T18:00:00Z\n"
        "10.0.0.2,srv,,\n"
    )
    day = int(datetime(2023, 11, 14, tzinfo=UTC).timestamp())
    rows = [(day + hour * 3600, "10.0.0.1", "10.0.0.2") for hour in (-1, 0, 11, 12, 17, 18)]
    manifest, events = read(tmp_path, [*rows, (day, "10.0.0.9", "other")], hosts=tmp_path / "leases.csv")
    assert [event["src"] for event in events] == [
        *("10.0.0.1", "ws-a", "ws-a", "ws-b", "ws-b", "10.0.0.1"), "10.0.0.9",
    ]  # fmt: skip
    assert {event["dst"] for event in events} == {"srv", "other"}
    assert manifest.names == {"mapped": 10, "outside": 2, "unmapped": 1}


LEASES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 20), st.integers(0, 12), st.integers(0, 99)), max_size=12
)


@given(LEASES, st.lists(st.integers(-2, 34), min_size=1, max_size=30))
def test_lookups_by_time_are_what_a_walk_over_all_leases_gives(
    entries: list[tuple[str, int, int, int]], times: list[int]
) -> None:
    leases = [Lease(address, f"m{name}", start, start + length) for address, start, length, name in entries]
    book = AddressBook([*leases, Lease("a", "for good")])
    last = {(lease.address, lease.start): lease for lease in [*leases, Lease("a", "for good")]}
    for address in "ab":
        if address not in book:
            continue
        mine = sorted((lease for lease in last.values() if lease.address == address), key=lambda x: x.start)
        for time, found in zip(times, book.machines(address, np.array(times)).tolist(), strict=True):
            covering = [lease for lease in mine if lease.start <= time < lease.end]
            assert (book.names[found] if found >= 0 else None) == (covering[-1].name if covering else None)


ISC = """
# comment
lease 10.0.0.5 {
  starts 4 2020/08/06 12:00:00;
  ends 4 2020/08/06 14:00:00;
  binding state free;
  hardware ethernet aa:bb:cc:dd:ee:01;
  client-hostname "ws5";
}
lease 10.0.0.5 {
  starts epoch 1596722400; # Thu Aug  6 14:00:00 2020
  ends never;
  binding state active;
  hardware ethernet aa:bb:cc:dd:ee:02;
}
lease 10.0.0.6 { binding state abandoned; }
"""
ZEEK = [
    {"ts": 1596715200.0, "uids": ["C1"], "mac": "aa:01", "host_name": "ws5", "assigned_addr": "10.0.0.5",
     "lease_time": 7200.0},
    {"ts": 1596722400.0, "uids": ["C2"], "mac": "aa:01", "assigned_addr": "10.0.0.6", "lease_time": 60.0},
    {"ts": 1596722400.0, "uids": ["C3"], "mac": "aa:02", "client_addr": "10.0.0.7"},
]  # fmt: skip
NOON = 1_596_715_200_000_000


def machine(book: AddressBook, address: str, time: int) -> str | None:
    found = int(book.machines(address, np.array([time]))[0])
    return book.names[found] if found >= 0 else None


def test_leases_of_dhcp_servers_and_zeek_are_read(tmp_path: Path) -> None:
    path = tmp_path / "leases"
    path.write_text(ISC)
    isc = read_hosts(path)
    assert machine(isc, "10.0.0.5", NOON - 1) is None
    assert machine(isc, "10.0.0.5", NOON) == "ws5"
    assert machine(isc, "10.0.0.5", NOON + 2 * HOUR) == "aa:bb:cc:dd:ee:02"
    assert "10.0.0.6" not in isc
    path.write_text("".join(json.dumps(row) + "\n" for row in ZEEK))
    names = ["ts", "mac", "host_name", "assigned_addr", "lease_time"]
    tabs = "\n".join("\t".join(str(row.get(name, "-")) for name in names) for row in ZEEK)
    (tmp_path / "dhcp.log").write_text(
        "#separator \\x09\n#path\tdhcp\n#fields\t" + "\t".join(names) + "\n" + tabs
    )
    for zeek in (read_hosts(path), read_hosts(tmp_path / "dhcp.log")):
        assert machine(zeek, "10.0.0.5", NOON + HOUR) == "ws5"
        assert machine(zeek, "10.0.0.5", NOON + 2 * HOUR) is None
        assert machine(zeek, "10.0.0.6", NOON + 2 * HOUR) == "ws5"
        assert "10.0.0.7" not in zeek
    path.write_text(
        "address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state\n"
        "10.0.0.5,aa:01,,7200,1596722400,1,0,0,ws5.corp,0\n10.0.0.8,aa:02,,7200,1596722400,1,0,0,,0\n"
    )
    kea = read_hosts(path)
    assert machine(kea, "10.0.0.5", NOON) == "ws5.corp"
    assert machine(kea, "10.0.0.5", NOON - 1) is None
    assert "10.0.0.8" not in kea
    path.write_text("10.0.0.1,one\n10.0.0.2,two\n")
    assert machine(read_hosts(path), "10.0.0.2", 5) == "two"
    assert (ALWAYS, NEVER) == (-(2**62), 2**62)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10.0.0.1\n", ":1: needs two columns"),
        ('{"10.0.0.1": 5}', "no name"),
        ('{"10.0.0.1": ', "not a JSON object"),
        ("", "holds no address"),
        ("ip,name,from\n10.0.0.1,a,whenever\n", ":2: 'whenever' is not a time"),
    ],
)
def test_a_table_of_addresses_that_cannot_be_read_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(LogError, match=said):
        read_hosts(tmp_path / "hosts")


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_a_row_from_the_future_is_set_aside_and_never_trusted(tmp_path: Path, engine: str) -> None:
    now = NOW // 1_000_000
    rows = [(now - 9, "a", "b"), (now + 3600, "a", "b"), (now + 3601, "c", "d"), (now + 172_800, "e", "f")]
    manifest, events = read(tmp_path, rows, as_of=NOW, engine=engine)
    assert len(events) == 2
    assert manifest.bad == {"time in the future": 2}
    assert manifest.last_time == NOW + HOUR
    quarantined = [
        json.loads(x) for x in (tmp_path / "events/quarantine/rows.jsonl").read_text().splitlines()
    ]
    assert [row["line"] for row in quarantined] == [4, 5]
    assert len(read(tmp_path, rows, as_of=NOW, clock_tolerance=None)[1]) == 4
    assert len(read(tmp_path, rows, as_of=NOW, clock_tolerance=0)[1]) == 1


def test_the_systems_clock_is_the_default_and_relative_clocks_are_not_affected(tmp_path: Path) -> None:
    manifest, events = read(tmp_path, [(5, "a", "b"), ("2999-01-01T00:00:00Z", "a", "b")])
    assert [event["time"] for event in events] == [5_000_000]
    assert manifest.bad == {"time in the future": 1}


def test_the_zone_is_applied_before_the_clock_is_looked_at(tmp_path: Path) -> None:
    rows = [("2023-11-15 00:13:20", "a", "b")]  # two hours ahead, unless it is Athens' clock
    assert len(read(tmp_path, rows, as_of=NOW, timezone="Europe/Athens")[1]) == 1
    with pytest.raises(LogError, match="1 time in the future"):
        read(tmp_path, rows, as_of=NOW)


def test_the_command_takes_tolerance_time_case_and_domains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("time,src,dst\n1700000000,WS1.corp,srv.corp\n1700003601,a,b\n")
    words = [
        "ingest",
        str(tmp_path / "t.csv"),
        "--out",
        str(tmp_path / "events"),
        "--as-of",
        "2023-11-14T22:13:20Z",
    ]
    main_ok = [*words, "--host-case", "keep", "--strip-domain", "corp", "--clock-tolerance", "1h"]
    with pytest.raises(SystemExit):
        main(main_ok)
    (event,) = load_events(tmp_path / "events").to_pylist()
    assert (event["src"], event["dst"]) == ("WS1", "srv")
    assert "ends of events: 2 respelt by rule" in capsys.readouterr().out
    for wrong in (["--clock-tolerance", "soon"], ["--as-of", "today"], ["--host-case", "upper"]):
        with pytest.raises(SystemExit) as end:
            main([*words, *wrong])
        assert end.value.code == 2


def test_labels_that_are_not_understood_are_counted_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(
        f"{i},a,b,{label}\n" for i, label in enumerate(["dos", "dos", "scan\x1b[2J", "1", "0", "", "-"])
    )
    (tmp_path / "t.csv").write_text("time,src,dst,label\n" + rows)
    with pytest.raises(SystemExit):
        main(["ingest", str(tmp_path / "t.csv"), "--out", str(tmp_path / "events")])
    told = capsys.readouterr().out
    assert "labels: 3 rows with one that is not understood ('dos', 'scan" in told
    assert "\x1b" not in told
    assert load_events(tmp_path / "events")["label"].to_pylist() == [None, None, None, 1, 0, None, None]
    many = "".join(f"{i},a,b,word{i % 60}\n" for i in range(120))
    (tmp_path / "t.csv").write_text("time,src,dst,label\n" + many)
    manifest = ingest(Request([str(tmp_path / "t.csv")], tmp_path / "events"))
    assert len(manifest.unknown_labels) == 21
    assert sum(manifest.unknown_labels.values()) == 120


BYTES = ["0", "1", "9", "10", "00", "01", "99", "100", "199", "249", "255", "256", ""]


@given(st.lists(st.sampled_from(BYTES), min_size=3, max_size=5))
def test_an_ipv4_address_is_what_the_standard_library_takes_for_one(parts: list[str]) -> None:
    text = ".".join(parts)
    try:
        expected: str | None = str(ip_address(text))
    except ValueError:
        expected = None
    assert address_of(text) == expected
