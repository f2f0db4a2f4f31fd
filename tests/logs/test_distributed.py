"""Parts of files, read apart and put together by day, are the event directory that one process writes."""

from __future__ import annotations

import gzip
import shutil
from ipaddress import ip_address
from pathlib import Path
from socket import gethostbyname
from typing import Any

import numpy as np
import pytest

from entente.errors import LogError
from entente.logs import distributed
from entente.logs.distributed import parts_of
from entente.logs.formats.base import Options
from entente.logs.ingest import Request, ingest
from entente.logs.plan import make_plan
from entente.logs.sources import LogFile, line_blocks, range_blocks


class OneProcess:
    """Stands in for Spark's context: the same two steps, one task after the other."""

    sparkContext = property(lambda self: self)

    def __init__(self) -> None:
        self.tasks: list[int] = []

    def parallelize(self, rows: list[Any], number: int) -> OneProcess:
        self.tasks.append(number)
        self._rows = list(rows)
        return self

    def map(self, work: Any) -> OneProcess:
        self._rows = [work(row) for row in self._rows]
        return self

    def collect(self) -> list[Any]:
        return self._rows


def auth_lines(rows: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 3 * 86_400, rows))
    lines = [
        f"{t},U{rng.integers(9)}@D,U1@D,C{rng.integers(20)},C{rng.integers(20)},NTLM,Network,LogOn,Success"
        for t in times
    ]
    lines[rows // 3] = "not,a,row"
    lines[rows // 2] = "x,U1@D,U1@D,C1,C2,NTLM,Network,LogOn,Success"
    lines[rows - 2] = "cut"
    return lines


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()
    }


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = auth_lines(4000)
    (folder / "auth-1.txt").write_text("\n".join(lines[:3000]) + "\n")
    (folder / "auth-2.txt.gz").write_bytes(gzip.compress(("\n".join(lines[3000:])).encode()))
    return folder


def test_parts_of_a_file_hold_every_line_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    text = b"".join(b"x" * int(rng.integers(0, 40)) + b"\n" for _ in range(300)) + b"the last line has no end"
    (tmp_path / "log").write_bytes(text)
    file = LogFile(tmp_path / "log", "log")
    whole = b"".join(line_blocks(file, lambda _: None))
    for size in (1, 7, 100, 5000, 10**6):
        ranges = [(at, min(at + size, len(text))) for at in range(0, len(text), size)]
        assert b"".join(b"".join(range_blocks(file, *span, 64)) for span in ranges) == whole


@pytest.mark.parametrize("size", [10_000, 50_000, 10**9])
def test_the_same_bytes_however_the_files_are_cut(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    cluster = OneProcess()
    monkeypatch.setattr(distributed, "spark_session", lambda _: cluster)
    monkeypatch.setattr(distributed.ingest_on_spark, "__defaults__", (size,))
    one = ingest(Request([str(logs)], tmp_path / "one", "lanl-auth"))
    many = ingest(Request([str(logs)], tmp_path / "many", "lanl-auth", engine="spark"))
    assert one == many
    assert one.bad
    assert contents(tmp_path / "one") == contents(tmp_path / "many")
    assert cluster.tasks[0] == len(parts_of(make_plan([str(logs)], "lanl-auth", Options()), size))


def test_the_first_bad_row_is_named_by_its_line_in_the_file(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "spark_session", lambda _: OneProcess())
    monkeypatch.setattr(distributed.ingest_on_spark, "__defaults__", (10_000,))
    with pytest.raises(LogError, match="3 fields instead of 9") as caught:
        ingest(Request([str(logs)], tmp_path / "events", "lanl-auth", engine="spark", on_bad="fail"))
    assert caught.value.line == 4000 // 3 + 1
    assert not (tmp_path / "events").exists()


def test_a_damaged_file_is_named_and_nothing_is_written(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "spark_session", lambda _: OneProcess())
    whole = (logs / "auth-2.txt.gz").read_bytes()
    (logs / "auth-2.txt.gz").write_bytes(whole[:-100])
    with pytest.raises(LogError, match=r"auth-2.txt.gz: is a truncated gzip file"):
        ingest(Request([str(logs)], tmp_path / "events", "lanl-auth", engine="spark"))
    assert not (tmp_path / "events").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_workers_of_a_spark_cluster_write_the_same_bytes(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt install default-jre-headless")
    from entente.logs.engines import spark_session

    settings = {"spark.master": "local-cluster[2,1,512]", "spark.executor.memory": "512m"}
    session = spark_session("entente ingest", settings)
    monkeypatch.setattr(distributed.ingest_on_spark, "__defaults__", (50_000,))
    try:
        host = ip_address(gethostbyname(session.conf.get("spark.driver.host")))
        assert host.is_loopback  # nobody else can reach it
        one = ingest(Request([str(logs)], tmp_path / "one", "lanl-auth"))
        many = ingest(Request([str(logs)], tmp_path / "many", "lanl-auth", engine="spark"))
    finally:
        session.stop()
    assert one == many
    assert contents(tmp_path / "one") == contents(tmp_path / "many")
