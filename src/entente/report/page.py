"""The whole page: one file, no network, nothing executed but the script whose hash the page names."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from entente.federation.records import RoundRecord
from entente.report import findings, sections
from entente.report.charts import PALETTE, Frame, Line, contribution_grid, line_chart, round_lines
from entente.report.data import ReportData
from entente.report.markup import amount, number, scrolling, tag, text

MOST_CURVES = 8
MOST_ROUNDS_BESIDE = 12
"""So many rounds of contributions fit beside another chart."""
SECTIONS = (
    ("incidents", "Incidents"),
    ("attack", "Attack"),
    ("alerts-section", "Alerts"),
    ("figures", "Figures"),
    ("comparison", "Methods"),
    ("curve", "Precision and recall"),
    ("rounds", "Rounds"),
    ("silos", "Silos"),
    ("privacy", "Privacy"),
)


def render(report: ReportData) -> str:
    """The report as one HTML document."""
    script, style = (
        files("entente.report").joinpath(name).read_text("utf-8") for name in ("script.js", "style.css")
    )
    parts = [  # what somebody has to act on, the evidence for it, then how good it is
        findings.incidents(report),
        findings.attack(report),
        findings.alerts(report),
        tiles(report),
        sections.comparison(report),
        precision_recall(report),
        rounds(report),
        sections.per_silo(report),
        privacy(report),
    ]
    present = [(ident, title) for (ident, title), part in zip(SECTIONS, parts, strict=True) if part]
    links = "".join(tag("a", text(title), href=f"#{ident}") for ident, title in present)
    body = (
        tag("a", "Skip to the content", href="#content", class_="skip")
        + header(report)
        + tag("nav", links, aria_label="Sections")
        + tag("main", warnings(report) + "".join(parts), id="content")
        + footer(report)
    )
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script, style)}">'
        f"<title>{text(report.title)}</title><style>{style}</style>"
    )
    page = tag("div", body, class_="wrap") + '<div id="tip" role="status" hidden></div>'
    inside = f"<head>{head}</head><body>{page}<script>{script}</script></body>"
    return f'<!doctype html>\n<html lang="en">{inside}</html>\n'


def _policy(script: str, style: str) -> str:
    """No requests at all, and only our own script and style by their hashes."""

    def digest(content: str) -> str:
        return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()

    return f"default-src 'none'; script-src 'sha256-{digest(script)}'; style-src 'sha256-{digest(style)}'"


def header(report: ReportData) -> str:
    origin = ""
    if report.simulated is not None:
        words, style = ("simulated data", "tag sim") if report.simulated else ("real logs", "tag")
        origin = " " + tag("span", words, class_=style)
    facts = "".join(tag("div", tag("dt", text(k)) + tag("dd", text(v))) for k, v in report.facts)
    command = tag("p", tag("code", text(report.command)), class_="command") if report.command else ""
    return tag(
        "header",
        tag("h1", text(report.title) + origin)
        + tag("p", text(verdict(report)), class_="lede")
        + (tag("dl", facts, class_="facts") if facts else "")
        + command,
    )


def verdict(report: ReportData) -> str:
    """One honest sentence or two: what was found, at what price, and whether a baseline does as well."""
    figures = report.overall
    words = []
    if figures.positives:
        positives, rate = figures.positives, amount(figures.alerts_per_day)
        found = round((figures.recall or 0) * positives)
        words.append(
            f"{report.method} found {found} of {positives} malicious edges, with {rate} alerts a day."
        )
    elif figures.alerts_per_day is not None:
        words.append(f"{report.method} raises {amount(figures.alerts_per_day)} alerts a day.")
        words.append("Nothing in the test windows is labelled malicious, so how good they are is not known.")
    best = _best_baseline(report, "ap")
    if best and figures.ap is not None:
        name, value = best
        relation = "beats" if figures.ap > value else "does not beat"
        own = number(figures.ap)
        words.append(f"Its average precision, {own}, {relation} the best baseline: {name}, {number(value)}.")
    return " ".join(words) or "Nothing was scored."


def _best_baseline(report: ReportData, key: str) -> tuple[str, float] | None:
    known = {}
    for name, figures in report.baselines.items():
        value = figures.recall_at.get("10") if key == "recall@10" else getattr(figures, key)
        if value is not None:
            known[name] = value
    if not known:
        return None
    choose = min if key == "alerts_per_day" else max
    name = choose(known, key=lambda one: known[one])
    return name, known[name]


def tiles(report: ReportData) -> str:
    figures = report.overall
    at10 = figures.recall_at.get("10")
    shown = [
        _tile(report, "Average precision", "ap", figures.ap),
        _tile(report, "AUC", "auc", figures.auc),
        _tile(report, "Recall at 10 alerts per window", "recall@10", at10),
    ]
    rate, recall, precision = figures.alerts_per_day, figures.recall, figures.precision
    than = f"recall {number(recall, 2)}, precision {number(precision, 2)} at the threshold"
    shown.append(_tile_markup("Alerts a day", amount(rate), text(than)))
    return tag("div", "".join(shown), class_="tiles", id="figures")


def _tile(report: ReportData, what: str, key: str, value: float | None) -> str:
    best = _best_baseline(report, key)
    than = ""
    if best:
        better = value is not None and value > best[1]
        mark = tag("span", "above" if better else "not above", class_="up" if better else "down")
        than = f"{mark} the best baseline: {text(number(best[1]))} ({text(best[0])})"
    return _tile_markup(what, number(value), than)


def _tile_markup(what: str, big: str, than: str) -> str:
    return tag(
        "div",
        tag("div", text(what), class_="what")
        + tag("div", text(big), class_="big")
        + tag("div", than, class_="than"),
        class_="tile",
    )


def warnings(report: ReportData) -> str:
    if not report.warnings:
        return ""
    items = "".join(tag("li", text(warning)) for warning in report.warnings)
    return tag("div", tag("strong", "Worth knowing") + tag("ul", items), class_="warn", role="note")


def precision_recall(report: ReportData) -> str:
    order = sorted(report.curves, key=lambda name: (name != report.method, -_ap(report, name)))
    names = [name for name in order if report.curves[name].x][:MOST_CURVES]
    if not names:
        return ""
    lines = []
    colours = report.colours()
    for name in names:
        own = name == report.method
        recall, precision = report.overall.recall, report.overall.precision
        mark = None
        if own and recall is not None and precision is not None:
            mark = (recall, precision, f"at the threshold: recall {recall:.2f}, precision {precision:.2f}")
        lines.append(
            Line(
                name,
                report.curves[name],
                colours[name] % PALETTE,
                f"{name} {number(_ap(report, name) if _ap(report, name) >= 0 else None)}",
                strong=own,
                dashed=name in report.baselines,
                mark=mark,
            )
        )
    lines.sort(key=lambda line: -_ap(report, line.name))
    frame = Frame(760, 360, (0, 1), (0, 1), right=230)
    chart = line_chart("Precision over recall", lines, frame, ("recall", "precision"), key=True)
    said = "Each name has its average precision; dashed lines are baselines, the dot is the threshold."
    return sections.section("curve", "Precision and recall", sections.paragraph(said), chart)


def _ap(report: ReportData, name: str) -> float:
    figures = {**report.baselines, **report.all_methods()}.get(name)
    return -1.0 if figures is None or figures.ap is None else figures.ap


def rounds(report: ReportData) -> str:
    runs: dict[str, tuple[RoundRecord, ...]] = {report.method: report.rounds, **report.other_rounds}
    runs = {name: records for name, records in runs.items() if records}
    if not runs:
        return ""
    last = max(float(record.round) for records in runs.values() for record in records)
    panels = []
    for field, title in (("ap", "validation AP"), ("auc", "validation AUC"), ("loss", "training loss")):
        lines = round_lines(runs, report.method, field, report.colours())
        if lines:
            values = [value for line in lines for value in line.points.y]
            low, high = _range(values)
            frame = Frame(520, 270, (1, max(last, 2)), (low, high), right=150)
            panels.append(line_chart(f"{title} per round", lines, frame, ("round", title), whole_x=True))
    counted, wide = [record for record in report.rounds if _has_contributions(record)], ""
    if counted and len({silo for record in counted for silo in record.silos}) > 1:
        said = "The stronger the colour, the more a silo's update counted (r). ▾ clipped, × refused."
        grid = scrolling("Contributions", contribution_grid(counted))
        contributions = tag("h3", "What each silo contributed") + sections.paragraph(said) + grid
        if len(counted) <= MOST_ROUNDS_BESIDE:
            panels.append(tag("div", contributions))
        else:
            wide = contributions
    return sections.section("rounds", "Rounds", tag("div", "".join(panels), class_="panels"), wide)


def _has_contributions(record: RoundRecord) -> bool:
    return any(entry.r is not None or entry.refused for entry in record.silos.values())


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = (high - low) * 0.08 or 0.05
    return (max(0.0, low - pad) if low >= 0 else low - pad), high + pad


def privacy(report: ReportData) -> str:
    if not report.privacy:
        return ""
    items = "".join(tag("li", text(line)) for line in report.privacy)
    return sections.section("privacy", "What left the silos", tag("ul", items))


def footer(report: ReportData) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return tag("footer", text(f"Made by Entente. {versions}" if versions else "Made by Entente."))
