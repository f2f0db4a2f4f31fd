"""Syslog, Kafka, OpenSearch and standard input as sources; syslog and Kafka as outputs."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from entente.errors import ConfigError
from entente.service.outputs.base import Unreachable
from entente.service.outputs.syslog import Syslog, SyslogOptions
from entente.service.sources.opensearch import OpenSearch, OpenSearchOptions
from entente.service.sources.syslog import SyslogSource, SyslogSourceOptions

from .conftest import Server, alert, eventually

MOST = 1 << 20


@pytest.fixture
def receiver() -> Iterator[SyslogSource]:
    source = SyslogSource(SyslogSourceOptions(port=0), "sources.syslog")
    yield source
    source.close()


def lines_of(source: Any, count: int) -> list[str]:
    found: list[str] = []

    def enough() -> bool:
        for part in source.read(None, MOST).lines:
            found.extend(part.block.decode().splitlines())
        return len(found) >= count

    eventually(enough)
    return found


def test_both_syslog_formats_and_both_framings_are_understood(receiver: SyslogSource) -> None:
    messages = [
        b'<134>1 2026-01-01T00:00:00Z zeek01 zeek - - [a@1 b="c \\] d"] {"n": 1}',
        b'<134>Jan  1 00:00:00 zeek01 zeek[12]: {"n": 2}',
    ]
    counted = b"".join(b"%d %s" % (len(m), m) for m in messages)
    lines = b"".join(m.replace(b"1}", b"3}").replace(b"2}", b"4}") + b"\n" for m in messages)
    with socket.create_connection(("127.0.0.1", receiver.port)) as peer:
        peer.sendall(counted + lines)
    assert lines_of(receiver, 4) == [f'{{"n": {n}}}' for n in (1, 2, 3, 4)]


def test_a_sender_that_says_nothing_or_nonsense_does_not_stop_the_others(receiver: SyslogSource) -> None:
    silent = socket.create_connection(("127.0.0.1", receiver.port))
    rude = socket.create_connection(("127.0.0.1", receiver.port))
    rude.sendall(b"99999999999 ")
    with socket.create_connection(("127.0.0.1", receiver.port)) as peer:
        peer.sendall(b"<13>1 - - - - - - hello\n")
    assert lines_of(receiver, 1) == ["hello"]
    silent.close()
    rude.close()


def test_plain_tcp_beyond_loopback_is_refused() -> None:
    with pytest.raises(ConfigError, match="tls"):
        SyslogSource(SyslogSourceOptions(host="0.0.0.0"), "sources.syslog")
    with pytest.raises(ConfigError, match="loopback"):
        Syslog(SyslogOptions(host="siem.example", tls=False), "outputs.syslog")


def test_the_syslog_output_is_read_by_the_syslog_source(receiver: SyslogSource) -> None:
    options = SyslogOptions(host="127.0.0.1", port=receiver.port, tls=False, format="jsonl")
    output = Syslog(options, "outputs.syslog")
    assert output.deliver([alert(1), alert(2)], "").taken == 2
    assert [json.loads(line)["id"] for line in lines_of(receiver, 2)] == [alert(1).id, alert(2).id]
    output.close()


def test_a_syslog_server_that_hangs_up_gets_the_batch_again() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    received: list[bytes] = []

    def serve() -> None:
        first, _ = listener.accept()
        first.close()
        second, _ = listener.accept()
        while data := second.recv(65536):
            received.append(data)

    threading.Thread(target=serve, daemon=True).start()
    options = SyslogOptions(host="127.0.0.1", port=listener.getsockname()[1], tls=False)
    output = Syslog(options, "outputs.syslog")

    def delivered() -> bool:
        try:
            output.deliver([alert(1)], "")
        except Unreachable:
            return False
        return True

    eventually(lambda: delivered() and bool(received))
    assert b"CEF:0" in b"".join(received)
    output.close()
    listener.close()


# ---- syslog over TLS -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return folder / "cert.pem", folder / "key.pem"


def test_batch_after_batch_goes_over_one_tls_connection_and_each_arrives_once(
    certificate: tuple[Path, Path],
) -> None:
    cert, key = certificate
    receiver = SyslogSource(
        SyslogSourceOptions(port=0, protocol="tls", certificate=cert, key=key), "sources.syslog"
    )
    options = SyslogOptions(host="localhost", port=receiver.port, ca=cert, format="jsonl", timeout=60)
    output = Syslog(options, "outputs.syslog")
    found = []
    for number in range(3):  # the server's session tickets lie unread when the second batch is sent
        assert output.deliver([alert(number)], "").taken == 1
        found += lines_of(receiver, 1)
    assert [json.loads(line)["id"] for line in found] == [alert(n).id for n in range(3)]
    receiver.close()

    def refused() -> bool:
        try:
            output.deliver([alert(3)], "")
        except Unreachable:
            return True
        return False

    eventually(refused)
    output.close()


def test_a_server_that_its_certificate_does_not_name_gets_nothing(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    receiver = SyslogSource(
        SyslogSourceOptions(port=0, protocol="tls", certificate=cert, key=key), "sources.syslog"
    )
    for options in (
        SyslogOptions(host="127.0.0.1", port=receiver.port, ca=cert),  # not the name in it
        SyslogOptions(host="localhost", port=receiver.port),  # not signed by anybody known
    ):
        with pytest.raises(Unreachable, match="certificate"):
            Syslog(options, "outputs.syslog").deliver([alert(1)], "")
    receiver.close()


def test_senders_without_tls_or_without_a_certificate_are_not_heard(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    options = SyslogSourceOptions(port=0, protocol="tls", certificate=cert, key=key, ca=cert)
    receiver = SyslogSource(options, "sources.syslog")
    context = ssl.create_default_context(cafile=str(cert))
    plain = socket.create_connection(("localhost", receiver.port))
    plain.sendall(b"<13>1 - - - - - - plain\n")
    with suppress(OSError), socket.create_connection(("localhost", receiver.port)) as peer:
        context.wrap_socket(peer, server_hostname="localhost").sendall(b"<13>1 - - - - - - unknown\n")
    context.load_cert_chain(cert, key)
    with (
        socket.create_connection(("localhost", receiver.port)) as peer,
        context.wrap_socket(peer, server_hostname="localhost") as known,
    ):
        known.sendall(b"<13>1 - - - - - - known\n")
        assert lines_of(receiver, 1) == ["known"]
    plain.close()
    receiver.close()


# ---- Kafka, on librdkafka's own mock cluster -----------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    kafka = pytest.importorskip("confluent_kafka")
    owner = kafka.Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1})
    brokers = owner.list_topics(timeout=60).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(1)


def test_a_topic_is_read_on_from_the_position_that_was_kept(cluster: str) -> None:
    from confluent_kafka import Producer

    from entente.service.sources.kafka import KafkaSource, KafkaSourceOptions

    producer = Producer({"bootstrap.servers": cluster})
    for i in range(20):
        producer.produce("logs", f"line {i}".encode(), partition=i % 2)
    assert producer.flush(60) == 0
    source = KafkaSource(KafkaSourceOptions(servers=cluster, topic="logs"), "sources.kafka")
    found: list[str] = []
    places = {f"line {i}": (f"topic logs partition {i % 2} offset", i // 2) for i in range(21)}
    position: Any = None

    def step() -> bool:
        nonlocal position
        batch = source.read(position, MOST)
        position = json.loads(json.dumps(batch.position))
        for part in batch.lines:
            lines = part.block.decode().splitlines()
            found.extend(lines)
            assert [places[line] for line in lines] == [(part.log, offset) for offset in part.rows]
        return len(found) >= 20

    eventually(step)
    assert sorted(found) == sorted(f"line {i}" for i in range(20))
    source.close()
    producer.produce("logs", b"line 20", partition=0)
    producer.flush(60)
    source = KafkaSource(KafkaSourceOptions(servers=cluster, topic="logs"), "sources.kafka")
    found.clear()
    eventually(lambda: step() or len(found) == 1)
    assert found == ["line 20"]
    source.close()


def test_alerts_reach_a_topic_under_their_ids(cluster: str) -> None:
    from confluent_kafka import Consumer

    from entente.service.outputs.kafka import Kafka, KafkaOptions

    output = Kafka(KafkaOptions(servers=cluster, topic="alerts", timeout=60), "outputs.kafka")
    assert output.deliver([alert(1), alert(2)], "").taken == 2
    reader = Consumer({"bootstrap.servers": cluster, "group.id": "test", "auto.offset.reset": "earliest"})
    reader.subscribe(["alerts"])
    keys: list[str] = []

    def read() -> bool:
        message = reader.poll(1.0)
        if message is not None and not message.error():
            keys.append((message.key() or b"").decode())
        return len(keys) == 2

    eventually(read)
    assert sorted(keys) == sorted([alert(1).id, alert(2).id])
    reader.close()


def test_an_alert_that_is_too_large_for_kafka_does_not_hold_up_the_others(cluster: str) -> None:
    from entente.service.outputs.kafka import Kafka, KafkaOptions

    output = Kafka(KafkaOptions(servers=cluster, topic="alerts", timeout=60), "outputs.kafka")
    large = alert(2, src="x" * 1_200_000)
    delivery = output.deliver([alert(1), large, alert(3)], "")
    assert delivery.taken == 3
    assert list(delivery.refused) == [large.id]
    output.close()


def test_a_cluster_that_is_away_is_unreachable() -> None:
    pytest.importorskip("confluent_kafka")
    from entente.service.outputs.kafka import Kafka, KafkaOptions

    output = Kafka(KafkaOptions(servers="127.0.0.1:1", topic="alerts", timeout=1), "outputs.kafka")
    with pytest.raises(Unreachable):
        output.deliver([alert(1)], "")


# ---- OpenSearch ----------------------------------------------------------------------------------


def test_an_index_is_read_page_by_page_and_each_document_once(server: Server) -> None:
    documents: list[dict[str, Any]] = [{"_id": f"d{i:05d}", "time": 1000 + i // 700} for i in range(2500)]

    def answer(path: str, body: bytes) -> tuple[int, Any]:
        if path.endswith("/_pit?keep_alive=1m"):
            return 404, {}
        if "point_in_time" in path:
            return 200, {"pit_id": "p"}
        asked = json.loads(body)
        newer = [part["range"]["@timestamp"]["gte"] for part in asked["query"]["bool"]["filter"][1:]]
        after = tuple(asked.get("search_after", (-1, "")))
        hits = [
            {"_id": d["_id"], "_source": d, "sort": [d["time"], d["_id"]]}
            for d in sorted(documents, key=lambda d: (d["time"], d["_id"]))
            if (d["time"], d["_id"]) > after and (not newer or d["time"] >= newer[0])
        ]
        return 200, {"hits": {"hits": hits[: asked["size"]]}}

    server.answer = answer
    source = OpenSearch(OpenSearchOptions(url=server.url, index="logs"), "sources.search")
    found: list[str] = []
    position: Any = None
    for _ in range(4):
        batch = source.read(position, 50_000)
        position = json.loads(json.dumps(batch.position))
        found += [json.loads(line)["_id"] for part in batch.lines for line in part.block.splitlines()]
    documents.append({"_id": "late", "time": 1003})
    batch = source.read(position, MOST)
    found += [json.loads(line)["_id"] for part in batch.lines for line in part.block.splitlines()]
    assert found == [f"d{i:05d}" for i in range(2500)] + ["late"]
    assert batch.lines[0].rows == ("logs/_doc/late",)


@pytest.mark.parametrize("kind", ["elasticsearch", "opensearch"])
def test_a_point_in_time_is_closed_again_whatever_the_pages_brought(server: Server, kind: str) -> None:
    opened: list[str] = []

    def answer(path: str, body: bytes) -> tuple[int, Any]:
        if path.endswith("_pit?keep_alive=1m") if kind == "elasticsearch" else "point_in_time" in path:
            opened.append(f"p{len(opened)}")
            return 200, {"id" if kind == "elasticsearch" else "pit_id": opened[-1]}
        if path == "/_search" and len(opened) < 3:
            return 200, {"hits": {"hits": []}}
        return 404, {}

    server.answer = answer
    source = OpenSearch(OpenSearchOptions(url=server.url, index="logs"), "sources.search")
    notes = [source.read(None, MOST).notes for _ in range(3)]
    assert [bool(one) for one in notes] == [False, False, True]
    where = "/_pit" if kind == "elasticsearch" else "/_search/point_in_time"
    closed = [json.loads(body) for path, _, body in server.requests if path == f"DELETE {where}"]
    assert closed == [{"id": p} if kind == "elasticsearch" else {"pit_id": [p]} for p in opened]


def test_a_server_that_fails_is_said_and_the_position_stays(server: Server) -> None:
    server.plan = ["fail", "fail"]
    source = OpenSearch(OpenSearchOptions(url=server.url, index="logs"), "sources.search")
    batch = source.read({"time": 5, "ids": []}, MOST)
    assert batch.position == {"time": 5, "ids": []}
    assert "point in time" in batch.notes[0]


# ---- standard input ------------------------------------------------------------------------------


def test_standard_input_gives_every_line_and_ends() -> None:
    program = (
        "import json\n"
        "from entente.service.sources.stdin import Stdin, StdinOptions\n"
        "source, found = Stdin(StdinOptions(), 'sources.stdin'), []\n"
        "while not source.finished:\n"
        "    for part in source.read(None, 100).lines:\n"
        "        found += part.block.decode().splitlines()\n"
        "print(json.dumps(found))\n"
    )
    text = "".join(f"line {i}\n" for i in range(500)) + "last"
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=text,
        capture_output=True,
        text=True,
        env=dict(os.environ),
        check=True,
    )
    assert json.loads(done.stdout) == text.splitlines()
