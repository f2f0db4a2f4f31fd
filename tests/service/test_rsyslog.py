"""The syslog source and output against Debian's rsyslog, where that is installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from entente.logs.formats.base import Options
from entente.logs.refine import Refinement
from entente.logs.stream import LineReader
from entente.service.outputs.syslog import Syslog, SyslogOptions
from entente.service.sources.syslog import SyslogSource, SyslogSourceOptions

from .conftest import alert, eventually

RSYSLOGD = shutil.which("rsyslogd") or shutil.which("rsyslogd", path="/usr/sbin:/sbin")
pytestmark = pytest.mark.skipif(RSYSLOGD is None, reason="rsyslogd is not installed")
Start = Callable[[str], None]
DATE = "date-rfc3339"


@pytest.fixture
def rsyslog(tmp_path: Path) -> Iterator[Start]:
    """Starts rsyslogd in the foreground with this configuration, and ends it after the test."""
    running: list[subprocess.Popen[bytes]] = []

    def start(configuration: str) -> None:
        own = f'global(workDirectory="{tmp_path}" maxMessageSize="64k")\n'
        (tmp_path / "rsyslog.conf").write_text(own + configuration)
        command = [str(RSYSLOGD), "-n", "-f", str(tmp_path / "rsyslog.conf"), "-i", str(tmp_path / "pid")]
        checked = subprocess.run([*command, "-N1"], capture_output=True, text=True, timeout=120)
        assert checked.returncode == 0, checked.stderr
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    yield start
    for process in running:
        process.terminate()
        process.wait(timeout=120)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("form", ["cef", "jsonl"])
def test_rsyslog_takes_our_alerts_whole_and_in_order(rsyslog: Start, tmp_path: Path, form: Any) -> None:
    port, file = free_port(), tmp_path / "taken.log"
    rsyslog(
        f'module(load="imtcp")\n'
        f'template(name="whole" type="string" string="%pri% %app-name% %timereported:::{DATE}% %msg%\\n")\n'
        f'action(type="omfile" file="{file}" template="whole")\n'
        f'input(type="imtcp" address="127.0.0.1" port="{port}")\n'
    )
    eventually(lambda: listening(port))
    output = Syslog(SyslogOptions(host="127.0.0.1", port=port, tls=False, format=form), "outputs.syslog")
    sent = [alert(i, src=f"wörk-{i}", explanation=("x" * 9000,), severity="high") for i in range(20)]
    assert output.deliver(sent, "").taken == 20
    ours: list[str] = []

    def taken() -> bool:
        lines = file.read_text().splitlines() if file.exists() else []
        ours[:] = [line for line in lines if " entente " in line]
        return len(ours) == 20

    eventually(taken)
    output.close()
    for one, line in zip(sent, ours, strict=True):
        priority, program, moment, text = line.split(" ", 3)
        assert (priority, program) == (str(16 * 8 + 3), "entente")
        assert moment.startswith("1970-01-01T")
        if form == "jsonl":
            assert json.loads(text)["id"] == one.id
        else:
            assert text.lstrip().startswith("CEF:0|Entente|")
            assert f"externalId={one.id}" in text


@pytest.mark.parametrize(
    "form", ["RSYSLOG_SyslogProtocol23Format", "RSYSLOG_TraditionalForwardFormat", "RSYSLOG_ForwardFormat"]
)
@pytest.mark.parametrize(
    ("protocol", "framing"), [("tcp", "traditional"), ("tcp", "octet-counted"), ("udp", "traditional")]
)
def test_what_rsyslog_forwards_becomes_events(
    rsyslog: Start, tmp_path: Path, protocol: Any, form: str, framing: str
) -> None:
    source = SyslogSource(SyslogSourceOptions(port=0, protocol=protocol), "sources.syslog")
    port, log = free_port(), tmp_path / "conn.log"
    rsyslog(
        f'module(load="imtcp")\n'
        f'action(type="omfwd" target="127.0.0.1" port="{source.port}" protocol="{protocol}" '
        f'template="{form}" TCP_Framing="{framing}")\n'
        f'input(type="imtcp" address="127.0.0.1" port="{port}")\n'
    )
    eventually(lambda: listening(port))
    rows = [
        {
            "ts": 1_700_000_000.5 + i,
            "uid": f"C{i}",
            "id.orig_h": "10.0.0.1",
            "id.resp_h": f"10.0.1.{i}",
            "id.resp_p": 445,
            "proto": "tcp",
        }
        for i in range(50)
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sensor:
        for line in log.read_text().splitlines():
            sensor.sendall(f"<134>Nov 18 02:00:00 sensor zeek: {line}\n".encode())
    reader, targets = LineReader("auto", Options(), Refinement()), set[str]()

    def arrived() -> bool:
        for part in source.read(None, 1 << 20).lines:
            lines = [line for line in part.block.splitlines(keepends=True) if b"uid" in line]
            pieces = reader.read(part.log, part.head, b"".join(lines), part.first)
            assert not isinstance(pieces, str)
            assert all(piece.bad == [] for piece in pieces)
            targets.update(dst for piece in pieces for dst in piece.events["dst"].to_pylist())
        return len(targets) == 50

    eventually(arrived)
    source.close()
