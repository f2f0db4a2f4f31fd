"""Incidents hold together what shares hosts in time, and nothing else."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from entente.detection.alerts import Alert
from entente.detection.incidents import group_alerts

HOUR = 3600 * 1_000_000


def alert(hour: float, src: str, dst: str, score: float = 0.9, silo: str = "north") -> Alert:
    start = round(hour * HOUR)
    return Alert(start, start + HOUR // 2, src, dst, score, 0.5, "medium", silo, ("new pair",))


def slow_groups(alerts: list[Alert], hours: float) -> set[frozenset[int]]:
    """Connected components by comparing every pair until nothing changes."""
    groups = [{i} for i in range(len(alerts))]

    def linked(a: Alert, b: Alert) -> bool:
        return bool({a.src, a.dst} & {b.src, b.dst}) and abs(a.start - b.start) <= hours * HOUR

    merged = True
    while merged:
        merged = False
        for one, two in itertools.combinations(groups, 2):
            if any(linked(alerts[i], alerts[j]) for i in one for j in two):
                groups.remove(two)
                one |= two
                merged = True
                break
    return {frozenset(group) for group in groups if len(group) >= 2}


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")),
        max_size=12,
        unique=True,
    )
)
def test_groups_are_the_connected_components(rows: list[tuple[int, str, str]]) -> None:
    alerts = [alert(*row) for row in rows]
    incidents = group_alerts(alerts, hours=3)
    found = {
        frozenset(i for i, a in enumerate(alerts) if (a.start, a.src, a.dst) in incident.chain)
        for incident in incidents
    }
    assert found == slow_groups(alerts, 3)


def test_a_pivot_over_silos_is_told_in_order() -> None:
    alerts = [alert(4, "c", "d", silo="south"), alert(0, "a", "b"), alert(2, "b", "c", 0.99, silo="west")]
    (incident,) = group_alerts(alerts)
    assert [(src, dst) for _, src, dst in incident.chain] == [("a", "b"), ("b", "c"), ("c", "d")]
    assert incident.hosts == ("a", "b", "c", "d")
    assert incident.score == 0.99
    assert incident.severity == "critical"
    assert incident.explanation == (
        "starts at a; 3 alerts touch 4 hosts",
        "reached first, acting later: b, c",
        "seen in 3 silos: north, south, west",
    )


def test_within_a_window_a_hop_follows_the_one_that_reached_its_source() -> None:
    (incident,) = group_alerts([alert(0, "b", "c", 0.99), alert(0, "a", "b", 0.8)])
    assert [hop[1:] for hop in incident.chain] == [("a", "b"), ("b", "c")]


def test_a_loop_within_a_window_ends() -> None:
    (incident,) = group_alerts([alert(0, "a", "b"), alert(0, "b", "a")])
    assert incident.alerts == 2


def test_far_apart_in_time_or_without_a_common_host_is_not_one_incident() -> None:
    assert group_alerts([alert(0, "a", "b"), alert(20, "b", "c")]) == ()
    assert group_alerts([alert(0, "a", "b"), alert(0, "c", "d")]) == ()


def test_a_lone_alert_is_an_incident_only_when_asked_for() -> None:
    assert group_alerts([alert(0, "a", "b")]) == ()
    assert len(group_alerts([alert(0, "a", "b")], smallest=1)) == 1


def test_ids_do_not_depend_on_the_order_of_alerts() -> None:
    alerts = [alert(0, "a", "b"), alert(1, "b", "c")]
    assert group_alerts(alerts) == group_alerts(alerts[::-1])
