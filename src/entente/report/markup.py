"""Safe pieces of HTML. Every name in a log is an attacker's to choose: nothing goes in unescaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from entente.text import visible

MISSING = "–"
RELATIVE_UNTIL = 20 * 365 * 86_400 * 1_000_000
"""Times before 1990 come from logs with a relative clock and are shown as day and hour."""


def text(value: object) -> str:
    """Text for element content and for attribute values alike."""
    return html.escape(visible(value), quote=True)


def attributes(values: Mapping[str, object]) -> str:
    parts = []
    for name, value in values.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{text(value)}"')
    return "".join(parts)


def tag(name: str, content: str = "", /, **values: object) -> str:
    """An element around content that is markup already."""
    return f"<{name}{attributes(values)}>{content}</{name}>"


def shape(name: str, /, **values: object) -> str:
    """An empty SVG element."""
    return f"<{name}{attributes(values)}/>"


def shorten(value: str, length: int) -> str:
    shown = visible(value)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def number(value: float | None, digits: int = 3) -> str:
    """A figure between 0 and 1; the smallest ones keep one significant digit."""
    if value is None:
        return MISSING
    if 0 < abs(value) < 10**-digits:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:.{digits}f}"


def amount(value: float | None) -> str:
    """A count or a rate of any size."""
    if value is None:
        return MISSING
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def size(value: float | None) -> str:
    if value is None:
        return MISSING
    for unit in ("B", "kB", "MB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def moment(microseconds: int) -> str:
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    if microseconds < RELATIVE_UNTIL:
        return f"day {microseconds // 86_400_000_000 + 1}, {when:%H:%M}"
    return f"{when:%Y-%m-%d %H:%M}"


def span(microseconds: int) -> str:
    hours = microseconds / 3_600_000_000
    if hours < 1:
        return f"{hours * 60:.0f} minutes"
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell: markup, and what to sort by where that differs from the text."""

    markup: str
    key: float | str | None = None
    numeric: bool = False


def figure_cell(value: float | None, shown: str) -> Cell:
    return Cell(text(shown), -1e300 if value is None else value, numeric=True)


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[tuple[Sequence[Cell], str]],
    *,
    ident: str | None = None,
) -> str:
    """A table that sorts by a click on a heading; rows are (cells, class). Wide ones scroll by themselves."""
    body, numeric = [], [False] * len(heads)
    for cells, style in rows:
        columns = []
        for i, cell in enumerate(cells):
            numeric[i] = numeric[i] or cell.numeric
            data: dict[str, Any] = {"class_": "n" if cell.numeric else None, "data_key": cell.key}
            columns.append(
                tag("th" if i == 0 else "td", cell.markup, **data, scope="row" if i == 0 else None)
            )
        body.append(tag("tr", "".join(columns), class_=style or None))
    head = "".join(
        tag(
            "th",
            tag("button", text(title), type="button"),
            scope="col",
            class_="n" if numeric[i] else None,
            aria_sort="none",
        )
        for i, title in enumerate(heads)
    )
    inner = tag("caption", text(caption)) + tag("thead", tag("tr", head)) + tag("tbody", "".join(body))
    return scrolling(caption, tag("table", inner, id=ident, class_="sortable"))


def scrolling(label: str, content: str) -> str:
    """Content that scrolls sideways by itself where the page is too narrow, by keyboard too."""
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)
