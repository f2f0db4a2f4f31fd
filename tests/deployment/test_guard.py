"""The coordinator's listener: silent, surplus, revoked and misplaced visitors keep nobody out."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entente.deployment.guard import Admission, Holder, Limits, Queue, read_revoked

pytest.importorskip("nvflare")
from nvflare.fuel.f3.comm_error import CommError

PATIENCE = 30.0


class Authority:
    """A small certificate authority of the test's own."""

    def __init__(self, folder: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.serials: dict[str, str] = {}
        self._sign("root", self.key, authority=True)

    def issue(self, name: str) -> tuple[Path, Path]:
        from cryptography.hazmat.primitives.asymmetric import ec

        return self._sign(name, ec.generate_private_key(ec.SECP256R1()))

    def _sign(self, name: str, key: Any, authority: bool = False) -> tuple[Path, Path]:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization

        now, common = datetime.now(UTC), x509.NameOID.COMMON_NAME
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(common, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(common, "root")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        paths = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        self.serials[name] = str(certificate.serial_number)
        return paths


class Driver:
    """What FLARE would be told of connections; frames are worked on by `work`."""

    def __init__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.open: list[Any] = []
        self.frames: list[bytearray] = []
        self.stuck = threading.Event()
        self.stuck.set()
        manager = SimpleNamespace(frame_mgr_executor=ThreadPoolExecutor(4), process_frame_task=self._work)
        self.receiver = SimpleNamespace(conn=SimpleNamespace(last_activity=0.0), conn_manager=manager)

    def _work(self, connection: Any, frame: bytearray) -> None:
        self.stuck.wait()
        self.frames.append(frame)

    def add_connection(self, connection: Any) -> None:
        connection.register_frame_receiver(self.receiver)
        self.open.append(connection)

    def close_connection(self, connection: Any) -> None:
        self.open.remove(connection)


class Gate:
    """A listener on loopback for silos `north` and `south`."""

    def __init__(self, folder: Path, authority: Authority, limits: Limits) -> None:
        from entente.deployment.guarded_driver import GuardedServer

        pair = authority.folder / "server.crt", authority.folder / "server.key"
        if not pair[0].exists():
            authority.issue("server")
        params = {"scheme": "guarded", "secure": True, "host": "127.0.0.1", "port": 0}
        params |= {"ca_cert": str(authority.folder / "root.crt")}
        params |= {"server_cert": str(pair[0]), "server_key": str(pair[1])}
        self.authority = authority
        self.driver = Driver()
        self.revoked = folder / "revoked.json"
        admission = Admission(frozenset(("north", "south")), self.revoked)
        connector = SimpleNamespace(params=params)
        self.server = GuardedServer(self.driver, connector, admission, limits)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        self.visitors: list[socket.socket] = []

    def knock(self) -> socket.socket:
        """A connection that says nothing."""
        plain = socket.create_connection(("127.0.0.1", self.server.server_address[1]), timeout=PATIENCE)
        self.visitors.append(plain)
        return plain

    def enter(self, name: str) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self.authority.folder / "root.crt"))
        context.check_hostname = False
        context.load_cert_chain(self.authority.folder / f"{name}.crt", self.authority.folder / f"{name}.key")
        secure = context.wrap_socket(self.knock())
        self.visitors.append(secure)
        return secure

    def close(self) -> None:
        self.driver.stuck.set()
        self.server.shutdown()
        self.server.server_close()
        for visitor in self.visitors:
            visitor.close()
        self.driver.receiver.conn_manager.frame_mgr_executor.shutdown()
        self.thread.join()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    for name in ("north", "south", "operator"):
        made.issue(name)
    return made


@pytest.fixture
def gate(tmp_path: Path, authority: Authority) -> Iterator[Callable[..., Gate]]:
    gates: list[Gate] = []

    def make(**limits: Any) -> Gate:
        gates.append(Gate(tmp_path, authority, Limits(**limits)))
        return gates[-1]

    yield make
    for made in gates:
        made.close()


