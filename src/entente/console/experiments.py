"""Starting, resuming and stopping experiments, with what will be done said first."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entente.artifacts import private_files, read_json, write_json
from entente.config import Experiment, load_experiment
from entente.console.desk import Missing
from entente.console.settings import ConsoleSettings
from entente.deployment.audit import Audit
from entente.deployment.job import run_name
from entente.deployment.site import RunState, Site
from entente.deployment.submit import abort, prepare
from entente.errors import EntenteError, StorageError, UsageError
from entente.runs.folder import METRICS, RunFolder
from entente.text import count

MOST_FILES = 200
LAST_WORDS = 2000
"""Bytes of a log in which its last line is looked for."""


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """What starting a file would do, in sentences; `problem` if it cannot be started."""

    file: str
    run: Path | None
    does: tuple[str, ...]
    begun: bool
    finished: bool
    running: bool
    problem: str | None
    ended: str | None = None  # what the last attempt said, where it ended before its time


class Experiments:
    """Experiment files of one folder; a kit's coordinator runs them, or this machine does."""

    def __init__(self, settings: ConsoleSettings, audit: Audit) -> None:
        self._settings = settings
        self._audit = audit
        self._lock = threading.Lock()
        self._started: dict[int, subprocess.Popen[bytes]] = {}

    def files(self) -> list[str]:
        folder = self._settings.experiments
        return sorted(path.name for path in folder.glob("*.toml"))[:MOST_FILES] if folder is not None else []

    def plans(self) -> list[ExperimentPlan]:
        return [self.plan(file) for file in self.files()]

    def plan(self, file: str) -> ExperimentPlan:
        """What would be done; a file that cannot be read says so in `problem`."""
        try:
            experiment, run = self._read(file)
        except Missing:
            raise
        except EntenteError as error:
            said = " ".join(part for part in (error.what, error.remedy) if part)
            return ExperimentPlan(file, None, (), False, False, False, said)
        folder = RunFolder(run)
        finished = (run / METRICS).is_file() or RunState(run).read().get("phase") == "done"
        running = self._pid(run) is not None or self._deployed_runs(run)
        does = tuple(self._sentences(experiment, run))
        ended = None if running or finished else self._last_words(run)
        return ExperimentPlan(
            file, run, does, folder.started, finished, running, self._lacking(experiment), ended
        )

    def start(self, file: str, who: str, *, resume: bool) -> ExperimentPlan:
        """Begin the run in a process of its own, which outlives the console."""
        with self._lock:
            plan = self.plan(file)
            if plan.problem is not None or plan.run is None:
                raise UsageError(f"cannot be started: {plan.problem}", where=file)
            if plan.running:
                raise UsageError("runs already", where=file, remedy="Stop it first.")
            if plan.finished:
                raise UsageError("this run is complete", where=file, remedy="Change its name or seed.")
            if plan.begun != resume:
                word = "was begun before" if plan.begun else "has not begun yet"
                raise UsageError(word, where=file, remedy="Resume it." if plan.begun else "Start it.")
            pid = self._spawn(self._command(file, plan.run, resume), plan.run)
        self._audit.append("experiment-started", by=who, file=file, run=plan.run.name, resume=resume, pid=pid)
        return self.plan(file)

    def stop(self, file: str, who: str) -> ExperimentPlan:
        """End the run after the step that is under way; its checkpoint stays, so that it can go on."""
        plan = self.plan(file)
        pid = self._pid(plan.run) if plan.run is not None else None
        if plan.run is None or not plan.running:
            raise UsageError("does not run", where=file)
        if pid is not None:
            os.kill(pid, signal.SIGINT)
        else:
            assert self._settings.kit is not None
            abort(Site.load(self._settings.kit), plan.run)
        self._audit.append("experiment-stopped", by=who, file=file, run=plan.run.name)
        return plan

    # ---- inside ------------------------------------------------------------------------------------

    def _read(self, file: str) -> tuple[Experiment, Path]:
        folder = self._settings.experiments
        if folder is None or file not in self.files():
            raise Missing(
                f"there is no experiment file {file[:80]!r}",
                remedy="Files are in the folder of --experiments.",
            )
        experiment = load_experiment(folder / file)
        if self._settings.kit is not None:
            site = Site.load(self._settings.kit)
            settled = prepare(site, experiment)
            return settled, site.run(run_name(settled))
        return experiment, folder.resolve() / "runs" / f"{experiment.name}-{experiment.seed}".replace(
            "/", "-"
        )

    def _lacking(self, experiment: Experiment) -> str | None:
        """What has to be there before a run on this machine can begin."""
        events = experiment.data.events
        if self._settings.kit is not None or events.is_dir():
            return None
        return f"data.events: there is no folder {events}. `entente ingest` makes one."

    def _last_words(self, run: Path) -> str | None:
        """The last line that the run's process has written, if it wrote any; advice is indented."""
        try:
            with self._log(run).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_WORDS))
                lines = file.read(LAST_WORDS).decode("utf-8", "replace").splitlines()
        except OSError:
            return None
        return next((line for line in reversed(lines) if line and not line[0].isspace()), None)

    def _log(self, run: Path) -> Path:
        return self._settings.data / "logs" / f"{run.name}.log"

    def _sentences(self, experiment: Experiment, run: Path) -> list[str]:
        federation, privacy = experiment.federation, experiment.privacy
        told = []
        if self._settings.kit is not None:
            kit = Site.load(self._settings.kit).kit
            told.append(f"Asks {', '.join(kit.federation.silos)} to train on their own logs.")
        elif experiment.mode == "federated":
            told.append(f"Trains every silo of {experiment.data.events} on this machine.")
        else:
            told.append(f"Trains in mode {experiment.mode} on this machine, events {experiment.data.events}.")
        told.append(
            f"At most {count(federation.rounds, 'round')} of {experiment.detector.name}, aggregated by "
            f"{federation.aggregation.rule}; stops after {count(federation.patience, 'round')} without "
            "improvement."
        )
        told.append(
            "Adds no noise: no privacy guarantee."
            if privacy.mechanism == "none"
            else f"Adds {privacy.mechanism} noise, sigma {privacy.sigma:g}, delta {privacy.delta:g}."
        )
        told.append(
            f"A round needs {federation.quorum:.0%} of the silos; each has {federation.deadline:g} s."
        )
        told.append(f"Writes to {run.parent.name}/{run.name}.")
        return told

    def _command(self, file: str, run: Path, resume: bool) -> list[str]:
        assert self._settings.experiments is not None
        path = str((self._settings.experiments / file).resolve())
        words = [sys.executable, "-m", "entente"]
        if self._settings.kit is not None:
            words += ["federation", "submit", path, "--kit", str(self._settings.kit.resolve()), "--detach"]
        else:
            words += ["train", path, "--out", str(run), "--quiet"]
        return [*words, *(["--resume"] if resume else [])]

    def _spawn(self, command: list[str], run: Path) -> int:
        log = self._log(run)
        with private_files():
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("wb") as output:  # what an earlier attempt said is over
                process = subprocess.Popen(  # noqa: S603 - our own interpreter, no shell # nosec B603
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )
            write_json(self._jobs_file(run), {"pid": process.pid})
        self._started[process.pid] = process
        return process.pid

    def _jobs_file(self, run: Path) -> Path:
        return self._settings.data / "jobs" / f"{run.name}.json"

    def _pid(self, run: Path) -> int | None:
        """The process that the console started for this run, if it still works on it."""
        try:
            table: Any = read_json(self._jobs_file(run))
            pid = int(table["pid"])
        except (StorageError, KeyError, TypeError, ValueError):
            return None
        if pid in self._started:
            with contextlib.suppress(ChildProcessError):
                if self._started[pid].poll() is not None:
                    return None
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            return None
        return pid if str(run) in words else None

    def _deployed_runs(self, run: Path) -> bool:
        return self._settings.kit is not None and RunState(run).read().get("phase") in ("running", "rejoin")
