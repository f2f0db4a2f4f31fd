"""A syslog receiver: TCP or TLS (octet counting or lines) and UDP, RFC 5424 and RFC 3164."""

from __future__ import annotations

import asyncio
import queue
import re
import ssl
import threading
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from entente.config import Section
from entente.errors import ConfigError
from entente.service.config import LOOPBACK
from entente.service.sources.base import Batch, Lines, Position, Source

LONGEST = 1 << 20
IDLE = 600.0
HANDSHAKE = 10.0
WAITING = 100_000
"""Messages that may wait to be read; beyond them a sender over TCP has to wait and UDP is dropped."""
HEADER = re.compile(
    rb"^<\d{1,3}>(?:1 \S+ \S+ \S+ \S+ \S+ (?:-|(?:\[(?:[^\]\\]|\\.)*\])+) ?(?:\xef\xbb\xbf)?"
    rb"|(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) \S+ (?:[^ :\[]+(?:\[\d+\])?: ?)?)"
)
"""What stands before the message itself, in either RFC, or in the first with a time of the second."""


class SyslogSourceOptions(Section):
    """A syslog receiver."""

    host: str = "127.0.0.1"
    """Address to listen on; loopback unless asked for otherwise."""
    port: int = Field(default=5514, ge=0, le=65535)
    """Port; 0 takes a free one."""
    protocol: Literal["tls", "tcp", "udp"] = "tcp"
    """tls is needed on any address that is not loopback, except for udp, which has none."""
    certificate: Path | None = None
    """Certificate of this receiver (PEM), for tls."""
    key: Path | None = None
    """Its private key, for tls."""
    ca: Path | None = None
    """Senders must have a certificate of this authority, for tls."""
    connections: int = Field(default=64, ge=1, le=10_000)
    """Senders that may be connected at the same time."""


class SyslogSource(Source):
    """Messages arrive in a thread of their own and wait in a bounded queue until they are read."""

    name = "syslog"
    summary = "a syslog receiver, TCP, TLS or UDP"
    Options = SyslogSourceOptions

    def __init__(self, options: SyslogSourceOptions, where: str) -> None:
        super().__init__(options, where)
        if options.protocol == "tcp" and options.host not in LOOPBACK:
            raise ConfigError('protocol = "tls" is needed beyond loopback', where=where)
        self._messages: queue.Queue[bytes] = queue.Queue(WAITING)
        self._dropped = 0
        self._line = 1
        self._context = self._tls() if options.protocol == "tls" else None
        self._loop = asyncio.new_event_loop()
        self._closing = threading.Event()
        self._senders = 0
        self.port = 0
        started: queue.Queue[OSError | None] = queue.Queue()
        self._thread = threading.Thread(target=self._serve, args=(started,), name="syslog", daemon=True)
        self._thread.start()
        problem = started.get()
        if problem is not None:
            raise ConfigError(f"cannot listen on {options.host}:{options.port} ({problem})", where=where)

    def read(self, position: Position | None, most: int) -> Batch:
        lines: list[bytes] = []
        size = 0
        while size < most:
            try:
                message = self._messages.get(timeout=0.0 if lines else 0.2)
            except queue.Empty:
                break
            lines.append(message)
            size += len(message) + 1
        dropped, self._dropped = self._dropped, 0
        notes = (f"{dropped} messages were dropped: they came faster than they are read",) if dropped else ()
        if not lines:
            return Batch((), None, self._messages.qsize(), notes)
        first, self._line = self._line, self._line + len(lines)
        block = b"\n".join(lines) + b"\n"
        return Batch((Lines("syslog", b"", block, first),), None, self._messages.qsize(), notes)

    def close(self) -> None:
        self._closing.set()
        self._loop.call_soon_threadsafe(lambda: None)
        self._thread.join(timeout=10.0)

    # ---- in the receiver's thread ---------------------------------------------------------------

    def _serve(self, started: queue.Queue[OSError | None]) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._listen(started))
        finally:
            self._loop.close()

    async def _listen(self, started: queue.Queue[OSError | None]) -> None:
        options: SyslogSourceOptions = self.options
        try:
            if options.protocol == "udp":
                transport, _ = await self._loop.create_datagram_endpoint(
                    lambda: _Datagrams(self._take), local_addr=(options.host, options.port)
                )
                self.port = transport.get_extra_info("sockname")[1]
                ending: Any = transport
            else:
                server = await asyncio.start_server(
                    self._sender,
                    options.host,
                    options.port,
                    limit=LONGEST,
                    ssl=self._context,
                    ssl_handshake_timeout=HANDSHAKE if self._context else None,
                )
                self.port = server.sockets[0].getsockname()[1]
                ending = server
        except OSError as error:
            started.put(error)
            return
        started.put(None)
        while not self._closing.is_set():
            await asyncio.sleep(0.1)
        ending.close()
        senders = asyncio.all_tasks() - {asyncio.current_task()}  # a forwarder stays connected for ever
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)

    async def _sender(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._senders >= self.options.connections:
            writer.close()
            return
        self._senders += 1
        try:
            while (message := await asyncio.wait_for(_frame(reader), IDLE)) is not None:
                while not self._take(message, drop=False):  # the sender has to wait
                    await asyncio.sleep(0.05)
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            pass  # the sender is gone or does not speak syslog; others go on
        finally:
            self._senders -= 1
            writer.close()

    def _take(self, message: bytes, *, drop: bool = True) -> bool:
        text = HEADER.sub(b"", message, count=1).replace(b"\r", b" ").replace(b"\n", b" ").strip()
        if not text:
            return True
        try:
            self._messages.put_nowait(text)
        except queue.Full:
            self._dropped += int(drop)
            return False
        return True

    def _tls(self) -> ssl.SSLContext:
        options: SyslogSourceOptions = self.options
        if options.certificate is None or options.key is None:
            raise ConfigError("tls needs certificate and key", where=self.where)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(options.certificate, options.key)
            if options.ca is not None:
                context.load_verify_locations(options.ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"certificate, key or ca cannot be used ({error})", where=self.where) from error
        return context


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, take: Any) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._take(data)


async def _frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next message: `length SP message` (RFC 6587) or a line; None at the end."""
    first = await reader.read(1)
    if not first:
        return None
    if first.isdigit():
        digits = first + await reader.readuntil(b" ")
        length = int(digits[:12])
        if length > LONGEST:
            raise ValueError("over-sized message")
        return await reader.readexactly(length)
    try:
        return first + await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return first + error.partial
    except asyncio.LimitOverrunError as error:
        raise ValueError("over-sized message") from error
