"""Small drawings as SVG text: lines, bars and heat maps. No script, no font, no network."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 170, 30, 44
# Okabe and Ito's colours: told apart by nearly everybody.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
SHADES = 5
DASHES = ("", "6 3", "2 2")

Points = tuple[Sequence[float], Sequence[float]]


def lines(
    title: str,
    series: Mapping[str, Points],
    x: str,
    y: str,
    *,
    y_range: tuple[float, float] | None = None,
    log_x: bool = False,
) -> str:
    """One line per name; points that are not finite are left out."""
    kept = {name: _finite(points) for name, points in series.items()}
    kept = {name: points for name, points in kept.items() if points}
    if not kept:
        return _empty(title)
    xs = [p[0] for points in kept.values() for p in points]
    ys = [p[1] for points in kept.values() for p in points]
    scale_x = _Scale(min(xs), max(xs), LEFT, WIDTH - RIGHT, log=log_x)
    low, high = y_range if y_range is not None else (min(0.0, *ys), max(ys))
    scale_y = _Scale(low, high, HEIGHT - BOTTOM, TOP)
    parts = _axes(title, scale_x, scale_y, x, y)
    for number, (name, points) in enumerate(kept.items()):
        colour, dash = _stroke(number)
        path = " ".join(f"{scale_x(a):.1f},{scale_y(b):.1f}" for a, b in points)
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dash}" '
            f'points="{path}"/>'
        )
        if len(points) == 1:
            parts.append(
                f'<circle cx="{scale_x(points[0][0]):.1f}" cy="{scale_y(points[0][1]):.1f}" r="3" '
                f'fill="{colour}"/>'
            )
        parts.append(_legend(number, name, colour, dash))
    return _svg(parts, HEIGHT, title)


def bars(title: str, groups: Mapping[str, Mapping[str, float | None]], y: str) -> str:
    """One group of bars per name, a bar per series in it; None leaves a gap."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    known = [value for group in groups.values() for value in group.values() if value is not None]
    if not known:
        return _empty(title)
    span = (WIDTH - RIGHT - LEFT) / len(groups)
    width = 0.8 * span / max(1, len(names))
    scale = _Scale(min(0.0, *known), max(*known, 1e-9), HEIGHT - BOTTOM, TOP)
    parts = _frame(title, scale, y)
    for place, (group, values) in enumerate(groups.items()):
        left = LEFT + span * (place + 0.1)
        parts.append(_text(left + 0.4 * span, HEIGHT - BOTTOM + 17, group, anchor="middle"))
        for number, name in enumerate(names):
            value = values.get(name)
            if value is not None:
                top, floor = sorted((scale(value), scale(0.0)))
                at = left + number * width
                parts.append(
                    f'<rect x="{at:.1f}" y="{top:.1f}" width="{0.9 * width:.1f}" '
                    f'height="{floor - top:.1f}" fill="{_stroke(number)[0]}"/>'
                )
    parts += [_legend(number, name, *_stroke(number)) for number, name in enumerate(names)]
    return _svg(parts, HEIGHT, title)


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    limits: tuple[float, float] | None = None,
    good: str = "high",
) -> str:
    """A coloured table; `good` says which end is blue, the other is orange. None is a failed run."""
    known = [v for row in values for v in row if v is not None]
    low, high = limits if limits is not None else (min(known, default=0.0), max(known, default=1.0))
    left, top, wide, tall = 170, 60, 62, 26
    width, height = left + wide * len(columns) + 20, top + tall * len(rows) + 20
    parts = [_text(10, 18, title, weight="bold")]
    for place, name in enumerate(columns):
        parts.append(_text(left + wide * place + wide / 2, top - 8, name, anchor="middle"))
    for line, name in enumerate(rows):
        parts.append(_text(left - 8, top + tall * line + 17, name, anchor="end"))
        for place, value in enumerate(values[line]):
            share = 0.5 if value is None or high <= low else (value - low) / (high - low)
            share = min(1.0, max(0.0, share))
            colour = "#dddddd" if value is None else _shade(share if good == "high" else 1.0 - share)
            x, y = left + wide * place, top + tall * line
            parts.append(
                f'<rect x="{x}" y="{y}" width="{wide - 2}" height="{tall - 2}" fill="{colour}"/>'
                + _text(x + wide / 2, y + 17, "–" if value is None else _number(value), anchor="middle")
            )
    return _svg(parts, height, title, width)


