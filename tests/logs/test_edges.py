"""One query over a table gives the edges of windows: the same from every engine, and as from the events."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

from entente.cli import main
from entente.errors import GraphError, LogError, UsageError
from entente.graphs.context import Frequent
from entente.graphs.snapshots import Timeline, read_timeline
from entente.logs.edges.engines import DuckDBTables, opened_table
from entente.logs.edges.query import EdgeQuery, Span, TableMapping
from entente.logs.edges.store import EdgeRequest, read_edge_manifest, spans, write_edges
from entente.logs.engines import to_sql
from entente.logs.events import load_events, write_events
from entente.logs.schema import DAY, EVENT_SCHEMA, MICROSECONDS

WIDTH = 1800 * MICROSECONDS
SPAN = 3 * DAY
OURS = TableMapping(time_unit="us", day="day")
GOLDEN = Path(__file__).parent / "edges_trino.sql"


def some_events(rows: int = 3000, seed: int = 0) -> pa.Table:
    """Events over three days between five hosts, with gaps in every column that may have them."""
    rng = np.random.default_rng(seed)

    def words(*names: str) -> pa.Array:
        return pa.array(rng.choice(np.array([*names, None], dtype=object), rows).tolist(), pa.string())

    def numbers(values: list[int], kind: pa.DataType) -> pa.Array:
        return pa.array(rng.choice(values, rows).tolist(), kind, mask=rng.random(rows) < 0.3)

    columns = {
        "time": pa.array(rng.integers(0, SPAN, rows)),
        "src": pa.array(rng.choice(["a", "b", "c", "ü", "zz"], rows).tolist()),
        "dst": pa.array(rng.choice(["a", "b", "c", "ü", "zz"], rows).tolist()),
        "user": words("anna", "Bob", "ö", "zoë", "x y"),
        "kind": words("NTLM", "Kerberos", ""),
        "logon": words("Network", "Batch"),
        "port": numbers([9, 22, 80, 445, 50_000], pa.int32()),
        "bytes": numbers([0, 1, 10**12], pa.int64()),
        "outcome": pa.array(rng.random(rows) < 0.7, mask=rng.random(rows) < 0.5),
        "label": numbers([0, 1], pa.int8()),
    }
    return pa.table(columns, schema=EVENT_SCHEMA)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "events"
    write_events(some_events(), path)
    return path


@pytest.fixture(scope="module")
def by_duckdb(events: Path) -> Path:
    out = events.parent / "edges"
    write_edges(opened_table("duckdb", str(events), {}), EdgeRequest(OURS, WIDTH, out))
    return out


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*.parquet"))}


def assert_same(one: Timeline, two: Timeline) -> None:
    for name in ("hosts", "offsets", "src", "dst", "time", "weight", "label"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    assert (one.start, one.width, one.merged) == (two.start, two.width, two.merged)
    assert one.context is not None
    assert two.context is not None
    for name in ("last_time", "bytes", "failures"):
        np.testing.assert_array_equal(getattr(one.context, name), getattr(two.context, name), err_msg=name)
    for name in ("user", "kind", "logon", "port"):
        a, b = getattr(one.context, name), getattr(two.context, name)
        assert isinstance(a, Frequent)
        assert isinstance(b, Frequent)
        np.testing.assert_array_equal(a.distinct, b.distinct, err_msg=name)
        assert [a.of(i) for i in range(len(a.distinct))] == [b.of(i) for i in range(len(b.distinct))], name


def test_edges_read_as_the_events_they_were_made_of(events: Path, by_duckdb: Path) -> None:
    whole = [read_timeline(path, 1800, context=True) for path in (events, by_duckdb)]
    assert_same(*whole)
    part = [read_timeline(path, 1800, 86_400, 2 * 86_400, context=True) for path in (events, by_duckdb)]
    assert_same(*part)
    assert read_timeline(by_duckdb, 1800).context is None


def test_edges_carry_how_often_their_most_frequent_values_occur(events: Path, by_duckdb: Path) -> None:
    rows = load_events(events).to_pylist()
    found = pa.concat_tables(
        [pq.read_table(file, partitioning=None) for file in sorted(by_duckdb.rglob("*.parquet"))]
    )
    for edge in found.to_pylist()[::37]:
        said = [
            row["port"]
            for row in rows
            if (row["time"] // WIDTH * WIDTH, row["src"], row["dst"])
            == (edge["window"], edge["src"], edge["dst"])
            and row["port"] is not None
        ]
        ranked = sorted({(-said.count(port), port) for port in said})
        expected = [(port, -count) for count, port in ranked[:3]] + [(None, None)] * 3
        assert [(edge[f"port_{i}"], edge[f"port_{i}_count"]) for i in (1, 2, 3)] == expected[:3]
        assert edge["port_distinct"] == len(ranked)


@pytest.mark.parametrize("engine", ["polars", "clickhouse"])
def test_every_engine_gives_the_same_bytes(
    engine: str, events: Path, by_duckdb: Path, tmp_path: Path
) -> None:
    if engine == "clickhouse":
        pytest.importorskip("chdb")
    write_edges(opened_table(engine, str(events), {}), EdgeRequest(OURS, WIDTH, tmp_path / "edges"))
    assert contents(tmp_path / "edges") == contents(by_duckdb)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_workers_of_a_spark_cluster_give_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt install default-jre-headless")
    from pyspark.sql import SparkSession

    def stop() -> None:
        active = SparkSession.getActiveSession()
        if active is not None:
            active.stop()

    table = some_events(600)
    early = table.filter(pa.array(table["time"].to_numpy() < DAY // 2))
    write_events(early, tmp_path / "events")
    settings = {
        "spark.master": "local-cluster[2,1,512]",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
    }
    stop()
    try:
        for engine, given in (("duckdb", {}), ("spark", settings)):
            opened = opened_table(engine, str(tmp_path / "events"), given)
            write_edges(opened, EdgeRequest(OURS, WIDTH, tmp_path / engine))
    finally:
        stop()
    assert contents(tmp_path / "spark") == contents(tmp_path / "duckdb")


def a_lake(path: Path) -> Path:
    """The events as somebody else keeps them: other names, timestamps, folders by day, outcome in words."""
    table = some_events()
    moment = table["time"].cast(pa.timestamp("us"))
    words = ["Success" if ok else "Fail" if ok is not None else None for ok in table["outcome"].to_pylist()]
    lake = pa.table(
        {
            "ts": moment,
            "client": table["src"],
            "server": table["dst"],
            "result": words,
            "account": table["user"],
        }
    )
    days = [datetime.fromtimestamp(t / 1e6, UTC).strftime("%Y-%m-%d") for t in table["time"].to_pylist()]
    pq.write_to_dataset(lake.append_column("dt", pa.array(days)), path, partition_cols=["dt"])
    return path


THEIRS = TableMapping(
    {"time": "ts", "src": "client", "dst": "server", "outcome": "result", "user": "account"}, day="dt"
)


@pytest.mark.parametrize("engine", ["duckdb", "polars", "clickhouse"])
def test_a_table_of_other_names_and_types_gives_the_same_edges(
    engine: str, events: Path, tmp_path: Path
) -> None:
    if engine == "clickhouse":
        pytest.importorskip("chdb")
    lake = a_lake(tmp_path / "lake")
    write_edges(opened_table(engine, str(lake), {}), EdgeRequest(THEIRS, WIDTH, tmp_path / "edges"))
    ours, theirs = (read_timeline(path, 1800, context=True) for path in (events, tmp_path / "edges"))
    for name in ("hosts", "offsets", "src", "dst", "time", "weight"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.context is not None
    assert theirs.context is not None
    np.testing.assert_array_equal(ours.context.failures, theirs.context.failures)
    assert theirs.context.port is None
    assert theirs.context.user is not None


def test_seconds_and_nanoseconds_are_times_too(events: Path, tmp_path: Path) -> None:
    table = some_events()
    whole = pa.array(table["time"].to_numpy() // MICROSECONDS)
    found = []
    for unit, factor in (("s", 1), ("ms", 1000), ("ns", 10**9)):
        times = pa.array(whole.to_numpy() * factor)
        pq.write_table(table.set_column(0, "time", times), tmp_path / f"{unit}.parquet")
        out = tmp_path / unit
        engine = opened_table("duckdb", str(tmp_path / f"{unit}.parquet"), {})
        write_edges(engine, EdgeRequest(TableMapping(time_unit=unit), WIDTH, out))
        found.append(contents(out))
    assert found[0] == found[1] == found[2]


def test_days_that_are_not_wanted_are_not_opened(tmp_path: Path) -> None:
    lake = a_lake(tmp_path / "lake")
    for file in (lake / "dt=1970-01-03").iterdir():
        file.write_bytes(b"not Parquet")
    request = EdgeRequest(THEIRS, WIDTH, tmp_path / "edges", start=0, end=2 * DAY)
    with pytest.raises(LogError):  # the end of the table is asked for without a bound
        write_edges(opened_table("duckdb", str(lake), {}), EdgeRequest(THEIRS, WIDTH, tmp_path / "other"))
    manifest = write_edges(opened_table("duckdb", str(lake), {}), request)
    assert manifest.last_time < 2 * DAY


class Asked(DuckDBTables):
    """Remembers how many rows each query gave."""

    def __init__(self, table: str) -> None:
        super().__init__(table, {})
        self.edges: list[int] = []

    def rows(self, expression: ibis.Table) -> pa.Table:
        found = super().rows(expression)
        if "window" in found.column_names:
            self.edges.append(found.num_rows)
        return found


@pytest.mark.parametrize("engine", ["duckdb", "polars", "spark", "clickhouse"])
@pytest.mark.parametrize("log", ["metadata/00001-aa.metadata.json", "_delta_log/00000000000000000000.json"])
def test_a_table_whose_folder_also_holds_former_files_is_refused(
    engine: str, log: str, tmp_path: Path
) -> None:
    """Which of the files count stands in the log of the table: to read all would count rows twice."""
    (tmp_path / log).parent.mkdir()
    (tmp_path / log).write_text("{}")
    (tmp_path / "data").mkdir()
    pq.write_table(some_events(10), tmp_path / "data" / "part.parquet")
    with pytest.raises(UsageError, match="catalogue"):
        opened_table(engine, str(tmp_path), {})


def test_a_second_call_asks_only_from_the_last_window_on(
    events: Path, by_duckdb: Path, tmp_path: Path
) -> None:
    table = load_events(events)
    early = table.filter(pa.array(table["time"].to_numpy() < SPAN - 10 * WIDTH - WIDTH // 2))
    write_events(early, tmp_path / "events")
    out = tmp_path / "edges"
    request = EdgeRequest(OURS, WIDTH, out)
    write_edges(Asked(str(tmp_path / "events")), request)
    write_events(table, tmp_path / "events")
    asked = Asked(str(tmp_path / "events"))
    manifest = write_edges(asked, request)
    again = read_timeline(out, 1800, context=True)
    assert_same(again, read_timeline(by_duckdb, 1800, context=True))
    assert sum(asked.edges) < manifest.edges / 4
    assert {file.name for file in manifest.files} == set(contents(out))


def test_a_run_that_was_stopped_goes_on(events: Path, by_duckdb: Path, tmp_path: Path) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    request = EdgeRequest(OURS, WIDTH, tmp_path / "edges")
    with pytest.raises(KeyboardInterrupt):
        write_edges(Asked(str(events)), request, stop)
    (tmp_path / "edges" / "day=1970-01-01" / "half.part").write_bytes(b"")
    assert len(read_edge_manifest(tmp_path / "edges").files) == 1
    write_edges(Asked(str(events)), request)
    assert contents(tmp_path / "edges") == contents(by_duckdb)


def test_spans_are_whole_windows_and_cover_everything_once() -> None:
    for width in (1800, 7000, 86_400, 100_000):
        for at_once in (1, 3600, 86_400, 10**6):
            found = list(spans(3 * width, 50 * width, width, at_once))
            assert [span.end for span in found[:-1]] == [span.start for span in found[1:]]
            assert (found[0].start, found[-1].end, found[-1].start) == (3 * width, 50 * width, 49 * width)
            assert all(span.start % width == span.end % width == 0 for span in found)


def test_the_query_for_trino_is_the_one_on_file() -> None:
    """There is no Trino here to ask: the SQL is kept, so that a change is seen and can be tried elsewhere."""
    schema = {
        "ts": "timestamp(6)", "client": "string", "server": "string", "account": "string",
        "package": "string", "port": "int32", "bytes": "int64", "result": "string", "dt": "string",
    }  # fmt: skip
    names = {"time": "ts", "src": "client", "dst": "server", "user": "account", "kind": "package"}
    mapping = TableMapping({**names, "outcome": "result"}, day="dt")
    query = EdgeQuery(ibis.table(schema, name="auth"), mapping)
    span = Span(19_783 * DAY, 19_784 * DAY, WIDTH)
    sql = sqlglot.transpile(to_sql(query.edges(span), "trino"), read="trino", write="trino", pretty=True)[0]
    assert sql + "\n" == GOLDEN.read_bytes().decode()


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        (TableMapping({"host": "src"}), "no such event column"),
        (TableMapping({"user": "nobody"}), "no column 'nobody'"),
        (TableMapping({"time": "src"}, time_unit="us"), "not a time"),
        (TableMapping(time_unit="us", day="dt"), "no column 'dt'"),
    ],
)
def test_a_wrong_mapping_is_named(events: Path, tmp_path: Path, mapping: TableMapping, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        write_edges(opened_table("duckdb", str(events), {}), EdgeRequest(mapping, WIDTH, tmp_path / "e"))


def test_what_edges_cannot_give_is_refused_with_a_remedy(by_duckdb: Path) -> None:
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"width": 3600}, "windows of 1800 s, not of 3600 s"),
        ({"start": 900}, "lies within a window"),
        ({"end": 86_400 + 900}, "lies within a window"),
        ({"merged": False}, "single events"),
    )
    for change, said in refused:
        with pytest.raises(GraphError, match=said):
            read_timeline(by_duckdb, **{"width": 1800, **change})


def test_the_command_extends_what_it_made_and_refuses_what_it_did_not(
    events: Path, by_duckdb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(["edges", *words])
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out + said.err

    out = str(tmp_path / "edges")
    code, said = call(str(events), "--out", out, "--json", "-q")
    assert code == 0
    assert json.loads(said)["edges"] == read_edge_manifest(by_duckdb).edges
    assert contents(tmp_path / "edges") == contents(by_duckdb)
    assert call(str(events), "--out", out)[0] == 0
    assert contents(tmp_path / "edges") == contents(by_duckdb)
    assert "GROUP BY" in call(str(events), "--out", out, "--sql")[1]
    for words, expected in (
        ((str(events), "--out", out, "--window", "60"), "windows of 1800 s"),
        ((str(events), "--out", str(events)), "not an edge directory"),
        ((str(tmp_path / "nothing"), "--out", out), "no Parquet file"),
        ((str(events), "--out", out, "--engine", "oracle"), "no engine 'oracle'"),
        ((str(events), "--out", out, "--engine", "trino"), "no Trino table"),
        ((str(events), "--out", out, "--start", "1970-01-01T00:00:01Z"), "border of a window"),
    ):
        code, said = call(*words)
        assert code in (2, 4), said
        assert expected in said
        assert "Traceback" not in said
