"""How far a grid is, on the terminal: cells done, failures and the time that is left."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as Remaining

from entente_lab.bench.cells import Cell, Record


class Bar:
    """A progress bar on standard error; silent when `quiet`."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self._title = title
        self._failed = 0
        self._task: int | None = None
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            Remaining(elapsed_when_finished=False),
            TextColumn("{task.fields[last]}"),
            console=Console(stderr=True, quiet=quiet),
            # One cell in five minutes is no reason to forget the pace of the last hour.
            speed_estimate_period=3600,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        self._progress.stop()

    def started(self, total: int, reused: int) -> None:
        last = f"{reused} cells reused" if reused else ""
        self._task = self._progress.add_task(self._title, total=total, completed=reused, last=last)

    def finished(self, cell: Cell, record: Record) -> None:
        assert self._task is not None
        if record.status == "failed":
            self._failed += 1
            what = " ".join(str(value) for value in cell.labels.values())
            self._progress.console.print(f"[yellow]failed:[/yellow] {what}: {record.error}", markup=True)
        told = f"{self._failed} failed, " if self._failed else ""
        last = f"{told}last took {record.seconds:.0f} s"
        self._progress.update(self._task, advance=1, last=last)  # type: ignore[arg-type]
