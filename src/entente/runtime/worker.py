"""A process that trains some of a run's silos; `processes.ProcessTransport` starts it and speaks to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from entente.artifacts import Bundle, encode_bundle
from entente.config import load_experiment
from entente.errors import EntenteError
from entente.federation.messages import Task, pack, unpack
from entente.federation.silo import Participant
from entente.runtime.participants import Participants
from entente.runtime.processes import receive, send


def main() -> None:
    """Answer requests on standard input, one answer per silo, until it is closed."""
    # Answers have the pipe for themselves; whatever a library prints goes to standard error.
    requests, answers = 0, os.dup(1)
    os.dup2(2, 1)
    begin: dict[str, Any] = receive(requests).facts
    played = begin["participants"]
    participants = Participants(played["make"], tuple(played["silos"]), played["options"])
    silos = participants.load(load_experiment(Path(begin["experiment"])), begin["silos"])
    while True:
        try:
            request = receive(requests)
        except EOFError:
            return
        if request.facts["do"] == "restore":
            silos[request.facts["silo"]].restore(request.facts["state"], request.arrays)
            continue
        for name in sorted(silos):
            try:
                facts, arrays = _answer(silos[name], request)
                send(answers, encode_bundle({"answer": facts}, arrays))
            except EntenteError as error:
                send(answers, encode_bundle({"error": str(error)}, {}))


def _answer(silo: Participant, request: Bundle) -> Bundle:
    if request.facts["do"] == "state":
        return silo.state()
    task = unpack(request.facts["task"], request.arrays)
    assert isinstance(task, Task)
    return pack(silo.handle(task))


if __name__ == "__main__":
    main()
