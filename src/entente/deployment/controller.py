"""The coordinator's half inside FLARE: it carries what `federation.Coordinator` asks, with deadlines."""

from __future__ import annotations

import hashlib
import math
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import ClientTask
from nvflare.apis.controller_spec import Task as FlareTask
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from entente.artifacts import Arrays
from entente.deployment.executor import HEAD, REASON, VERSION
from entente.deployment.job import read_experiment, run_name
from entente.deployment.notary import CertificateNotary
from entente.deployment.relay import relay
from entente.deployment.run_job import run_job
from entente.deployment.site import Site
from entente.deployment.transport import JobTransport
from entente.deployment.wire import MODEL, TASK, decode, encode
from entente.errors import FederationError, RefusedError
from entente.federation.messages import KeyReply, Reply, Task, TrainTask, ValidateTask, check_sender
from entente.federation.reply_check import LONGEST_REASON
from entente.runtime.transport import Answers
from entente.text import visible

POLL = 0.05
"""Seconds between two looks at what has arrived; FLARE's own default adds two seconds to a round."""
PATIENCE = 3
"""How often a silo whose job process breaks down is asked in again by starting a new job."""
NUMBER = re.compile(r"[0-9][0-9A-Za-z.+-]{0,31}")
"""What a version looks like."""
RELAY_DEADLINE = 60.0
"""Seconds that a silo has to hand over its packets."""


class CoordinatorController(Controller):  # type: ignore[misc]
    """Runs one run from its last checkpoint to its end, or to where a silo can come back in."""

    def __init__(self, relay: Mapping[str, Any] | None = None) -> None:
        """With `relay` (turns, pause) the job only carries packets of the exchange."""
        super().__init__()
        self.relay = relay

    def start_controller(self, fl_ctx: FLContext) -> None:
        # FLARE 2.9 passes the period on under a name that its communicator does not read.
        self.communicator._task_check_period = POLL

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is held open."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        job = fl_ctx.get_job_id()
        site = Site.of_process()
        experiment = read_experiment(Path(fl_ctx.get_engine().get_workspace().get_app_config_dir(job)))
        transport = FlareTransport(self, site, run_name(experiment), fl_ctx, abort_signal)
        if self.relay:
            deadline = min(site.kit.federation.terms.deadline, RELAY_DEADLINE)
            relay(site, transport, deadline=deadline, sleep=transport.pause, **self.relay)
            return
        phase = run_job(site, experiment, job, transport)
        self.log_info(fl_ctx, f"this job is over: {phase}")


