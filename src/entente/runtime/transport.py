"""How tasks reach the silos of a run. Serial, processes and FLARE are three transports of one protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from entente.artifacts import Bundle
from entente.errors import EntenteError
from entente.federation.messages import Reply, Task
from entente.federation.silo import Participant

Answers = tuple[list[Reply], dict[str, str]]
"""Every reply, sorted by silo, and the reason for every one that is missing."""


class Transport(Protocol):
    """All silos of a run, wherever they live."""

    def ready(self) -> bool:
        """Wait until the silos can be asked. False: the run has to pause here and be started again."""

    def ask(self, task: Task, deadline: float) -> Answers:
        """Give every silo the task and wait for the replies, `deadline` seconds at most."""

    def states(self) -> dict[str, Bundle]:
        """The state of every silo that the checkpoint has to hold; none where silos keep their own."""

    def restore(self, states: Mapping[str, Bundle]) -> None:
        """Bring the silos back to what `states` gave."""

    def close(self) -> None: ...


class SerialTransport:
    """Silos in this process, one after the other."""

    def __init__(self, silos: Mapping[str, Participant]) -> None:
        self._silos = dict(sorted(silos.items()))

    def ready(self) -> bool:
        return True

    def ask(self, task: Task, deadline: float) -> Answers:
        del deadline  # nobody can interrupt a silo that runs in the coordinator's own thread
        replies: list[Reply] = []
        missing: dict[str, str] = {}
        for name, silo in self._silos.items():
            try:
                replies.append(silo.handle(task))
            except EntenteError as error:
                missing[name] = str(error)
        return replies, missing

    def states(self) -> dict[str, Bundle]:
        return {name: silo.state() for name, silo in self._silos.items()}

    def restore(self, states: Mapping[str, Bundle]) -> None:
        for name, saved in states.items():
            self._silos[name].restore(*saved)

    def close(self) -> None:
        """Nothing to close."""
