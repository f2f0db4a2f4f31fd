"""What an incident's sources did below what is raised belongs to it, and nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from entente.detection.alerts import Alert
from entente.detection.further import FIRST_CONTACT, MOST, PAIR_AGAIN, SiloEdges, further_edges
from entente.detection.scored import ScoredEdges

HOUR = 3600 * 1_000_000
HOSTS = "abcdefgh"
Row = tuple[int, str, str]


def alert(hour: int, src: str, dst: str, incident: str = "one") -> Alert:
    start = hour * HOUR
    return Alert(start, start + HOUR, src, dst, 0.9, 0.5, "high", "north", ("new",), incident=incident)


def silo(
    rows: list[Row], before: Sequence[Row] = (), own: str = HOSTS, name: str = "north", hosts: str = HOSTS
) -> SiloEdges:
    names = np.array(list(hosts))

    def columns(edges: Sequence[Row]) -> Any:
        return (
            np.array([hour * HOUR for hour, _, _ in edges], dtype=np.int64),
            np.array([hosts.index(src) for _, src, _ in edges], dtype=np.int32),
            np.array([hosts.index(dst) for _, _, dst in edges], dtype=np.int32),
        )

    window, src, dst = columns(rows)
    owned = np.array([host in own for host in hosts])
    scored = ScoredEdges(
        hosts=names,
        silos=(name,),
        thresholds=(0.5,),
        width=HOUR,
        window=window,
        src=src,
        dst=dst,
        score=np.linspace(0.4, 0.1, len(rows), dtype=np.float32),
        silo=np.zeros(len(rows), dtype=np.int16),
        own_source=owned[src],
        alert=np.zeros(len(rows), dtype=bool),
    )
    return SiloEdges(scored, owned, (columns(before),))


def told(edges: tuple[Alert, ...]) -> list[tuple[int, str, str, str]]:
    return [(edge.start // HOUR, edge.src, edge.dst, edge.explanation[0]) for edge in edges]


def test_a_pair_that_was_raised_belongs_to_its_incident_when_it_is_seen_again_within_two_days() -> None:
    rows = [(10, "a", "b"), (30, "a", "b"), (58, "a", "b"), (59, "a", "b")]
    found = further_edges([silo(rows)], [alert(10, "a", "b")])
    assert told(found) == [(30, "a", "b", PAIR_AGAIN), (58, "a", "b", PAIR_AGAIN)]
    assert all((edge.incident, edge.raised, edge.severity) == ("one", False, "low") for edge in found)


def test_a_first_contact_belongs_to_the_incident_in_which_its_source_acts_within_twelve_hours() -> None:
    rows = [(8, "a", "c"), (10, "a", "d"), (22, "a", "e"), (23, "a", "f"), (22, "a", "g"), (12, "b", "h")]
    found = further_edges([silo(rows, before=[(-40, "a", "g")])], [alert(10, "a", "b")])
    assert told(found) == [(hour, "a", dst, FIRST_CONTACT) for hour, dst in ((8, "c"), (10, "d"), (22, "e"))]


def test_first_contacts_of_the_hours_before_the_scored_windows_are_told_without_a_score() -> None:
    before = [(1, "a", "g"), (5, "a", "c"), (6, "a", "d"), (7, "a", "g")]
    (edge,) = further_edges([silo([(18, "a", "b")], before)], [alert(18, "a", "b")])
    assert (edge.start // HOUR, edge.dst, edge.score) == (6, "d", 0.0)
    earlier = (alert(18, "a", "b"), edge)
    assert further_edges([silo([(19, "a", "b")], [*before, (18, "a", "b")])], [], earlier)[0].explanation == (
        PAIR_AGAIN,
    )
    again = further_edges([silo([(20, "a", "h")], before)], [alert(20, "a", "h")], earlier)
    assert again == ()  # told already


def test_a_first_contact_that_belongs_to_the_incident_is_followed_like_an_alert() -> None:
    rows = [(9, "a", "c"), (40, "a", "c"), (60, "a", "c")]
    found = further_edges([silo(rows)], [alert(10, "a", "b")])
    assert told(found) == [(9, "a", "c", FIRST_CONTACT), (40, "a", "c", PAIR_AGAIN)]
    assert told(further_edges([silo(rows[2:], rows[:2])], [], [alert(10, "a", "b"), *found])) == []


def test_alerts_of_earlier_nights_go_on_and_the_latest_incident_counts() -> None:
    earlier = [alert(5, "a", "b", "old"), alert(8, "a", "c", "young")]
    before = [(5, "a", "b"), (8, "a", "c")]
    found = further_edges([silo([(10, "a", "d"), (11, "a", "b")], before)], [], earlier)
    assert [(edge.dst, edge.incident) for edge in found] == [("d", "young"), ("b", "old")]


def test_an_alert_a_multicast_target_and_an_alert_without_incident_give_no_further_edge() -> None:
    edges = silo([(10, "a", "b"), (10, "a", "c")])
    renamed = np.array([{"c": "224.0.0.9"}.get(host, host) for host in HOSTS])
    edges = replace(edges, scored=replace(edges.scored, hosts=renamed))
    assert further_edges([edges], [alert(10, "a", "b")]) == ()
    nowhere = Alert(9 * HOUR, 10 * HOUR, "a", "b", 0.9, 0.5, "high", "north", ("new",))
    assert further_edges([silo([(10, "a", "c")])], [nowhere]) == ()


def test_a_scan_adds_its_highest_scores_only() -> None:
    hosts = "a" + "".join(chr(0x4E00 + i) for i in range(3 * MOST))
    rows = [(10, "a", host) for host in hosts[1:]]
    found = further_edges([silo(rows, hosts=hosts, own=hosts)], [alert(10, "a", "b")])
    assert sorted(edge.dst for edge in found) == sorted(hosts[1 : MOST + 1])


def test_an_edge_that_two_silos_see_is_told_by_the_owner_of_its_source() -> None:
    rows = [(11, "a", "h")]
    north, south = silo(rows, own="abcd"), silo(rows, own="efgh", name="south")
    for order in ((north, south), (south, north)):
        (edge,) = further_edges(order, [alert(10, "a", "b")])
        assert (edge.silo, edge.direction) == ("north", "outbound")
    (alone,) = further_edges([south], [alert(10, "a", "b")])
    assert (alone.silo, alone.direction) == ("south", "inbound")


def slow(rows: list[Row], before: list[Row], alerts: list[Alert]) -> set[tuple[int, str, str, str | None]]:
    """The same by looking at every edge and every alert."""
    raised = {(a.start // HOUR, a.src, a.dst): a.incident for a in alerts}
    if not rows:
        return set()
    begin = min(row[0] for row in rows)
    whole = {row for row in (*rows, *before) if row[0] >= begin - 12}
    pairs, found = dict(raised), {}
    for hour, src, dst in sorted(whole):
        near = [(abs(hour - h), h) for h, s, _ in raised if s == src and abs(hour - h) <= 12]
        if near and not any(r[1:] == (src, dst) and r[0] < hour for r in (*rows, *before)):
            incident = next(raised[r] for r in sorted(raised) if (r[0], r[1]) == (min(near)[1], src))
            pairs.setdefault((hour, src, dst), incident)
    for hour, src, dst in rows:
        known = [h for h, s, d in pairs if (s, d) == (src, dst) and 0 <= hour - h <= 48]
        if known:
            found[hour, src, dst] = pairs[max(known), src, dst]
    found |= pairs
    return {(*edge, incident) for edge, incident in found.items() if edge not in raised}


hours = st.integers(0, 80)
edges = st.tuples(hours, st.sampled_from("abc"), st.sampled_from("defg"))


@given(st.lists(edges, max_size=15, unique=True), st.lists(edges, max_size=5), st.lists(edges, max_size=5))
def test_the_fast_way_finds_what_the_plain_one_does(
    rows: list[Row], before: list[Row], raised: list[Row]
) -> None:
    before = [row for row in before if rows and row[0] < min(rows)[0]]
    alerts = [alert(hour, src, dst, f"of {src} at {hour}") for hour, src, dst in raised]
    found = further_edges([silo(rows, before)], alerts)
    assert {(e.start // HOUR, e.src, e.dst, e.incident) for e in found} == slow(rows, before, alerts)
