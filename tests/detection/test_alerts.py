"""Alerts name what a silo raised, and their reasons are true of that silo's logs."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyarrow import parquet

from entente.detection.alerts import Alert
from entente.detection.budget import DayBudget
from entente.detection.explanations import technique_hint
from entente.detection.history import Edges, History
from entente.detection.policy import AlertPolicy, to_many
from entente.detection.raising import join_silos, raise_alerts
from entente.detection.scored import ScoredEdges
from entente.detection.table import read_table, write_table
from entente.detection.thresholds import Calibration
from entente.errors import StorageError

WIDTH = 1800
STEP = WIDTH * 1_000_000
WINDOWS_A_DAY = 48
ALL = AlertPolicy(exclude=())

hosts = st.sampled_from("abcd")
past = st.lists(st.tuples(st.integers(0, 4), hosts, hosts), min_size=1, max_size=40)
OWN = np.array([True, True, False, False])  # a and b

Row = tuple[int, str, str, float]


def scored(
    rows: list[Row], threshold: float = 0.5, silo: str = "north", names: str = "abcdefgh"
) -> ScoredEdges:
    return ScoredEdges(
        hosts=np.array(list(names), dtype=np.str_),
        silos=(silo,),
        thresholds=(threshold,),
        width=STEP,
        window=np.array([row[0] for row in rows], dtype=np.int64) * STEP,
        src=np.array([names.index(row[1]) for row in rows], dtype=np.int32),
        dst=np.array([names.index(row[2]) for row in rows], dtype=np.int32),
        score=np.array([row[3] for row in rows], dtype=np.float32),
        silo=np.zeros(len(rows), dtype=np.int16),
        own_source=np.array([row[1] in "ab" for row in rows], dtype=bool),
        alert=np.array([row[3] > threshold for row in rows], dtype=bool),
    )


def own(edges: ScoredEdges, mine: str = "ab") -> Any:
    return np.array([name in mine for name in edges.hosts.tolist()])


def earlier(*rows: tuple[int, str, str], names: str = "abcdefgh") -> Edges:
    window, src, dst = zip(*rows, strict=True)
    return (
        np.array(window, dtype=np.int64) * STEP,
        np.array([names.index(name) for name in src], dtype=np.int32),
        np.array([names.index(name) for name in dst], dtype=np.int32),
    )


def alerts_of(rows: list[Row], *history: Edges, policy: AlertPolicy = ALL, mine: str = "abcdefgh") -> Any:
    edges = scored(rows)
    return raise_alerts(edges, own(edges, mine), history, policy).alerts


@given(past)
def test_novelty_agrees_with_counting_over_the_list(edges: list[tuple[int, str, str]]) -> None:
    window, src, dst = earlier(*edges, names="abcd")
    history = History([(window, src, dst)], OWN, src.astype(np.int64), dst.astype(np.int64))
    for w, s, d in edges:
        found = history.novelty(w * STEP, "abcd".index(s), "abcd".index(d))
        before = [e for e in edges if e[0] < w]
        assert found.pair_windows == len({x for x, a, b in before if (a, b) == (s, d)})
        now = {b for x, a, b in edges if x == w and a == s}
        assert found.targets_now == len(now)
        assert found.new_targets_now == len(now - {b for _, a, b in before if a == s})
        active = [
            len({b for y, a, b in before if y == x and a == s}) for x in {x for x, a, _ in before if a == s}
        ]
        assert found.targets_usual == (np.median(active) if active else None)
        assert found.sources_before == len({a for _, a, b in before if b == d})
        reached = {b in "ab" for _, a, b in before if a == s}
        assert found.new_border == ((s in "ab") != (d in "ab") and (d in "ab") not in reached)


def test_roles_follow_from_how_many_hosts_a_host_contacted_and_was_contacted_by_before() -> None:
    """a contacts five hosts, five hosts contact h, b contacts one; the alert's own window does not count."""
    hub = [(0, "a", other) for other in "bcdef"]
    server = [(0, other, "h") for other in "bcdef"]
    history = earlier(*hub, *server)
    found = {
        (alert.src, alert.dst): (alert.source_role, alert.target_role)
        for alert in alerts_of([(48, "a", "h", 0.9), (48, "b", "g", 0.9), (48, "g", "a", 0.9)], history)
    }
    assert found == {
        ("a", "h"): ("hub", "server"),
        ("b", "g"): ("workstation", None),
        ("g", "a"): (None, "hub"),
    }


