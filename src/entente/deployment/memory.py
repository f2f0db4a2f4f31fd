"""A silo's state between tasks, on its own disk, so that a restart or a resumed run goes on bit for bit.

The state after every task is kept under the task's number. The coordinator may go back to an
earlier task (it was killed and resumed from its checkpoint); the silo then goes back with it.
"""

from __future__ import annotations

from pathlib import Path

from entente.errors import StorageError
from entente.runs.steps import Steps
from entente.runtime.transport import Participant

KEPT = 4
STATE = "state"


class SiloMemory:
    """The states after the last few tasks of one run."""

    def __init__(self, folder: Path) -> None:
        self._steps = Steps(folder / "tasks", KEPT)
        self._current: int | None = None

    def before(self, task: int, silo: Participant) -> None:
        """Bring `silo` to the state it had before `task`, whatever happened since."""
        steps = [step for step in self._steps.numbers() if step < task]
        wanted = steps[-1] if steps else None
        if wanted is not None and wanted != self._current:
            try:
                silo.restore(*self._steps.read(wanted)[STATE])
            except (KeyError, TypeError, ValueError) as error:
                raise StorageError(f"is not a silo's state ({error!r})", where=self._steps.path) from error
        self._current = wanted

    def after(self, task: int, silo: Participant) -> None:
        """Keep the state after `task`; what is later than it, from a run gone back, is dropped."""
        self._steps.write(task, {STATE: silo.state()})
        self._current = task
