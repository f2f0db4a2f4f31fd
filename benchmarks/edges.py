"""Edges of windows out of a table of any length, day by day, beside the code that merges events here.

A LANL-like table: every host has its few targets and its account. Each day is written as Parquet, `entente
edges` extends the edge directory by it, and the day before is removed, so that a billion rows need the disk
of two days. `read_timeline` does the same job for the first hours, from an event directory.

    python benchmarks/edges.py [--quick] [--rows N] [--per-day N] [--engine duckdb] [--folder DIR --minutes M]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil
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


def day_of_hours(rows: int) -> list[dict[str, np.ndarray]]:
    """Codes of the rows of one day, hour by hour; other days have other names and begin at another hour."""
    rng = np.random.default_rng(0)
    friends = np.random.default_rng(-1 % 2**32).zipf(1.5, (HOSTS, 24)) % HOSTS
    hours = []
    for _ in range(24):
        n = rows // 24
        src = rng.zipf(1.25, n) % HOSTS
        dst = friends[src, np.minimum(rng.geometric(0.3, n) - 1, 23)]
        dst = np.where(rng.random(n) < 0.01, rng.integers(0, HOSTS, n), dst)
        time = np.sort(rng.integers(0, HOUR, n))
        columns = {
            "src": src,
            "dst": dst,
            "user": np.where(rng.random(n) < 0.9, src % USERS, rng.zipf(1.3, n) % USERS),
            "kind": np.where(rng.random(n) < 0.9, dst % 4, rng.choice(4, n)),
            "logon": np.where(rng.random(n) < 0.95, dst % 3, rng.choice(3, n)),
        }
        codes = {name: codes.astype(np.int32) for name, codes in columns.items()}
        hours.append({**codes, "time": time, "outcome": rng.random(n) < 0.98})
    return hours


def tables_of(day: int, hours: list[dict[str, np.ndarray]]) -> Iterator[pa.Table]:
    """The rows of a day, hour by hour."""
    names = {
        "src": [f"C{(i + 101 * day) % HOSTS}" for i in range(HOSTS)],
        "user": [f"U{(i + 101 * day) % USERS}@DOM1" for i in range(USERS)],
        "kind": ["NTLM", "Kerberos", "Negotiate", "?"],
        "logon": ["Network", "Batch", "Service"],
    }
    names["dst"] = names["src"]
    for hour in range(24):
        codes = hours[(hour + 7 * day) % 24]
        columns = {
            name: pa.DictionaryArray.from_arrays(codes[name], values) for name, values in names.items()
        }
        time = codes["time"] + (day * DAY + hour * HOUR)
        yield pa.table({"time": time, **columns, "outcome": codes["outcome"]})


def write_day(table: Path, day: int, tables: list[pa.Table]) -> Path:
    folder = table / f"day={day_name(day)}"
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
    folder.mkdir(parents=True)
    with pq.ParquetWriter(
        folder / "part.parquet", tables[0].schema, compression="zstd", store_schema=False
    ) as writer:
        for one in tables:
            writer.write_table(one)
    return folder


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


@dataclass
class Progress:
    """What the days so far took; kept beside the table, so that a run can be cut."""

    days: int = 0
    seconds: float = 0.0
    wall: float = 0.0
    read: int = 0
    edges: int = 0
    peak: float = 0.0
    first: float = 0.0
    arrays: float = 0.0

    @classmethod
    def of(cls, file: Path) -> Progress:
        return cls(**json.loads(file.read_text())) if file.exists() else cls()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="400,000 rows in two days")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--per-day", type=int, default=5_000_000)
    parser.add_argument("--engine", default="duckdb")
    parser.add_argument("--setting", action="append", default=[], help="of the engine; repeated")
    parser.add_argument("--folder", type=Path, help="where the table lies; a run that was cut goes on there")
    parser.add_argument("--minutes", type=float, help="stop after the day in which they are over")
    given = parser.parse_args()
    rows, per_day = (400_000, 200_000) if given.quick else (given.rows, given.per_day)
    words = ["--engine", given.engine, *(word for entry in given.setting for word in ("--setting", entry))]
    with tempfile.TemporaryDirectory(prefix="entente-bench-") as name:
        done = run(given.folder or Path(name), rows, per_day, words, given.minutes)
    if done is not None:
        print(json.dumps({"benchmark": "edges", "engine": given.engine, "rows": rows, "ratios": done}))


def run(
    folder: Path, rows: int, per_day: int, words: list[str], minutes: float | None
) -> dict[str, float] | None:
    table, out, mapping = folder / "table", folder / "edges", folder / "mapping.toml"
    folder.mkdir(parents=True, exist_ok=True)
    mapping.write_text('time_unit = "us"\nday = "day"\n')
    command = [sys.executable, "-c", COMMAND, "edges", str(table), "--mapping", str(mapping), "--json", "-q"]
    days, hours = max(1, rows // per_day), day_of_hours(per_day)
    state, until = Progress.of(folder / "progress.json"), time.monotonic() + 60 * (minutes or 1e6)
    while state.days < days:
        if time.monotonic() > until:
            print(f"{state.days} of {days} days; go on with the same command")
            return None
        tables = list(tables_of(state.days, hours))
        written = write_day(table, state.days, tables)
        spent = measured([*command, *words, "--out", str(out)])
        state.seconds, state.wall = state.seconds + spent.seconds, state.wall + spent.wall
        state.read, state.peak = state.read + size_of(written), max(state.peak, spent.peak)
        state.edges = json.loads(spent.said)["edges"]
        if not state.days:
            state.first = spent.seconds / per_day
            state.arrays = by_arrays(pa.concat_tables(tables[:HOURS]), folder / "events")
        else:
            shutil.rmtree(table / f"day={day_name(state.days - 1)}")
        state.days += 1
        (folder / "progress.json").write_text(json.dumps(asdict(state)))
        print(f"day {state.days}/{days}: {state.seconds:.0f} CPU s, {state.edges:,} edges", flush=True)
    return summary(state, days * (per_day // 24 * 24), size_of(out))


def summary(state: Progress, rows: int, out: int) -> dict[str, float]:
    print(
        f"{rows:,} rows, {state.read / 1e6:,.0f} MB -> {state.edges:,} edges, {out / 1e6:,.0f} MB; "
        f"processor {state.seconds:.1f} s, wall {state.wall:.1f} s at load {os.getloadavg()[0]:.0f}, "
        f"peak {state.peak:.0f} MB"
    )
    each = state.seconds / rows
    print(
        f"processor seconds = rows x {each * 1e6:.3f} us; "
        f"10 billion rows a day: {1e10 * each / 3600:.1f} core hours"
    )
    return {
        "edges / merging events here, processor time per row": round(state.first / state.arrays, 2),
        "processor us per row": round(each * 1e6, 3),
        "peak_mb": round(state.peak, 0),
        "bytes out / in": round(out / state.read, 3),
    }


def by_arrays(rows: pa.Table, events: Path) -> float:
    """Processor seconds per row of `read_timeline` with context."""
    write_events(rows, events)
    cpu = time.process_time()
    read_timeline(events, 1800, context=True)
    spent = time.process_time() - cpu
    shutil.rmtree(events)
    return spent / rows.num_rows


@dataclass(frozen=True)
class Spent:
    said: str
    seconds: float
    """Of the processor, by the command and everything that it started."""
    wall: float
    peak: float
    """MB held by all of them together."""


def measured(command: list[str]) -> Spent:
    """Run it; Spark's workers are processes of their own, so the tree is looked at twice a second."""
    started, before = time.perf_counter(), _children()
    process = psutil.Popen(command, stdout=subprocess.PIPE, text=True)
    seconds: dict[int, float] = {}
    peak = 0
    while process.poll() is None:
        held = 0
        with contextlib.suppress(psutil.Error):
            for one in [process, *process.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    used = one.cpu_times()
                    seconds[one.pid] = used.user + used.system
                    held += one.memory_info().rss
        peak = max(peak, held)
        time.sleep(0.5)
    if process.returncode:
        sys.exit(process.returncode)
    spent = max(_children() - before, sum(seconds.values()))
    return Spent(process.stdout.read(), spent, time.perf_counter() - started, peak / 1e6)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
