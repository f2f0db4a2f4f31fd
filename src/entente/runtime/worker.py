"""A process that trains some of a run's silos: `python -m entente.runtime.worker EXPERIMENT SILO...`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from entente.artifacts import Arrays
from entente.config import load_experiment
from entente.errors import EntenteError
from entente.federation.messages import Task, pack, unpack
from entente.runtime.local import build_silos
from entente.runtime.team import Participant, receive, send


def main(experiment: Path, names: Sequence[str]) -> None:
    """Answer requests on standard input, one answer per silo, until it is closed."""
    # Answers have the pipe for themselves; whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    silos = build_silos(load_experiment(experiment), names)
    while True:
        try:
            facts, arrays = receive(sys.stdin.buffer)
        except EOFError:
            return
        if facts["do"] == "restore":
            silos[facts["silo"]].restore(facts["facts"], arrays)
            continue
        for name in sorted(silos):
            try:
                send(answers, *_answer(silos[name], facts, arrays))
            except EntenteError as error:
                send(answers, {"error": str(error)}, {})


def _answer(silo: Participant, facts: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    if facts["do"] == "state":
        saved, state = silo.state()
        return {"answer": saved}, state
    task = unpack({name: value for name, value in facts.items() if name != "do"}, arrays)
    assert isinstance(task, Task)
    reply, weights = pack(silo.handle(task))
    return {"answer": reply}, weights


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
