"""What every grid is asked with, and the way from planned cells to tables on disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from entente.errors import UsageError
from entente_lab.bench.cells import Cell, Label, Row, Store
from entente_lab.bench.datasets import Library
from entente_lab.bench.document import Document
from entente_lab.bench.grid import LIMIT, run_grid
from entente_lab.bench.progress import Bar
from entente_lab.bench.tables import write_outputs

T = TypeVar("T")
Draw = Callable[[Sequence[Row], Mapping[str, Any]], Document]
"""Recorded rows and the plan's facts -> the page about them."""
Spread = Callable[[Sequence[Row]], Sequence[Row]]
"""Rows of cells -> the rows of the tables, where a cell runs several methods."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options that all grids share."""

    out: Path
    seeds: int = 5
    first_seed: int = 0
    quick: bool = False
    recorded: bool = False
    """The part that the pages in docs are made of: companies, K and rows that fit into hours."""
    sources: Mapping[str, Path] = field(default_factory=dict)
    """Data set -> folder with its original files."""
    only: Sequence[str] = ()
    """Filters on labels, such as "method=entente,fedavg" or "k=4"."""
    link_share: float = 1.0
    """Share of the events, the first ones, that link prediction uses; it walks them one by one."""
    workers: int = 2
    retry: bool = False
    """Run failed cells again."""
    fresh: bool = False
    """Run cells again that another version of the code computed."""
    quiet: bool = False
    command: str = ""
    """As the user typed it; stored in every record."""
    limit: float = LIMIT
    """Seconds after which a cell is stopped; `retry` goes on with it from its last round."""

    @property
    def store(self) -> Store:
        return Store(self.out)

    @property
    def library(self) -> Library:
        return Library((self.out / "data").resolve(), self.sources)

    def narrowed(self, label: str, values: Sequence[T]) -> list[T]:
        """The values of a label that `only` leaves: what is left out is not even prepared."""
        filters = [text for text in self.only if text.partition("=")[0].strip() == label]
        wanted = parse_filters(filters, {label: [str(value) for value in values]})
        return [value for value in values if not wanted or str(value) in wanted[label]]


@dataclass(frozen=True, slots=True)
class Finished:
    """A grid that has run to its end."""

    rows: Sequence[Row]
    files: Sequence[Path]
    document: Document

    @property
    def failed(self) -> int:
        return sum(record.status == "failed" for _, record in self.rows)


def execute(
    request: Request,
    grid: str,
    cells: Sequence[Cell],
    facts: Mapping[str, Any],
    draw: Draw,
    spread: Spread = list,
) -> Finished:
    """Run what is missing, then write the grid's tables and page."""
    chosen = select(cells, request.only)
    store = request.store
    store.write_plan(grid, chosen, facts)
    with Bar(f"bench {grid}", quiet=request.quiet) as bar:
        cells_run = run_grid(
            chosen,
            store,
            workers=request.workers,
            command=request.command,
            retry=request.retry,
            fresh=request.fresh,
            limit=request.limit,
            watch=bar,
        )
    rows = spread(cells_run)
    document = draw(rows, facts)
    return Finished(rows, write_outputs(request.out, grid, rows, document), document)


def select(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells that pass every filter; a filter that nothing could ever pass is a mistake."""
    known: dict[str, set[str]] = {}
    for cell in cells:
        for name, value in cell.labels.items():
            known.setdefault(name, set()).add(_word(value))
    wanted = parse_filters(only, known)
    return [c for c in cells if all(_word(c.labels.get(name)) in values for name, values in wanted.items())]


def parse_filters(only: Sequence[str], known: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """["k=4", "method=a,b"] -> {"k": {"4"}, "method": {"a", "b"}}; a known value may itself have a comma."""
    wanted: dict[str, set[str]] = {}
    for text in only:
        name, separator, values = (part.strip() for part in text.partition("="))
        if not separator or not values:
            raise UsageError(
                f"--only {text!r} is not label=value", remedy="Example: --only method=entente,fedavg"
            )
        if name not in known:
            raise UsageError(f"--only {name}=...: no such label", remedy=f"Labels: {', '.join(known)}.")
        chosen = [values] if values in known[name] else [value.strip() for value in values.split(",")]
        for value in chosen:
            if value not in known[name]:
                raise UsageError(
                    f"--only {name}={value}: no cell has it",
                    remedy=f"Values of {name}: {', '.join(sorted(known[name]))}.",
                )
        wanted.setdefault(name, set()).update(chosen)
    return wanted


def parse_sources(data: Sequence[str]) -> dict[str, Path]:
    """["lanl=/data/lanl"] -> {"lanl": Path("/data/lanl")}; the folder must be there."""
    sources: dict[str, Path] = {}
    for text in data:
        name, separator, folder = text.partition("=")
        if not separator:
            raise UsageError(
                f"--data {text!r} is not NAME=FOLDER", remedy="Example: --data lanl-replay=replay"
            )
        path = Path(folder)
        if not path.is_dir():
            raise UsageError("is no folder", where=path, remedy=f"Give the folder that holds {name}.")
        sources[name] = path
    return sources


def _word(value: Label) -> str:
    return "" if value is None else str(value)
