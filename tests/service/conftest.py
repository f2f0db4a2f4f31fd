"""Alerts, a database and a server that misbehaves as told."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from entente.detection.alerts import Alert
from entente.service.database import connect

HOUR = 3_600_000_000


def alert(number: int, **changes: Any) -> Alert:
    values: dict[str, Any] = {
        "start": number * HOUR,
        "end": (number + 1) * HOUR,
        "src": f"ws-{number}",
        "dst": "srv-1",
        "score": 1.0 + number,
        "threshold": 0.5,
        "severity": "medium",
        "silo": "porto",
        "explanation": ("first contact",),
    }
    return Alert(**(values | changes))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(tmp_path / "service.db")
    yield connection
    connection.close()


class Server:
    """Takes posts; `plan` says for each what to do: answer, fail, stall, cut or break off."""

    def __init__(self) -> None:
        self.plan: list[str] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answer: Callable[[str, bytes], tuple[int, Any]] = lambda path, body: (200, {})
        self.release = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_DELETE(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.requests.append((f"DELETE {self.path}", dict(self.headers), body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                step = outer.plan.pop(0) if outer.plan else "answer"
                if step == "stall":
                    outer.release.wait(60)
                    self.close_connection = True
                    return
                if step == "drop":
                    self._hang_up()
                    return
                outer.requests.append((self.path, dict(self.headers), body))
                status, value = (503, {}) if step == "fail" else outer.answer(self.path, body)
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if step == "half":  # taken, but nobody is told
                    self.wfile.write(data[: len(data) // 2])
                    self._hang_up()
                    return
                self.wfile.write(data)

            def _hang_up(self) -> None:
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.release.set()
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def eventually(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    """Wait until the condition holds; a busy machine may take its time."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened in time"
        time.sleep(0.02)
