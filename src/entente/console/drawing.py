"""A case as a graph for Cytoscape: silos are lanes, hops go from left to right in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from entente.detection.alerts import Alert
from entente.detection.explanations import SEVERITIES
from entente.report.markup import shorten

MOST_EDGES = 150
ACROSS, DOWN, ASIDE, LANE = 160, 44, 18, 36
MOST_COLUMNS, NARROW = 7, 4
"""Columns of hosts, and how many of them can be read in half a page."""
MOST_LABELLED = 8
"""Hops up to which each shows its accounts and ports; of more, the one that is chosen does."""
LONGEST, LONGEST_NAME = 26, 500
"""Characters of a name in the drawing; the page beside it has all of it."""


def draw(alerts: Sequence[Alert], silo_of: Callable[[str], str | None]) -> dict[str, Any]:
    """Lanes, hosts and hops. `alerts` are in order of time; `silo_of` knows whose a host is."""
    hops: dict[tuple[str, str], list[int]] = {}
    for number, alert in enumerate(alerts):
        hops.setdefault((alert.src, alert.dst), []).append(number)
    pairs = list(hops)[:MOST_EDGES]
    homes = _homes(alerts, silo_of)
    columns = _columns(pairs)
    nodes, lanes = _place(columns, homes, pairs)
    edges, numbers = [], {host: number for number, host in enumerate(columns)}
    for order, (src, dst) in enumerate(pairs, start=1):
        members = [alerts[i] for i in hops[src, dst]]
        users = list(dict.fromkeys(user for alert in members for user in alert.users))[:2]
        ports = list(dict.fromkeys(port for alert in members for port in alert.ports))[:2]
        said = ", ".join([*(shorten(user, 16) for user in users), *map(str, ports)])
        edges.append(
            {
                "id": f"e{order}",
                "source": numbers[src],
                "target": numbers[dst],
                "order": order,
                "said": said,
                "alert": members[0].id,
                "severity": max((alert.severity for alert in members), key=SEVERITIES.index),
                "crosses": homes.get(src) != homes.get(dst),
            }
        )
    return {
        "lanes": lanes,
        "nodes": nodes,
        "edges": edges,
        "left_out": len(hops) - len(pairs),
        "wide": len(set(columns.values())) > NARROW,
        "labelled": len(edges) <= MOST_LABELLED,
    }


def _homes(alerts: Sequence[Alert], silo_of: Callable[[str], str | None]) -> dict[str, str]:
    homes: dict[str, str] = {}
    for alert in alerts:
        inbound = alert.direction == "inbound"
        for host, own in ((alert.src, not inbound), (alert.dst, alert.direction != "outbound")):
            known = silo_of(host)
            if known is not None:
                homes[host] = known
            elif own:
                homes[host] = alert.silo
            else:
                homes.setdefault(host, "elsewhere")
    return homes


def _columns(pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Hosts in the order in which they appear, some to a column where there are many."""
    hosts = list(dict.fromkeys(host for pair in pairs for host in pair))
    each = max(1, -(-len(hosts) // MOST_COLUMNS))
    return {host: place // each for place, host in enumerate(hosts)}


def _place(
    columns: dict[str, int], homes: dict[str, str], pairs: Sequence[tuple[str, str]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    lanes: dict[str, list[str]] = {}
    for host in columns:
        lanes.setdefault(homes.get(host, "elsewhere"), []).append(host)
    reached, pivots = set[str](), set[str]()
    for src, dst in pairs:
        if src in reached:
            pivots.add(src)
        reached.add(dst)
    numbers = {host: number for number, host in enumerate(columns)}
    step = DOWN // 2 if len(set(columns.values())) > NARROW else 0  # names of neighbours do not meet
    nodes, drawn, top = list[dict[str, Any]](), list[dict[str, Any]](), 0
    for lane, hosts in lanes.items():
        rows: dict[int, int] = {}
        for host in hosts:
            row = rows[columns[host]] = rows.get(columns[host], 0) + 1
            kind = "pivot" if host in pivots else "entry" if host not in reached else "target"
            nodes.append(
                {
                    "id": numbers[host],
                    "name": host[:LONGEST_NAME],
                    "label": shorten(host, LONGEST),
                    "x": columns[host] * ACROSS + (row - 1) * ASIDE,  # a hop within a column stays visible
                    "y": top + (row - 1) * DOWN + columns[host] % 2 * step,
                    "kind": kind,
                    "silo": shorten(lane, LONGEST),
                }
            )
        height = max(rows.values()) * DOWN + step
        drawn.append({"name": shorten(lane, LONGEST), "top": top - DOWN / 2, "height": height})
        top += height + LANE
    return nodes, drawn
