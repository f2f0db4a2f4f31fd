"""Line charts and the contribution grid as inline SVG; colours come from the page's classes c0 ... c7."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from entente.federation.records import RoundRecord, SiloRecord
from entente.report.data import Points
from entente.report.markup import number, shape, shorten, tag, text

PALETTE = 8
"""Number of distinct line colours; more lines than that repeat them with dashes."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: Points
    colour: int
    label: str | None = None  # shown at the line's end; the name by default
    strong: bool = False
    dashed: bool = False
    mark: tuple[float, float, str] | None = None  # a point to stress: x, y, what it is


@dataclass(frozen=True, slots=True)
class Frame:
    """Size of a chart and the range of its axes."""

    width: int
    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    left: int = 46
    right: int = 130
    top: int = 14
    bottom: int = 40

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1.0)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1.0)
        return (
            round(self.left + across * (self.width - self.left - self.right), 1),
            round(self.height - self.bottom - up * (self.height - self.top - self.bottom), 1),
        )


def line_chart(
    title: str,
    lines: Sequence[Line],
    frame: Frame,
    axes: tuple[str, str],
    *,
    whole_x: bool = False,
    key: bool = False,
) -> str:
    """Lines with their names at their ends, or with a key beside them where all end in one place."""
    parts = [_axes(frame, axes, whole_x)]
    ends = []
    for line in sorted(lines, key=lambda line: line.strong):
        places = [frame.place(x, y) for x, y in zip(line.points.x, line.points.y, strict=True)]
        if not places:
            continue
        parts.append(_polyline(line, places))
        ends.append((line, places[-1]))
        if line.mark:
            x, y = frame.place(line.mark[0], line.mark[1])
            parts.append(
                shape("circle", cx=x, cy=y, r=4.5, class_=f"dot f{line.colour}", data_tip=line.mark[2])
            )
    parts += _key(lines, frame) if key else _end_labels(ends, frame)
    return tag(
        "svg", "".join(parts), viewBox=f"0 0 {frame.width} {frame.height}", role="img", aria_label=title,
        class_="chart",
    )  # fmt: skip


def _polyline(line: Line, places: Sequence[tuple[float, float]]) -> str:
    path = " ".join(f"{'M' if i == 0 else 'L'}{x} {y}" for i, (x, y) in enumerate(places))
    style = f"line c{line.colour}" + (" strong" if line.strong else "") + (" dashed" if line.dashed else "")
    if len(places) == 1:
        return shape("circle", cx=places[0][0], cy=places[0][1], r=3, class_=f"dot f{line.colour}")
    return shape("path", d=path, class_=style, data_tip=line.label or line.name)


def _end_labels(ends: Sequence[tuple[Line, tuple[float, float]]], frame: Frame) -> list[str]:
    """Names beside the ends of lines, pushed apart so that none covers another."""
    gap, labels = 15.0, []
    ordered = sorted(ends, key=lambda end: end[1][1])
    heights: list[float] = []
    for _, (_, y) in ordered:
        heights.append(max(y, heights[-1] + gap) if heights else max(y, frame.top + 4.0))
    floor = frame.height - frame.bottom + 8.0
    for i in range(len(heights) - 1, -1, -1):
        heights[i] = min(heights[i], floor)
        floor = heights[i] - gap
    across = frame.width - frame.right + 12
    for (line, (x, y)), height in zip(ordered, heights, strict=True):
        lead = f"M{x} {y} L{across - 3} {height}"
        labels.append(shape("path", d=lead, class_=f"lead c{line.colour}"))
        name = shorten(line.label or line.name, 21)
        labels.append(
            tag(
                "text",
                text(name),
                x=across,
                y=height + 4,
                class_=f"end t{line.colour}" + (" b" if line.strong else ""),
            )
        )
    return labels


def _key(lines: Sequence[Line], frame: Frame) -> list[str]:
    across, entries = frame.width - frame.right + 16, []
    for i, line in enumerate(lines):
        y = frame.top + 10 + 21 * i
        style = " strong" * line.strong + " dashed" * line.dashed
        entries.append(shape("path", d=f"M{across} {y} h26", class_=f"line c{line.colour}{style}"))
        name = shorten(line.label or line.name, 26)
        weight = " b" if line.strong else ""
        entries.append(tag("text", text(name), x=across + 34, y=y + 4, class_=f"end t{line.colour}{weight}"))
    return entries


