"""How the service is doing: one value for the status command, the health page and the metrics."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from entente.artifacts import read_json, write_json
from entente.errors import MissingExtraError, StorageError, UsageError
from entente.service.config import Watch
from entente.service.loop import Input, WatchLoop
from entente.service.outbox import Outbox

FILE = "status.json"
SHOWN = "%Y-%m-%d %H:%M:%S"
STALE = 120.0
"""Seconds without a sign of life after which the service counts as not running."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    name: str
    reached: str | None  # time of its latest events
    silent: bool
    behind: int | None  # bytes or messages that wait
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OutputStatus:
    name: str
    waiting: int
    refused: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Status:
    """Counters are since the start, except those of the database: open alerts and what outputs wait for."""

    at: float
    started: float
    pid: int
    model: str
    scored_until: str | None
    pending: int
    events: int
    bytes: int
    windows: int
    edges: int
    alerts: int
    suppressed: int
    taught: int
    new_hosts: int
    open_alerts: int
    dropped: dict[str, int]
    drift: float | None
    sources: tuple[SourceStatus, ...]
    outputs: tuple[OutputStatus, ...]
    problems: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        return not any(source.silent for source in self.sources) and not any(o.attempts for o in self.outputs)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "healthy": self.healthy}


def status_of(loop: WatchLoop, connection: sqlite3.Connection, started: float, now: float) -> Status:
    """The state of a running service, as its own thread sees it."""
    silent, outbox, tally = set(loop.silent()), Outbox(connection), loop.tally
    row = connection.execute(
        "SELECT count(*) FROM alerts WHERE status = 'open' AND suppressed_by IS NULL"
    ).fetchone()
    return Status(
        at=now,
        started=started,
        pid=os.getpid(),
        model=loop.scorer.model,
        scored_until=shown(loop.scorer.until),
        pending=loop.pending.rows,
        events=tally.events,
        bytes=tally.bytes,
        windows=tally.windows,
        edges=tally.edges,
        alerts=tally.alerts,
        suppressed=tally.suppressed,
        taught=tally.taught,
        new_hosts=tally.new_hosts,
        open_alerts=int(row[0]),
        dropped=dict(tally.dropped),
        drift=loop.scorer.drift,
        sources=tuple(
            SourceStatus(name, shown(clock.reached), name in silent, *_reading(loop.inputs.get(name)))
            for name, clock in loop.clocks().items()
        ),
        outputs=tuple(
            OutputStatus(output.name, **asdict(outbox.backlog(output.name))) for output in loop.config.outputs
        ),
        problems=loop.problems(),
    )


def _reading(one: Input | None) -> tuple[int | None, tuple[str, ...]]:
    """What waits to be read of a source, and what it had to say."""
    return (one.behind, one.notes) if one is not None else (None, ())


def write_status(folder: Path, status: Status) -> None:
    write_json(folder / FILE, status.as_dict())


def read_status(config: Watch, now: float) -> dict[str, Any]:
    """What the service last said of itself; UsageError where none runs."""
    try:
        table: dict[str, Any] = read_json(config.folder / FILE)
    except StorageError as error:
        raise UsageError(
            "no service has run here yet", where=config.folder, remedy="Start it with `entente watch`."
        ) from error
    return table | {"running": now - float(table.get("at", 0.0)) < STALE}


def shown(microseconds: int | None) -> str | None:
    """A time for people; logs with a clock of their own begin in 1970."""
    if microseconds is None:
        return None
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime(SHOWN)


def _seconds(text: str | None) -> float | None:
    """A shown time as a number again."""
    return datetime.strptime(text, SHOWN).replace(tzinfo=UTC).timestamp() if text is not None else None


class HealthServer:
    """/healthz (JSON, 503 when something is wrong) and /metrics (Prometheus) on loopback."""

    def __init__(self, port: int, clock: Callable[[], float] = time.time) -> None:
        self.status: Status | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = outer.status
                if found is None:
                    self._answer(503, "application/json", b'{"healthy": false}')
                elif self.path == "/healthz":
                    running = clock() - found.at < STALE
                    healthy = running and found.healthy
                    body = json.dumps(found.as_dict() | {"healthy": healthy, "running": running}).encode()
                    self._answer(200 if healthy else 503, "application/json", body)
                elif self.path == "/metrics":
                    self._answer(200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(found))
                else:
                    self._answer(404, "text/plain", b"/healthz or /metrics\n")

            def _answer(self, code: int, kind: str, body: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        try:
            self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be used ({error.strerror})",
                remedy="Choose another `port`, or 0 for none.",
            ) from error
        self._http.daemon_threads = True
        self.port = self._http.server_port
        Thread(target=self._http.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def metrics_text(status: Status) -> bytes:
    """The status in Prometheus' text format."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError as error:
        raise MissingExtraError(
            "/metrics needs prometheus-client", remedy="pip install 'entente[service]'"
        ) from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(status))
    return bytes(generate_latest(registry))


class _Collector:
    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        s = self._status
        counters = {
            "events": ("Events read and kept", s.events),
            "read_bytes": ("Bytes of log lines read", s.bytes),
            "windows": ("Windows scored", s.windows),
            "edges": ("Edges scored", s.edges),
            "alerts": ("Alerts raised", s.alerts),
            "suppressed_alerts": ("Alerts that a suppression fits", s.suppressed),
            "taught_edges": ("Edges not raised because such ones were closed as benign", s.taught),
            "unknown_hosts": ("Hosts that training had not seen", s.new_hosts),
        }
        for name, (help_text, value) in counters.items():
            yield CounterMetricFamily(f"entente_{name}", help_text, value=value)
        gauges = {
            "pending_events": ("Events that wait for their window to close", s.pending),
            "open_alerts": ("Alerts that nobody has closed", s.open_alerts),
            "last_sign_of_life_timestamp_seconds": ("When the service last told how it is", s.at),
            "scored_until_timestamp_seconds": ("End of the last window scored", _seconds(s.scored_until)),
            "score_drift": ("Share of edges above the threshold over the share expected", s.drift),
        }
        for name, (help_text, number) in gauges.items():
            if number is not None:
                yield GaugeMetricFamily(f"entente_{name}", help_text, value=number)
        dropped = CounterMetricFamily("entente_dropped", "Rows not used, by reason", labels=["reason"])
        for reason, rows in s.dropped.items():
            dropped.add_metric([reason], rows)
        yield dropped
        silent = GaugeMetricFamily("entente_source_silent", "1 when a source is silent", labels=["source"])
        behind = GaugeMetricFamily("entente_source_behind", "Bytes or messages unread", labels=["source"])
        reached = GaugeMetricFamily(
            "entente_source_reached_timestamp_seconds", "Time of a source's latest events", labels=["source"]
        )
        for source in s.sources:
            silent.add_metric([source.name], float(source.silent))
            if source.behind is not None:
                behind.add_metric([source.name], source.behind)
            if (moment := _seconds(source.reached)) is not None:
                reached.add_metric([source.name], moment)
        waiting = GaugeMetricFamily("entente_output_backlog", "Alerts to deliver", labels=["output"])
        refused = GaugeMetricFamily("entente_output_refused", "Alerts refused for good", labels=["output"])
        for output in s.outputs:
            waiting.add_metric([output.name], output.waiting)
            refused.add_metric([output.name], output.refused)
        yield from (silent, behind, reached, waiting, refused)
