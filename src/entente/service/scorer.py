"""Closed windows -> alerts, with a trained run: the same road as `entente detect`, one window at a time."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa

from entente.artifacts import replacing_directory
from entente.detection.feedback import Lessons
from entente.detection.policy import TAUGHT
from entente.errors import EntenteError, StorageError
from entente.logs.events import write_events
from entente.logs.schema import MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runs.mailbox import Mailbox
from entente.runtime.detecting import Night, detect
from entente.service.config import Watch
from entente.service.loop import Outcome

COPIED = ("experiment.toml", "model.json", "model.safetensors")
ENOUGH = 10_000
"""Edges before drift is worth a figure."""
HALF = 100_000
"""Edges after which what drift counts has half its weight."""


class ModelScorer:
    """A run's model and its silos' state.

    It works with a copy of the run in the service's folder: a model that is delivered while the service runs
    is taken over between two windows, once it can be read whole, and the former one is kept.
    """

    def __init__(self, config: Watch, memory: RunFolder | None, until: int | None) -> None:
        self._config = config
        self._memory = memory
        self._mailbox = Mailbox(config.mailbox) if config.mailbox is not None else None
        self._night: Night | None = None
        self._edges = self._above = 0.0
        self._run = self._take_over()
        self.until: int | None = self._end_of_run() if until is None else until
        experiment = self._run.experiment()
        self.width = round(experiment.data.window * MICROSECONDS)
        self._expected = experiment.detection.false_alarms

    @classmethod
    def load(cls, config: Watch, number: int, until: int | None) -> ModelScorer:
        """Go on from the state of that number; from the run's own state where there is none (0)."""
        folder = config.folder / "states" / f"{number:08d}"
        return cls(config, RunFolder(folder) if number else None, until)

    @property
    def model(self) -> str:
        return self._run.path.name

    @property
    def drift(self) -> float | None:
        if self._edges < ENOUGH:
            return None
        return self._above / self._edges / self._expected

    def score(self, events: pa.Table | Path, start: int, end: int, lessons: Lessons) -> Outcome:
        if isinstance(events, Path):
            night = self._detect(events, end, lessons)
        else:
            with tempfile.TemporaryDirectory(dir=self._config.folder, prefix=".window-") as scratch:
                write_events(events, Path(scratch) / "events")
                night = self._detect(Path(scratch) / "events", end, lessons)
        self._night = night
        self.until = end
        edges = sum(finding.edges for finding in night.findings)
        kept = 0.5 ** (edges / HALF)
        self._edges = self._edges * kept + edges
        self._above = self._above * kept + sum(finding.above for finding in night.findings)
        new_hosts = sum(finding.new_hosts for finding in night.findings)
        return Outcome(night.alerts, edges, new_hosts, night.excluded.get(TAUGHT, 0), night.further)

    def _detect(self, events: Path, end: int, lessons: Lessons) -> Night:
        silos = [self._config.silo] if self._config.silo else []
        return detect(
            self._run, events, silos, self._memory, lessons=lessons, mailbox=self._mailbox, before=end
        )

    def save(self, folder: Path) -> None:
        assert self._night is not None
        with replacing_directory(folder) as temporary:
            self._night.commit(RunFolder(temporary), self._mailbox)
        self._memory = RunFolder(folder)

    def refresh(self) -> str | None:
        try:
            taken = self._take_over()
        except EntenteError as error:
            return f"the model in {self._config.run} cannot be used, the former one goes on: {error}"
        if taken.path == self._run.path:
            return None
        former, self._run = self.model, taken
        self._edges = self._above = 0.0
        return f"model {self.model} takes over from {former}"

    def _end_of_run(self) -> int:
        """Where training stopped: nothing before it is scored."""
        names = [self._config.silo] if self._config.silo else sorted(self._run.read_model()[1].thresholds)
        return min(self._run.states.read(name).until for name in names)

    def _take_over(self) -> RunFolder:
        """A copy of the run as it is now; the one that is there already if the model is the same."""
        delivered = RunFolder(self._config.run)
        if not delivered.has_model:
            raise StorageError(
                "holds no trained model", where=delivered.path, remedy="Finish the run, or name another."
            )
        name = delivered.model_name()
        target = self._config.folder / "models" / name
        if not target.is_dir():
            with replacing_directory(target) as temporary:
                for part in COPIED:
                    if (self._config.run / part).is_file():
                        shutil.copyfile(self._config.run / part, temporary / part)
                shutil.copytree(self._config.run / "state", temporary / "state")
                RunFolder(temporary).read_model()
        return RunFolder(target)
