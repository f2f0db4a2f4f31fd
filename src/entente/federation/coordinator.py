"""The coordinator's half of the protocol: issues tasks, judges replies, holds the global model.

It sees model weights, per-round scalars and the sum of host counts; no log, graph or host name. It
knows no sockets, processes or files: a runtime asks `next_task`, carries it to the silos and hands
their replies to `conclude`, until there is no next task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays, Bundle
from entente.config import Federation, Privacy
from entente.detectors import find
from entente.errors import FederationError, RefusedError
from entente.federation.aggregators import build
from entente.federation.aggregators.base import Contribution, Layout, Vector
from entente.federation.bootstrap import Bootstrap, reference_seed
from entente.federation.messages import Reply, Task, TrainTask, Update, ValidateReply, ValidateTask
from entente.federation.publishing import Publisher
from entente.federation.records import BootstrapRecord, PrivacyRecord, RoundRecord, RoundScore, SiloRecord
from entente.federation.reply_check import ReplyCheck
from entente.federation.selection import Selection, summarise
from entente.federation.watch import SiloWatch

NO_FAILURES: Mapping[str, str] = {}
FEWEST_FOR_LIMIT = 3
"""Updates that a round must have for one of them to be called too long."""


class Coordinator:
    """One run. `detector` names the detector, which knows what "auto" stands for.

    `round` and `best_round` count finished rounds: 0 is the model that the run began with.
    """

    def __init__(
        self,
        config: Federation,
        privacy: Privacy,
        layout: Layout,
        weights: Arrays,
        silos: Sequence[str],
        seed: int,
        detector: str,
    ) -> None:
        if not silos or len(set(silos)) != len(silos):
            raise FederationError("a federation needs silos, each with a name of its own")
        self.config = config
        self.layout = layout
        self.silos = tuple(sorted(silos))
        self.quorum = max(1, math.ceil(config.quorum * len(silos)))
        self.round = 0
        self.stopped: str | None = None
        kind = find(detector)
        self._epochs = kind.local_epochs if config.epochs == "auto" else config.epochs
        self._rule = build(config.aggregation, layout, kind.norm_bound)
        self._publisher = Publisher(privacy, self._rule, len(silos), seed)
        self._bootstrap = Bootstrap(config, self._rule, self.silos, self.quorum, reference_seed(seed))
        self._selection = Selection(config.patience)
        self._watch = SiloWatch()
        self._shapes = dict(zip(layout.names, layout.shapes, strict=True))
        self._lent: Vector = np.empty(layout.size, dtype=np.float32)  # one update at a time
        self._current: Vector = layout.flatten(weights)
        self._best: Vector = self._current
        self._id = 1
        self._attempt = 0
        self._task: Task | None = None

    # ---- what a runtime uses ---------------------------------------------------------------

    @property
    def weights(self) -> Arrays:
        """The present global model."""
        return self.layout.unflatten(self._current)

    @property
    def best_weights(self) -> Arrays:
        """The global model with the best validation so far."""
        return self.layout.unflatten(self._best)

    @property
    def best_round(self) -> int:
        return self._selection.best_round

    @property
    def bootstrap(self) -> BootstrapRecord:
        """What the bootstrap has found out, and what it has to say about secrecy."""
        return self._bootstrap.report()

    def privacy_report(self) -> PrivacyRecord:
        """Mechanism, noise and epsilon for the rounds released so far."""
        return self._publisher.report()

    @property
    def task_id(self) -> int:
        """The present task's id; records with a smaller one are final, whatever happens later."""
        return self._id

    def next_task(self) -> Task | None:
        """The task for all silos; the same one until it is concluded, None when the run is over."""
        if self._task is None and self.stopped is None:
            if not self._bootstrap.done:
                self._task = self._bootstrap.task(self._id)
            elif self.round < self.config.rounds:
                self._task = TrainTask(
                    self._id,
                    round=self.round + 1,
                    best=self.best_round,
                    epochs=self._epochs,
                    proximal=self._rule.proximal,
                    weights=self.weights,
                )
            else:
                self._task = ValidateTask(self._id, round=self.round + 1, weights=self.weights)
        return self._task

    def conclude(
        self, replies: Iterable[Reply], failures: Mapping[str, str] = NO_FAILURES
    ) -> RoundRecord | None:
        """Use the replies to the present task and go on; the record for rounds.jsonl if it had a model.

        `replies` may be a generator, `failures` (silo -> reason) may fill while it runs. Below quorum
        the task is issued again under a new id; after `retries` times FederationError is raised, and
        the coordinator is ready to try once more (from its checkpoint, for instance).
        """
        task = self.next_task()
        if task is None:
            raise FederationError("the run is over: there is no task to conclude")
        check = ReplyCheck(task, self.silos, self._shapes)
        record = None
        if isinstance(task, TrainTask):
            record, problem = self._conclude_round(task, check, replies, failures)
        elif isinstance(task, ValidateTask):
            record, problem = self._conclude_validation(task, check, replies, failures)
        else:
            problem = self._bootstrap.conclude(list(check.accepted(replies, failures)), check)
        self._task = None
        self._id += 1
        self._attempt = 0 if problem is None else self._attempt + 1
        if problem is not None and self._attempt > self.config.retries:
            self._attempt = 0
            if isinstance(task, ValidateTask):
                self.stopped = f"all {self.round} rounds are done; the last model was not validated"
            else:
                raise FederationError(
                    f"{problem}{_reasons(check)}",
                    remedy="Bring the silos back and resume from the checkpoint, or lower federation.quorum.",
                )
        return record

    # ---- rounds ----------------------------------------------------------------------------

    def _conclude_round(
        self, task: TrainTask, check: ReplyCheck, replies: Iterable[Reply], failures: Mapping[str, str]
    ) -> tuple[RoundRecord, str | None]:
        bound = self._rule.bound
        self._rule.begin(self._current)
        silos: dict[str, SiloRecord] = {}
        validations: list[tuple[float, float, int]] = []
        losses: list[float] = []
        for reply in self._within_limit(check, check.accepted(replies, failures)):
            assert isinstance(reply, Update)
            try:
                silos[reply.silo] = self._add(reply)
            except RefusedError as error:
                check.refuse(reply.silo, error.what)
                continue
            validations.append((reply.ap, reply.auc, reply.edges))
            losses.append(reply.loss)
        validation = summarise(validations)
        problem = self._shortage(f"round {task.round}", len(silos))
        record = self._record(
            task,
            check,
            silos,
            validation,
            loss=float(np.median(losses)) if losses else None,
            bound=bound,
            aggregated=problem is None,
        )
        more: dict[str, Any] = {"warnings": tuple(self._watch.observe(record))}
        if problem is None:
            if self._selection.offer(self.round, validation):
                self._best = self._current
            self._current, more["privacy"] = self._publisher.publish(
                self._rule.finish(), task.round, len(silos)
            )
            self.round = task.round
            if self._selection.exhausted(self.round - 1):
                self.stopped = f"no better validation for {self.config.patience} rounds"
        return record.model_copy(update=more), problem

    def _within_limit(self, check: ReplyCheck, replies: Iterable[Reply]) -> Iterable[Reply]:
        """The replies without those that go much farther than the others, for a rule that has such a limit.

        Where updates are clipped anyway there is nothing to refuse, and noise is calibrated to the clipping.
        """
        limit = self._rule.step_limit
        if not limit or self._publisher.privacy.clip is not None:
            return replies
        held = list(replies)
        lengths = [self._length(reply) for reply in held]
        typical = float(np.median(lengths)) if len(lengths) >= FEWEST_FOR_LIMIT else 0.0
        if typical <= 0:
            return held
        kept = []
        for reply, length in zip(held, lengths, strict=True):
            if length > limit * typical:
                check.refuse(reply.silo, f"its step is {length / typical:.3g} times the median of the round")
            else:
                kept.append(reply)
        return kept

    def _length(self, reply: Reply) -> float:
        assert isinstance(reply, Update)
        sent = self.layout.flatten(reply.weights, out=self._lent).astype(np.float64)
        return float(np.linalg.norm(sent - self._current))

    def _add(self, reply: Update) -> SiloRecord:
        sent = self.layout.flatten(reply.weights, out=self._lent)
        shared = self.layout.shared_norm(sent, self._current)
        vector, norm = self._publisher.clip(sent, self._current)
        contribution = Contribution(
            reply.silo, vector, self._bootstrap.similarity(reply.silo), self._bootstrap.share(reply.silo)
        )
        entry = asdict(self._rule.add(contribution)) | {"shared": shared}
        if norm is not None:
            entry |= {
                "norm": norm,
                "clipped": entry["clipped"] or norm > (self._publisher.privacy.clip or 0.0),
            }
        size = sum(array.nbytes for array in reply.weights.values())
        return SiloRecord(
            **entry,
            ap=reply.ap,
            auc=reply.auc,
            edges=reply.edges,
            bytes_up=size,
            bytes_down=4 * self.layout.size,
            seconds=reply.seconds,
        )

    def _conclude_validation(
        self, task: ValidateTask, check: ReplyCheck, replies: Iterable[Reply], failures: Mapping[str, str]
    ) -> tuple[RoundRecord, str | None]:
        found = [r for r in check.accepted(replies, failures) if isinstance(r, ValidateReply)]
        validation = summarise(found)
        problem = self._shortage("the last validation", len(found))
        if problem is None:
            if self._selection.offer(self.round, validation):
                self._best = self._current
            self.stopped = f"all {self.round} rounds are done"
        return self._record(task, check, {r.silo: SiloRecord() for r in found}, validation), problem

    def _record(
        self,
        task: TrainTask | ValidateTask,
        check: ReplyCheck,
        silos: Mapping[str, SiloRecord],
        validation: RoundScore | None,
        **more: Any,
    ) -> RoundRecord:
        refused = {name: SiloRecord(refused=reason) for name, reason in check.refused.items()}
        return RoundRecord(
            kind="train" if isinstance(task, TrainTask) else "validate",
            id=task.id,
            round=task.round,
            attempt=self._attempt + 1,
            validation=validation,
            silos=dict(sorted((refused | dict(silos)).items())),
            surplus=tuple(check.surplus),
            bootstrap=self.bootstrap if task.round == 1 else None,
            **more,
        )

    def _shortage(self, what: str, accepted: int) -> str | None:
        if accepted >= self.quorum:
            return None
        return f"{what}: {accepted} of {len(self.silos)} silos gave a usable answer, {self.quorum} are needed"

    # ---- checkpoints -----------------------------------------------------------------------

    def state(self) -> Bundle:
        """Everything needed to go on bit for bit, as JSON-able facts and arrays."""
        facts = {
            "silos": list(self.silos),
            "rule": self._rule.name,
            "round": self.round,
            "stopped": self.stopped,
            "id": self._id,
            "attempt": self._attempt,
            "best_round": self._selection.best_round,
            "best_score": self._selection.best_score,
            "bootstrap": self._bootstrap.state(),
            "privacy": self._publisher.state(),
            "watch": self._watch.state(),
        }
        arrays: Arrays = {"current": self._current.copy(), "best": self._best.copy()}
        arrays |= {f"rule/{name}": array for name, array in self._rule.state().items()}
        return Bundle(facts, arrays)

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave; FederationError if it is of another federation."""
        if facts.get("silos") != list(self.silos) or facts.get("rule") != self._rule.name:
            raise FederationError(
                "the checkpoint is of other silos or of another rule",
                remedy="Resume with the experiment file that the run was started with.",
            )
        if any(arrays[name].shape != (self.layout.size,) for name in ("current", "best")):
            raise FederationError("the checkpoint is of a model of another size")
        self.round, self.stopped = int(facts["round"]), facts["stopped"]
        self._id, self._attempt, self._task = int(facts["id"]), int(facts["attempt"]), None
        self._selection.best_round = int(facts["best_round"])
        self._selection.best_score = facts["best_score"]
        self._bootstrap.restore(facts["bootstrap"])
        self._publisher.restore(facts["privacy"])
        self._watch.restore(facts["watch"])
        self._current = np.array(arrays["current"], dtype=np.float32)
        self._best = np.array(arrays["best"], dtype=np.float32)
        self._rule.restore(
            {name.removeprefix("rule/"): array for name, array in arrays.items() if name.startswith("rule/")}
        )


def _reasons(check: ReplyCheck) -> str:
    listed = sorted(check.refused.items())
    shown = "; ".join(f"{name}: {reason}" for name, reason in listed[:5])
    return f" ({shown}{'; ...' if len(listed) > 5 else ''})" if listed else ""
