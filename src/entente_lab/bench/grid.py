"""Run the cells of a grid: side by side, resumable, a failed one is a row that says so."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Protocol

from entente.errors import Interrupted
from entente_lab.bench.cell_process import now
from entente_lab.bench.cells import Cell, Record, Row, Store, versions

POLL = 0.05
LIMIT = 4 * 3600.0
"""Seconds that a cell has, unless somebody says otherwise."""
LAST_WORDS = 2000  # characters of a dead process's error output that are worth keeping


class Watcher(Protocol):
    """Told how a grid gets on."""

    def started(self, total: int, reused: int) -> None: ...

    def finished(self, cell: Cell, record: Record) -> None: ...


@dataclass(slots=True, eq=False)
class Running:
    """A process with the cells that it has not finished; the first one runs `since` then."""

    cells: deque[Cell]
    process: subprocess.Popen[str]
    stderr: IO[str]
    since: float = field(default_factory=time.monotonic)


def run_grid(
    cells: Sequence[Cell],
    store: Store,
    *,
    workers: int = 2,
    command: str = "",
    retry: bool = False,
    fresh: bool = False,
    limit: float = LIMIT,
    watch: Watcher | None = None,
) -> list[Row]:
    """Run every cell that has no record yet and give all rows in the order of `cells`.

    `retry` repeats failed cells, `fresh` those that other code computed; `limit` is the seconds after
    which a cell counts as failed. A cell that was stopped goes on from its last round when it is run again.
    After Ctrl-C nothing is half-written, and the same call goes on where this one stopped.
    """
    todo: dict[str, Cell] = {}
    for cell in cells:
        record = store.read(cell.key)
        stale = fresh and record is not None and record.versions.get("code") != versions()["code"]
        if record is None or stale or (retry and record.status == "failed"):
            todo.setdefault(cell.key, cell)
    distinct = len({cell.key for cell in cells})
    if watch is not None:
        watch.started(distinct, distinct - len(todo))
    try:
        _run_all(deque(families(list(todo.values()), workers)), store, workers, command, limit, watch)
    except KeyboardInterrupt as stop:
        left = sum(store.read(key) is None for key in todo)
        raise Interrupted(
            f"stopped with {distinct - left} of {distinct} cells done; they are kept",
            where=store.path,
            remedy="The same command goes on from here.",
        ) from stop
    rows: list[Row] = []
    for cell in cells:
        found = store.read(cell.key)
        assert found is not None
        rows.append((dict(cell.labels), found))
    return rows


def families(cells: Sequence[Cell], workers: int) -> list[list[Cell]]:
    """Cells that run in one process each, in the order of the plan; large ones are split for idle workers."""
    found: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.family, []).append(cell)
    parts = list(found.values())
    while len(parts) < workers and (largest := max(parts, key=len, default=[]))[1:]:
        half = len(largest) // 2
        parts.append(largest[half:])
        del largest[half:]
    return parts


def _run_all(
    todo: deque[list[Cell]],
    store: Store,
    workers: int,
    command: str,
    limit: float,
    watch: Watcher | None,
) -> None:
    running: list[Running] = []
    try:
        while todo or running:
            while todo and len(running) < workers:
                running.append(_start(todo.popleft(), store, command))
            time.sleep(POLL)
            for job in list(running):
                for cell, record in _finished(job, store, command, limit):
                    if watch is not None:
                        watch.finished(cell, record)
                if job.stderr.closed:
                    running.remove(job)
                    if job.cells:
                        todo.appendleft(list(job.cells))
    finally:
        for job in running:
            _end(job)


def _start(cells: Sequence[Cell], store: Store, command: str) -> Running:
    requests = [
        {
            "key": cell.key,
            "store": str(store.path.resolve()),
            "experiment": cell.experiment.model_dump(mode="json"),
            "data": cell.data,
            "options": dict(cell.options),
            "runner": cell.runner,
            "command": command,
        }
        for cell in cells
    ]
    for cell in cells:
        store.file(cell.key).unlink(missing_ok=True)
    stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed in _last_words
    # An own session: Ctrl-C reaches the grid alone, which then ends its cells in order.
    process = subprocess.Popen(  # our own interpreter, fixed words # nosec B603
        [sys.executable, "-m", "entente_lab.bench.cell_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # a process that died at once is noticed when it is polled
        process.stdin.write(json.dumps(requests) + "\n")
        process.stdin.flush()
    return Running(deque(cells), process, stderr)


def _finished(job: Running, store: Store, command: str, limit: float) -> Iterator[tuple[Cell, Record]]:
    """The cells that have ended since the last look, whoever had to write their records.

    The process is let go of (`stderr` is closed) when it has ended or its cell takes too long.
    """
    code = job.process.poll()
    while job.cells and (record := store.read(job.cells[0].key)) is not None:
        job.since = time.monotonic()
        yield job.cells.popleft(), record
    seconds = time.monotonic() - job.since
    if job.cells and code is None and seconds < limit:
        return
    _end(job)
    words = _last_words(job)
    if not job.cells:
        return
    if code is None:
        error = f"took longer than {limit:g} s (--retry goes on from its last round)"
    elif code < 0:
        error = f"its process was ended by {signal.Signals(-code).name}"
        error += " (out of memory?)" if code == -signal.SIGKILL else ""
    else:
        error = f"its process ended with code {code}" + (f": {words}" if words else "")
    cell = job.cells.popleft()
    record = _failed(cell, command, error, seconds)
    store.write(record)
    yield cell, record


def _end(job: Running) -> None:
    """Stop a cell's process if it still runs and let go of its pipe."""
    if job.process.poll() is None:
        job.process.terminate()
        try:
            job.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait()
    assert job.process.stdin is not None
    with contextlib.suppress(OSError):
        job.process.stdin.close()


def _last_words(job: Running) -> str:
    with job.stderr as written:
        written.seek(0)
        return written.read()[-LAST_WORDS:].strip()


def _failed(cell: Cell, command: str, error: str, seconds: float) -> Record:
    return Record(
        key=cell.key,
        status="failed",
        experiment=cell.experiment.model_dump(mode="json"),
        seed=cell.experiment.seed,
        data=cell.data,
        options=dict(cell.options),
        runner=cell.runner,
        command=command,
        versions=versions(),
        outcome={},
        seconds=round(seconds, 3),
        peak_memory_mb=None,
        finished=now(),
        error=error,
    )
