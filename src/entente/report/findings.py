"""Sections about what was found: the attack, incidents and alerts."""

from __future__ import annotations

from collections.abc import Sequence

from entente.detection.alerts import Alert
from entente.detection.explanations import SEVERITIES
from entente.detection.incidents import Incident
from entente.report.attack import MOST_HOPS, attack_graph, numbered
from entente.report.data import ReportData
from entente.report.markup import (
    Cell,
    figure_cell,
    moment,
    number,
    scrolling,
    shape,
    shorten,
    span,
    table,
    tag,
    text,
)
from entente.report.sections import paragraph, section
from entente.text import count

MOST_ALERTS = 300
MOST_INCIDENTS = 12
MOST_LINKS = 14
MOST_EVIDENCE = 30
"""Alerts of one incident that are told one by one."""


def attack(data: ReportData) -> str:
    edges = data.attack
    if not edges:
        return ""
    hops = numbered(edges)
    known = hops[0][1].found is not None
    found = sum(1 for _, hop in hops if hop.found)
    title = "The attack" if known else "The largest incident"
    lasted = span(hops[-1][1].time - hops[0][1].time)
    told = (
        f"The attack used {count(len(hops), 'pair')} of hosts over {lasted}; {found} of them raised an alert."
        if known
        else f"{count(len(hops), 'pair')} of hosts raised alerts; whether they are malicious is not known."
    )
    if len(hops) > MOST_HOPS:
        told += f" Drawn are the first {MOST_HOPS}."
    drawing = scrolling("Drawing of the attack", attack_graph(edges, data.homes, data.silo_hosts))
    rows = []
    for i, hop in hops:
        homes = tuple(data.homes.get(host, "?") for host in (hop.src, hop.dst))
        rows.append(
            (
                [
                    Cell(str(i), i, numeric=False),
                    Cell(tag("span", text(moment(hop.time)), class_="time"), hop.time),
                    Cell(tag("bdi", text(hop.src))),
                    Cell(tag("bdi", text(hop.dst))),
                    Cell(text(homes[0] if homes[0] == homes[1] else f"{homes[0]} → {homes[1]}")),
                    Cell(text(hop.technique or "")),
                    figure_cell(hop.score, number(hop.score, 4)),
                    Cell(_outcome(hop.found)),
                ],
                "",
            )
        )
    heads = ["Hop", "Time", "From", "To", "Silo", "Technique", "Score", "Outcome"]
    hop_table = tag(
        "details", tag("summary", f"All {len(hops)} hops as a table") + table("Hops in order", heads, rows)
    )
    return section("attack", title, paragraph(told, None), _key(known), drawing, hop_table)


def _outcome(found: bool | None) -> str:
    if found is None:
        return ""
    return tag("span", "found" if found else "missed", class_="hit" if found else "miss")


def _key(known: bool) -> str:
    def entry(style: str, words: str) -> str:
        line = shape("path", d="M1 8 L29 8", class_=f"hop {style}")
        return tag("span", tag("svg", line, width=30, height=16, aria_hidden="true") + text(words))

    kinds = [("found", "found"), ("missed", "missed")] if known else [("alerted", "alert")]
    words = "".join(entry(style, label) for style, label in kinds)
    rest = "numbers: order of the hops; thin: to a host reached before; filled circle: entry"
    return tag("div", words + tag("span", rest), class_="key")


def incidents(data: ReportData) -> str:
    if not data.incidents:
        return ""
    shown = data.incidents[:MOST_INCIDENTS]
    alerts = sum(one.alerts for one in data.incidents)
    told = f"{alerts} of {len(data.alerts)} alerts hang together in {count(len(data.incidents), 'incident')}."
    if len(shown) < len(data.incidents):
        told += f" Shown are the {len(shown)} weightiest."
    by_incident: dict[str | None, list[Alert]] = {}
    for alert in (*data.alerts, *data.further):
        by_incident.setdefault(alert.incident, []).append(alert)
    return section(
        "incidents",
        "Incidents",
        paragraph(told),
        *(_incident(one, by_incident.get(one.id, ())) for one in shown),
    )


def _incident(one: Incident, members: Sequence[Alert]) -> str:
    title = f"{moment(one.start)}, {span(one.end - one.start)}, {count(one.alerts, 'alert')}"
    chain = _chain(list(dict.fromkeys((src, dst) for _, src, dst in one.chain)))
    reasons = "".join(tag("li", text(reason)) for reason in one.explanation)
    heading = tag("h3", severity(one.severity) + " " + text(title))
    said = heading + tag("ul", reasons) + tag("p", chain, class_="chain") + _evidence(members)
    return tag("div", said, class_="incident", id=f"incident-{one.id}")


