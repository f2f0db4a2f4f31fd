"""One job's share of a run: from the last checkpoint on, with every step recorded.

FLARE does not let a restarted silo back into a running job. So a job ends early (`rejoin`) when a
silo that was lost is connected again; the keeper starts the next job, which goes on from the
checkpoint with everybody in it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Any, Protocol

from entente.config import Experiment
from entente.deployment.job import config_hash, run_name
from entente.deployment.settings import needed
from entente.deployment.site import RunState, Site
from entente.detectors.base import GraphShape
from entente.errors import EntenteError, FederationError
from entente.federation.coordinator import Coordinator
from entente.federation.messages import Reply, Task, ValidateTask
from entente.graphs.identity import KeyedHash
from entente.runs.folder import RunFolder
from entente.runtime.assembly import initial_model

BALLAST = 1 << 18
_log = logging.getLogger(__name__)


class Company(Protocol):
    """The silos of one job."""

    heads: dict[str, str]

    def ask(self, task: Task, deadline: float) -> tuple[list[Reply], dict[str, str]]:
        """Every reply, sorted by silo, and the reason for every one that is missing."""

    def deliver(self, model: ValidateTask, deadline: float) -> dict[str, str]:
        """Give every silo the finished model; the reason for every one that did not take it."""

    def present(self) -> Collection[str]:
        """Silos that can still be asked in this job."""

    def returned(self) -> Collection[str]:
        """Silos that are connected but can only take part in a new job."""


class Drive:
    """Runs a coordinator over the silos of one job."""

    def __init__(self, site: Site, experiment: Experiment, job: str, company: Company) -> None:
        self.site = site
        self.experiment = experiment
        self.job = job
        self.company = company
        self.federation = site.kit.federation
        self.folder = RunFolder(site.run(run_name(experiment)))
        self.state = RunState(self.folder.path)
        self.warnings: list[str] = []

    def run(self) -> str:
        """Go on until the run is over; returns its phase, which is also in the run's state file."""
        try:
            coordinator = self._restore()
            phase = self._drive(coordinator)
            if phase == "done":
                self._finish(coordinator)
        except Exception as error:
            phase = "stopped" if isinstance(error, EntenteError) else "failed"
            self._last_words(phase, str(error) if isinstance(error, EntenteError) else repr(error))
            _log.exception("the run %s", phase)
            return phase
        self._write(phase, coordinator)
        return phase

    def _finish(self, coordinator: Coordinator) -> None:
        """Store the best model and hand it to every silo, which learns its own threshold for it."""
        best = coordinator.best_weights
        self.folder.write_model({"": best}, self._facts(coordinator))
        model = ValidateTask(coordinator.state()[0]["id"], round=coordinator.best_round, weights=best)
        missing = self.company.deliver(model, coordinator.config.deadline)
        self._note(model, missing)
        taken = sorted(set(self.federation.silos) - set(missing))
        self.site.audit.append(
            "run-done", run=self.folder.path.name, delivered=taken, **self._outcome(coordinator)
        )

    def _restore(self) -> Coordinator:
        experiment, name = self.experiment, self.folder.path.name
        layout, weights = initial_model(experiment, self._shape())
        coordinator = Coordinator(
            experiment.federation,
            experiment.privacy,
            layout,
            weights,
            sorted(self.federation.silos),
            experiment.seed,
            experiment.detector.name,
        )
        if not self.folder.started:  # the folder's name holds the experiment's hash: it is this one
            self.folder.begin(experiment, resume=False)
        (self.folder.path / "ballast").write_bytes(bytes(BALLAST))
        saved = self.folder.checkpoints().load()
        if saved is not None:
            coordinator.restore(*saved[0])
        reached = coordinator.round if saved is not None else 0
        self.folder.keep_rounds([r for r in self.folder.rounds() if r["round"] <= reached])
        self.site.audit.append(
            "run-started" if saved is None else "run-resumed",
            run=name,
            job=self.job,
            config=config_hash(experiment),
            round=reached,
            silos=sorted(self.company.present()),
        )
        self._write("running", coordinator)
        return coordinator

    def _drive(self, coordinator: Coordinator) -> str:
        progressed = False
        while (task := coordinator.next_task()) is not None:
            if (progressed and self.company.returned()) or not self._gather():
                self.site.audit.append("run-paused", job=self.job, returned=sorted(self.company.returned()))
                return "rejoin"
            replies, failures = self.company.ask(task, coordinator.config.deadline)
            self._note(task, failures)
            record = coordinator.conclude(replies, failures)
            if record is not None:
                self.folder.append_round(record)
                progressed = True
            self.folder.checkpoints().save(coordinator.state(), {})
            self.site.audit.append(
                "step",
                task=task.id,
                kind=task.kind,
                round=coordinator.round,
                answered=[reply.silo for reply in replies],
                missing=failures,
                heads=dict(self.company.heads),
            )
            self._write("running", coordinator)
        return "done"

    def _gather(self) -> bool:
        """Wait for a quorum; False when it needs a new job, FederationError when nobody comes."""
        wanted = needed(self.experiment.federation.quorum, len(self.federation.silos))
        until = time.monotonic() + self.federation.terms.gathering
        while len(self.company.present()) < wanted:
            present = set(self.company.present())
            if len(present | set(self.company.returned())) >= wanted:
                return False
            if time.monotonic() > until:
                absent = sorted(set(self.federation.silos) - present)
                raise FederationError(
                    f"below quorum: {len(present)} of {len(self.federation.silos)} silos are connected, "
                    f"{wanted} are needed; waited {self.federation.terms.gathering:g} s "
                    f"for {', '.join(absent)}",
                    remedy="Start the missing silos, then `entente federation submit --resume`.",
                )
            time.sleep(0.5)
        return True

    def _note(self, task: Task, failures: dict[str, str]) -> None:
        for silo, reason in sorted(failures.items()):
            self.warnings.append(f"{task.kind} {task.id}: {silo}: {reason}")
            self.site.audit.append("silo-missing", task=task.id, kind=task.kind, silo=silo, reason=reason)
        del self.warnings[:-50]

    def _last_words(self, phase: str, reason: str) -> None:
        """Say why the run ended, even if the disk is full: the ballast makes room for it."""
        (self.folder.path / "ballast").unlink(missing_ok=True)
        self.state.write(phase, job=self.job, reason=reason, warnings=self.warnings)
        self.site.audit.append(f"run-{phase}", run=self.folder.path.name, job=self.job, reason=reason)

    def _write(self, phase: str, coordinator: Coordinator) -> None:
        self.state.write(
            phase,
            job=self.job,
            reason=coordinator.stopped,
            warnings=self.warnings,
            round=coordinator.round,
            rounds=self.experiment.federation.rounds,
            silos=sorted(self.company.present()),
            **({"outcome": self._outcome(coordinator)} if phase == "done" else {}),
        )

    def _shape(self) -> GraphShape:
        return GraphShape(self.experiment.graph.table_size, KeyedHash.rows_per_host)

    def _facts(self, coordinator: Coordinator) -> dict[str, Any]:
        shape = self._shape()
        return {
            "detector": self.experiment.detector.name,
            "shape": {"table_size": shape.table_size, "rows_per_host": shape.rows_per_host},
            "thresholds": {},
            "privacy": coordinator.privacy_report(),
            **self._outcome(coordinator),
        }

    def _outcome(self, coordinator: Coordinator) -> dict[str, Any]:
        return {
            "stopped": coordinator.stopped,
            "best_round": coordinator.best_round,
            "rounds": coordinator.round,
        }