def _axes(frame: Frame, axes: tuple[str, str], whole_x: bool) -> str:
    parts = []
    left, base = frame.place(frame.x[0], frame.y[0])
    right, top = frame.place(frame.x[1], frame.y[1])
    for value in ticks(*frame.y, 4):
        _, y = frame.place(frame.x[0], value)
        parts.append(shape("line", x1=left, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", f"{value:g}", x=left - 6, y=y + 4, class_="tick e"))
    for value in ticks(*frame.x, 5, whole=whole_x):
        x, _ = frame.place(value, frame.y[0])
        parts.append(tag("text", f"{value:g}", x=x, y=base + 16, class_="tick m"))
    parts.append(shape("line", x1=left, x2=right, y1=base, y2=base, class_="axis"))
    parts.append(tag("text", text(axes[0]), x=(left + right) / 2, y=base + 33, class_="axistitle m"))
    middle = (top + base) / 2
    parts.append(
        tag("text", text(axes[1]), x=12, y=middle, transform=f"rotate(-90 12 {middle})", class_="axistitle m")
    )
    return "".join(parts)


def ticks(low: float, high: float, about: int, *, whole: bool = False) -> list[float]:
    """RoundRecord values between low and high, about so many."""
    if high <= low:
        return [low]
    raw = (high - low) / about
    power = 10.0
    while power > raw:
        power /= 10
    while power * 10 <= raw:
        power *= 10
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(s - raw))
    step = max(1.0, float(round(step))) if whole else step
    first = -(-low // step)
    count = int((high - first * step) / step + 1e-9)
    return [round((first + i) * step, 10) for i in range(count + 1)]


def round_lines(
    rounds: Mapping[str, Sequence[RoundRecord]], main: str, field: str, colours: Mapping[str, int]
) -> list[Line]:
    """One value per round (`loss`, or `ap` and `auc` of the validation), by method."""
    lines = []
    for name, records in rounds.items():
        pairs = [(float(record.round), _field(record, field)) for record in records]
        known = [(x, y) for x, y in pairs if y is not None]
        if known:
            points = Points(tuple(x for x, _ in known), tuple(y for _, y in known))
            label = f"{name} {number(points.y[-1])}"
            lines.append(Line(name, points, colours[name] % PALETTE, label, strong=name == main))
    return lines


def _field(record: RoundRecord, field: str) -> float | None:
    if field == "loss":
        return record.loss
    if record.validation is None:
        return None
    return record.validation.ap if field == "ap" else record.validation.auc


def contribution_grid(rounds: Sequence[RoundRecord]) -> str:
    """r of every silo in every round, darker for more; clipped and refused updates carry a mark."""
    silos = sorted({silo for record in rounds for silo in record.silos})
    highest = max((r for record in rounds for r in _known_r(record)), default=1.0) or 1.0
    high, wide = (22, 26) if len(silos) <= 16 else (15, 22)
    left, top = 120, 22
    width, height = left + wide * len(rounds) + 64, top + high * len(silos) + 28
    parts = [tag("text", text("last r"), x=left + wide * len(rounds) + 10, y=14, class_="tick")]
    for row, silo in enumerate(silos):
        y = top + row * high
        parts.append(tag("text", text(shorten(silo, 16)), x=left - 8, y=y + high / 2 + 4, class_="tick e"))
        last = None
        for column, record in enumerate(rounds):
            entry = record.silos.get(silo)
            if entry is None:
                continue
            last = entry.r if entry.refused is None else last
            parts.append(_grid_cell(record, silo, entry, left + column * wide, y, wide, high, highest))
        parts.append(
            tag("text", number(last, 2), x=left + wide * len(rounds) + 10, y=y + high / 2 + 4, class_="tick")
        )
    every = max(1, len(rounds) // 10)
    for column in range(0, len(rounds), every):
        label = str(rounds[column].round)
        x = left + (column + 0.5) * wide
        parts.append(tag("text", text(label), x=x, y=height - 14, class_="tick m"))
    parts.append(tag("text", "round", x=left - 8, y=height - 14, class_="axistitle e"))
    return tag(
        "svg", "".join(parts), viewBox=f"0 0 {width} {height}", width=width, height=height, role="img",
        aria_label="Contribution r of every silo per round", class_="grid-chart",
    )  # fmt: skip


def _grid_cell(
    record: RoundRecord,
    silo: str,
    entry: SiloRecord,
    x: float,
    y: float,
    wide: int,
    high: int,
    top: float,
) -> str:
    refused, clipped, r = entry.refused, entry.clipped, entry.r
    tip = f"round {record.round}, {silo}: "
    middle = {"x": x + wide / 2 - 1, "y": y + high / 2 + 4}
    if refused:
        mark = tag("text", "×", **middle, class_="mark refused m")
        box = shape(
            "rect",
            x=x,
            y=y,
            width=wide - 2,
            height=high - 2,
            class_="cell none",
            data_tip=f"{tip}refused: {refused}",
        )
        return box + mark
    level = r / top if r is not None else 0.0
    values = {"j": entry.j, "s": entry.s, "d": entry.d, "r": r, "norm": entry.norm}
    known = ", ".join(f"{name} {value:.3g}" for name, value in values.items() if value is not None)
    box = shape(
        "rect", x=x, y=y, width=wide - 2, height=high - 2, class_="cell",
        fill_opacity=f"{0.12 + 0.88 * level:.3f}",
        data_tip=f"{tip}{known}" + (", clipped" if clipped else ""),
    )  # fmt: skip
    mark = tag("text", "▾", **middle, class_="mark m" + (" on" if level > 0.5 else "")) if clipped else ""
    return box + mark


def _known_r(record: RoundRecord) -> Iterable[float]:
    for entry in record.accepted.values():
        if entry.r is not None:
            yield entry.r
