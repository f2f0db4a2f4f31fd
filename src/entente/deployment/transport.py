"""The silos of one job as a transport of the run: who can be asked, and when the job has to make way.

FLARE does not let a restarted silo back into a running job. So a job pauses when a silo that was lost is
connected again; the supervisor starts the next job, which goes on from the checkpoint with everybody in it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from entente.artifacts import Bundle
from entente.deployment.settings import FederationFile
from entente.errors import FederationError
from entente.federation.messages import Task, TrainTask, ValidateTask
from entente.runtime.transport import Answers

LOOK = 0.5


class JobTransport(ABC):
    """Silos that keep their own state. `heads` has the last audit entry that each of them told of."""

    def __init__(self, federation: FederationFile) -> None:
        self.federation = federation
        self.heads: dict[str, str] = {}
        self._progressed = False

    @abstractmethod
    def present(self) -> Collection[str]:
        """Silos that can still be asked in this job."""

    @abstractmethod
    def returned(self) -> Collection[str]:
        """Silos that are connected but can only take part in a new job."""

    @abstractmethod
    def carry(self, task: Task, deadline: float) -> Answers:
        """Carry the task to the silos and their replies back."""

    @abstractmethod
    def deliver(self, model: ValidateTask, deadline: float) -> dict[str, str]:
        """Give every silo the finished model; the reason for every one that did not take it."""

    def ask(self, task: Task, deadline: float) -> Answers:
        answers = self.carry(task, deadline)
        self._progressed = self._progressed or isinstance(task, TrainTask | ValidateTask)
        return answers

    def ready(self) -> bool:
        """Wait for a quorum. False when a new job is needed, FederationError when too few silos come."""
        if self._progressed and self.returned():
            return False
        wanted, silos = self.federation.quorum, self.federation.silos
        patience = self.federation.terms.gathering
        until = time.monotonic() + patience
        while len(present := set(self.present())) < wanted:
            if len(present | set(self.returned())) >= wanted:
                return False
            if time.monotonic() > until:
                absent = ", ".join(sorted(set(silos) - present))
                raise FederationError(
                    f"below quorum: {len(present)} of {len(silos)} silos are connected, "
                    f"{wanted} are needed; waited {patience:g} s for {absent}",
                    remedy="Start the missing silos, then `entente federation submit --resume`.",
                )
            time.sleep(LOOK)
        return True

    def states(self) -> dict[str, Bundle]:
        return {}

    def restore(self, states: Mapping[str, Bundle]) -> None:  # noqa: B027 - nothing to do
        """Silos go back by themselves: a task's number tells them how far."""

    def close(self) -> None:  # noqa: B027 - nothing to do
        """FLARE ends the job."""