def test_alerts_of_the_version_before_roles_and_evidence_are_still_read(tmp_path: Path) -> None:
    alerts = alerts_of([(0, "a", "c", 0.6)])
    write_table(tmp_path / "alerts.parquet", alerts, {})
    table = parquet.read_table(tmp_path / "alerts.parquet")
    new = ["time", "service", "source_role", "target_role", "evidence", "model", "model_before", "elsewhere"]
    parquet.write_table(table.drop_columns(new), tmp_path / "alerts.parquet")
    assert read_table(tmp_path / "alerts.parquet").alerts == alerts


def test_only_what_the_silo_raised_becomes_an_alert() -> None:
    alerts = alerts_of([(0, "a", "b", 0.5), (0, "a", "c", 0.6), (1, "a", "d", 0.9)])
    assert [(alert.src, alert.dst) for alert in alerts] == [("a", "c"), ("a", "d")]
    assert (alerts[1].start, alerts[1].end) == (STEP, 2 * STEP)
    assert alerts_of([(0, "a", "b", 0.4)]) == ()


def test_an_alert_says_what_is_new_in_whose_logs_and_how_it_ranks() -> None:
    history = earlier((0, "a", "b"), (0, "b", "a"), (1, "a", "b"))
    rows = [(48, "a", "c", 0.9), (48, "a", "d", 0.4), (48, "a", "e", 0.3), (48, "a", "b", 0.1)]
    (alert,) = alerts_of(rows, history, mine="ab")
    assert alert.explanation == (
        "first contact from a to c in 1.0 days of north's logs",
        "first time a reaches a host outside north in north's logs",
        "a contacts 4 hosts in this window, 3 of them new in north's logs; usually 1",
        "no host of north contacted c before in north's logs",
        "rank 1 of 4 edges of this window in north's logs",
    )
    assert (alert.severity, alert.direction) == ("critical", "outbound")


def test_the_silo_of_the_target_speaks_of_its_own_hosts_only() -> None:
    history = earlier((0, "a", "b"))
    rows = [(48, "c", "a", 0.9), (48, "c", "b", 0.8), (48, "c", "d", 0.7)]
    edges = scored(rows[:2])
    first, _ = raise_alerts(edges, own(edges, "ab"), [history], ALL).alerts
    assert first.explanation[:3] == (
        "first contact from c to a in 1.0 days of north's logs",
        "first time c, not a host of north, reaches into north",
        "c was never a source before in north's logs",
    )
    assert first.direction == "inbound"


def test_a_known_pair_is_not_raised_by_default_and_of_low_severity_where_it_is() -> None:
    history = earlier((0, "a", "b"), (1, "a", "b"))
    edges = scored([(2, "a", "b", 0.9)])
    quiet = raise_alerts(edges, own(edges), [history], AlertPolicy())
    assert quiet.alerts == ()
    assert quiet.excluded == {"known-pairs": 1}
    (alert,) = raise_alerts(edges, own(edges), [history], ALL).alerts
    assert alert.explanation[0] == "a has contacted b before, in 2 earlier windows of north's logs"
    assert alert.severity == "low"


def test_a_pair_raised_in_one_window_is_known_in_the_next() -> None:
    alerts = alerts_of([(0, "a", "c", 0.9), (1, "a", "c", 0.9)], policy=AlertPolicy())
    assert [alert.start for alert in alerts] == [0]


@pytest.mark.parametrize(
    ("host", "many"),
    [
        ("224.0.0.251", True),
        ("239.255.255.250", True),
        ("255.255.255.255", True),
        ("10.1.2.255", True),
        ("ff02::fb", True),
        ("FF:FF:FF:FF:FF:FF", True),
        ("10.1.2.3", False),
        ("fe80::1", False),
        ("ws-255", False),
    ],
)
def test_a_target_that_is_many_hosts_is_not_raised(host: str, many: bool) -> None:
    assert to_many(host) == many
    edges = replace(scored([(0, "a", "b", 0.9)]), hosts=np.array(["a", host]))
    found = raise_alerts(edges, np.array([True, True]), [], AlertPolicy())
    assert len(found.alerts) == (0 if many else 1)
    assert found.excluded == ({"multicast": 1} if many else {})


