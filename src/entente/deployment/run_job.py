"""One job's share of a run, at the coordinator: from the last checkpoint on, every step in the audit."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from entente.config import Experiment
from entente.deployment.job import config_hash, run_name
from entente.deployment.site import RunState, Site
from entente.deployment.transport import JobTransport
from entente.detectors.base import GraphShape
from entente.errors import EntenteError
from entente.federation.coordinator import Coordinator
from entente.federation.messages import Task, ValidateTask
from entente.graphs.identity import KeyedHash
from entente.runs.folder import RunFolder
from entente.runs.records import ModelCard
from entente.runtime.assembly import graph_shape
from entente.runtime.loop import Journal, Step, make_coordinator, run, training_record
from entente.runtime.transport import Transport

RESERVE = 1 << 18
"""Bytes kept free in the run folder, so that a run that fills the disk can still say why it ended."""
WARNINGS = 50
LINGERING = 60.0
"""Seconds that the job process of a killed coordinator may take to end."""
_log = logging.getLogger(__name__)


class JobJournal(Journal):
    """A journal that also writes the site's audit and the run's state file."""

    def __init__(self, site: Site, experiment: Experiment, job: str, transport: JobTransport) -> None:
        super().__init__(RunFolder(site.run(run_name(experiment))))
        self.site = site
        self.experiment = experiment
        self.job = job
        self.transport = transport
        self.state = RunState(self.folder.path)
        self.warnings: list[str] = []

    def resume(self, coordinator: Coordinator, transport: Transport) -> None:
        if not self.folder.started:  # the folder's name holds the experiment's hash: it is this one
            self.folder.begin(self.experiment, resume=False)
        (self.folder.path / "reserve").write_bytes(bytes(RESERVE))
        super().resume(coordinator, transport)
        self.site.audit.append(
            "run-started" if coordinator.task_id == 1 else "run-resumed",
            run=self.folder.path.name,
            job=self.job,
            config=config_hash(self.experiment),
            round=coordinator.round,
            silos=sorted(self.transport.present()),
        )
        self.write("running", coordinator)

    def answered(self, task: Task, missing: Mapping[str, str]) -> None:
        for silo, reason in sorted(missing.items()):
            self.warnings.append(f"{task.kind} {task.id}: {silo}: {reason}")
            self.site.audit.append("silo-missing", task=task.id, kind=task.kind, silo=silo, reason=reason)
        del self.warnings[:-WARNINGS]

    def step(self, step: Step, coordinator: Coordinator, transport: Transport) -> None:
        super().step(step, coordinator, transport)
        self.site.audit.append(
            "step",
            task=step.task.id,
            kind=step.task.kind,
            round=coordinator.round,
            answered=[reply.silo for reply in step.replies],
            missing=dict(step.missing),
            heads=dict(self.transport.heads),
        )
        self.write("running", coordinator)

    def paused(self, coordinator: Coordinator) -> None:
        self.site.audit.append("run-paused", job=self.job, returned=sorted(self.transport.returned()))
        self.write("rejoin", coordinator)

    def done(self, coordinator: Coordinator, delivered: list[str]) -> None:
        outcome = training_record(coordinator).model_dump(exclude={"privacy"})
        self.site.audit.append("run-done", run=self.folder.path.name, delivered=delivered, **outcome)
        self.write("done", coordinator, outcome=outcome)

    def ended(self, phase: str, reason: str) -> None:
        """Say why the run ended, even if the disk is full: the reserve makes room for it."""
        (self.folder.path / "reserve").unlink(missing_ok=True)
        self.state.write(phase, job=self.job, reason=reason, warnings=self.warnings)
        self.site.audit.append(f"run-{phase}", run=self.folder.path.name, job=self.job, reason=reason)

    def write(self, phase: str, coordinator: Coordinator, **more: object) -> None:
        self.state.write(
            phase,
            job=self.job,
            reason=coordinator.stopped,
            warnings=self.warnings,
            round=coordinator.round,
            rounds=self.experiment.federation.rounds,
            silos=sorted(self.transport.present()),
            **more,
        )


def run_job(site: Site, experiment: Experiment, job: str, transport: JobTransport) -> str:
    """Go on with the run until it ends or has to pause; returns its phase, which its state file has too."""
    journal = JobJournal(site, experiment, job, transport)
    try:
        with journal.folder.locked(LINGERING):
            shape = graph_shape(experiment.graph, experiment.graph.table_size, KeyedHash.rows_per_host)
            coordinator = make_coordinator(experiment, shape, site.kit.federation.silos)
            if not run(coordinator, transport, journal):
                journal.paused(coordinator)
                return "rejoin"
            _hand_out(journal, coordinator, shape)
    except Exception as error:
        phase = "stopped" if isinstance(error, EntenteError) else "failed"
        journal.ended(phase, str(error) if isinstance(error, EntenteError) else repr(error))
        _log.exception("the run %s", phase)
        return phase
    return "done"


def _hand_out(journal: JobJournal, coordinator: Coordinator, shape: GraphShape) -> None:
    """Store the best model and hand it to every silo, which learns its own threshold for it."""
    best = coordinator.best_weights
    card = ModelCard(
        detector=journal.experiment.detector.name, shape=shape, training={"": training_record(coordinator)}
    )
    journal.folder.write_model({"": best}, card)
    model = ValidateTask(coordinator.task_id, round=coordinator.best_round, weights=best)
    missing = journal.transport.deliver(model, coordinator.config.deadline)
    journal.answered(model, missing)
    journal.done(coordinator, sorted(set(journal.transport.federation.silos) - set(missing)))