class FlareTransport(JobTransport):
    """The silos of one FLARE job."""

    def __init__(
        self,
        controller: CoordinatorController,
        site: Site,
        run: str,
        fl_ctx: FLContext,
        abort_signal: Signal,
    ) -> None:
        super().__init__(site.kit.federation)
        self.notary = CertificateNotary(site, run)
        self.controller = controller
        self.site = site
        self.fl_ctx = fl_ctx
        self.abort_signal = abort_signal
        clients = fl_ctx.get_engine().get_clients()
        # A silo that restarts registers again, with another token: this job will not hear of it again.
        self._tokens = {client.name: _digest(client.token) for client in clients}
        self._told = set[str]()  # silos whose version this job knows

    def pause(self, seconds: float) -> None:
        """Wait; FederationError when the job is aborted meanwhile."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.abort_signal.triggered:
                raise FederationError("the job was aborted")
            time.sleep(min(1.0, seconds))

    def present(self) -> list[str]:
        members = self.site.members()
        if members is None:  # FLARE's simulator has no supervisor, and nobody leaves
            return sorted(self._tokens)
        return sorted(
            name
            for name, token in self._tokens.items()
            if _token(members, name) == token and not self._failed(members, name)
        )

    def returned(self) -> list[str]:
        members = self.site.members() or {}
        return sorted(
            name
            for name, member in members.items()
            if _token(members, name) != self._tokens.get(name)
            or (self._failed(members, name) and int(member["failures"]) <= PATIENCE)
        )

    def _failed(self, members: dict[str, dict[str, Any]], name: str) -> bool:
        """Whether the silo's part in this very job broke down."""
        return bool(members.get(name, {}).get("failed") == self.fl_ctx.get_job_id())

    def deliver(self, model: ValidateTask, deadline: float) -> dict[str, str]:
        return self.carry(model, deadline, MODEL)[1]

    def carry(self, task: Task, deadline: float, name: str = TASK) -> Answers:
        silos = self.federation.silos
        targets = self.present()
        answers: dict[str, Reply | str] = dict.fromkeys(set(silos) - set(targets), "is not connected")
        lock = threading.Lock()

        base = task.weights if isinstance(task, TrainTask) else None

        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:
            answer = self._read(client_task.client.name, client_task.result, base)
            client_task.result = None
            with lock:
                answers.setdefault(client_task.client.name, answer)

        carried = FlareTask(
            name, Shareable(encode(task)), timeout=math.ceil(deadline) + 5, result_received_cb=received
        )
        if targets:
            self.controller.broadcast(carried, self.fl_ctx, targets=targets, min_responses=len(targets))
            self._wait(answers, targets, deadline)
            self.controller.cancel_task(carried, fl_ctx=self.fl_ctx)
        with lock:
            for silo in targets:
                answers.setdefault(silo, f"gave no answer before the deadline of {deadline:g} s")
        replies = [answer for _, answer in sorted(answers.items()) if isinstance(answer, Reply)]
        return replies, {silo: answer for silo, answer in answers.items() if isinstance(answer, str)}

    def _wait(self, answers: dict[str, Reply | str], targets: list[str], deadline: float) -> None:
        until = time.monotonic() + deadline
        looked = time.monotonic()
        while any(name not in answers for name in targets) and time.monotonic() < until:
            if self.abort_signal.triggered:
                raise FederationError("the job was aborted", remedy="Go on with `submit --resume`.")
            if time.monotonic() - looked > 1.0:
                looked = time.monotonic()
                present = self.present()
                for name in targets:
                    if name not in present:
                        answers.setdefault(name, "went away")
            time.sleep(POLL)

    def _read(self, name: str, result: Shareable, base: Arrays | None = None) -> Reply | str:
        """A silo's reply, or why there is none; whatever it sent, the trouble is its own.

        `base` are the weights that it was sent.
        """
        try:
            if result.get_return_code(default=ReturnCode.OK) != ReturnCode.OK:
                reason = result.get_header(REASON) or f"failed ({result.get_return_code()})"
                return visible(reason, LONGEST_REASON)
            reply = decode(result, self.site.message_limit, base)
            if not isinstance(reply, Reply):
                raise RefusedError("is not a reply")
            check_sender(reply, name)
            if isinstance(reply, KeyReply):
                # Silos would refuse the whole sum for it: whose key is not its own is named here.
                self.notary.verify(name, reply.key, reply.proof)
            head = result.get_header(HEAD)
            if isinstance(head, str) and re.fullmatch("[0-9a-f]{64}", head):
                self.heads[name] = head
            self._note_version(name, result.get_header(VERSION))
        except RefusedError as error:
            self.site.audit.append("update-refused", silo=name, reason=error.what)
            return visible(f"refused: its answer {error.what}", LONGEST_REASON)
        except Exception as error:  # FLARE would end the task for everybody
            self.site.audit.append("update-refused", silo=name, reason=repr(error))
            return f"refused: its answer could not be read ({type(error).__name__})"
        return reply

    def _note_version(self, name: str, version: object) -> None:
        """The version of entente that a silo says it has: once a job, for the audit."""
        if name not in self._told and isinstance(version, str) and NUMBER.fullmatch(version):
            self._told.add(name)
            self.site.audit.append("silo-version", silo=name, version=version)


def _token(members: dict[str, dict[str, Any]], name: str) -> Any:
    return members.get(name, {}).get("session")


def _digest(token: str) -> str:
    """Tokens are credentials; their hashes tell sessions apart just as well."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]