def test_without_history_nothing_is_called_worse_than_medium() -> None:
    alerts = alerts_of([(0, "a", host, 0.9) for host in "bcde"])
    assert {alert.severity for alert in alerts} == {"medium"}
    assert alerts[0].explanation[0] == "a contacts b; north's logs have nothing earlier to compare with"


def test_an_edge_that_two_silos_raise_is_one_alert_told_by_the_owner_of_the_source() -> None:
    north = scored([(48, "a", "c", 0.6)])
    south = scored([(48, "a", "c", 0.9)], silo="south")
    raised = [
        raise_alerts(north, own(north, "ab"), [earlier((0, "a", "d"))], ALL).alerts,
        raise_alerts(south, own(south, "cd"), [earlier((0, "c", "d"))], ALL).alerts,
    ]
    assert [alerts[0].severity for alerts in raised] == ["medium", "high"]
    for parts in (raised, raised[::-1]):
        (alert,) = join_silos(parts)
        assert (alert.silo, alert.also, alert.direction) == ("north", ("south",), "outbound")
        assert alert.score == pytest.approx(0.6)
        assert alert.severity == "high"
        assert alert.explanation[-1] == (
            "also raised by south: first contact from a to c in 1.0 days of south's logs"
        )


def test_equal_scores_share_a_rank() -> None:
    rows = [(0, "a", "b", 0.9), (0, "a", "c", 0.9), (0, "a", "d", 0.8), (1, "b", "d", 0.7)]
    ranks = [alert.explanation[-1].split(" edges")[0] for alert in alerts_of(rows)]
    assert ranks == ["rank 1 of 3", "rank 1 of 3", "rank 3 of 3", "rank 1 of 1"]


def test_the_order_of_edges_does_not_change_the_alerts() -> None:
    rows = [
        (w, s, d, round(w + ord(s) / 200 + ord(d) / 300, 3)) for w in range(3) for s in "ab" for d in "cd"
    ]
    expected = alerts_of(rows)
    random.Random(0).shuffle(rows)
    assert alerts_of(rows) == expected


def test_several_events_of_a_pair_and_window_are_one_alert() -> None:
    (alert,) = alerts_of([(0, "a", "c", 0.8), (0, "a", "c", 0.9)])
    assert alert.score == pytest.approx(0.9)


