"""Submitting an experiment to a running federation, and following it to its end."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entente.config import Experiment, Privacy
from entente.deployment.job import portable, run_name, why_refused, write_job
from entente.deployment.process import pid_of
from entente.deployment.relay import check_turns
from entente.deployment.session import CONNECT_TIMEOUT, Tell, session, silent
from entente.deployment.site import RunState, Site
from entente.errors import ConfigError, DeploymentError, FederationError, UsageError
from entente.runs.folder import RunFolder
from entente.runtime.loop import Watcher

LOOK = 0.5
ASK = 5.0


def prepare(site: Site, experiment: Experiment) -> Experiment:
    """The experiment as every site will see it: agreed terms in place, nobody's paths in it."""
    if not site.kit.is_coordinator:
        raise UsageError(
            f"{site.name} is a silo", where=site.path, remedy="Submit with the coordinator's kit."
        )
    if experiment.mode != "federated":
        raise ConfigError('a deployed federation runs mode = "federated" only')
    terms = site.kit.federation.terms
    if "privacy" in experiment.model_fields_set and experiment.privacy != terms.privacy:
        raise ConfigError(
            f"[privacy] ({_shown(experiment.privacy)}) is not what was agreed ({_shown(terms.privacy)})",
            remedy="Take it out of the experiment, or agree on other [terms.privacy] and provision again.",
        )
    if experiment.graph.roles is not None or experiment.graph.nodes != "hosts":
        raise ConfigError(
            "graph.roles and graph.nodes are for silos in one machine",
            remedy="Take them out of the experiment.",
        )
    if excess := terms.excess(experiment):
        raise ConfigError(f"breaks the agreed terms: {excess}")
    return portable(terms.apply(experiment))


def _shown(privacy: Privacy) -> str:
    return ", ".join(f"{name} = {value}" for name, value in privacy.model_dump().items() if value is not None)


@dataclass(frozen=True, slots=True)
class Submission:
    """A job that FLARE has taken."""

    job: str
    run: RunFolder
    former: str | None  # the job that a resumed run ended with
    connect_timeout: float
    rounds: int = 0  # that were recorded before

    @property
    def state(self) -> RunState:
        return RunState(self.run.path)


def submit(
    site: Site,
    experiment: Experiment,
    *,
    resume: bool = False,
    connect_timeout: float = CONNECT_TIMEOUT,
    tell: Tell = silent,
) -> Submission:
    """Hand the job over to the coordinator's FLARE server; `tell` hears what is being waited for."""
    folder = RunFolder(site.run(run_name(experiment)))
    state = RunState(folder.path)
    before = state.read()
    phase = before.get("phase")
    if folder.started and not resume:
        raise UsageError(
            f"this experiment was run before ({phase or 'unfinished'})",
            where=folder.path,
            remedy="Go on with --resume, or change its name or seed.",
        )
    if resume and not folder.started:
        raise UsageError(f"there is nothing to resume for {folder.path.name}", where=site.path / "runs")
    if phase == "done":
        raise UsageError("this run is complete", where=folder.path)
    recorded = len(folder.rounds())
    gather(site, tell)
    with tempfile.TemporaryDirectory(prefix="entente-") as scratch:
        job = write_job(Path(scratch), experiment, site.kit.federation)
        reason = why_refused(job / "entente")
        if reason:
            raise ConfigError(f"the job would be refused: {reason}")
        with session(site, connect_timeout, tell) as flare:
            identifier = str(flare.submit_job(str(job)))
    site.audit.append("job-submitted", job=identifier, run=folder.path.name, resume=resume)
    return Submission(identifier, folder, before.get("job"), connect_timeout, recorded)


