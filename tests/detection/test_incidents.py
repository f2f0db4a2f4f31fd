"""Incidents hold a campaign together, keep their ids, and hold nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from entente.detection.alerts import Alert
from entente.detection.incidents import Incident, assign_incidents, list_incidents, still_open

HOUR = 3600 * 1_000_000


def alert(hour: float, src: str, dst: str, score: float = 0.9, silo: str = "north") -> Alert:
    start = round(hour * HOUR)
    return Alert(start, start + HOUR // 2, src, dst, score, 0.5, "medium", silo, ("new pair",))


def group_alerts(alerts: Sequence[Alert], smallest: int = 2) -> tuple[Incident, ...]:
    return list_incidents(assign_incidents(alerts), smallest)


def slow_incidents(alerts: list[Alert], hours: float) -> list[Alert]:
    """The same by looking back over everything: alerts one by one, each with what came before."""
    done: list[Alert] = []
    for one in alerts:
        recent = [a for a in reversed(done) if one.start - a.start <= hours * HOUR]
        acted = next((a.incident for a in recent if a.src == one.src), None)
        reached = next((a.incident for a in recent if a.dst == one.src), None)
        used = next((a.incident for a in recent if set(a.users) & set(one.users)), None)
        done.append(replace(one, incident=acted or reached or used or f"opened by {one.id}"))
    return done


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("ijklabc"), st.sampled_from("uvw$")),
        max_size=12,
    )
)
def test_an_alert_joins_its_source_s_incident_then_the_one_that_reached_it_then_the_account_s(
    rows: list[tuple[str, str, str]],
) -> None:
    alerts = [
        replace(alert(hour, src, dst), users=() if user == "$" else (user,))
        for hour, (src, dst, user) in enumerate(rows)
    ]

    def partition(found: Iterable[Alert]) -> set[frozenset[str]]:
        groups: dict[str | None, set[str]] = {}
        for one in found:
            groups.setdefault(one.incident, set()).add(one.id)
        return {frozenset(group) for group in groups.values()}

    assert partition(assign_incidents(alerts, hours=3)) == partition(slow_incidents(alerts, 3))


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcdef")), max_size=10), st.integers(0, 10)
)
def test_an_incident_keeps_its_id_when_it_grows_in_another_night(
    rows: list[tuple[str, str]], cut: int
) -> None:
    alerts = [alert(hour, *pair) for hour, pair in enumerate(rows)]
    at_once = assign_incidents(alerts)
    first = assign_incidents(alerts[:cut])
    assert (*first, *assign_incidents(alerts[cut:], still_open(first))) == at_once


def test_several_hosts_that_act_come_before_one_busy_administrator() -> None:
    campaign = [alert(0, "a", "b"), alert(1, "b", "c"), alert(2, "c", "d"), alert(3, "d", "e")]
    admin = [replace(alert(hour, "adm", f"h{hour}"), severity="high") for hour in range(6)]
    first, second = group_alerts([*campaign, *admin])
    assert (first.alerts, second.alerts) == (4, 6)
    assert (first.weight, second.weight) == (4 * math.log2(5), 6.0)


def test_two_scanners_of_the_same_hosts_are_two_incidents() -> None:
    alerts = [alert(hour, scanner, f"h{hour}") for hour in range(6) for scanner in ("x", "y")]
    incidents = list_incidents(assign_incidents(alerts))
    assert [incident.alerts for incident in incidents] == [6, 6]
    assert {incident.hosts[0] for incident in incidents} == {"x", "y"}


def test_a_personal_account_ties_alerts_together_and_an_account_of_a_machine_does_not() -> None:
    def of(user: str) -> int:
        pair = [replace(alert(0, "a", "b"), users=(user,)), replace(alert(1, "c", "d"), users=(user,))]
        return len({one.incident for one in assign_incidents(pair)})

    assert of("CORP\\frodo") == 1
    assert [of(user) for user in ("WS1$", "SYSTEM", "ANONYMOUS LOGON", "")] == [2, 2, 2, 2]


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
