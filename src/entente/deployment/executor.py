"""The silo's half inside FLARE: it hands tasks to `federation.Silo` and keeps its state on disk."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from entente import __version__
from entente.config import Experiment
from entente.deployment.diagnostics import close_diagnostics
from entente.deployment.job import config_hash, read_experiment, run_name
from entente.deployment.memory import SiloMemory
from entente.deployment.notary import CertificateNotary
from entente.deployment.process import limit_memory
from entente.deployment.relay import answer
from entente.deployment.site import Site
from entente.deployment.wire import MODEL, decode, encode, size
from entente.errors import EntenteError, FederationError, RefusedError
from entente.federation.messages import Reply, Task, TrainTask, ValidateTask
from entente.federation.own_weights import OwnWeights
from entente.federation.silo import Participant
from entente.runs.folder import RunFolder
from entente.runs.records import TrainingRecord

if TYPE_CHECKING:
    from entente.runtime.assembly import Dataset

REASON = "entente-reason"
HEAD = "entente-audit-head"
VERSION = "entente-version"


class SiloExecutor(Executor):  # type: ignore[misc]
    """Builds this site's silo when a job starts and answers its tasks until the job ends."""

    def __init__(self, relay: bool = False) -> None:
        """With `relay` the job only carries packets of the exchange, and no silo is built."""
        super().__init__()
        self.relay = relay
        self.site = Site.of_process()
        self.silo: Participant | None = None
        self.memory: SiloMemory | None = None
        self.folder: RunFolder
        self.dataset: Dataset
        self.experiment: Experiment
        self.trouble = "the silo was not built"

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            workspace = fl_ctx.get_engine().get_workspace()
            try:
                close_diagnostics(fl_ctx.get_engine().get_cell().core_cell)
                if not self.relay:
                    self._build(Path(workspace.get_app_config_dir(fl_ctx.get_job_id())))
            except Exception as error:
                # The coordinator learns that this silo cannot take part, not what its files look like.
                self.trouble = f"{type(error).__name__} while building its graph"
                self.site.audit.append("job-failed", job=fl_ctx.get_job_id(), reason=str(error))
                self.log_exception(fl_ctx, self.trouble)
        elif event_type == EventType.END_RUN:
            self.site.audit.append("job-ended", job=fl_ctx.get_job_id())

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """One task; whatever goes wrong is an answer with a reason, never a dead job."""
        if not self.relay and (self.silo is None or self.memory is None):
            return _refusal(self.trouble)
        began = time.perf_counter()
        try:
            task = decode(shareable, self.site.message_limit)
            if not isinstance(task, Task):
                raise RefusedError("the coordinator sent something that is not a task")
            if self.relay:
                content = encode(answer(self.site, task))
            else:
                assert self.silo is not None
                assert self.memory is not None
                if not self.memory.before(task.id, self.silo):
                    self.site.audit.append("state-forgotten", task=task.id, kind=task.kind)
                if task_name == MODEL:
                    content = encode(self._receive(task))
                else:
                    base = task.weights if isinstance(task, TrainTask) else None
                    content = encode(self.silo.handle(task), base)
                    self.memory.after(task.id, self.silo)
        except EntenteError as error:
            self.site.audit.append("task-refused", task=task_name, reason=str(error))
            return _refusal(f"{type(error).__name__}: {error.what}")
        except Exception as error:  # FLARE would end the whole job; one silo's failure is only its own
            self.site.audit.append("task-failed", task=task_name, reason=repr(error))
            self.log_exception(fl_ctx, "the task failed")
            return _refusal(f"{type(error).__name__} in this silo")
        head = self.site.audit.append(
            "task",
            kind=task.kind,
            task=task.id,
            bytes_down=size(shareable),
            bytes_up=size(content),
            seconds=round(time.perf_counter() - began, 3),
        )
        reply = Shareable(content)
        reply.set_header(HEAD, head)
        reply.set_header(VERSION, __version__)
        return reply

    def _build(self, config: Path) -> None:
        from entente.federation.aggregators.base import Layout
        from entente.federation.agreement import AgreedSilo, Agreement
        from entente.runtime.assembly import load_dataset, make_detector
        from entente.runtime.participants import HONEST

        federation = self.site.kit.federation
        experiment = read_experiment(config)
        breach = federation.terms.breach(experiment)
        if breach:
            raise FederationError(f"breaks the agreed terms: {breach}")
        limit_memory(federation.terms.memory)
        name, run = self.site.name, run_name(experiment)
        self.site.audit.append("job-started", run=run, config=config_hash(experiment))
        self.folder = RunFolder(self.site.run(run))
        self.memory = SiloMemory(self.folder.path)
        local = self.experiment = self.site.localised(experiment)
        self.dataset = load_dataset(local, [name], home=name)
        layout = Layout.of(make_detector(local, self.dataset.shape))
        self.silo = AgreedSilo(
            HONEST.build(local, self.dataset, name),
            Agreement.of(experiment, layout, federation.silos, federation.quorum),
            CertificateNotary(self.site, run),
        )

    def _receive(self, task: Task) -> Reply:
        """Keep the finished model and what this silo never sent, in its own run folder, for `detect`."""
        from entente.runtime.local import finish

        assert self.silo is not None
        if not isinstance(task, ValidateTask):
            raise RefusedError("the coordinator delivered something that is not a model")
        # Checks the weights, as the model that the round after it would begin with.
        reply = self.silo.handle(replace(task, round=task.round + 1))
        if not self.folder.started:
            self.folder.begin(self.experiment, resume=False)
        training = {"": TrainingRecord(stopped="delivered by the coordinator", best_round=task.round)}
        models = {"": dict(task.weights)}
        if own := OwnWeights.of(self.silo.state().arrays).after(task.round):
            models[self.site.name] = own
        finish(self.experiment, self.folder, self.dataset, models, training)
        self.site.audit.append("model-received", run=self.folder.path.name, round=task.round)
        return reply


def _refusal(reason: str) -> Any:
    reply = make_reply(ReturnCode.EXECUTION_RESULT_ERROR)
    reply.set_header(REASON, reason[:500])
    return reply
