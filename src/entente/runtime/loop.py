"""The one loop of a run: the coordinator's tasks over a transport, with every step in the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from entente.config import Experiment, aggregation_options
from entente.detectors.base import GraphShape
from entente.errors import StorageError
from entente.federation.coordinator import Coordinator
from entente.federation.messages import Reply, Task
from entente.federation.records import RoundRecord
from entente.federation.reply_check import LONGEST_REASON
from entente.runs.folder import RunFolder
from entente.runs.records import TrainingRecord
from entente.runtime.assembly import initial_model
from entente.runtime.transport import Transport
from entente.text import visible

Watcher = Callable[[RoundRecord], None]
"""Told of every round's record as soon as it is complete."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One task and what came of it."""

    task: Task
    replies: Sequence[Reply]
    missing: Mapping[str, str]
    record: RoundRecord | None


class Journal:
    """Records and checkpoints of one federation in a run folder; `part` names a silo that trains alone."""

    def __init__(self, folder: RunFolder, part: str = "", watch: Watcher | None = None) -> None:
        self.folder = folder
        self.part = part
        self._watch = watch
        self._checkpoints = folder.checkpoints(part)

    def resume(self, coordinator: Coordinator, transport: Transport) -> None:
        """Go back to the last complete step, if there is one; what was recorded after it is repeated."""
        saved = self._checkpoints.load()
        if saved is not None:
            try:
                coordinator.restore(*saved.coordinator)
                transport.restore(saved.silos)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise StorageError(
                    f"the checkpoint is of another version or damaged ({error!r})",
                    where=self.folder.path,
                    remedy="Resume with the version that began the run, or start it anew.",
                ) from error
        reached = coordinator.task_id if saved is not None else 0
        self.folder.keep_rounds([r for r in self.folder.rounds() if r.silo != self.part or r.id < reached])

    def answered(self, task: Task, missing: Mapping[str, str]) -> None:
        """Told what came back before the coordinator judges it."""

    def step(self, step: Step, coordinator: Coordinator, transport: Transport) -> None:
        """Keep a step: first the record, then the checkpoint."""
        record = step.record
        if record is not None:
            record = record.model_copy(update={"silo": self.part})
            self.folder.append_round(record)
        self._checkpoints.save(coordinator.task_id, coordinator.state(), transport.states())
        if record is not None and self._watch is not None:
            self._watch(record)


def run(coordinator: Coordinator, transport: Transport, journal: Journal) -> bool:
    """Go on from the journal's last step to the end of the run; False if the transport asks for a pause."""
    journal.resume(coordinator, transport)
    while (task := coordinator.next_task()) is not None:
        if not transport.ready():
            return False
        replies, reasons = transport.ask(task, coordinator.config.deadline)
        missing = {name: visible(reason, LONGEST_REASON) for name, reason in reasons.items()}
        journal.answered(task, missing)
        record = coordinator.conclude(replies, missing)
        journal.step(Step(task, replies, missing, record), coordinator, transport)
    return True


def make_coordinator(experiment: Experiment, shape: GraphShape, silos: Sequence[str]) -> Coordinator:
    """The coordinator of a run over `silos`, which every runtime makes alike."""
    layout, weights = initial_model(experiment, shape)
    settings = experiment.federation
    if len(silos) == 1:  # nobody to aggregate with: plain training, round by round
        plain = aggregation_options({"rule": "fedavg"})
        settings = settings.model_copy(update={"aggregation": plain, "secure_sum": False})
    return Coordinator(
        settings,
        experiment.privacy,
        layout,
        weights,
        sorted(silos),
        experiment.seed,
        experiment.detector.name,
    )


def training_record(coordinator: Coordinator) -> TrainingRecord:
    """What model.json says of the training."""
    return TrainingRecord(
        stopped=coordinator.stopped,
        best_round=coordinator.best_round,
        rounds=coordinator.round,
        privacy=coordinator.privacy_report(),
    )
