"""Syslog over TCP or TLS: RFC 5424 messages with octet counting (RFC 6587), CEF or JSON as their text."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from entente.config import Section
from entente.detection.alerts import Alert
from entente.detection.sinks import create as create_sink
from entente.detection.sinks.base import timestamp
from entente.errors import ConfigError
from entente.service.config import LOOPBACK
from entente.service.outputs.base import Delivery, Output, Unreachable

LOCAL0 = 16
LEVELS = {"low": 5, "medium": 4, "high": 3, "critical": 2}
"""Alert severity -> syslog severity: notice, warning, error, critical."""


class SyslogOptions(Section):
    """A syslog server."""

    host: str = "localhost"
    """Name or address of the server."""
    port: int = Field(default=6514, ge=1, le=65535)
    """Its port; 6514 is the usual one for TLS."""
    tls: bool = True
    """Off is allowed on loopback only."""
    ca: Path | None = None
    """File with the certificates that are trusted; the system's by default."""
    format: Literal["cef", "jsonl"] = "cef"
    """Text of a message."""
    timeout: float = Field(default=30.0, gt=0, le=600)
    """Seconds for connecting and sending."""


class Syslog(Output):
    """TCP has no receipt: what the server's machine had taken when it went down cannot be known here.

    So a connection that was closed by the other side is looked for before and after every batch, and the
    batch is sent again if it was.
    """

    name = "syslog"
    summary = "RFC 5424 over TCP or TLS, CEF or JSON"
    Options = SyslogOptions

    def __init__(self, options: SyslogOptions, where: str) -> None:
        super().__init__(options, where)
        if not options.tls and options.host not in LOOPBACK:
            raise ConfigError("syslog without tls is allowed on loopback only", where=where)
        self._sink = create_sink(options.format)
        self._name = socket.gethostname()[:255] or "-"
        self._connection: socket.socket | None = None

    def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
        lines = self._sink.render(alerts).splitlines()
        frames = b"".join(self._frame(a, line) for a, line in zip(alerts, lines, strict=True))
        try:
            connection = self._connect()
            connection.sendall(frames)
            if _closed(connection):
                raise ConnectionError("closed by the server")
        except OSError as error:
            self.close()
            raise Unreachable(f"cannot be reached ({error.strerror or error})") from error
        return Delivery(len(alerts))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> socket.socket:
        if self._connection is not None and not _closed(self._connection):
            return self._connection
        self.close()
        options: SyslogOptions = self.options
        plain = socket.create_connection((options.host, options.port), timeout=options.timeout)
        if options.tls:
            context = ssl.create_default_context(cafile=str(options.ca) if options.ca else None)
            self._connection = context.wrap_socket(plain, server_hostname=options.host)
        else:
            self._connection = plain
        return self._connection

    def _frame(self, alert: Alert, line: str) -> bytes:
        priority = 8 * LOCAL0 + LEVELS[alert.severity]
        text = f"<{priority}>1 {timestamp(alert.time)} {self._name} entente - alert - {line}".encode()
        return b"%d %s" % (len(text), text)


def _closed(connection: socket.socket) -> bool:
    """Whether the other side has hung up. What it says is thrown away: a syslog server has nothing to say,
    but one over TLS sends session tickets, after which there is nothing to read."""
    limit = connection.gettimeout()
    connection.settimeout(0)
    try:
        while connection.recv(4096):
            pass
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False
    finally:
        connection.settimeout(limit)
    return True
