"""The states of a run's silos on disk: all of them move on together, or none does.

`state/` holds numbered generations. A generation has a sealed directory per silo, the alerts of the last
hours, and the events of windows that are not complete yet; it appears by one rename, and the highest number
counts. The one before it is kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from entente.artifacts import SUMS, check_sealed, replacing_directory, seal
from entente.detection.alerts import Alert
from entente.detection.table import read_table, write_table
from entente.errors import StorageError
from entente.logs.events import with_all_columns
from entente.logs.schema import STORED_SCHEMA
from entente.runs.state import SiloState
from entente.runs.steps import silo_file

KEPT = 2
RECENT, WAITING = "recent.parquet", "waiting.parquet"


class States:
    """The generations of one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(
        self,
        states: Mapping[str, SiloState],
        recent: Sequence[Alert] = (),
        waiting: pa.Table | None = None,
    ) -> None:
        """A new generation: these silos as given, all others as they were, alerts of the last hours, and
        events that wait for their window to be complete."""
        numbers = self._numbers()
        former = self._folder(numbers[-1]) if numbers else None
        with replacing_directory(self._folder(numbers[-1] + 1 if numbers else 1)) as folder:
            for name, state in states.items():
                state.store(folder / silo_file(name))
            for other in former.glob("silo-*") if former is not None else ():
                if not (folder / other.name).exists():
                    shutil.copytree(other, folder / other.name)
            write_table(folder / RECENT, recent, {})
            if waiting is not None and waiting.num_rows:
                parquet.write_table(waiting, folder / WAITING)
            seal(folder)
        for number in numbers[: 1 - KEPT]:
            shutil.rmtree(self._folder(number), ignore_errors=True)

    def has(self, silo: str) -> bool:
        return self._silo(silo).is_dir()

    def read(self, silo: str) -> SiloState:
        """What `write` was given for the silo; StorageError if it is not there or not as it was written."""
        if not self.has(silo):
            raise StorageError(
                f"has no state of silo {silo!r}",
                where=self.path,
                remedy="Finish the run with --resume; a run of another version has to be made again.",
            )
        return SiloState.load(self._silo(silo))

    def recent(self) -> tuple[Alert, ...] | None:
        """The alerts and further edges of the last days of the last generation; None before the first."""
        if (folder := self._checked()) is None:
            return None
        table = read_table(folder / RECENT)
        return (*table.alerts, *table.further)

    def waiting(self) -> pa.Table:
        """The events of the last generation that wait for their window to be complete."""
        folder = self._checked()
        if folder is None or not (stored := folder / WAITING).is_file():
            return STORED_SCHEMA.empty_table()
        try:
            return with_all_columns(parquet.read_table(stored))
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"is not readable Parquet ({error})", where=stored) from error

    def _checked(self) -> Path | None:
        """The last generation, its own files as they were written; None before the first.

        One of an older version has no checksums.
        """
        numbers = self._numbers()
        if not numbers:
            return None
        folder = self._folder(numbers[-1])
        if (folder / SUMS).exists():
            check_sealed(folder)
        return folder

    def _silo(self, silo: str) -> Path:
        return self._folder(max(self._numbers(), default=0)) / silo_file(silo)

    def _numbers(self) -> list[int]:
        return sorted(int(path.name) for path in self.path.glob("[0-9]*") if path.name.isdigit())

    def _folder(self, number: int) -> Path:
        return self.path / f"{number:08d}"
