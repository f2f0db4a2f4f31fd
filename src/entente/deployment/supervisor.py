"""A component of the coordinator's FLARE server: who is connected, and the next job when one paused.

It also keeps one silo's trouble its own. FLARE ends everybody's job when any one site reports that its
job process failed; here that silo is left out of the rounds and asked in again with the next job.
"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import SystemComponents
from nvflare.apis.fl_context import FLContext
from nvflare.apis.utils.job_utils import get_event_job_id
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.private.defs import CellChannel, CellChannelTopic, CellMessageHeaderKeys, JobFailureMsgKey

from entente.deployment.site import RunState, Site
from entente.errors import StorageError
from entente.text import visible

PERIOD = 1.0
SWEEP = 5.0
REPEATS = 3
"""How often a job that made no progress is started again before the run counts as failed."""


KEPT = (
    "name",
    "submitter_name",
    "submitter_org",
    "submitter_role",
    "deploy_map",
    "min_clients",
    "resource_spec",
    "job_folder_name",
    "data_storage_format",
    "study",
)
"""What a job's description keeps when it is started once more."""


class Supervisor(FLComponent):  # type: ignore[misc]
    """Keeps members.json and the audit of joins; starts the next job of a run that paused."""

    def __init__(self) -> None:
        super().__init__()
        self.site = Site.of_process()
        self.repeats: dict[str, tuple[int, int]] = {}
        self.failed: dict[str, dict[str, Any]] = {}
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.SYSTEM_START:
            self._close_lost_runs()
            self.site.write_members({})
            self.site.audit.append("coordinator-started", version=self.site.kit.version)
            engine = fl_ctx.get_engine()
            engine.server.cell.register_request_cb(
                CellChannel.SERVER_MAIN,
                CellChannelTopic.REPORT_JOB_FAILURE,
                lambda request: self._silo_failed(engine.server, request),
            )
            threading.Thread(target=self._watch, args=(engine,), daemon=True).start()
        elif event_type == EventType.SYSTEM_END:
            self._stopped.set()
        elif event_type == EventType.JOB_COMPLETED:
            self._continue(get_event_job_id(fl_ctx), fl_ctx)

    def _watch(self, engine: Any) -> None:
        known: dict[str, dict[str, Any]] = {}
        swept = time.monotonic()
        while not self._stopped.wait(PERIOD):
            if time.monotonic() - swept > SWEEP:
                self.sweep(engine)
                swept = time.monotonic()
            clients = list(engine.client_manager.get_clients().values())
            now = {c.name: {"session": hashlib.sha256(c.token.encode()).hexdigest()[:16]} for c in clients}
            seen = {c.name: float(c.last_connect_time or 0.0) for c in clients}
            try:
                self._record(known, now)
                known = now
                self.site.write_members(
                    {n: m | {"seen": round(seen[n], 1)} | self.failed.get(n, {}) for n, m in now.items()}
                )
            except StorageError as error:
                self.logger.error(str(error))

    def _record(self, known: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> None:
        for name in sorted(set(known) | set(now)):
            if known.get(name) == now.get(name):
                continue
            if name in now:
                self.site.audit.append("silo-joined", silo=name, session=now[name]["session"])
            else:
                self.site.audit.append("silo-left", silo=name)

    def _silo_failed(self, server: Any, request: Any) -> Any:
        """Let FLARE check who reports, but take the report as the end of that silo's part only."""
        report = request.payload
        code = report.get(JobFailureMsgKey.CODE) if isinstance(report, dict) else None
        if code:
            report[JobFailureMsgKey.CODE] = 0
        client = server.client_manager.clients.get(request.get_header(CellMessageHeaderKeys.TOKEN))
        reply = server.process_job_failure(request)
        if code and client and reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK:
            job = visible(report.get(JobFailureMsgKey.JOB_ID), 64)
            count = int(self.failed.get(client.name, {}).get("failures", 0)) + 1
            self.failed[client.name] = {"failed": job, "failures": count}
            self.site.audit.append("silo-failed", silo=client.name, job=job, code=visible(code, 64))
        return reply

    def sweep(self, engine: Any) -> None:
        """Look for runs whose job is over without an event, for instance because it found no silos."""
        with engine.new_context() as fl_ctx:
            manager = engine.get_component(SystemComponents.JOB_MANAGER)
            for job in [str(state.read()["job"]) for state in self._open_runs()]:
                found = manager.get_job(job, fl_ctx)
                if found is not None and str(found.meta.get("status")).startswith("FINISHED"):
                    self._continue(job, fl_ctx)

    def _open_runs(self) -> list[RunState]:
        states = [RunState(folder) for folder in sorted((self.site.path / "runs").glob("*"))]
        return [s for s in states if s.read().get("phase") in ("running", "rejoin")]

    def _close_lost_runs(self) -> None:
        """A coordinator that starts has no job: what still counts as running was cut off before."""
        for state in self._open_runs():
            reason = "the coordinator was restarted; go on with `entente federation submit --resume`"
            state.write("stopped", reason=reason)
            self.site.audit.append("run-stopped", run=state.path.parent.name, reason=reason)

    def _continue(self, job: str, fl_ctx: FLContext) -> None:
        with self._lock:
            self._continue_run(job, fl_ctx)

    def _continue_run(self, job: str, fl_ctx: FLContext) -> None:
        for folder in sorted((self.site.path / "runs").glob("*")):
            state = RunState(folder)
            table = state.read()
            if table.get("job") != job or table.get("phase") in RunState.ENDED:
                continue
            if not self._worth_another(folder.name, int(table.get("round", 0))):
                reason = f"the job broke off {REPEATS + 1} times in the same round"
                self.site.audit.append("run-failed", run=folder.name, reason=reason)
                state.write("failed", reason=reason)
                continue
            started = self._start_again(job, fl_ctx)
            self.site.audit.append("job-continued", run=folder.name, after=job, job=started)
            state.write(table["phase"], job=started)

    def _worth_another(self, run: str, reached: int) -> bool:
        before, count = self.repeats.get(run, (-1, 0))
        count = count + 1 if before == reached else 1
        self.repeats[run] = (reached, count)
        return count <= REPEATS

    def _start_again(self, job: str, fl_ctx: FLContext) -> str:
        """The same job once more: its content is the experiment, and the checkpoint says how far it got."""
        manager = fl_ctx.get_engine().get_component(SystemComponents.JOB_MANAGER)
        before = manager.get_job(job, fl_ctx).meta
        meta = manager.clone(job, {key: before[key] for key in KEPT if key in before}, fl_ctx)
        return str(meta["job_id"])
