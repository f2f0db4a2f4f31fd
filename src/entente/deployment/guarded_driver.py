"""The coordinator's listener inside FLARE: as its `tcp` driver, with limits.

FLARE 2.9's own driver makes the TLS handshake in the loop that accepts connections: one visitor that
connects and says nothing keeps everybody out. Here every visitor has its own thread and a deadline.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections import deque
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

from nvflare.fuel.f3.cellnet.identity import is_admin_listener
from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.drivers.net_utils import get_ssl_context
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.drivers.tcp_driver import TcpDriver
from nvflare.fuel.f3.sfm.constants import Types
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

from entente.deployment.guard import Admission, Holder, Limits, Queue
from entente.deployment.policy import GUARDED
from entente.deployment.site import Site

TOLD = 1000
_log = logging.getLogger(__name__)


class GuardedDriver(TcpDriver):  # type: ignore[misc]
    """FLARE's `tcp` on the wire; a listener of its own."""

    @staticmethod
    def supported_transports() -> list[str]:
        return [GUARDED]

    def listen(self, connector: Any) -> None:
        site = Site.of_process()
        self.connector = connector
        self.server = GuardedServer(self, connector, site.admission(is_admin_listener(connector.params)))
        self.server.serve_forever()


class GuardedServer(ThreadingTCPServer):
    """Accepts at once; handshake, admission and reading happen in the visitor's own thread."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, driver: Any, connector: Any, admission: Admission, limits: Limits | None = None
    ) -> None:
        self.driver = driver
        self.connector = connector
        self.admission = admission
        self.limits = limits or Limits()
        self.context = get_ssl_context(connector.params, ssl_server=True)
        if self.context is None or self.context.verify_mode != ssl.CERT_REQUIRED:
            raise CommError(CommError.BAD_CONFIG, "the coordinator listens with mutual TLS only")
        self.waiting = Queue(self.limits.waiting, self.limits.waiting_in_all)
        self.held = Queue(self.limits.held)
        self._inside: dict[ssl.SSLSocket, Holder] = {}
        self._lock = threading.Lock()
        self._told: set[tuple[str, str]] = set()
        params = connector.params
        place = (str(params.get(DriverParams.HOST.value)), int(params.get(DriverParams.PORT.value)))
        super().__init__(place, _Visitor)

    def service_actions(self) -> None:
        """Between two looks for visitors: those whose certificate was revoked meanwhile have to go."""
        with self._lock:
            inside = dict(self._inside)
        try:
            revoked = self.admission.revoked()
        except ValueError as error:  # nobody new gets in; those inside stay until somebody mends it
            self._tell("this machine", str(error))
            return
        self.held.drop([visitor for visitor, who in inside.items() if revoked.refusal(who)])

    def receive(self, plain: socket.socket, address: str) -> None:
        """One visitor, from its first byte to its last."""
        try:
            secure = self.context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        except OSError:  # gone already
            return
        try:
            self.waiting.enter(address, secure)
            try:
                secure.settimeout(self.limits.handshake)
                secure.do_handshake()
            finally:
                self.waiting.leave(secure)
            who = Holder.of(secure.getpeercert())
            reason = self.admission.refusal(who)
            if reason:
                self._tell(address, f"{who.name!r}: {reason}")
                return
            self._hold(secure, who)
        except (OSError, ValueError) as error:
            self._tell(address, type(error).__name__)
        finally:
            secure.close()

    def _hold(self, secure: ssl.SSLSocket, who: Holder) -> None:
        with self._lock:
            self._inside[secure] = who
        self.held.enter(who.name, secure)
        try:
            secure.settimeout(self.limits.idle)
            connection = GuardedConnection(secure, self.connector, self.limits)
            self.driver.add_connection(connection)
            connection.read_loop()
            self.driver.close_connection(connection)
        finally:
            self.held.leave(secure)
            with self._lock:
                self._inside.pop(secure, None)

    def _tell(self, address: str, reason: str) -> None:
        """Once per address and reason: whoever knocks must not fill the log."""
        with self._lock:
            if (address, reason) in self._told or len(self._told) >= TOLD:
                return
            self._told.add((address, reason))
        _log.warning("a connection from %s was not let in: %s", address, reason)


class _Visitor(BaseRequestHandler):
    server: GuardedServer

    def handle(self) -> None:
        self.server.receive(self.request, str(self.client_address[0]))


class GuardedConnection(SocketConnection):  # type: ignore[misc]
    """A connection whose frames are bounded, and read only as fast as they are worked on.

    What is sent waits in a queue of the connection's own. FLARE would let the sending thread wait, of which
    it has a hundred for all silos: with one silo that takes nothing, nobody's heartbeats would be heard.
    """

    def __init__(self, secure: ssl.SSLSocket, connector: Any, limits: Limits) -> None:
        super().__init__(secure, connector, True)
        self.limits = limits
        self._room = threading.Condition()
        self._frames = 0
        self._bytes = 0
        self._second, self._read = 0, 0
        self._greeted = False
        self._outgoing: deque[Any] = deque()
        self._unsent = 0
        self._more = threading.Condition()
        threading.Thread(target=self._write_loop, name="guarded_send", daemon=True).start()

    def send_frame(self, frame: Any) -> None:
        """Queue a frame; CommError if the connection is closed, or its other end has too much to take."""
        size = len(frame)
        with self._more:
            if self.closing:
                raise CommError(CommError.CLOSED, f"Connection {self.name} is closed")
            full = self._unsent + size > self.limits.unsent
            if not full:
                self._outgoing.append(frame)
                self._unsent += size
                self._more.notify()
        if full:
            self.close()
            raise CommError(CommError.TIMEOUT, f"{self.name} has {self._unsent} bytes that were not taken")

    def _write_loop(self) -> None:
        """Send what is queued, in order, until the connection ends or a frame is not taken in time."""
        while True:
            with self._more:
                while not self._outgoing and not self.closing:
                    self._more.wait()
                if self.closing:
                    self._outgoing.clear()
                    return
                frame = self._outgoing.popleft()
            try:
                super().send_frame(frame)
            except CommError as error:
                _log.warning("%s: %s", self.name, error)
                self.close()
            with self._more:
                self._unsent -= len(frame)

    def close(self) -> None:
        super().close()
        with self._more:
            self._more.notify()

    def read_frame(self) -> bytearray:
        self._pace()
        start = bytearray(PREFIX_LEN)
        self.read_into(start, 0, PREFIX_LEN)
        prefix = Prefix.from_bytes(start)
        length = prefix.length
        if not self._greeted and prefix.type != Types.HELLO:
            raise CommError(CommError.BAD_DATA, "its first frame is not a greeting")
        self._greeted = True
        if not PREFIX_LEN <= length <= self.limits.frame:
            raise CommError(CommError.BAD_DATA, f"a frame of {length} bytes, not up to {self.limits.frame}")
        frame = bytearray(length)
        frame[:PREFIX_LEN] = start
        self.read_into(frame, PREFIX_LEN, length - PREFIX_LEN)
        return frame

    def _pace(self) -> None:
        """A flood is read slowly: FLARE writes a line about every frame that it cannot use."""
        now = time.monotonic()
        if int(now) != self._second:
            self._second, self._read = int(now), 0
        self._read += 1
        if self._read > self.limits.rate:
            time.sleep(int(now) + 1 - now)

    def process_frame(self, frame: bytearray) -> None:
        """As FLARE's own, but its queue of frames has an end: a flood waits in the sender's own socket."""
        size = len(frame)
        with self._room:
            while self._frames >= self.limits.frames or self._bytes > self.limits.frame_bytes:
                self._room.wait()
            self._frames, self._bytes = self._frames + 1, self._bytes + size
        receiver = self.frame_receiver
        receiver.conn.last_activity = time.time()
        manager = receiver.conn_manager
        try:
            work = manager.frame_mgr_executor.submit(manager.process_frame_task, receiver.conn, frame)
        except RuntimeError:  # FLARE is shutting down
            self._done(size)
            return
        work.add_done_callback(lambda _: self._done(size))

    def _done(self, size: int) -> None:
        with self._room:
            self._frames, self._bytes = self._frames - 1, self._bytes - size
            self._room.notify()
