"""Drawings: every hop once and in order, and nothing outside the picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from entente.federation.records import RoundRecord, SiloRecord
from entente.report.attack import attack_graph, numbered
from entente.report.charts import Frame, Line, contribution_grid, line_chart, ticks
from entente.report.data import AttackEdge, Points

hops = st.lists(
    st.builds(
        AttackEdge,
        time=st.integers(0, 10**12),
        src=st.sampled_from("abcdefgh"),
        dst=st.sampled_from("ijklmnop") | st.sampled_from("abcdefgh"),
        found=st.booleans(),
    ),
    min_size=1,
    max_size=40,
)
HOMES = {letter: f"silo {'abcdefghijklmnop'.index(letter) % 3}" for letter in "abcdefghijklmnop"}


def inside(drawing: str) -> bool:
    root = ET.fromstring(drawing)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for element in root.iter():
        for key, limit in (("x", width), ("cx", width), ("y", height), ("cy", height)):
            if element.get(key) is not None and not -1 <= float(element.get(key, "0")) <= limit + 1:
                return False
    return True


@given(hops)
def test_every_hop_has_its_number_and_lies_in_the_picture(edges: list[AttackEdge]) -> None:
    drawing = attack_graph(edges, HOMES, {"silo 0": 10})
    assert inside(drawing)
    tips = " ".join(re.findall(r'data-tip="(hops? [^:]*):', drawing))
    assert {1, len(numbered(edges))} <= {int(number) for number in re.findall(r"\d+", tips)}
    for label in re.findall(r'class="badgetext m">([^<]*)<', drawing):
        assert f"hop {label}" in tips or f"hops {label}" in tips


def test_hops_are_numbered_by_time_and_found_once_is_found() -> None:
    edges = [AttackEdge(5, "b", "c", False), AttackEdge(1, "a", "b", False), AttackEdge(9, "a", "b", True)]
    assert [(i, hop.src, hop.dst, hop.found) for i, hop in numbered(edges)] == [
        (1, "a", "b", True),
        (2, "b", "c", False),
    ]


def test_a_way_back_to_a_known_host_is_thin_and_has_no_badge() -> None:
    edges = [AttackEdge(0, "a", "b", True), AttackEdge(1, "b", "c", True), AttackEdge(2, "c", "a", False)]
    drawing = attack_graph(edges, {}, {})
    assert re.findall(r'class="badgetext m">([^<]*)<', drawing) == ["1", "2"]
    assert drawing.count("again") == 1
    assert "hop 3: c → a" in drawing


def test_the_silo_is_not_repeated_in_the_names_of_its_hosts() -> None:
    drawing = attack_graph(
        [AttackEdge(0, "lyon-ws01", "lyonesse", True)], {"lyon-ws01": "lyon", "lyonesse": "lyon"}, {}
    )
    assert ">ws01<" in drawing
    assert ">lyonesse<" in drawing
    assert "lyon-ws01" in drawing


def test_many_leaves_of_one_source_are_drawn_as_one() -> None:
    edges = [AttackEdge(i, "a", f"t{i}", True) for i in range(12)]
    drawing = attack_graph(edges, {}, {})
    assert ">12 hosts<" in drawing
    assert drawing.count("<circle") == 2
    assert ">1–12<" in drawing


@given(st.floats(-5, 5), st.floats(0.001, 1000), st.integers(2, 8))
def test_ticks_are_few_and_within_the_range(low: float, width: float, about: int) -> None:
    found = ticks(low, low + width, about)
    assert len(found) <= 3 * about
    assert all(low - 1e-6 <= tick <= low + width + 1e-6 for tick in found)


def test_end_labels_do_not_cover_each_other() -> None:
    lines = [Line(f"m{i}", Points((0.0, 1.0), (0.0, 0.5)), i) for i in range(6)]
    chart = line_chart("t", lines, Frame(520, 270, (0, 1), (0, 1)), ("x", "y"))
    heights = sorted(float(y) for y in re.findall(r'y="([\d.]+)" class="end', chart))
    assert len(heights) == 6
    assert min(b - a for a, b in pairwise(heights)) >= 14.9
    assert inside(chart)


def test_the_grid_has_a_cell_per_silo_and_round_and_marks_what_was_refused() -> None:
    silos = {f"s{k}": SiloRecord(r=0.1 * k, clipped=k == 2) for k in range(20)}
    first = RoundRecord(kind="train", id=1, round=1, attempt=1, validation=None, silos=silos)
    second = first.model_copy(update={"round": 2, "silos": silos | {"s3": SiloRecord(refused="late")}})
    grid = contribution_grid([first, second])
    assert grid.count("<rect") == 40
    assert grid.count("×") == 1
    assert grid.count("▾") == 2
    assert inside(grid)