def _evidence(members: Sequence[Alert]) -> str:
    """The alerts and further edges of an incident in order of time, each with why it belongs there."""
    if not members:
        return ""
    ordered = sorted(members, key=lambda alert: (alert.time, -alert.score))
    items = "".join(
        tag(
            "li",
            tag("span", text(moment(alert.time)), class_="time")
            + (f" {severity(alert.severity)} " if alert.raised else " not raised ")
            + tag("bdi", text(shorten(alert.src, 40)))
            + " → "
            + tag("bdi", text(shorten(alert.dst, 40)))
            + ": "
            + text("; ".join([*alert.explanation, *_details(alert)])),
        )
        for alert in ordered[:MOST_EVIDENCE]
    )
    more = len(ordered) - MOST_EVIDENCE
    rest = paragraph(f"{more} more are in alerts.parquet.") if more > 0 else ""
    further = sum(not alert.raised for alert in ordered)
    told = f"Evidence: {count(len(ordered) - further, 'alert')}"
    told += f", {count(further, 'further edge')}" if further else ""
    return tag("details", tag("summary", told) + tag("ul", items) + rest)


def _chain(pairs: list[tuple[str, str]]) -> str:
    """a → b → c, d; e → f: hops of one source share it, a hop from the last target goes on from it."""
    said, before = "", None
    for src, dst in pairs[:MOST_LINKS]:
        source, target = (tag("bdi", text(shorten(name, 40))) for name in (src, dst))
        if before is not None and src == before[0]:
            said += f", {target}"
        elif before is not None and src == before[1]:
            said += f" → {target}"
        else:
            said += ("; " if said else "") + f"{source} → {target}"
        before = (src, dst)
    return said + (f" and {len(pairs) - MOST_LINKS} more" if len(pairs) > MOST_LINKS else "")


def severity(level: str) -> str:
    return tag("span", text(level), class_=f"sev {level}" if level in SEVERITIES else "sev")


def alerts(data: ReportData) -> str:
    if not data.alerts:
        return section("alerts-section", "Alerts", paragraph("No alert was raised." + _excluded(data)))
    chosen = sorted(data.alerts, key=lambda alert: -alert.score)[:MOST_ALERTS]
    truth = {(edge.time, edge.src, edge.dst) for edge in data.attack if edge.found is not None}
    labelled = any(edge.found is not None for edge in data.attack)
    heads = ["Severity", "Window", "From", "To", "Rarity", "Silo", "Why"] + (["Truth"] if labelled else [])
    rows = [(_alert_cells(alert, truth if labelled else None), alert.severity) for alert in chosen]
    levels = "".join(tag("option", text(level), value=level) for level in SEVERITIES)
    tools = tag(
        "div",
        tag(
            "label",
            "Filter " + "<input id=find type=search autocomplete=off placeholder='host, user, reason'>",
        )
        + tag("label", "Severity " + tag("select", tag("option", "all", value="") + levels, id="level"))
        + tag("span", f"{len(chosen)} of {len(chosen)} shown", id="count", class_="mute", aria_live="polite"),
        class_="tools",
    )
    total = len(data.alerts)
    told = f"{count(total, 'alert')} raised." + (
        f" The {MOST_ALERTS} with the highest scores are listed." if total > MOST_ALERTS else ""
    )
    told += _excluded(data)
    return section(
        "alerts-section",
        "Alerts",
        paragraph(told),
        tools,
        table("Highest scores first", heads, rows, ident="alerts"),
    )


def _excluded(data: ReportData) -> str:
    """What exceeded a threshold and is no alert."""
    words = {"known-pairs": "pairs seen before", "multicast": "multicast or broadcast targets"}
    parts = [f"{number} {words.get(reason, reason)}" for reason, number in sorted(data.excluded.items())]
    return f" Above the threshold but not raised: {', '.join(parts)}." if parts else ""


def _details(alert: Alert) -> list[str]:
    """Accounts, ports, the log's words and the technique, as far as the log has them."""
    named = {"account": alert.users, "port": alert.ports, "logon type": alert.logons, "kind": alert.kinds}
    parts = [f"{name} {' '.join(str(value) for value in values)}" for name, values in named.items() if values]
    if alert.events is not None:
        parts.append(count(alert.events, "event"))
    if alert.failures:
        parts.append(f"{alert.failures} failed")
    if alert.technique:
        parts.append(f"{alert.technique} ({alert.technique_reason})")
    return parts


def _alert_cells(alert: Alert, truth: set[tuple[int, str, str]] | None) -> list[Cell]:
    extra = _details(alert)
    reasons = [*alert.explanation, *([", ".join(extra)] if extra else [])]
    why = tag("ul", "".join(tag("li", text(reason)) for reason in reasons), class_="why")
    cells = [
        Cell(severity(alert.severity), SEVERITIES.index(alert.severity)),
        Cell(tag("span", text(moment(alert.start)), class_="time"), alert.start),
        Cell(tag("bdi", text(alert.src))),
        Cell(tag("bdi", text(alert.dst))),
        figure_cell(alert.score, f"1 in {alert.rarity:,}" if alert.rarity else number(alert.score, 4)),
        Cell(tag("bdi", text(alert.silo))),
        Cell(why),
    ]
    if truth is not None:
        malicious = (alert.start, alert.src, alert.dst) in truth
        cells.append(Cell(tag("span", "malicious", class_="malicious") if malicious else "benign"))
    return cells
