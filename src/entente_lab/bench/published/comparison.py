"""The detectors' own published tables beside ours: paper, the authors' code run again, ours, difference."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from entente_lab.bench.published import euler, streams


@dataclass(frozen=True, slots=True)
class Line:
    """One cell in percent; `paper` and `rerun` are None where nothing is published."""

    method: str
    graph: str
    task: str
    metric: str
    paper: float | None
    rerun: float | None
    ours: float
    deviation: float
    seeds: int

    @property
    def difference(self) -> float | None:
        return None if self.paper is None else self.ours - self.paper

    @property
    def short_of(self) -> str:
        """Which of the published figures this cell stays below."""
        below = [
            name
            for name, value in (("paper", self.paper), ("re-run", self.rerun))
            if value is not None and self.ours < value - 0.005
        ]
        return ", ".join(below)


METHODS = ("euler", "euler-pairs", "streams")


def run(data: Path, seeds: range, out: Path, quick: bool, only: str | None = None) -> list[Line]:
    """All lines, from finished runs in `out` where there are any; `only` is one of METHODS.

    `euler-pairs` is Euler's detection with both directions of a held-out pair taken out, which the
    published evaluation does not do; it is run on request only.
    """
    import torch

    torch.set_num_threads(1)  # the graphs are tiny; a second thread only waits for the first
    lines: list[Line] = []
    if only in (None, "euler"):
        lines += _euler("Euler", euler.rows(data, seeds, out, quick))
    if only == "euler-pairs":
        lines += _euler("Euler, whole pairs", euler.rows(data, seeds, out, quick, whole_pairs=True))
    if only in (None, "streams"):
        lines += [
            Line(r.method, r.graph, r.task, r.metric, r.paper, None, r.ours, r.deviation, r.seeds)
            for r in streams.rows(data, seeds, out, quick)
        ]
    return lines


def _euler(method: str, rows: list[euler.Row]) -> list[Line]:
    return [
        Line(method, r.graph, r.task, r.metric, r.paper, r.rerun, r.ours, r.deviation, r.seeds) for r in rows
    ]


def to_text(lines: list[Line]) -> str:
    """The table that people read."""
    heads = ("method", "task", "graph", "", "paper", "re-run", "ours", "±", "difference", "short of")
    cells = [
        (
            line.method,
            line.task,
            line.graph,
            line.metric,
            _number(line.paper),
            _number(line.rerun),
            _number(line.ours),
            _number(line.deviation) if line.seeds > 1 else "",
            "" if line.difference is None else f"{line.difference:+.2f}",
            line.short_of,
        )
        for line in lines
    ]
    widths = [max(len(row[i]) for row in (heads, *cells)) for i in range(len(heads))]
    numbers = range(4, 9)
    return "\n".join(
        "  ".join(
            f"{v:>{w}}" if i in numbers else f"{v:<{w}}"
            for i, (v, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *cells)
    )


def to_plain(lines: list[Line]) -> list[dict[str, Any]]:
    return [asdict(line) | {"difference": line.difference, "short_of": line.short_of} for line in lines]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