def submit_relay(
    site: Site,
    turns: int,
    pause: float,
    *,
    connect_timeout: float = CONNECT_TIMEOUT,
    tell: Tell = silent,
) -> str:
    """Have packets of the exchange carried between the silos that are there; the job's id."""
    if not site.kit.is_coordinator:
        raise UsageError(f"{site.name} is a silo", where=site.path, remedy="Use the coordinator's kit.")
    if not site.kit.federation.terms.exchange:
        raise UsageError(
            "the terms of this federation have no exchange",
            where=site.path,
            remedy="Agree on it: `exchange = true` under [terms], then provision again.",
        )
    wrong = check_turns(turns, pause)
    if wrong is not None:
        raise UsageError(wrong)
    gather(site, tell)
    experiment = prepare(site, Experiment(name="exchange"))
    with tempfile.TemporaryDirectory(prefix="entente-") as scratch:
        folder = write_job(Path(scratch), experiment, site.kit.federation, {"turns": turns, "pause": pause})
        with session(site, connect_timeout, tell) as flare:
            identifier = str(flare.submit_job(str(folder)))
    site.audit.append("relay-submitted", job=identifier, turns=turns, pause=pause)
    return identifier


def follow_relay(site: Site, job: str, connect_timeout: float = CONNECT_TIMEOUT) -> None:
    """Wait until the relay is over; DeploymentError if it was refused or broke off."""
    with session(site, connect_timeout) as flare:
        while not (status := str(flare.get_job_meta(job).get("status"))).startswith("FINISHED"):
            _check_alive(site)
            time.sleep(ASK / 2)
    if status != "FINISHED:COMPLETED":
        raise DeploymentError(f"the relay did not come to its end ({status})", where=job)


def gather(site: Site, tell: Tell = silent) -> None:
    """Wait until all silos are connected, or a quorum is when the agreed time is over."""
    federation = site.kit.federation
    until = time.monotonic() + federation.terms.gathering
    told: set[str] | None = None
    while True:
        present = set(site.members() or {}) & set(federation.silos)
        if present != told and len(present) < len(federation.silos):
            tell(f"waiting for silos: {', '.join(sorted(set(federation.silos) - present))}")
            told = present
        if len(present) == len(federation.silos):
            return
        if time.monotonic() > until:
            if len(present) >= federation.quorum:
                return
            absent = ", ".join(sorted(set(federation.silos) - present))
            raise FederationError(
                f"below quorum: {len(present)} of {len(federation.silos)} silos are connected, "
                f"{federation.quorum} are needed",
                remedy=f"Start {absent}, then submit again.",
            )
        time.sleep(LOOK)


def follow(site: Site, submission: Submission, watch: Watcher | None = None) -> dict[str, Any]:
    """Watch the run until it ends; FederationError if it stops, DeploymentError if it is refused."""
    told, asked = submission.rounds, time.monotonic()
    while True:
        table = submission.state.read()
        records = submission.run.rounds()
        if watch is not None:
            for record in records[told:]:
                watch(record)
        told = len(records)
        begun = table.get("job") not in (None, submission.former)
        if begun and table["phase"] in RunState.ENDED:
            break
        if time.monotonic() - asked > ASK:
            _check_alive(site)
            if not begun:
                _check_job(site, submission)
            asked = time.monotonic()
        time.sleep(LOOK)
    if table["phase"] != "done":
        raise FederationError(f"the run stopped: {table.get('reason')}", where=submission.run.path)
    return table


def abort(site: Site, run: Path, connect_timeout: float = CONNECT_TIMEOUT) -> None:
    """End a run that is under way; its checkpoint stays, so that `submit --resume` goes on from it."""
    job = RunState(run).read().get("job")
    if job is None:
        raise UsageError("no job works on this run", where=run)
    with session(site, connect_timeout) as flare:
        flare.abort_job(job)
    site.audit.append("job-aborted", job=job, run=run.name)


def _check_alive(site: Site) -> None:
    if pid_of(site) is None:
        raise DeploymentError(
            "the coordinator is not running any more",
            where=site.path,
            remedy="Start it, then `entente federation submit --resume`.",
        )


def _check_job(site: Site, submission: Submission) -> None:
    """Ask FLARE about a job that has not said anything itself: it may have been refused at a site."""
    with session(site, submission.connect_timeout) as flare:
        meta = flare.get_job_meta(submission.job)
    status = str(meta.get("status"))
    if status.startswith("FINISHED") and submission.state.read().get("job") in (None, submission.former):
        details = "; ".join(d for d in meta.get("job_deploy_detail") or [] if not d.endswith(": OK"))
        history = (meta.get("schedule_history") or ["no reason given"])[-1]
        raise DeploymentError(f"the job did not run ({status}): {details or history}", where=submission.job)
