"""What every output still has to deliver, on disk, in order; nothing leaves it before it was taken."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from entente.detection.alerts import Alert
from entente.service.database import fact, set_fact, transaction
from entente.service.outputs.base import Output, Unreachable

BATCH = 200
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
REASON = 500
"""Characters kept of what a server answered."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """How far behind one output is."""

    waiting: int
    refused: int
    attempts: int  # of the alert that is next


class Outbox:
    """The queue of all outputs in the service's database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, outputs: Iterable[str], alerts: Sequence[str]) -> None:
        """Put alerts into every output's queue; to be called inside the transaction that stores them."""
        rows = [(output, alert) for output in outputs for alert in alerts]
        self._connection.executemany("INSERT OR IGNORE INTO outbox (output, alert) VALUES (?, ?)", rows)

    def due(self, output: str, now: float, most: int = BATCH) -> list[tuple[int, Alert]]:
        """The oldest alerts of an output, or none while it waits after a failure."""
        rows = self._connection.execute(
            "SELECT outbox.number, not_before, document FROM outbox JOIN alerts ON alerts.id = outbox.alert "
            "WHERE output = ? AND refused IS NULL ORDER BY outbox.number LIMIT ?",
            (output, most),
        ).fetchall()
        if not rows or rows[0]["not_before"] > now:
            return []
        return [(row["number"], Alert.from_dict(json.loads(row["document"]))) for row in rows]

    def delivered(self, output: str, numbers: Sequence[int], refused: Mapping[int, str], mark: str) -> None:
        """Take alerts out of the queue; those that the other side will never take stay, with its reason."""
        taken = [(number,) for number in numbers if number not in refused]
        with transaction(self._connection):
            self._connection.executemany("DELETE FROM outbox WHERE number = ?", taken)
            self._connection.executemany(
                "UPDATE outbox SET refused = ? WHERE number = ?",
                [(reason[:REASON], number) for number, reason in refused.items()],
            )
            set_fact(self._connection, f"output/{output}", mark)

    def failed(self, number: int, until: float) -> None:
        """Leave the queue as it is and try again from alert `number` on, not before `until`."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE outbox SET attempts = attempts + 1, not_before = ? WHERE number = ?", (until, number)
            )

    def mark(self, output: str) -> str:
        """What the output said after its last delivery."""
        return fact(self._connection, f"output/{output}") or ""

    def backlog(self, output: str) -> Backlog:
        waiting, refused = self._connection.execute(
            "SELECT count(*) FILTER (WHERE refused IS NULL), count(*) FILTER (WHERE refused IS NOT NULL) "
            "FROM outbox WHERE output = ?",
            (output,),
        ).fetchone()
        first = self._connection.execute(
            "SELECT attempts FROM outbox WHERE output = ? AND refused IS NULL ORDER BY number LIMIT 1",
            (output,),
        ).fetchone()
        return Backlog(int(waiting), int(refused), int(first["attempts"]) if first else 0)


def wait_after(attempts: int, rng: random.Random) -> float:
    """Seconds before the next attempt: doubling, with jitter so that many services do not return at once."""
    longest = min(LONGEST_WAIT, FIRST_WAIT * float(1 << min(attempts, 20)))
    return longest * rng.uniform(0.5, 1.0)


class Courier:
    """Delivers one output's queue in a thread of its own, in order, until it is stopped."""

    def __init__(
        self,
        name: str,
        output: Output,
        outbox: Outbox,
        *,
        clock: Callable[[], float] = time.time,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.name = name
        self._output = output
        self._outbox = outbox
        self._clock = clock
        self._report = report
        self._rng = random.Random()  # noqa: S311 - jitter # nosec B311
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"output {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There may be something new."""
        self._wake.set()

    def stop(self, timeout: float = 10.0) -> None:
        """End after the delivery that is under way; what is left stays in the queue."""
        self._stopped.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
        self._output.close()

    def step(self) -> int:
        """Deliver one batch; how many alerts were taken or refused for good."""
        due = self._outbox.due(self.name, self._clock())
        if not due:
            return 0
        try:
            mark = self._outbox.mark(self.name)
            delivery = self._output.deliver([alert for _, alert in due], mark)
        except Exception as error:  # whatever it is, it must not end this thread
            said = str(error) if isinstance(error, Unreachable) else f"{type(error).__name__}: {error}"
            attempts = self._outbox.backlog(self.name).attempts
            wait = wait_after(attempts, self._rng)
            self._outbox.failed(due[0][0], self._clock() + wait)
            self._report(f"output {self.name}: {said}; next attempt in {wait:.0f} s")
            return 0
        taken = due[: delivery.taken]
        refused = {number: delivery.refused[a.id] for number, a in taken if a.id in delivery.refused}
        self._outbox.delivered(self.name, [number for number, _ in taken], refused, delivery.mark)
        for number, reason in refused.items():
            self._report(f"output {self.name}: alert in place {number} was refused ({reason[:REASON]})")
        if not taken and delivery.mark != mark:
            return self.step()  # its mark had to be stored first
        return len(taken)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                moved = self.step()
            except Exception as error:  # a full disk, a damaged row; the queue stands as it stood
                self._report(
                    f"output {self.name}: the queue cannot be used ({type(error).__name__}: {error})"
                )
                moved = 0
            if not moved:
                self._wake.wait(timeout=1.0)
                self._wake.clear()
