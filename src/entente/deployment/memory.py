"""A silo's state between tasks, on its own disk, so that a restart or a resumed run goes on bit for bit.

The state after every task is kept under the task's number. The coordinator may go back to an
earlier task (it was killed and resumed from its checkpoint); the silo then goes back with it. Asked to go
back farther than it remembers (the coordinator was restored from a backup), it starts afresh at that round.
"""

from __future__ import annotations

from pathlib import Path

from entente.artifacts import Bundle
from entente.errors import StorageError
from entente.federation.silo import Participant
from entente.runs.steps import Steps

KEPT = 4
STATE = "state"


class SiloMemory:
    """The states after the last few tasks of one run."""

    def __init__(self, folder: Path) -> None:
        self._steps = Steps(folder / "tasks", KEPT)
        self._current: int | None = None
        self._fresh: Bundle | None = None

    def before(self, task: int, silo: Participant) -> bool:
        """Bring `silo` to the state it had before `task`; False if that is forgotten and it starts afresh."""
        if self._fresh is None:
            self._fresh = silo.state()
        known = self._steps.numbers()
        steps = [step for step in known if step < task]
        wanted = steps[-1] if steps else None
        if wanted is None and known:
            silo.restore(*self._fresh)
            self._current = None
            return task == 1  # the first task of all, once more
        if wanted is not None and wanted != self._current:
            try:
                silo.restore(*self._steps.read(wanted)[STATE])
            except (KeyError, TypeError, ValueError) as error:
                raise StorageError(f"is not a silo's state ({error!r})", where=self._steps.path) from error
        self._current = wanted
        return True

    def after(self, task: int, silo: Participant) -> None:
        """Keep the state after `task`; what is later than it, from a run gone back, is dropped."""
        self._steps.write(task, {STATE: silo.state()})
        self._current = task
