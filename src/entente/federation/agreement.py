"""What a silo holds its coordinator to: a task beyond what was agreed is refused at home.

The coordinator is believed in nothing that the agreement fixes: how and how often a graph is compared, how
long a silo trains, whether its host count may be seen, and whose keys mask it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from entente.artifacts import Bundle
from entente.config import Experiment
from entente.detectors import find
from entente.errors import RefusedError
from entente.federation.aggregators import build
from entente.federation.aggregators.base import Layout, SketchSettings
from entente.federation.bootstrap import fewest_keys, reference_seed
from entente.federation.messages import (
    CountTask,
    KeyReply,
    KeyTask,
    Reply,
    SketchTask,
    Task,
    TrainTask,
    ValidateTask,
)
from entente.federation.silo import Participant


class Notary(Protocol):
    """Signs this silo's key of a secure sum, and tells whether another's is really its own."""

    def sign(self, silo: str, key: str) -> str: ...

    def verify(self, silo: str, key: str, proof: str) -> None:
        """RefusedError unless `proof` shows that `key` is that silo's."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The limits of what may be asked in one run."""

    silos: tuple[str, ...]
    secure_sum: bool
    fewest: int
    """Silos that a secure sum must have."""
    sums: int
    """Sums that a silo takes part in: one, and those repeated because somebody dropped out."""
    totals: int
    """Different host totals that a silo compares its graph for; many would be a way to probe it."""
    sketch: SketchSettings | None
    share: bool
    seed: int
    max_hosts: int
    rounds: int
    epochs: int
    proximal: float

    @classmethod
    def of(cls, experiment: Experiment, layout: Layout, silos: tuple[str, ...], quorum: int) -> Agreement:
        """What `experiment` lets the coordinator ask of one of these silos."""
        config = experiment.federation
        kind = find(experiment.detector.name)
        rule = build(config.aggregation, layout, kind.norm_bound)
        several = len(silos) > 1  # alone, a silo trains by FedAVG and is asked for nothing else
        return cls(
            silos=silos,
            secure_sum=config.secure_sum,
            fewest=fewest_keys(quorum, len(silos)),
            sums=len(silos) * (config.retries + 1) + 1,
            totals=config.retries + 1,
            sketch=rule.sketch if several else None,
            share=rule.needs_share and several,
            seed=reference_seed(experiment.seed),
            max_hosts=config.max_hosts,
            rounds=config.rounds,
            epochs=kind.local_epochs if config.epochs == "auto" else config.epochs,
            proximal=rule.proximal if several else 0.0,
        )


class AgreedSilo:
    """A silo that answers within the agreement alone, and signs its keys where it has a notary."""

    def __init__(self, silo: Participant, agreement: Agreement, notary: Notary | None = None) -> None:
        self.silo = silo
        self.agreement = agreement
        self.notary = notary
        self._sums = 0
        self._totals: set[int] = set()

    def handle(self, task: Task) -> Reply:
        """The silo's answer; RefusedError for a task that was not agreed."""
        if isinstance(task, KeyTask):
            self._check_bootstrap()
            self._sums += 1
            if self._sums > self.agreement.sums:
                raise RefusedError(f"a secure sum was asked for {self._sums} times")
        elif isinstance(task, CountTask):
            self._check_count(task)
        elif isinstance(task, SketchTask):
            self._check_sketch(task)
        elif isinstance(task, TrainTask):
            self._check_training(task)
        elif isinstance(task, ValidateTask):
            _within("round", task.round, 0, self.agreement.rounds + 1)
        reply = self.silo.handle(task)
        if isinstance(reply, KeyReply) and self.notary is not None:
            return replace(reply, proof=self.notary.sign(reply.silo, reply.key))
        return reply

    def state(self) -> Bundle:
        return self.silo.state()

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.silo.restore(facts, arrays)

    def _check_bootstrap(self) -> None:
        if self.agreement.sketch is None and not self.agreement.share:
            raise RefusedError("the agreed rule needs no host count")

    def _check_count(self, task: CountTask) -> None:
        self._check_bootstrap()
        agreed = self.agreement
        if not agreed.secure_sum:
            if task.keys:
                raise RefusedError("a masked count was asked for, agreed was a plain one")
            return
        if not task.keys:
            raise RefusedError("a plain host count was asked for, agreed was a secure sum")
        strangers = sorted(set(task.keys) - set(agreed.silos))
        if strangers:
            raise RefusedError(f"the key list names {strangers[0][:50]!r}, which is no silo")
        if len(task.keys) < agreed.fewest:
            raise RefusedError(f"a sum over {len(task.keys)} silos, agreed were {agreed.fewest} or more")
        if self.notary is not None:
            for name, key in task.keys.items():
                self.notary.verify(name, key, task.proofs.get(name, ""))

    def _check_sketch(self, task: SketchTask) -> None:
        self._check_bootstrap()
        agreed = self.agreement
        if task.share and not agreed.share:
            raise RefusedError("a share of the hosts was asked for, the agreed rule does not need it")
        if task.similarity and agreed.sketch is None:
            raise RefusedError("a similarity was asked for, the agreed rule does not need it")
        given = (SketchSettings(task.m, task.labels, task.iterations), task.seed)
        if task.similarity and given != (agreed.sketch, agreed.seed):
            raise RefusedError("the comparison with the reference graph is not the agreed one")
        _within("hosts", task.hosts, 1, agreed.max_hosts)
        self._totals.add(task.hosts)
        if len(self._totals) > agreed.totals:
            raise RefusedError(f"a comparison was asked for {len(self._totals)} host totals")

    def _check_training(self, task: TrainTask) -> None:
        agreed = self.agreement
        _within("round", task.round, 1, agreed.rounds)
        _within("best", task.best, 0, task.round - 1)
        _within("epochs", task.epochs, 1, agreed.epochs)
        if task.proximal != agreed.proximal:
            raise RefusedError(f"proximal is {task.proximal:g}, agreed was {agreed.proximal:g}")


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise RefusedError(f"{name} is {value}, agreed were {least} to {most}")
