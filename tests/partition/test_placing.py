"""Silos from columns, subnets and neighbours."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.errors import ConfigError, LogError, UsageError
from entente.logs.events import write_events
from entente.partition import pairs as pairs_module
from entente.partition.base import Assignment
from entente.partition.column import from_event_column, from_host_table
from entente.partition.imbalance import measure_imbalance
from entente.partition.pairs import Pairs, count_events, cover, host_pairs
from entente.partition.subnet import Subnets, from_subnets, read_subnets


def store(path: Path, rows: list[tuple[str, str]], **columns: list[object]) -> Path:
    table = pa.table(
        {
            "time": pa.array(range(len(rows)), pa.int64()),
            "src": [src for src, _ in rows],
            "dst": [dst for _, dst in rows],
            **columns,
        }
    )
    write_events(table, path)
    return path


def make_pairs(rows: list[tuple[str, str, int]]) -> Pairs:
    hosts = np.array(sorted({name for src, dst, _ in rows for name in (src, dst)}))
    place = {name: index for index, name in enumerate(hosts.tolist())}
    columns = [[place[row[0]] for row in rows], [place[row[1]] for row in rows], [row[2] for row in rows]]
    src, dst, events = (np.array(column, dtype=np.int64) for column in columns)
    return Pairs(hosts, src, dst, events)


def test_host_pairs_count_events_and_drop_self_loops(tmp_path: Path) -> None:
    events = store(tmp_path / "e", [("a", "b"), ("a", "b"), ("b", "a"), ("c", "c")])
    pairs = host_pairs(events)
    assert pairs.hosts.tolist() == ["a", "b"]
    assert list(zip(pairs.src, pairs.dst, pairs.events, strict=True)) == [(0, 1, 2), (1, 0, 1)]


def test_counting_in_small_pieces_gives_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    rows = [(f"h{a}", f"h{b}") for a, b in rng.integers(0, 9, (500, 2)).tolist()]
    whole = count_events(store(tmp_path / "e", rows), ("src", "dst"))
    plain: dict[tuple[str, str], int] = {}
    for row in rows:
        plain[row] = plain.get(row, 0) + 1
    assert {(r["src"], r["dst"]): r["events"] for r in whole.to_pylist()} == plain
    table = pa.table({"src": [src for src, _ in rows], "dst": [dst for _, dst in rows]})
    monkeypatch.setattr(pairs_module, "MERGE", 20)
    monkeypatch.setattr(pairs_module, "scan_events", lambda *_: iter(table.to_batches(max_chunksize=7)))
    assert count_events(tmp_path, ("src", "dst")).to_pylist() == whole.to_pylist()


def test_no_event_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "scan_events", lambda *_: iter(()))
    with pytest.raises(LogError, match="holds no event"):
        host_pairs(tmp_path)


def test_unknown_hosts_go_where_most_of_their_events_go() -> None:
    pairs = make_pairs([("x", "a", 3), ("b", "x", 5), ("y", "x", 1), ("p", "q", 9)])
    placed = cover({"a": "north", "b": "south"}, pairs).as_dict()
    assert placed["x"] == "south"
    assert placed["y"] == "south"  # through x, in a second pass
    assert placed["p"] == placed["q"] == "other"


def test_ties_go_to_the_first_silo_and_known_hosts_stay() -> None:
    placed = cover({"a": "s", "b": "r", "idle": "r"}, make_pairs([("x", "a", 1), ("x", "b", 1)])).as_dict()
    assert placed == {"a": "s", "b": "r", "idle": "r", "x": "r"}


def test_nothing_known_puts_everything_into_other() -> None:
    assert set(cover({}, make_pairs([("a", "b", 1)])).as_dict().values()) == {"other"}


def test_a_site_column_of_a_host_list(tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text("host,site,role\na,north,ws\nb,south,srv\na,north,ws\n")
    assert from_host_table(path, "site") == {"a": "north", "b": "south"}
    path.write_text("host,site\na,north\na,south\n")
    with pytest.raises(ConfigError, match=r"hosts.csv:3: host 'a' is in 'north' and in 'south'"):
        from_host_table(path, "site")


def test_an_event_column_votes_per_source(tmp_path: Path) -> None:
    rows = [("a", "z"), ("a", "z"), ("a", "z"), ("b", "z"), ("b", "z")]
    events = store(tmp_path / "e", rows, kind=["NTLM", "NTLM", "Kerberos", "Kerberos", None])
    assert from_event_column(events, "kind") == {"a": "NTLM", "b": "Kerberos"}
    with pytest.raises(UsageError, match="no column 'site'"):
        from_event_column(events, "site")
    with pytest.raises(UsageError, match="empty"):
        from_event_column(events, "user")


def subnets(tmp_path: Path, text: str) -> Subnets:
    path = tmp_path / "subnets.csv"
    path.write_text("silo,cidr\n" + text)
    return read_subnets(path)


def test_the_longest_prefix_wins_in_both_ip_versions(tmp_path: Path) -> None:
    known = subnets(tmp_path, "all,10.0.0.0/8\nlab,10.1.0.0/16\none,10.1.2.3/32\nsix,2001:db8::/32\n")
    hosts = ["10.9.9.9", "10.1.9.9", "10.1.2.3", "2001:db8::5", "::ffff:10.1.0.1", "8.8.8.8", "server-1"]
    assert from_subnets(known, hosts) == {
        "10.9.9.9": "all",
        "10.1.9.9": "lab",
        "10.1.2.3": "one",
        "2001:db8::5": "six",
        "::ffff:10.1.0.1": "lab",
    }


def test_a_default_route_takes_the_rest(tmp_path: Path) -> None:
    known = subnets(tmp_path, "home,192.168.0.0/16\nworld,0.0.0.0/0\n")
    assert [known.silo_of(host) for host in ("192.168.1.1", "8.8.8.8", "::1")] == ["home", "world", None]


networks = st.builds(
    lambda bits, length: ipaddress.ip_network((bits >> (32 - length) << (32 - length), length)),
    st.integers(0, 2**32 - 1).map(lambda n: n & 0x0F0F0FFF),
    st.integers(0, 32),
)


@given(st.lists(networks, min_size=1, max_size=12, unique=True), st.integers(0, 2**32 - 1))
def test_lookup_agrees_with_looking_at_every_range(found: list[ipaddress.IPv4Network], number: int) -> None:
    address = ipaddress.ip_address(number & 0x0F0F0FFF)
    tables: dict[tuple[int, int], dict[int, str]] = {}
    for network in found:
        bits = int(network.network_address) >> (32 - network.prefixlen)
        tables.setdefault((4, network.prefixlen), {})[bits] = str(network)
    ordered = sorted(tables.items(), key=lambda item: -item[0][1])
    known = Subnets(tuple((version, length, table) for (version, length), table in ordered))
    holding = [network for network in found if address in network]
    expected = str(max(holding, key=lambda network: network.prefixlen)) if holding else None
    assert known.silo_of(str(address)) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,10.0.0.0/8\nb,10.0.0.1/8\n", r"subnets.csv:3: '10.0.0.1/8' is not an address range"),
        ("a,10.0.0.0/8\nb,10.0.0.0/8\n", r"subnets.csv:3: 10.0.0.0/8 is given to 'a' and to 'b'"),
        ("a,somewhere\n", r"subnets.csv:2"),
    ],
)
def test_wrong_ranges_are_refused_with_file_and_line(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=problem):
        subnets(tmp_path, text)


def test_imbalance_counts_cross_edges_for_both_silos_and_once_in_total() -> None:
    pairs = make_pairs([("a", "b", 10), ("b", "c", 5), ("c", "d", 1), ("d", "c", 1)])
    table = measure_imbalance(Assignment.from_mapping({"a": "x", "b": "x", "c": "y", "d": "y"}), pairs)
    x, y = table.silos
    assert (x.hosts, x.events, x.edges, x.cross_edges) == (2, 15, 2, 1)
    assert (y.hosts, y.events, y.edges, y.cross_edges) == (2, 7, 3, 1)
    assert (table.edges, table.cross_edges) == (4, 1)
    assert table.hosts_deviation == 0
    assert table.events_deviation == pytest.approx(8 / 2**0.5)


def test_the_deviation_is_the_samples_as_in_the_papers_table_of_743_and_71_hosts() -> None:
    silo_of = {f"a{n}": "large" for n in range(743)} | {f"b{n}": "small" for n in range(71)}
    table = measure_imbalance(Assignment.from_mapping(silo_of), make_pairs([("a0", "b0", 1)]))
    assert round(table.hosts_deviation) == 475
    alone = measure_imbalance(Assignment.from_mapping({"a": "x", "b": "x"}), make_pairs([("a", "b", 1)]))
    assert (alone.hosts_deviation, alone.events_deviation) == (0.0, 0.0)


def test_a_host_list_in_another_case_still_names_the_hosts() -> None:
    placed = cover(
        {"WS1": "north", "ws2": "south", "A": "north"}, make_pairs([("ws1", "ws2", 1), ("A", "a", 1)])
    )
    assert placed.as_dict() == {"ws1": "north", "ws2": "south", "A": "north", "a": "north"}
