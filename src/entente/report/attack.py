"""The attack drawn on the hosts it touched: one lane per silo, hops from left to right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entente.report.data import AttackEdge
from entente.report.markup import amount, moment, number, shape, shorten, tag, text
from entente.text import visible

ROW, MARGIN, LANE_PAD = 56, 118, 6
NARROW, WIDE, PAGE = 150, 210, 1030
"""Columns share the page's width between these limits."""
ROWS_PER_LANE = 5
LEAVES, BUSY = 4, 16
"""So many hosts that were only ever reached, from one source and in one silo, are drawn as one; with more
hops than BUSY, two are enough."""
MOST_HOPS = 60
"""Beyond that a drawing says less than the table below it."""
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Hop:
    """All edges between two drawn nodes with one outcome, as one arrow."""

    src: str
    dst: str
    found: bool | None
    numbers: tuple[int, ...]
    edges: tuple[AttackEdge, ...]
    again: bool  # the target had been reached before: drawn thin, its number only in the tooltip


@dataclass(frozen=True, slots=True)
class Spot:
    column: int
    lane: str
    row: int


def numbered(edges: Sequence[AttackEdge]) -> list[tuple[int, AttackEdge]]:
    """Hops in order of time, each pair once; found if any of its edges was."""
    first: dict[tuple[str, str], AttackEdge] = {}
    found: dict[tuple[str, str], bool] = defaultdict(bool)
    for edge in sorted(edges, key=lambda e: (e.time, e.src, e.dst)):
        first.setdefault((edge.src, edge.dst), edge)
        found[edge.src, edge.dst] |= bool(edge.found)
    hops = []
    for i, (pair, edge) in enumerate(first.items(), start=1):
        seen = None if edge.found is None else found[pair]
        hops.append((i, AttackEdge(edge.time, edge.src, edge.dst, seen, edge.score, edge.technique)))
    return hops


