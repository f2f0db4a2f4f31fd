"""Alerts name what exceeds the threshold, and their reasons are true."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.detection.alerts import Alert, ScoredEdges, build_alerts
from entente.detection.explanations import technique_hint
from entente.detection.history import History
from entente.errors import StorageError

WIDTH = 1800
STEP = WIDTH * 1_000_000

hosts = st.sampled_from(["a", "b", "c", "d"])
past = st.lists(st.tuples(st.integers(0, 4), hosts, hosts), min_size=1, max_size=40)
HOME = {"a": "north", "b": "north", "c": "south", "d": "west"}


def scored(rows: list[tuple[int, str, str, float]], **more: list[object]) -> ScoredEdges:
    window, src, dst, score = zip(*rows, strict=True)
    return ScoredEdges(
        np.array(window) * STEP,
        np.array(src),
        np.array(dst),
        np.array(score),
        **{name: np.array(values, dtype=object) for name, values in more.items()},
    )


@given(past)
def test_novelty_agrees_with_counting_over_the_list(edges: list[tuple[int, str, str]]) -> None:
    window, src, dst = zip(*edges, strict=True)
    history = History(window, src, dst, sources=src, targets=dst, home=HOME)
    for w, s, d in edges:
        found = history.novelty(w, s, d)
        earlier = [e for e in edges if e[0] < w]
        assert found.pair_windows == len({x for x, a, b in earlier if (a, b) == (s, d)})
        now = {b for x, a, b in edges if x == w and a == s}
        assert found.targets_now == len(now)
        assert found.new_targets_now == len(now - {b for _, a, b in earlier if a == s})
        active = [
            len({b for y, a, b in earlier if y == x and a == s}) for x in {x for x, a, _ in earlier if a == s}
        ]
        assert found.targets_usual == (np.median(active) if active else None)
        assert found.sources_before == len({a for _, a, b in earlier if b == d})
        reached = {HOME[b] for _, a, b in earlier if a == s}
        assert found.new_silo == (HOME[s] != HOME[d] and HOME[d] not in reached)


def test_only_scores_above_the_threshold_become_alerts() -> None:
    edges = scored([(0, "a", "b", 0.5), (0, "a", "c", 0.6), (1, "a", "d", 0.9)])
    alerts = build_alerts(edges, 0.5, WIDTH)
    assert [(alert.src, alert.dst) for alert in alerts] == [("a", "c"), ("a", "d")]
    assert alerts[1].start == STEP
    assert alerts[1].end == 2 * STEP
    assert build_alerts(edges, 2.0, WIDTH) == ()


def test_the_threshold_may_differ_per_edge() -> None:
    edges = scored([(0, "a", "b", 0.5), (0, "a", "c", 0.5)])
    assert [alert.dst for alert in build_alerts(edges, [0.4, 0.6], WIDTH)] == ["b"]


def test_an_alert_says_what_is_new_and_how_it_ranks() -> None:
    train = ([0, 0, STEP], ["a", "b", "a"], ["b", "a", "b"])
    edges = scored([(48, "a", "c", 0.9), (48, "a", "d", 0.8), (48, "a", "e", 0.7), (48, "a", "b", 0.1)])
    alert = build_alerts(edges, 0.75, WIDTH, history=train, home={**HOME, "e": "west"})[0]
    assert alert.explanation == (
        "first contact from a to c in 1.0 days of logs",
        "first time a reaches into south",
        "a contacts 4 hosts in this window, 3 of them new; usually 1",
        "nobody contacted c before",
        "rank 1 of 4 edges in this window",
    )
    assert alert.severity == "critical"


def test_a_known_pair_is_an_alert_of_low_severity_that_says_so() -> None:
    train = ([0, STEP], ["a", "a"], ["b", "b"])
    alert = build_alerts(scored([(2, "a", "b", 0.9)]), 0.5, WIDTH, history=train)[0]
    assert alert.explanation[0] == "a has contacted b before, in 2 earlier windows"
    assert alert.severity == "low"


def test_without_history_nothing_is_called_worse_than_medium() -> None:
    edges = scored([(0, "a", host, 0.9) for host in "bcde"])
    alerts = build_alerts(edges, 0.5, WIDTH, home=HOME)
    assert {alert.severity for alert in alerts} == {"medium"}
    assert alerts[0].explanation[0] == "a contacts b; no earlier logs to compare with"


def test_an_edge_that_two_silos_report_is_one_alert() -> None:
    edges = scored([(0, "a", "c", 0.8), (0, "a", "c", 0.9)], silo=["north", "south"])
    (alert,) = build_alerts(edges, 0.5, WIDTH)
    assert alert.silo == "south"
    assert alert.explanation[-1] == "also above the threshold of north"


def test_equal_scores_share_a_rank_and_silos_rank_apart() -> None:
    edges = scored(
        [(0, "a", "b", 0.9), (0, "a", "c", 0.9), (0, "a", "d", 0.8), (0, "b", "d", 0.7)],
        silo=["north", "north", "north", "south"],
    )
    ranks = [alert.explanation[-1] for alert in build_alerts(edges, 0.0, WIDTH)]
    assert [text.split(" edges")[0] for text in ranks] == [
        "rank 1 of 3",
        "rank 1 of 3",
        "rank 3 of 3",
        "rank 1 of 1",
    ]


def test_the_order_of_edges_does_not_change_the_alerts() -> None:
    rows = [
        (w, s, d, round(w + ord(s) / 200 + ord(d) / 300, 3)) for w in range(3) for s in "ab" for d in "cd"
    ]
    expected = build_alerts(scored(rows), 0.5, WIDTH)
    random.Random(0).shuffle(rows)
    assert build_alerts(scored(rows), 0.5, WIDTH) == expected


def test_user_kind_and_port_are_kept_and_hint_at_a_technique() -> None:
    edges = scored(
        [(0, "a", "b", 0.9), (0, "b", "c", 0.8)], user=["u1", None], kind=["NTLM", None], port=[445, None]
    )
    first, second = build_alerts(edges, 0.5, WIDTH)
    assert (first.user, first.kind, first.technique) == ("u1", "NTLM", "T1021.002")
    assert (second.user, second.kind, second.technique) == (None, None, None)
    assert technique_hint("NTLM", None) == "T1550.002"
    assert technique_hint("something", "80") is None


def test_an_alert_survives_json() -> None:
    (alert,) = build_alerts(scored([(0, "a\n<b>", "ü|", 0.9)]), 0.5, WIDTH)
    assert Alert.from_dict(json.loads(json.dumps(alert.as_dict()))) == alert


def test_something_else_than_an_alert_is_refused() -> None:
    with pytest.raises(StorageError, match="not an alert"):
        Alert.from_dict({"start": 0, "explanation": []})
