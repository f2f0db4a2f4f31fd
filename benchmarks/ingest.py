"""How fast logs become events, against the same job written by hand, in one run.

The paper's job on a generated auth file: NTLM rows, 30-minute windows, count per pair.

    python benchmarks/ingest.py [--quick] [--rows N] [--memory-rows N] [--repeat N]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

BLOCK = 500_000

BY_HAND = """
import duckdb, sys, time
start, cpu = time.perf_counter(), time.process_time()
names = ["time", "user", "to", "src", "dst", "package", "logon", "orientation", "result"]
columns = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
with duckdb.connect() as connection:
    connection.sql(f'''
        SELECT CAST(time AS BIGINT) // 1800 AS w, src, dst, count(*) AS n, min(CAST(time AS BIGINT)) AS first
        FROM read_csv('{sys.argv[1]}', columns = {{{columns}}}, header = false, delim = ',', quote = '',
                      escape = '', auto_detect = false)
        WHERE package = 'NTLM' AND src <> dst GROUP BY ALL ORDER BY w, src, dst
    ''').to_arrow_table()
print(time.perf_counter() - start, time.process_time() - cpu)
"""

OURS = """
import sys, time
from pathlib import Path
from entente.graphs.snapshots import read_timeline
from entente.logs.formats.base import Options
from entente.logs.ingest import Request, ingest
import duckdb, ibis
start, cpu = time.perf_counter(), time.process_time()
ingest(Request([sys.argv[1]], Path(sys.argv[2]), "lanl-auth", Options(ntlm=True), sys.argv[3]))
if sys.argv[4] == "windows":
    read_timeline(Path(sys.argv[2]), 1800)
print(time.perf_counter() - start, time.process_time() - cpu)
"""


def generate(path: Path, rows: int, seed: int = 0) -> None:
    """LANL-like lines, 200 per second, with a long tail of users and hosts; 70 % NTLM."""
    rng = np.random.default_rng(seed)
    users = pa.array([f"U{i}@DOM1" for i in range(11_000)])
    hosts = pa.array([f"C{i}" for i in range(15_000)])
    packages = pa.array(["NTLM", "Kerberos", "Negotiate", "?"])
    options = csv.WriteOptions(include_header=False, quoting_style="none")
    clock = 0
    with path.open("wb") as file:
        for start in range(0, rows, BLOCK):
            n = min(BLOCK, rows - start)
            times = np.sort(rng.integers(0, max(1, n // 200), n)) + clock
            clock = int(times[-1])
            user = users.take(pa.array(rng.zipf(1.3, n) % 11_000))
            src, dst = (hosts.take(pa.array(rng.zipf(1.3, n) % 15_000)) for _ in range(2))
            package = packages.take(pa.array(rng.choice(4, n, p=[0.7, 0.22, 0.05, 0.03])))
            rest = [pa.repeat(word, n) for word in ("Network", "LogOn", "Success")]
            columns = [pa.array(times), user, user, src, dst, package, *rest]
            csv.write_csv(pa.table(columns, names=[str(i) for i in range(9)]), file, options)


@dataclass(frozen=True)
class Cost:
    """What one run took. Processor time is the steadier of the two on a machine that others use too."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s (processor {self.cpu:.2f} s)"


def child(*words: object) -> Cost:
    """What a script measured about itself, imports left out."""
    done = subprocess.run(
        [sys.executable, "-c", *map(str, words)], capture_output=True, text=True, check=True
    )
    wall, cpu = done.stdout.split()[-2:]
    return Cost(float(wall), float(cpu))


def command(words: list[str]) -> Cost:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def best(measure: Callable[[], Cost], repeat: int) -> Cost:
    costs = [measure() for _ in range(repeat)]
    return Cost(min(cost.wall for cost in costs), min(cost.cpu for cost in costs))


def peak_of_command(log: Path, out: Path) -> float:
    """Peak memory in MB of the `entente ingest` command, as the kernel counts it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    code = "from entente.cli import main; main()"
    words = ["ingest", str(log), "--format", "lanl-auth", "--ntlm", "-q", "--out", str(out)]
    subprocess.run([sys.executable, "-c", code, *words], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if peak <= before:
        print(f"note: another child needed as much ({before / 1024:.0f} MB); the figure is an upper bound")
    return peak / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="200,000 rows, once")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--memory-rows", type=int, default=50_000_000, help="0 = leave memory out")
    parser.add_argument("--repeat", type=int, default=3, help="the best of this many runs counts")
    given = parser.parse_args()
    rows, memory_rows, repeat = given.rows, given.memory_rows, given.repeat
    if given.quick:
        rows, memory_rows, repeat = 200_000, 200_000, 1
    with tempfile.TemporaryDirectory(prefix="entente-bench-") as folder:
        ratios = run(Path(folder), rows, memory_rows, repeat)
    print(json.dumps({"benchmark": "ingest", "rows": rows, "memory_rows": memory_rows, "ratios": ratios}))


def run(folder: Path, rows: int, memory_rows: int, repeat: int) -> dict[str, float]:
    out = folder / "events"
    ratios: dict[str, float] = {}
    if memory_rows:
        # First, because the kernel remembers only the hungriest child.
        generate(folder / "large.txt", memory_rows)
        ratios["peak_mb"] = round(peak_of_command(folder / "large.txt", out), 1)
        (folder / "large.txt").unlink()
        print(f"{memory_rows:,} rows: peak memory {ratios['peak_mb']} MB")
    log = folder / "auth.txt"
    generate(log, rows)
    hand = best(lambda: child(BY_HAND, log), repeat)
    duckdb = best(lambda: child(OURS, log, out, "duckdb", "windows"), repeat)
    polars = best(lambda: child(OURS, log, out, "polars", "windows"), repeat)
    print(f"{rows:,} rows, load {os.getloadavg()[0]:.1f}")
    print(f"by hand {hand}; allowed {1.15 * hand.wall + 2:.2f} s; duckdb {duckdb}; polars {polars}")
    packed = folder / "auth.txt.gz"
    with packed.open("wb") as file:
        subprocess.run(["gzip", "-c", str(log)], stdout=file, check=True)
    plain = best(lambda: child(OURS, log, out, "duckdb", "events"), repeat)
    gz = best(lambda: child(OURS, packed, out, "duckdb", "events"), repeat)
    unpack = best(lambda: command(["gzip", "-dc", str(packed)]), repeat)
    hand_gz = best(lambda: child(BY_HAND, packed), repeat)
    print(f"ingest alone: plain {plain}; gzip {gz}; gzip -dc {unpack}; by hand on gzip {hand_gz}")
    return ratios | {
        "ours_to_hand": round(duckdb.wall / hand.wall, 3),
        "ours_to_allowed": round(duckdb.wall / (1.15 * hand.wall + 2), 3),
        "ours_to_hand_cpu": round(duckdb.cpu / hand.cpu, 3),
        "polars_to_duckdb": round(polars.wall / duckdb.wall, 3),
        "polars_to_duckdb_cpu": round(polars.cpu / duckdb.cpu, 3),
        "gzip_to_gzip_dc": round(gz.wall / unpack.wall, 3),
        "gzip_to_gzip_dc_cpu": round(gz.cpu / unpack.cpu, 3),
        "gzip_to_hand_on_gzip": round(gz.wall / hand_gz.wall, 3),
        "gzip_to_plain": round(gz.wall / plain.wall, 3),
    }


if __name__ == "__main__":
    main()
