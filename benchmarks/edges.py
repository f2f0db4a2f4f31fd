"""Edges of windows out of a table of any length, day by day, beside the code that merges events here.

A LANL-like table: every host has its few targets and its account. Each day is written as Parquet, `entente
edges` extends the edge directory by it, and the day before is removed, so that a billion rows need the disk
of two days. `read_timeline` does the same job for the first hours, from an event directory.

    python benchmarks/edges.py [--quick] [--rows N] [--per-day N] [--engine duckdb]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from entente.graphs.snapshots import read_timeline
from entente.logs.events import write_events
from entente.logs.schema import DAY
from entente.logs.store import day_name

HOSTS, USERS, HOUR = 15_000, 11_000, 3_600_000_000
HOURS = 4
"""Of the first day, that are also merged here."""
COMMAND = "from entente.cli import main; main()"


def encoded(codes: np.ndarray, names: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names))


def hours_of(day: int, rows: int) -> list[pa.Table]:
    """The rows of one day, hour by hour."""
    rng = np.random.default_rng(day)
    friends = np.random.default_rng(-1 % 2**32).zipf(1.5, (HOSTS, 24)) % HOSTS
    hosts, users = [f"C{i}" for i in range(HOSTS)], [f"U{i}@DOM1" for i in range(USERS)]
    tables = []
    for hour in range(24):
        n = rows // 24
        src = rng.zipf(1.25, n) % HOSTS
        dst = friends[src, np.minimum(rng.geometric(0.3, n) - 1, 23)]
        dst = np.where(rng.random(n) < 0.01, rng.integers(0, HOSTS, n), dst)
        user = np.where(rng.random(n) < 0.9, src % USERS, rng.zipf(1.3, n) % USERS)
        columns = {
            "time": np.sort(rng.integers(0, HOUR, n)) + day * DAY + hour * HOUR,
            "src": encoded(src, hosts),
            "dst": encoded(dst, hosts),
            "user": encoded(user, users),
            "kind": encoded(
                np.where(rng.random(n) < 0.9, dst % 4, rng.choice(4, n)),
                ["NTLM", "Kerberos", "Negotiate", "?"],
            ),
            "logon": encoded(
                np.where(rng.random(n) < 0.95, dst % 3, rng.choice(3, n)), ["Network", "Batch", "Service"]
            ),
            "outcome": pa.array(rng.random(n) < 0.98),
        }
        tables.append(pa.table(columns))
    return tables


def write_day(table: Path, day: int, tables: list[pa.Table]) -> Path:
    folder = table / f"day={day_name(day)}"
    folder.mkdir(parents=True)
    with pq.ParquetWriter(
        folder / "part.parquet", tables[0].schema, compression="zstd", store_schema=False
    ) as writer:
        for one in tables:
            writer.write_table(one)
    return folder


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="400,000 rows in two days")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--per-day", type=int, default=5_000_000)
    parser.add_argument("--engine", default="duckdb")
    parser.add_argument("--setting", action="append", default=[], help="of the engine; repeated")
    given = parser.parse_args()
    rows, per_day = (400_000, 200_000) if given.quick else (given.rows, given.per_day)
    words = ["--engine", given.engine, *(word for entry in given.setting for word in ("--setting", entry))]
    with tempfile.TemporaryDirectory(prefix="entente-bench-") as name:
        ratios = run(Path(name), rows, per_day, words)
    print(json.dumps({"benchmark": "edges", "engine": given.engine, "rows": rows, "ratios": ratios}))


def run(folder: Path, rows: int, per_day: int, words: list[str]) -> dict[str, float]:
    table, out, mapping = folder / "table", folder / "edges", folder / "mapping.toml"
    mapping.write_text('time_unit = "us"\nday = "day"\n')
    command = [sys.executable, "-c", COMMAND, "edges", str(table), "--mapping", str(mapping), "--json", "-q"]
    days = max(1, rows // per_day)
    seconds = wall = 0.0
    read = 0
    first = arrays = 0.0
    before: Path | None = None
    for day in range(days):
        tables = hours_of(day, per_day)
        written = write_day(table, day, tables)
        read += size_of(written)
        started, cpu = time.perf_counter(), _children()
        done = subprocess.run(
            [*command, *words, "--out", str(out)], check=True, capture_output=True, text=True
        )
        wall += time.perf_counter() - started
        seconds += _children() - cpu
        found = json.loads(done.stdout)
        if day == 0:
            first = seconds / per_day
            arrays = by_arrays(pa.concat_tables(tables[:HOURS]), folder / "events")
        if before is not None:
            shutil.rmtree(before)
        before = written
        print(f"day {day + 1}/{days}: {seconds:.0f} CPU s, {found['edges']:,} edges", flush=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    total = days * (per_day // 24 * 24)
    print(
        f"{total:,} rows, {read / 1e6:,.0f} MB -> {found['edges']:,} edges, {size_of(out) / 1e6:,.0f} MB; "
        f"processor {seconds:.1f} s, wall {wall:.1f} s at load {os.getloadavg()[0]:.0f}, peak {peak:.0f} MB"
    )
    each = seconds / total
    print(
        f"processor seconds = rows x {each * 1e6:.3f} us; "
        f"10 billion rows a day: {1e10 * each / 3600:.1f} core hours"
    )
    return {
        "edges / merging events here, processor time per row": round(first / arrays, 2),
        "processor us per row": round(each * 1e6, 3),
        "peak_mb": round(peak, 0),
        "bytes out / in": round(size_of(out) / read, 3),
    }


def by_arrays(rows: pa.Table, events: Path) -> float:
    """Processor seconds per row of `read_timeline` with context."""
    write_events(rows, events)
    cpu = time.process_time()
    read_timeline(events, 1800, context=True)
    spent = time.process_time() - cpu
    shutil.rmtree(events)
    return spent / rows.num_rows


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