def attack_graph(edges: Sequence[AttackEdge], homes: Mapping[str, str], silo_hosts: Mapping[str, int]) -> str:
    """An SVG of the first hops; wide attacks scroll sideways."""
    hops = numbered(edges)[:MOST_HOPS]
    arrows, label, lane = _collapse(hops, homes)
    spots = _layout(arrows, lane)
    lanes = list(dict.fromkeys(spot.lane for spot in spots.values()))
    tops, rows, height = {}, {}, 8.0
    for name in lanes:
        rows[name] = 1 + max(spot.row for spot in spots.values() if spot.lane == name)
        tops[name] = height
        height += rows[name] * ROW + 2 * LANE_PAD + 8
    columns = 1 + max(spot.column for spot in spots.values())
    column = min(WIDE, max(NARROW, (PAGE - MARGIN - 10) // columns))
    width = MARGIN + columns * column + 10
    place = {
        node: (MARGIN + (spot.column + 0.5) * column, tops[spot.lane] + LANE_PAD + (spot.row + 0.7) * ROW)
        for node, spot in spots.items()
    }
    parts = [_arrowheads()]
    parts += [_lane(name, tops[name], rows[name], width, silo_hosts.get(name)) for name in lanes]
    parts += [_arrow(a, place[a.src], place[a.dst]) for a in sorted(arrows, key=lambda a: not a.again)]
    entry = hops[0][1].src
    first = {node: min(e.time for a in arrows if node in (a.src, a.dst) for e in a.edges) for node in place}
    parts += [_node(place[n], label[n], lane[n], first[n], entry=n == entry) for n in place]
    parts += [_badge(arrow, place[arrow.src], place[arrow.dst]) for arrow in arrows if not arrow.again]
    return tag(
        "svg", "".join(parts), role="img",
        viewBox=f"0 0 {width} {height:.0f}", width=width, height=f"{height:.0f}",
        aria_label="Hosts that the attack touched and the hops between them; the table below says the same",
        class_="attack",
    )  # fmt: skip


def _collapse(
    hops: Sequence[tuple[int, AttackEdge]], homes: Mapping[str, str]
) -> tuple[list[Hop], dict[str, tuple[str, int]], dict[str, str]]:
    """Draw many leaves of one source as one node. Gives arrows, (label, hosts) and lane per node."""
    sources = {edge.src for _, edge in hops}
    reached: dict[str, set[str]] = defaultdict(set)
    for _, edge in hops:
        reached[edge.dst].add(edge.src)
    groups: dict[tuple[str, str, bool | None], list[str]] = defaultdict(list)
    for _, edge in hops:
        if edge.dst not in sources and len(reached[edge.dst]) == 1:
            groups[edge.src, homes.get(edge.dst, UNKNOWN), edge.found].append(edge.dst)
    node = {host: host for _, edge in hops for host in (edge.src, edge.dst)}
    label = {host: (host, 1) for host in node}
    lane = {host: homes.get(host, UNKNOWN) for host in node}
    for (source, home, found), leaves in groups.items():
        if len(leaves) >= (LEAVES if len(hops) <= BUSY else 2):
            name = f"\0{source}\0{home}\0{found}"
            label[name], lane[name] = (f"{len(leaves)} hosts", len(leaves)), home
            node.update(dict.fromkeys(leaves, name))
    arrows: dict[tuple[str, str, bool | None], list[tuple[int, AttackEdge]]] = defaultdict(list)
    for i, edge in hops:
        arrows[node[edge.src], node[edge.dst], edge.found].append((i, edge))
    drawn, reached_nodes = [], {node[hops[0][1].src]}
    for (src, dst, found), members in arrows.items():
        numbers, edges = tuple(i for i, _ in members), tuple(edge for _, edge in members)
        drawn.append(Hop(src, dst, found, numbers, edges, again=dst in reached_nodes))
        reached_nodes |= {src, dst}
    return drawn, label, lane


def _layout(arrows: Sequence[Hop], lane: Mapping[str, str]) -> dict[str, Spot]:
    """A node comes one column after the one it was reached from; a full column spills into the next."""
    spots: dict[str, Spot] = {}
    taken: dict[tuple[str, int], int] = defaultdict(int)

    def settle(node: str, column: int) -> None:
        while taken[lane[node], column] >= ROWS_PER_LANE:
            column += 1
        spots[node] = Spot(column, lane[node], taken[lane[node], column])
        taken[lane[node], column] += 1

    for arrow in arrows:
        if arrow.src not in spots:
            settle(arrow.src, 0)
        if arrow.dst not in spots:
            settle(arrow.dst, spots[arrow.src].column + 1)
    return spots


def _lane(name: str, top: float, rows: int, width: float, hosts: int | None) -> str:
    height = rows * ROW + 2 * LANE_PAD
    box = shape("rect", x=2, y=top, width=width - 4, height=height, rx=8, class_="lane")
    title = tag(
        "text", text(shorten(name, 14)), x=14, y=top + height / 2 - (2 if hosts else -4), class_="lanetitle"
    )
    count = (
        ""
        if not hosts
        else tag("text", f"{amount(hosts)} hosts", x=14, y=top + height / 2 + 14, class_="tick")
    )
    return box + title + count


def _style(found: bool | None) -> str:
    return "alerted" if found is None else "found" if found else "missed"


def _arrow(hop: Hop, start: tuple[float, float], end: tuple[float, float]) -> str:
    style = _style(hop.found)
    path = "M{:.1f} {:.1f} C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}".format(*_curve(start, end))
    kind = f"hop {style}" + " again" * hop.again
    return shape("path", d=path, class_=kind, marker_end=f"url(#head-{style})", data_tip=_tip(hop))


def _curve(start: tuple[float, float], end: tuple[float, float]) -> tuple[float, ...]:
    (x1, y1), (x2, y2) = start, end
    reach = 11.0
    if x2 > x1:
        x1, x2 = x1 + reach, x2 - reach - 4
        bend = (x2 - x1) * 0.45
        return x1, y1, x1 + bend, y1, x2 - bend, y2, x2, y2
    # Backwards or straight up: leave and arrive on the left, so that no label is crossed.
    bend = 36 + 0.12 * abs(y2 - y1)
    far = min(x1, x2) - bend
    return x1 - reach, y1, far, y1, far, y2, x2 - reach - 4, y2


def _badge(hop: Hop, start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1, a1, b1, a2, b2, x2, y2 = _curve(start, end)
    x, y = (x1 + 3 * a1 + 3 * a2 + x2) / 8, (y1 + 3 * b1 + 3 * b2 + y2) / 8  # the curve's middle
    label = _ranges(hop.numbers)
    wide = 12 + 6.4 * len(label)
    box = shape(
        "rect", x=f"{x - wide / 2:.1f}", y=f"{y - 9:.1f}", width=f"{wide:.1f}", height=18, rx=9,
        class_=f"badge {_style(hop.found)}", data_tip=_tip(hop),
    )  # fmt: skip
    return box + tag("text", label, x=f"{x:.1f}", y=f"{y + 4:.1f}", class_="badgetext m")


def _ranges(numbers: Sequence[int]) -> str:
    """3, 4, 5, 7 -> 3–5, 7; what would be longer -> 3…9."""
    runs: list[list[int]] = []
    for i in numbers:
        if runs and i == runs[-1][-1] + 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    if len(runs) > 2:
        return f"{numbers[0]}…{numbers[-1]}"
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _tip(hop: Hop) -> str:
    first = hop.edges[0]
    if len(hop.edges) > 1:
        what = f"hops {_ranges(hop.numbers)}: {first.src} → {len(hop.edges)} hosts, from {moment(first.time)}"
    else:
        what = f"hop {hop.numbers[0]}: {first.src} → {first.dst}, {moment(first.time)}"
        what += "" if first.score is None else f", score {number(first.score)}"
        what += "" if first.technique is None else f", {first.technique}"
    return what + ("" if hop.found is None else ", found" if hop.found else ", missed")


def _node(place: tuple[float, float], label: tuple[str, int], lane: str, first: int, *, entry: bool) -> str:
    x, y = place
    name, hosts = label
    circle = shape(
        "circle", cx=x, cy=y, r=10 if hosts > 1 else 8, class_="host" + (" entry" if entry else "")
    )
    inside = tag("text", str(hosts), x=x, y=y + 4, class_="count m") if hosts > 1 else ""
    title = tag("text", text(_short(name, lane)), x=x, y=y - 25, class_="hostname m", data_tip=name)
    when = f"{'entry, ' if entry else ''}{moment(first)}"
    return circle + inside + title + tag("text", text(when), x=x, y=y - 13, class_="when m")


def _short(name: str, lane: str) -> str:
    """A name without the silo's, which the lane says already; the end, which differs, is kept."""
    shown = visible(name)
    if shown.startswith(lane) and shown[len(lane) : len(lane) + 1] in ("-", "_", "."):
        shown = shown[len(lane) + 1 :]
    return shown if len(shown) <= 18 else f"{shown[:6]}…{shown[-11:]}"


def _arrowheads() -> str:
    heads = "".join(
        tag(
            "marker", shape("path", d="M0 0 L7 3.5 L0 7 Z", class_=f"headfill {style}"), id=f"head-{style}",
            markerWidth=7, markerHeight=7, refX=6, refY=3.5, orient="auto", markerUnits="userSpaceOnUse",
        )
        for style in ("found", "missed", "alerted")
    )  # fmt: skip
    return tag("defs", heads)
