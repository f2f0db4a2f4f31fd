"""Silos spread over worker processes of this machine; the result is the same, bit for bit, however many.

Coordinator and workers speak bundles over pipes, each with its length before it. A worker that dies or misses
a deadline is a few missing silos: it is started again from the silos' last states.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from entente.artifacts import Bundle, decode_bundle, encode_bundle
from entente.errors import RefusedError
from entente.federation.messages import Reply, Task, pack, unpack
from entente.runtime.participants import HONEST, Participants
from entente.runtime.transport import Answers

LARGEST_MESSAGE = 1 << 34
STATE_DEADLINE = 600.0
RESTARTS = 3
"""How often a worker that broke down is started again."""
LATE = "no answer before the deadline"


class ProcessTransport:
    """Silos in worker processes, the largest first."""

    def __init__(
        self, experiment: Path, sizes: Mapping[str, int], workers: int, participants: Participants = HONEST
    ) -> None:
        self._states: dict[str, Bundle] = {}
        self._workers = [Worker(experiment, share, participants) for share in _shares(sizes, workers)]
        self._pool = ThreadPoolExecutor(len(self._workers), thread_name_prefix="worker")

    def ready(self) -> bool:
        for worker in self._workers:
            if not worker.alive and worker.starts <= RESTARTS:
                worker.start()
                worker.restore(self._states)
        return True

    def ask(self, task: Task, deadline: float) -> Answers:
        facts, arrays = pack(task)
        replies: list[Reply] = []
        missing: dict[str, str] = {}
        for name, answer in self._exchange(Bundle({"do": "handle", "task": facts}, arrays), deadline).items():
            if isinstance(answer, str):
                missing[name] = answer
                continue
            try:
                reply = unpack(*answer)
            except RefusedError as error:
                missing[name] = str(error)
            else:
                if isinstance(reply, Reply):
                    replies.append(reply)
        return sorted(replies, key=lambda reply: reply.silo), missing

    def states(self) -> dict[str, Bundle]:
        """The silos' states; of those whose process broke down, the last that is known."""
        for name, answer in self._exchange(Bundle({"do": "state"}, {}), STATE_DEADLINE).items():
            if not isinstance(answer, str):
                self._states[name] = answer
        return dict(self._states)

    def restore(self, states: Mapping[str, Bundle]) -> None:
        self._states |= states
        for worker in self._workers:
            worker.restore(states)

    def close(self) -> None:
        for worker in self._workers:
            worker.hang_up()
        for worker in self._workers:
            worker.close()
        self._pool.shutdown()

    def _exchange(self, request: Bundle, deadline: float) -> dict[str, Bundle | str]:
        data = encode_bundle(*request)  # once, for all of them
        until = time.monotonic() + deadline
        answers: dict[str, Bundle | str] = {}
        for found in self._pool.map(lambda worker: worker.exchange(data, until), self._workers):
            answers |= found
        return answers


class Worker:
    """One process and its silos."""

    def __init__(self, experiment: Path, silos: Sequence[str], participants: Participants) -> None:
        self.silos = tuple(sorted(silos))
        self.starts = 0
        self._begin = {
            "experiment": str(experiment),
            "silos": list(self.silos),
            "participants": asdict(participants),
        }
        self.start()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def start(self) -> None:
        self.starts += 1
        self.process = subprocess.Popen(  # our own interpreter, fixed words # nosec B603
            [sys.executable, "-m", "entente.runtime.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._send(encode_bundle(self._begin, {}), time.monotonic() + STATE_DEADLINE)

    def restore(self, states: Mapping[str, Bundle]) -> None:
        for name in self.silos:
            if name in states:
                facts, arrays = states[name]
                data = encode_bundle({"do": "restore", "silo": name, "state": facts}, arrays)
                self._send(data, time.monotonic() + STATE_DEADLINE)

    def exchange(self, data: bytes, until: float) -> dict[str, Bundle | str]:
        """One answer per silo; a reason instead of an answer for those that fail or are late."""
        self._send(data, until)
        answers: dict[str, Bundle | str] = {}
        for name in self.silos:
            try:
                facts, arrays = receive(self._out, until)
            except TimeoutError:
                self.kill()
                return answers | dict.fromkeys(self.silos[len(answers) :], LATE)
            except (OSError, EOFError, ValueError) as error:
                self.kill()
                reason = f"its process ended ({error})"
                return answers | dict.fromkeys(self.silos[len(answers) :], reason)
            answers[name] = str(facts["error"]) if "error" in facts else Bundle(facts["answer"], arrays)
        return answers

    def _send(self, data: bytes, until: float) -> None:
        """A dead or late worker is noticed, with a reason, when its answer is missing."""
        try:
            send(self._in, data, until)
        except TimeoutError:
            self.kill()
        except OSError:
            return

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def hang_up(self) -> None:
        """Close the pipes, upon which the process ends by itself."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def close(self) -> None:
        self.hang_up()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()


def _shares(sizes: Mapping[str, int], workers: int) -> list[list[str]]:
    """The silos by worker, so that every worker has about the same number of edges."""
    shares: list[list[str]] = [[] for _ in range(min(workers, len(sizes)))]
    load = [0] * len(shares)
    for name in sorted(sizes, key=lambda n: (-sizes[n], n)):
        least = load.index(min(load))
        shares[least].append(name)
        load[least] += sizes[name] + 1
    return shares


# ---- the pipe --------------------------------------------------------------------------------


def send(pipe: int, data: bytes, until: float | None = None) -> None:
    """Write one bundle with its length before it; TimeoutError if the other side does not take it in time."""
    rest = memoryview(len(data).to_bytes(8, "little") + data)
    while rest:
        _wait(lambda left: select.select([], [pipe], [], left)[1], until)
        rest = rest[os.write(pipe, rest[: 1 << 20]) :]


def receive(pipe: int, until: float | None = None) -> Bundle:
    """Read one bundle; EOFError at the end of the stream, TimeoutError if it does not come in time."""
    size = int.from_bytes(_exactly(pipe, 8, until), "little")
    if size > LARGEST_MESSAGE:
        raise ValueError(f"a message of {size} bytes")
    return decode_bundle(_exactly(pipe, size, until))


def _exactly(pipe: int, count: int, until: float | None) -> bytes:
    parts = []
    while count:
        _wait(lambda left: select.select([pipe], [], [], left)[0], until)
        part = os.read(pipe, min(count, 1 << 20))
        if not part:
            raise EOFError("the other side closed the pipe")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _wait(ready: Callable[[float | None], object], until: float | None) -> None:
    left = None if until is None else max(0.0, until - time.monotonic())
    if not ready(left):
        raise TimeoutError
