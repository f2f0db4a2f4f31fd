"""A silo's state between tasks, on its own disk, so that a restart or a resumed run goes on bit for bit.

The state after every task is kept under the task's number. The coordinator may go back to an
earlier task (it was killed and resumed from its checkpoint); the silo then goes back with it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from entente.artifacts import read_arrays, read_json, write_arrays, write_json
from entente.errors import StorageError
from entente.federation.silo import Silo

KEPT = 4


class SiloMemory:
    """The states after the last few tasks of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tasks"
        self._current: int | None = None

    def before(self, task: int, silo: Silo) -> None:
        """Bring `silo` to the state it had before `task`, whatever happened since."""
        steps = [step for step in self._steps() if step < task]
        wanted = steps[-1] if steps else None
        if wanted is not None and wanted != self._current:
            folder = self.folder / f"{wanted:08d}"
            silo.restore(read_json(folder / "state.json"), read_arrays(folder / "state.safetensors"))
        self._current = wanted

    def after(self, task: int, silo: Silo) -> None:
        """Keep the state after `task`; what is later than it, from a run gone back, is dropped."""
        facts, arrays = silo.state()
        target = self.folder / f"{task:08d}"
        try:
            temporary = self.folder / f".{task:08d}.tmp"
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            write_arrays(temporary / "state.safetensors", arrays)
            write_json(temporary / "state.json", facts)
            shutil.rmtree(target, ignore_errors=True)
            temporary.rename(target)
        except OSError as error:
            raise StorageError(f"cannot be written ({error.strerror})", where=target) from error
        steps = self._steps()
        for step in [s for s in steps if s > task] + [s for s in steps if s <= task][:-KEPT]:
            shutil.rmtree(self.folder / f"{step:08d}", ignore_errors=True)
        self._current = task

    def _steps(self) -> list[int]:
        return sorted(int(path.name) for path in self.folder.glob("[0-9]*") if path.name.isdigit())
