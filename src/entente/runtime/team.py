"""The silos of a run in one machine: asked one after the other, or side by side in processes.

Worker processes speak length-prefixed JSON and safetensors over pipes; the result is the same, bit
for bit, however many there are.
"""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from numpy.typing import NDArray

from entente.artifacts import Arrays, array_bytes, arrays_of
from entente.errors import EntenteError, FederationError
from entente.federation.messages import Reply, Task, pack, unpack
from entente.runs.folder import Saved

LARGEST_MESSAGE = 1 << 34


class Participant(Protocol):
    """A silo, honest or not: what a runtime needs of it."""

    def handle(self, task: Task) -> Reply: ...

    def state(self) -> Saved: ...

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None: ...


class Team(Protocol):
    """All silos of a run, wherever they live."""

    def ask(self, task: Task, deadline: float) -> tuple[list[Reply], dict[str, str]]:
        """Every silo's reply, sorted by name, and the reason for every one that is missing."""

    def states(self) -> dict[str, Saved]: ...

    def restore(self, states: Mapping[str, Saved]) -> None: ...

    def close(self) -> None: ...


class SerialTeam:
    """Silos in this process, one after the other."""

    def __init__(self, silos: Mapping[str, Participant]) -> None:
        self._silos = dict(sorted(silos.items()))

    def ask(self, task: Task, deadline: float) -> tuple[list[Reply], dict[str, str]]:
        del deadline  # nobody can interrupt a silo that runs in the coordinator's own thread
        replies: list[Reply] = []
        failures: dict[str, str] = {}
        for name, silo in self._silos.items():
            try:
                replies.append(silo.handle(task))
            except EntenteError as error:
                failures[name] = str(error)
        return replies, failures

    def states(self) -> dict[str, Saved]:
        return {name: silo.state() for name, silo in self._silos.items()}

    def restore(self, states: Mapping[str, Saved]) -> None:
        for name, saved in states.items():
            self._silos[name].restore(*saved)

    def close(self) -> None:
        """Nothing to close."""


class ProcessTeam:
    """Silos spread over worker processes, the largest first."""

    def __init__(self, experiment: Path, hosts: Mapping[str, int], workers: int) -> None:
        self._workers: list[_Worker] = []
        shares: list[list[str]] = [[] for _ in range(min(workers, len(hosts)))]
        load = [0] * len(shares)
        for name in sorted(hosts, key=lambda n: (-hosts[n], n)):
            least = load.index(min(load))
            shares[least].append(name)
            load[least] += hosts[name] + 1
        for share in shares:
            self._workers.append(_Worker(experiment, share))

    def ask(self, task: Task, deadline: float) -> tuple[list[Reply], dict[str, str]]:
        facts, arrays = pack(task)
        replies: list[Reply] = []
        failures: dict[str, str] = {}
        for name, answer in self._exchange({"do": "handle", **facts}, arrays, deadline).items():
            if isinstance(answer, str):
                failures[name] = answer
                continue
            try:
                reply = unpack(*answer)
            except EntenteError as error:
                failures[name] = str(error)
            else:
                if isinstance(reply, Reply):
                    replies.append(reply)
        return sorted(replies, key=lambda reply: reply.silo), failures

    def states(self) -> dict[str, Saved]:
        answers = self._exchange({"do": "state"}, {}, 600.0)
        lost = [name for name, answer in answers.items() if isinstance(answer, str)]
        if lost:
            raise FederationError(f"silo {lost[0]!r} did not save its state: {answers[lost[0]]}")
        return {name: answer for name, answer in answers.items() if not isinstance(answer, str)}

    def restore(self, states: Mapping[str, Saved]) -> None:
        for worker in self._workers:
            for name in worker.silos:
                if name in states:
                    facts, arrays = states[name]
                    worker.send({"do": "restore", "silo": name, "facts": facts}, arrays)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    def _exchange(self, facts: Mapping[str, Any], arrays: Arrays, deadline: float) -> dict[str, Saved | str]:
        until = time.monotonic() + deadline
        for worker in self._workers:
            worker.send(facts, arrays)
        answers: dict[str, Saved | str] = {}
        for worker in self._workers:
            answers.update(worker.receive(until))
        return answers


class _Worker:
    def __init__(self, experiment: Path, silos: Sequence[str]) -> None:
        self.silos = tuple(sorted(silos))
        command = [sys.executable, "-m", "entente.runtime.worker", str(experiment), *self.silos]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            bufsize=0,  # what a buffer had read already, select would never report
        )

    def send(self, facts: Mapping[str, Any], arrays: Arrays) -> None:
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, facts, arrays)
        except OSError:
            return  # a dead worker is noticed, with a reason, when its answer is missing

    def receive(self, until: float) -> dict[str, Saved | str]:
        """One answer per silo; a reason instead of an answer for those that fail or are late."""
        answers: dict[str, Saved | str] = {}
        assert self._process.stdout is not None
        for name in self.silos:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self._process.kill()
                answers[name] = "no answer before the deadline"
                continue
            try:
                facts, arrays = receive(self._process.stdout)
            except (OSError, EOFError, ValueError) as error:
                answers[name] = f"its process ended ({error or 'closed'})"
                continue
            answers[name] = str(facts["error"]) if "error" in facts else (facts["answer"], arrays)
        return answers

    def close(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()


def send(stream: IO[bytes], facts: Mapping[str, Any], arrays: Arrays) -> None:
    """Write one framed message: two lengths, JSON, safetensors."""
    head = json.dumps(facts).encode()
    body = array_bytes(arrays)
    for part in (struct.pack("<QQ", len(head), len(body)), head, body):
        rest = memoryview(part)
        while rest:
            rest = rest[stream.write(rest) :]
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], Arrays]:
    """Read one framed message; EOFError at the end of the stream."""
    head, body = struct.unpack("<QQ", _exactly(stream, 16))
    if head + body > LARGEST_MESSAGE:
        raise ValueError(f"a message of {head + body} bytes")
    facts: dict[str, Any] = json.loads(_exactly(stream, head))
    return facts, arrays_of(_exactly(stream, body))


def _exactly(stream: IO[bytes], count: int) -> bytes:
    parts = []
    while count:
        part = stream.read(min(count, 1 << 20))
        if not part:
            raise EOFError("the other side closed the pipe")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
