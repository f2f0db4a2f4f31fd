"""The whole service: sources, loop, outputs and health page, from a configuration file."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from entente.artifacts import locked
from entente.logs.formats.base import Options
from entente.logs.refine import Refinement, read_zone
from entente.logs.stream import LineReader
from entente.registry import OUTPUTS, SOURCES
from entente.service.config import SourceConfig, Watch, build_options
from entente.service.database import connect
from entente.service.loop import Input, WatchLoop, scored_until, state_number
from entente.service.outbox import Courier, Outbox
from entente.service.scorer import ModelScorer
from entente.service.status import HealthServer, status_of, write_status

DATABASE = "service.db"
IDLE = 1.0
"""Seconds between two looks at sources that had nothing."""
SIGN_OF_LIFE = 5.0
BUSY = "another service works in this folder"
Report = Callable[[str], None]


class Service:
    """Runs until it is told to stop, or until every source has ended."""

    def __init__(self, config: Watch, base: Path, report: Report) -> None:
        self._config = config
        self._base = base
        self._report = report
        self._stop = threading.Event()

    def stop(self) -> None:
        """End after the step that is under way; everything that was read is kept."""
        self._stop.set()

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Read, score and deliver; returns when stopped. `ready` is called once everything is set up."""
        config = self._config
        with ExitStack() as stack:
            stack.enter_context(locked(config.folder, BUSY, mode=0o700))
            connection = connect(config.folder / DATABASE)
            stack.callback(connection.close)
            scorer = ModelScorer.load(config, state_number(connection), scored_until(connection))
            inputs = [self._input(one, stack) for one in config.sources]
            loop = WatchLoop(config, connection, inputs, scorer, report=self._report)
            couriers = [self._courier(name, stack) for name in (output.name for output in config.outputs)]
            health = None
            if config.port:
                health = HealthServer(config.port)
                stack.callback(health.close)
            stack.enter_context(_signals(self.stop))
            ready()
            self._repeat(loop, connection, couriers, health)

    def _repeat(
        self,
        loop: WatchLoop,
        connection: sqlite3.Connection,
        couriers: list[Courier],
        health: HealthServer | None,
    ) -> None:
        started, told = time.time(), 0.0
        while True:
            worked = loop.step()
            ended = loop.finished and not worked
            if ended:
                loop.flush()
            for courier in couriers:
                courier.wake()
            now = time.time()
            if now - told >= SIGN_OF_LIFE or ended or self._stop.is_set():
                status = status_of(loop, connection, started, now)
                write_status(self._config.folder, status)
                told = now
                if health is not None:
                    health.status = status
            if ended or self._stop.is_set():
                return
            if not worked:
                self._stop.wait(IDLE)

    def _input(self, config: SourceConfig, stack: ExitStack) -> Input:
        where = f"sources.{config.name}"
        kind = SOURCES.load(config.type)
        source = kind(build_options(kind.Options, config.options, where, self._base), where)
        stack.callback(source.close)
        zone = read_zone(config.timezone) if config.timezone else None
        return Input(config.name, source, LineReader(config.format, Options(), Refinement(zone=zone)))

    def _courier(self, name: str, stack: ExitStack) -> Courier:
        config = next(output for output in self._config.outputs if output.name == name)
        where = f"outputs.{name}"
        kind = OUTPUTS.load(config.type)
        output = kind(build_options(kind.Options, config.options, where, self._base), where)
        connection = connect(self._config.folder / DATABASE)  # each thread has its own
        stack.callback(connection.close)
        courier = Courier(name, output, Outbox(connection), report=self._report)
        stack.callback(courier.stop)
        courier.start()
        return courier


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the service between two steps; only the main thread can be told so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        stop()

    former = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)
