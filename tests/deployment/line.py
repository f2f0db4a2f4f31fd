"""A slow line that breaks, between a silo and its coordinator."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from pathlib import Path


class Line:
    """A line between a silo and the coordinator: so many bytes a second, and it breaks when told."""

    def __init__(self, target: int, rate: int) -> None:
        self.target, self.rate = target, rate
        self.carried = self.cuts = 0
        self._breaks: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    near.close()
                    continue
                self._open |= {near, far}
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(16384):
                sink.sendall(data)
                self.carried += len(data)
                time.sleep(len(data) / self.rate)
                if self._breaks and self.carried > self._breaks[0]:
                    self._breaks.pop(0)
                    self.cut()
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def break_after(self, *carried: int) -> None:
        """Cut the line when it has carried so many more bytes, in the middle of whatever it carries then."""
        self._breaks = [self.carried + more for more in carried]

    def cut(self) -> None:
        self.cuts += 1
        for end in list(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()


def point(kit: Path, port: int) -> None:
    """Let a silo reach its coordinator at another port."""
    path = kit / "startup" / "fed_client.json"
    table = json.loads(path.read_text())
    table["servers"][0]["service"]["target"] = f"localhost:{port}"
    path.write_text(json.dumps(table))