def block_matrix(title: str, groups: Mapping[str, float], cells: Sequence[Sequence[float]]) -> str:
    """A square of sources (down) by targets (across), darker where there is more; lines between groups.

    `groups` are shares of the side, in order; `cells` is a square of numbers from 0 to 1.
    """
    left, top, side = 110, 40, 400
    step = side / max(1, len(cells))
    shades: dict[int, list[str]] = {}
    for line, row in enumerate(cells):
        for place, value in enumerate(row):
            if value > 0:
                square = (
                    f"M{left + step * place:.1f} {top + step * line:.1f}h{step:.1f}v{step:.1f}h-{step:.1f}z"
                )
                shades.setdefault(min(SHADES, 1 + int(SHADES * value)), []).append(square)
    parts = [_text(10, 18, title, weight="bold")]
    for shade, paths in sorted(shades.items()):
        parts.append(f'<path fill="#0072b2" fill-opacity="{shade / SHADES:.2f}" d="{"".join(paths)}"/>')
    begin = 0.0
    for name, share in groups.items():
        at = side * begin
        parts.append(
            f'<path d="M{left} {top + at:.1f}h{side}M{left + at:.1f} {top}v{side}" '
            'stroke="#d55e00" fill="none"/>'
        )
        parts.append(_text(left - 8, top + at + side * share / 2 + 4, name, anchor="end"))
        begin += share
    parts.append(
        f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="none" stroke="#57606a"/>'
        + _text(left + side / 2, top + side + 18, "target", anchor="middle")
    )
    return _svg(parts, top + side + 30, title, left + side + 20)


class _Scale:
    """A linear or logarithmic axis."""

    def __init__(self, low: float, high: float, begin: float, end: float, *, log: bool = False) -> None:
        self.log = log and low > 0
        if high <= low:
            high = low + (abs(low) or 1.0)
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return self.begin + (at - low) / (high - low) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        if self.log:
            ratio = (self.high / self.low) ** 0.25
            return [self.low * ratio**i for i in range(5)]
        step = 10 ** math.floor(math.log10(self.high - self.low))
        for factor in (0.2, 0.25, 0.5, 1.0, 2.0):
            if (self.high - self.low) / (step * factor) <= 6:
                step *= factor
                break
        first = math.ceil(self.low / step - 1e-9)
        return [
            (first + i) * step for i in range(8) if (first + i) * step <= self.high + 1e-9 * abs(self.high)
        ]


def _axes(title: str, x: _Scale, y: _Scale, x_name: str, y_name: str) -> list[str]:
    parts = _frame(title, y, y_name)
    for tick in x.ticks():
        at = x(tick)
        parts.append(f'<path d="M{at:.1f} {HEIGHT - BOTTOM}v4" stroke="#57606a"/>')
        parts.append(_text(at, HEIGHT - BOTTOM + 17, _number(tick), anchor="middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_name, anchor="middle"))
    return parts


def _frame(title: str, y: _Scale, y_name: str) -> list[str]:
    """Title, lines across, and the two axes."""
    parts = [_text(LEFT, 18, title, weight="bold")]
    for tick in y.ticks():
        at = y(tick)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#e3e7eb"/>')
        parts.append(_text(LEFT - 6, at + 4, _number(tick), anchor="end"))
    parts.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" stroke="#57606a" fill="none"/>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="translate(14 {middle}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {turned}>{html.escape(y_name)}</text>")
    return parts


def _legend(number: int, name: str, colour: str, dash: str) -> str:
    x, y = WIDTH - RIGHT + 12, TOP + 8 + 17 * number
    line = f'<path d="M{x} {y}h20" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}"/>'
    return line + _text(x + 26, y + 4, name)


def _stroke(number: int) -> tuple[str, str]:
    return COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]


def _shade(share: float) -> str:
    """Orange (0) over white to blue (1)."""
    end, amount = ((86, 180, 233), 2 * share - 1) if share >= 0.5 else ((230, 159, 0), 1 - 2 * share)
    red, green, blue = (round(255 + (part - 255) * amount) for part in end)
    return f"#{red:02x}{green:02x}{blue:02x}"


def _finite(points: Points) -> list[tuple[float, float]]:
    pairs = zip(*points, strict=True)
    return [(float(a), float(b)) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", colour: str = "#1c2733"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">'
        f"{html.escape(text)}</text>"
    )


def _empty(title: str) -> str:
    parts = [_text(LEFT, 18, title, weight="bold"), _text(LEFT, 42, "nothing was recorded")]
    return _svg(parts, 60, title)


def _svg(parts: Sequence[str], height: float, title: str, width: float = WIDTH) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" font-family="system-ui,sans-serif" font-size="12">'
        f"<title>{html.escape(title)}</title>" + "".join(parts) + "</svg>"
    )
