"""How fast the service's loop scores a spool of Zeek JSON, beside parsing the same lines alone.

python benchmarks/service.py [--quick] [--rows N] [--detector NAME] [--window SECONDS]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from entente.config import parse_experiment
from entente.logs.formats.base import Options
from entente.logs.ingest import Request, ingest
from entente.logs.refine import Refinement
from entente.logs.stream import LineReader
from entente.runs.folder import RunFolder
from entente.runtime.local import train
from entente.service.config import Watch
from entente.service.database import connect
from entente.service.loop import READ, Input, WatchLoop
from entente.service.scorer import ModelScorer
from entente.service.sources.spool import Spool, SpoolOptions

HOSTS = 15_000
RATE = 20
"""Connections per second of the generated company."""
BLOCK = 100_000


def generate(path: Path, rows: int, start: float, seed: int) -> None:
    """Zeek's conn.log in JSON, with a long tail of hosts: most pairs come again."""
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        for first in range(0, rows, BLOCK):
            n = min(BLOCK, rows - first)
            times = start + (first + np.arange(n)) / RATE
            src, dst = rng.zipf(1.3, n) % HOSTS, rng.zipf(1.5, n) % 500
            ports = rng.choice([443, 445, 389, 88, 3389, 22], n)
            file.writelines(
                f'{{"ts":{t:.6f},"uid":"C{first + i}","id.orig_h":"10.0.{s >> 8}.{s & 255}",'
                f'"id.orig_p":50000,"id.resp_h":"10.9.{d >> 8}.{d & 255}","id.resp_p":{p},"proto":"tcp",'
                f'"service":"ssl","duration":1.25,"orig_bytes":812,"resp_bytes":4096,"conn_state":"SF"}}\n'
                for i, (t, s, d, p) in enumerate(
                    zip(times.tolist(), src.tolist(), dst.tolist(), ports.tolist(), strict=True)
                )
            )


def trained(folder: Path, rows: int, detector: str, window: int) -> float:
    """Train a run on `rows` connections; where the next ones begin, in seconds."""
    span = rows // RATE // window * window
    generate(folder / "past.log", span * RATE, 0.0, 0)
    ingest(Request([str(folder / "past.log")], folder / "events"))
    data = {"events": str(folder / "events"), "window": window, "train": span}
    experiment = parse_experiment({"data": data, "detector": {"name": detector}})
    train(experiment, RunFolder(folder / "run"), baselines=())
    return float(span)


def resident_mb() -> float:
    """Memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def parse_alone(path: Path) -> tuple[float, float, int]:
    """(wall, processor, events) of reading the same blocks with the same reader and nothing else."""
    reader = LineReader("auto", Options(), Refinement())
    wall, cpu = time.perf_counter(), time.process_time()
    events, position = 0, None
    spool = Spool(SpoolOptions(path=path), "spool")
    while True:
        batch = spool.read(position, READ)
        if not batch.lines:
            break
        for part in batch.lines:
            pieces = reader.read(part.log, part.head, part.block, part.first)
            assert not isinstance(pieces, str)
            events += sum(piece.events.num_rows for piece in pieces)
        position = batch.position
    return time.perf_counter() - wall, time.process_time() - cpu, events


def watch(folder: Path) -> tuple[float, float, WatchLoop, list[float]]:
    """(wall, processor, loop, memory after each step) of the loop until nothing is left to do."""
    source = {"name": "zeek", "type": "spool"}
    table = {"run": folder / "run", "folder": folder / "service", "sources": [source], "port": 0}
    config = Watch.model_validate(table)
    connection = connect(config.folder / "service.db")
    reader = LineReader("auto", Options(), Refinement())
    inputs = [Input("zeek", Spool(SpoolOptions(path=folder / "logs"), "spool"), reader)]
    loop = WatchLoop(config, connection, inputs, ModelScorer.load(config, 0, None))
    memory: list[float] = []
    wall, cpu = time.perf_counter(), time.process_time()
    while loop.step():
        memory.append(resident_mb())
    loop.flush()
    spent = time.perf_counter() - wall, time.process_time() - cpu
    connection.close()
    return *spent, loop, memory


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100,000 lines")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--detector", default="first-seen")
    parser.add_argument("--window", type=int, default=1800, help="seconds; shorter ones are more windows")
    given = parser.parse_args()
    rows = 100_000 if given.quick else given.rows
    with tempfile.TemporaryDirectory(prefix="entente-bench-") as name:
        folder = Path(name)
        begin = trained(folder, max(rows // 5, 10 * given.window * RATE), given.detector, given.window)
        (folder / "logs").mkdir()
        generate(folder / "logs" / "conn.log", rows, begin, 1)
        parse_wall, parse_cpu, events = parse_alone(folder / "logs")
        assert events == rows
        wall, cpu, loop, memory = watch(folder)
    tally = loop.tally
    half = memory[len(memory) // 2]
    eighths = [memory[min(len(memory) - 1, i * len(memory) // 8)] for i in range(1, 9)]
    load = os.getloadavg()[0]
    print(f"{rows:,} lines, windows of {given.window} s, detector {given.detector}, load {load:.1f}")
    print(f"parsing alone {parse_wall:.2f} s (processor {parse_cpu:.2f} s)")
    counts = f"{tally.windows} windows, {tally.edges:,} edges, {tally.alerts:,} alerts"
    print(f"loop {wall:.2f} s (processor {cpu:.2f} s): {counts}")
    print(f"memory: {memory[0]:.0f} MB after one step, then by eighths:", *map(round, eighths))
    ratios = {
        "events_per_second": round(rows / wall),
        "events_per_processor_second": round(rows / cpu),
        "parsing_events_per_second": round(rows / parse_wall),
        "loop_to_parsing": round(wall / parse_wall, 3),
        "loop_to_parsing_cpu": round(cpu / parse_cpu, 3),
        "memory_end_to_half": round(memory[-1] / half, 3),
    }
    print(json.dumps({"benchmark": "service", "rows": rows, "detector": given.detector, "ratios": ratios}))


if __name__ == "__main__":
    main()
