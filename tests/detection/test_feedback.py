"""Alerts closed as benign quieten their source, no more than they should, and never for good."""

from __future__ import annotations

import numpy as np
import pytest

from entente.detection.feedback import LEAST, ClosedAlert, Lessons, learn
from entente.detection.policy import AlertPolicy
from entente.detection.raising import raise_alerts
from entente.detection.scored import ScoredEdges

DAY, WIDTH = 86_400_000_000, 3_600_000_000
HOSTS = np.array(["scanner", "ws-1", *(f"srv-{i:03}" for i in range(400))])


def benign(count: int, excess: float = 1.0, src: str = "scanner", silo: str = "north") -> list[ClosedAlert]:
    return [ClosedAlert(silo, src, excess - i / 100, True) for i in range(count)]


def test_fewer_closed_alerts_than_needed_teach_nothing() -> None:
    assert learn(benign(LEAST - 1)).of == {}
    assert learn(benign(LEAST)).quiet("north", "scanner", 1.0)


def test_a_higher_score_another_source_and_another_silo_are_raised_as_before() -> None:
    lessons = learn(benign(LEAST))
    assert not lessons.quiet("north", "scanner", 1.01)
    assert not lessons.quiet("north", "ws-1", 0.5)
    assert not lessons.quiet("south", "scanner", 0.5)


def test_one_true_alert_of_a_source_takes_its_lesson_back() -> None:
    assert learn([*benign(9), ClosedAlert("north", "scanner", 0.1, False)]).of == {}


def night(number: int, rng: np.random.Generator) -> ScoredEdges:
    """A scanner contacts 40 new hosts with high scores, an intruder on ws-1 six with somewhat lower ones."""
    targets = 2 + (np.arange(46) + 46 * number) % 400
    src = np.repeat([0, 1], (40, 6)).astype(np.int32)
    score = np.where(src == 0, rng.normal(6, 0.5, 46), rng.normal(5, 0.2, 46)).astype(np.float32)
    window = number * DAY + (np.arange(46) % 24) * WIDTH
    rest = {"silo": np.zeros(46, dtype=np.int16), "own_source": np.ones(46, dtype=bool)}
    order = np.argsort(window, kind="stable")
    edges = ScoredEdges(
        HOSTS,
        ("north",),
        (1.0,),
        WIDTH,
        window,
        src,
        targets.astype(np.int32),
        score,
        alert=score > 1,
        **rest,
    )
    return edges.chosen(order)


def test_a_benign_scanner_that_is_closed_every_night_leaves_the_budget_to_the_intruder() -> None:
    rng, verdicts = np.random.default_rng(0), list[ClosedAlert]()
    scanner, intruder = [], []
    for number in range(8):
        policy = AlertPolicy(10, (), learn(verdicts))
        raised = raise_alerts(night(number, rng), np.ones(len(HOSTS), dtype=bool), [], policy)
        closed = [alert for alert in raised.alerts if alert.src == "scanner"]
        verdicts += [ClosedAlert("north", "scanner", a.score - a.threshold, True) for a in closed]
        scanner.append(len(closed))
        intruder.append(len(raised.alerts) - len(closed))
        assert (raised.excluded.get("taught", 0) > 0) == (number > 0)
    assert scanner[0] >= 9
    assert max(scanner[1:]) <= 4
    assert sum(scanner[1:]) / 7 < 2
    assert min(intruder[1:]) == 6
    assert intruder[0] <= 1


def test_without_lessons_the_alerts_are_what_they_were() -> None:
    edges, own = night(0, np.random.default_rng(0)), np.ones(len(HOSTS), dtype=bool)
    plain = raise_alerts(edges, own, [], AlertPolicy(None, ()))
    elsewhere = AlertPolicy(None, (), learn(benign(5, 99.0, silo="south")))
    assert raise_alerts(edges, own, [], elsewhere) == plain
    assert Lessons() == learn([])


@pytest.mark.parametrize("budget", [None, 10.0])
def test_what_was_not_raised_because_of_lessons_is_counted(budget: float | None) -> None:
    edges, own = night(0, np.random.default_rng(0)), np.ones(len(HOSTS), dtype=bool)
    raised = raise_alerts(edges, own, [], AlertPolicy(budget, (), learn(benign(5, 99.0))))
    assert raised.excluded == {"taught": 40}
    assert {alert.src for alert in raised.alerts} == {"ws-1"}