# ---- the budget ----------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5 * WINDOWS_A_DAY), hosts, st.sampled_from("efgh"), st.floats(0, 1, width=16)
        ),
        max_size=60,
        unique_by=lambda row: row[:3],
    ),
    st.integers(1, 4),
)
def test_a_budget_takes_the_highest_scores_of_each_day(rows: list[Row], budget: int) -> None:
    ends = [(0, "a", "h", 0.0), (6 * WINDOWS_A_DAY - 1, "a", "h", 0.0)]  # six whole days
    rows = [*ends, *(row for row in rows if row[:3] not in [end[:3] for end in ends])]
    alerts = alerts_of(rows, policy=AlertPolicy(alerts_per_day=budget, exclude=()))
    for day in range(6):
        today = sorted((row[3] for row in rows if row[0] // WINDOWS_A_DAY == day), reverse=True)
        found = sorted((a.score for a in alerts if a.start // STEP // WINDOWS_A_DAY == day), reverse=True)
        assert found == pytest.approx(today[:budget])


@given(st.lists(st.integers(1, 2 * WINDOWS_A_DAY), max_size=6), st.sampled_from([1, 3, 10, 48, 0.5]))
def test_a_budget_holds_over_days_that_are_read_in_parts(cuts: list[int], budget: float) -> None:
    rng = np.random.default_rng(0)
    rows = [(w, s, d, float(rng.random())) for w in range(2 * WINDOWS_A_DAY) for s in "ab" for d in "cdef"]
    policy, left = AlertPolicy(alerts_per_day=budget, exclude=()), None
    found: list[Alert] = []
    bounds = sorted({0, *cuts, 2 * WINDOWS_A_DAY})
    for low, high in pairwise(bounds):
        edges = scored([row for row in rows if low <= row[0] < high])
        raised = raise_alerts(edges, own(edges), [], policy, budget=left)
        left = raised.budget
        assert left is not None
        assert DayBudget.from_dict(json.loads(json.dumps(left.as_dict()))) == left
        found += raised.alerts
    for day in range(2):
        assert sum(a.start // STEP // WINDOWS_A_DAY == day for a in found) == math.ceil(budget)


def test_what_is_never_raised_does_not_use_up_the_budget() -> None:
    rows = [(w, "a", "b", 0.9) for w in range(1, 48)] + [(w, "a", "c", 0.3) for w in range(1, 48)]
    policy = AlertPolicy(alerts_per_day=2)
    alerts = alerts_of(rows, earlier((0, "a", "b")), policy=policy)
    assert [(alert.dst, alert.start // STEP) for alert in alerts] == [("c", 1)]


# ---- what an alert carries -----------------------------------------------------------------


def test_a_score_is_told_as_one_in_so_many_edges() -> None:
    calibration = Calibration.of(np.linspace(0, 1, 999))
    assert calibration.one_in(2.0) == 1000
    assert calibration.one_in(1.0) == 500
    assert calibration.one_in(0.5) == 2
    assert Calibration.of(np.zeros(0)).one_in(0.5) is None
    assert Calibration.from_dict(json.loads(json.dumps(calibration.as_dict()))) == calibration
    edges = scored([(0, "a", "c", 2.0)])
    (alert,) = raise_alerts(edges, own(edges), [], ALL, calibration).alerts
    assert alert.rarity == 1000
    said = "1 in 1,000 edges scores as high in the validation windows of north's logs"
    assert said in alert.explanation


def test_a_detector_s_own_reasons_come_first() -> None:
    edges = scored([(0, "a", "b", 0.1), (0, "a", "c", 0.9)])
    said = {1: "three rare targets in a day"}

    def reasons(places: NDArray[np.int64]) -> list[str]:
        return [said.get(i, "") for i in places.tolist()]

    (alert,) = raise_alerts(edges, own(edges), [], ALL, reasons=reasons).alerts
    assert alert.explanation[0] == "three rare targets in a day"


def test_ports_logon_types_and_the_log_s_words_hint_at_a_technique_and_say_why() -> None:
    assert technique_hint(ports=(80, 445)) == ("T1021.002", "port 445")
    assert technique_hint(("4624",), (), ("RemoteInteractive",)) == (
        "T1021.001",
        "logon type RemoteInteractive",
    )
    assert technique_hint(("NTLM",)) == ("T1550.002", "the log says NTLM")
    assert technique_hint(("something",), (80,)) is None


FULL = Alert(
    start=0,
    end=STEP,
    src="a\n<b>",
    dst="ü|",
    score=0.9,
    threshold=0.5,
    severity="high",
    silo="north",
    explanation=("why", "so"),
    direction="outbound",
    also=("south",),
    first=5,
    last=7,
    events=3,
    failures=1,
    users=("frodo", "sam"),
    kinds=("4624",),
    logons=("Network",),
    ports=(445,),
    technique="T1021.002",
    technique_reason="port 445",
    rarity=1000,
    incident="i",
)


def test_an_alert_survives_json_and_parquet(tmp_path: Path) -> None:
    alerts = (FULL, Alert(0, STEP, "a", "b", 0.9, 0.5, "low", "", ()))
    for alert in alerts:
        assert Alert.from_dict(json.loads(json.dumps(alert.as_dict()))) == alert
    write_table(tmp_path / "alerts.parquet", alerts, {"known-pairs": 3})
    table = read_table(tmp_path / "alerts.parquet")
    assert table.alerts == alerts
    assert table.excluded == {"known-pairs": 3}


def test_no_alerts_are_a_table_too(tmp_path: Path) -> None:
    write_table(tmp_path / "alerts.parquet", (), {})
    assert read_table(tmp_path / "alerts.parquet").alerts == ()


def test_something_else_than_alerts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not an alert"):
        Alert.from_dict({"start": 0, "explanation": []})
    parquet.write_table(pa.table({"start": [0]}), tmp_path / "alerts.parquet")
    with pytest.raises(StorageError, match="no version"):
        read_table(tmp_path / "alerts.parquet")
    (tmp_path / "alerts.parquet").write_bytes(b"PAR1")
    with pytest.raises(StorageError, match="not readable"):
        read_table(tmp_path / "alerts.parquet")