def until(ready: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def ended(visitor: socket.socket) -> bool:
    """Whether the listener has closed this connection."""
    visitor.settimeout(PATIENCE)
    try:
        return visitor.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def frame(length: int, kind: int = 4) -> bytes:
    from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

    buffer = bytearray(max(PREFIX_LEN, min(length, 1000)))
    Prefix(length, 0, kind, 0, 0, 0, 0, 0).to_buffer(buffer, 0)
    return bytes(buffer)


def test_connections_that_say_nothing_keep_no_silo_out(gate: Callable[..., Gate]) -> None:
    made = gate(waiting=8)
    silent = [made.knock() for _ in range(30)]
    made.enter("north")
    until(lambda: made.driver.open)
    assert sum(visitor.fileno() >= 0 for visitor in silent) == 30


def test_a_handshake_that_does_not_come_is_ended(gate: Callable[..., Gate]) -> None:
    assert ended(gate(handshake=0.2).knock())


def hello(newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """The first message of a handshake, of somebody without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_2, newest
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def old_hello() -> bytes:
    """A first message of TLS 1.0."""
    return hello(ssl.TLSVersion.TLSv1_2).replace(b"\x03\x03", b"\x03\x01")


@pytest.mark.parametrize(
    "said",
    [
        hello()[:40],
        hello(),
        old_hello(),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\xff\xff" + bytes(70_000),
        b"\x15\x03\x03\x00\x02\x01\x00",
        bytes(range(256)) * 40,
    ],
    ids=["half a hello", "hello", "old", "http", "long record", "alert", "rubbish"],
)
def test_half_a_handshake_or_anything_else_ends_and_keeps_no_silo_out(
    gate: Callable[..., Gate], said: bytes
) -> None:
    made = gate(handshake=1.0)
    visitor = made.knock()
    with suppress(OSError):
        visitor.sendall(said)
    made.enter("north")
    until(lambda: len(made.driver.open) == 1)
    visitor.settimeout(PATIENCE)
    with suppress(ConnectionError):
        while visitor.recv(4096):  # what the listener answers, and then its end
            pass


def test_a_handshake_drop_by_drop_has_no_more_time_than_another(gate: Callable[..., Gate]) -> None:
    made = gate(handshake=0.5)
    visitor, drops = made.knock(), iter(hello() * 100)

    def refused() -> bool:
        try:
            visitor.sendall(bytes([next(drops)]))
        except OSError:
            return True
        return False

    until(refused)
    made.enter("north")
    until(lambda: made.driver.open)


def test_a_connection_without_a_sign_of_life_is_ended(gate: Callable[..., Gate]) -> None:
    made = gate(idle=0.3)
    assert ended(made.enter("north"))
    until(lambda: not made.driver.open)


def test_a_certificate_of_the_federation_that_is_not_for_this_port_is_refused(
    gate: Callable[..., Gate],
) -> None:
    made = gate()
    assert ended(made.enter("operator"))
    assert not made.driver.open


def test_a_revoked_serial_is_refused_and_the_same_name_with_another_certificate_is_not(
    gate: Callable[..., Gate], authority: Authority
) -> None:
    made = gate()
    inside = made.enter("north")
    until(lambda: made.driver.open)
    serial = authority.serials["north"]
    made.revoked.write_text(json.dumps({"names": [], "serials": {serial: "north"}}))
    assert ended(inside)  # at once, without a restart
    assert ended(made.enter("north"))
    pair = [authority.folder / f"north.{part}" for part in ("crt", "key")]
    old = [path.read_bytes() for path in pair]
    try:
        authority.issue("north")
        made.enter("north")
        until(lambda: made.driver.open)
    finally:
        for path, content in zip(pair, old, strict=True):
            path.write_bytes(content)
        authority.serials["north"] = serial


def test_a_revoked_name_is_refused_whatever_its_certificate(gate: Callable[..., Gate]) -> None:
    made = gate()
    made.revoked.write_text(json.dumps({"names": ["north"], "serials": {}}))
    assert ended(made.enter("north"))
    made.enter("south")
    until(lambda: made.driver.open)


@pytest.mark.parametrize("content", ["{", "[]", "[" * 20_000, '{"names": []}', '{"names": 1, "serials": {}}'])
def test_a_damaged_list_of_revoked_certificates_lets_nobody_in_and_throws_nobody_out(
    gate: Callable[..., Gate], content: str
) -> None:
    made = gate()
    inside = made.enter("south")
    until(lambda: made.driver.open)
    made.revoked.write_text(content)
    with pytest.raises(ValueError, match=r"Expecting|not a list"):
        read_revoked(made.revoked)
    assert ended(made.enter("north"))
    made.revoked.unlink()
    made.enter("north")
    until(lambda: len(made.driver.open) == 2)
    inside.sendall(frame(100))
    until(lambda: made.driver.frames)


def test_one_silo_holds_so_many_connections_and_loses_its_oldest(gate: Callable[..., Gate]) -> None:
    made = gate(held=2)
    visitors = []
    for count in (1, 2):
        visitors.append(made.enter("north"))
        until(lambda n=count: len(made.driver.open) == n)  # type: ignore[misc]
    made.enter("south")
    until(lambda: len(made.driver.open) == 3)
    made.enter("north")
    assert ended(visitors[0])
    until(lambda: len(made.driver.open) == 3)


def test_a_frame_beyond_the_limit_ends_the_connection_before_memory_is_taken(
    gate: Callable[..., Gate],
) -> None:
    made = gate(frame=2000)
    north = made.enter("north")
    north.sendall(frame(1000))
    until(lambda: len(made.driver.frames) == 1)
    north.sendall(frame(1 << 30))
    assert ended(north)


def test_a_connection_that_does_not_greet_first_is_ended(gate: Callable[..., Gate]) -> None:
    made = gate()
    north = made.enter("north")
    north.sendall(frame(1000, kind=5))
    assert ended(north)
    assert not made.driver.frames


def test_a_flood_is_read_at_a_bounded_pace(gate: Callable[..., Gate]) -> None:
    made = gate(rate=20)
    began = time.monotonic()
    north = made.enter("north")
    for _ in range(60):
        north.sendall(frame(1000))
    until(lambda: len(made.driver.frames) == 60)
    assert time.monotonic() - began > 1.0


def test_a_flood_waits_in_the_senders_socket_while_others_are_served(gate: Callable[..., Gate]) -> None:
    made = gate(frames=5)
    made.driver.stuck.clear()
    north = made.enter("north")
    for _ in range(50):
        north.sendall(frame(1000))
    until(lambda: made.driver.open and made.driver.open[0]._frames == 5)
    time.sleep(0.2)
    assert made.driver.open[0]._frames == 5
    made.driver.stuck.set()
    until(lambda: len(made.driver.frames) == 50)


def test_the_oldest_of_an_address_goes_first_and_then_the_oldest_of_all() -> None:
    queue = Queue(2, 3)
    pairs = [socket.socketpair() for _ in range(5)]
    try:
        for owner, (mine, _) in zip("aabba", pairs, strict=True):
            queue.enter(owner, mine)
        assert [ended(pairs[i][1]) for i in (0, 1)] == [True, True]
        queue.leave(pairs[4][0])
        queue.drop([pairs[2][0]])
        assert ended(pairs[2][1])
        pairs[3][1].settimeout(0.05)
        with pytest.raises(TimeoutError):
            pairs[3][1].recv(1)
    finally:
        for pair in pairs:
            for end in pair:
                end.close()


def test_a_certificate_without_one_name_has_none() -> None:
    assert Holder.of(None) == Holder("", "0")
    two = {"subject": ((("commonName", "a"),), (("commonName", "b"),)), "serialNumber": "0A"}
    assert Holder.of(two) == Holder("", "10")


def test_a_silo_that_takes_nothing_holds_none_of_the_coordinators_threads(gate: Callable[..., Gate]) -> None:
    """What is sent to it waits in its own queue, up to a limit; then its connection ends, no other one."""
    made = gate(unsent=20 << 20)
    deaf, other = made.enter("north"), made.enter("south")
    until(lambda: len(made.driver.open) == 2)
    theirs = {one.conn_props["peer_cn"]: one for one in made.driver.open}
    for _ in range(20):
        theirs["north"].send_frame(bytearray(1 << 20))
    with pytest.raises(CommError):
        theirs["north"].send_frame(bytearray(20 << 20))
    theirs["south"].send_frame(bytearray(b"for the other"))
    other.settimeout(PATIENCE)
    assert other.recv(100) == b"for the other"
    until(lambda: [one.conn_props["peer_cn"] for one in made.driver.open] == ["south"])
    deaf.close()


def test_frames_arrive_in_the_order_in_which_they_were_sent(gate: Callable[..., Gate]) -> None:
    made = gate()
    visitor = made.enter("north")
    until(lambda: made.driver.open)
    wanted = b"".join(bytes([number]) * 50_000 for number in range(200))
    for number in range(200):
        made.driver.open[0].send_frame(bytearray([number]) * 50_000)
    visitor.settimeout(PATIENCE)
    found = bytearray()
    while len(found) < len(wanted):
        found += visitor.recv(1 << 20)
    assert found == wanted
