"""Several silos' scores as one set: who scores a shared edge, and what counts as an alert."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from entente.detection.scored import ScoredEdges, unite

STEP = 1_800_000_000
OWNER = {"a": "north", "b": "north", "c": "south", "d": "south", "x": ""}

Row = tuple[int, str, str, float]


def part(silo: str, rows: list[Row], threshold: float, labels: list[int] | None = None) -> ScoredEdges:
    hosts = sorted({host for _, src, dst, _ in rows for host in (src, dst)}, reverse=silo == "south")
    number = {host: i for i, host in enumerate(hosts)}
    score = np.array([row[3] for row in rows], dtype=np.float32)
    return ScoredEdges(
        hosts=np.array(hosts, dtype=np.str_),
        silos=(silo,),
        thresholds=(threshold,),
        width=STEP,
        window=np.array([row[0] * STEP for row in rows], dtype=np.int64),
        src=np.array([number[row[1]] for row in rows], dtype=np.int32),
        dst=np.array([number[row[2]] for row in rows], dtype=np.int32),
        score=score,
        silo=np.zeros(len(rows), dtype=np.int16),
        own_source=np.array([OWNER[row[1]] == silo for row in rows], dtype=bool),
        alert=score > np.float32(threshold),
        label=None if labels is None else np.array(labels, dtype=np.uint8),
    )


def silo_names(edges: ScoredEdges) -> list[str]:
    return [edges.silos[number] for number in edges.silo.tolist()]


def test_two_silent_silos_raise_no_alert_together() -> None:
    north = part("north", [(0, "a", "c", 0.90)], 0.95, [0])
    south = part("south", [(0, "a", "c", 0.80)], 0.82, [0])
    for parts in ([north, south], [south, north]):
        whole = unite(parts)
        assert whole.alert.tolist() == [False]
        assert whole.metrics((10,)).fpr == 0.0


def test_a_shared_edge_has_the_score_of_the_silo_that_owns_its_source() -> None:
    north = part("north", [(0, "a", "c", 0.2), (0, "c", "a", 0.9)], 0.95)
    south = part("south", [(0, "a", "c", 0.8), (0, "c", "a", 0.1)], 0.95)
    whole = unite([north, south])
    found = zip(whole.src_names(), whole.dst_names(), silo_names(whole), whole.score.tolist(), strict=True)
    assert sorted((s, d, silo, round(score, 3)) for s, d, silo, score in found) == [
        ("a", "c", "north", 0.2),
        ("c", "a", "south", 0.1),
    ]


def test_an_alert_of_the_target_s_silo_travels_with_the_edge() -> None:
    north = part("north", [(0, "a", "c", 0.2)], 0.5, [1])
    south = part("south", [(0, "a", "c", 0.6)], 0.5, [1])
    whole = unite([north, south])
    assert whole.alert.tolist() == [True]
    assert whole.metrics((10,)).recall == 1.0


def test_a_foreign_source_is_scored_by_the_owner_of_the_target() -> None:
    whole = unite([part("north", [(0, "a", "b", 0.3)], 0.5), part("south", [(0, "x", "c", 0.7)], 0.5)])
    assert dict(zip(whole.src_names(), silo_names(whole), strict=True)) == {"a": "north", "x": "south"}


def test_several_events_of_a_pair_in_one_window_count_once_with_the_highest_score() -> None:
    whole = unite([part("north", [(0, "a", "b", 0.3), (0, "a", "b", 0.7), (1, "a", "b", 0.1)], 0.5)])
    assert [round(score, 3) for score in whole.score.tolist()] == [0.7, 0.1]
    assert whole.alert.tolist() == [True, False]


names = st.sampled_from(sorted(OWNER))
edges = st.lists(
    st.tuples(st.integers(0, 3), names, names, st.floats(0, 1, width=32), st.floats(0, 1, width=32)),
    max_size=30,
)


@given(edges)
def test_unite_agrees_with_a_dictionary(drawn: list[tuple[int, str, str, float, float]]) -> None:
    seen: dict[str, list[Row]] = {"north": [], "south": []}
    for window, src, dst, *scores in drawn:
        for silo, score in zip(seen, scores, strict=True):
            if src != dst and silo in (OWNER[src], OWNER[dst]):
                seen[silo].append((window * STEP, src, dst, score))
    limits = {"north": 0.5, "south": 0.25}
    expected: dict[tuple[int, str, str], tuple[bool, float, bool]] = {}
    for silo, rows in seen.items():
        for window, src, dst, score in rows:
            mine = (OWNER[src] == silo, score)
            before = expected.get((window, src, dst), (False, -1.0, False))
            best = max(before[:2], mine)
            expected[window, src, dst] = (*best, before[2] or score > limits[silo])
    parts = [
        part(silo, [(w // STEP, s, d, score) for w, s, d, score in rows], limits[silo])
        for silo, rows in seen.items()
    ]
    whole = unite(parts)
    columns = (whole.window.tolist(), whole.src_names(), whole.dst_names(), whole.score, whole.alert)
    found = {(w, s, d): (float(score), bool(alert)) for w, s, d, score, alert in zip(*columns, strict=True)}
    assert found == {key: (score, alert) for key, (_, score, alert) in expected.items()}
    assert len(found) == len(whole.score)
