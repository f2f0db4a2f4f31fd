"""Memory of `entente watch` over many windows of a silo of LANL's size, scored as they are written.

    python benchmarks/endurance.py [--windows 1000] [--detector behaviour] [--seed 0]

A process of its own runs the service on a spool of Zeek JSON; this one writes the log, rotates it after every
window and removes it three windows later, as a sensor does. Hosts, pairs and pairs per window are as many as
in LANL cyber1; who contacts whom, how often and from when on is drawn. Simulated data.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from entente.config import parse_experiment
from entente.logs.ingest import Request, ingest
from entente.logs.schema import MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runtime.local import train

HOSTS, PAIRS, PER_WINDOW = 15_425, 215_858, 7_957
"""Of LANL cyber1: hosts, pairs in 58 days, pairs in half an hour."""
WINDOW = 1800
TRAINED = 48
DAYS = 58
LATE = 0.25
"""Share of the pairs that begin at some moment of the 58 days."""
AHEAD = 3
"""Windows by which the log is ahead of scoring."""
PATIENCE = 600
"""Seconds without a scored window after which the service is taken for stuck."""


class Company:
    """Who contacts whom: few hosts much, most hosts little; most pairs rarely."""

    def __init__(self, hosts: int, pairs: int, per_window: int, seed: int) -> None:
        self._rng = rng = np.random.default_rng(seed)
        keys = np.zeros(0, dtype=np.int64)
        while len(keys) < pairs:
            src, dst = (hosts * rng.random(pairs) ** power for power in (2.0, 3.0))
            drawn = (src.astype(np.int64) << 32) | dst.astype(np.int64)
            keys = np.unique(np.append(keys, drawn[src.astype(np.int64) != dst.astype(np.int64)]))
        keys = rng.permutation(keys)[:pairs]
        self._src, self._dst = keys >> 32, keys & 0xFFFFFFFF
        self._born = np.where(rng.random(pairs) < LATE, rng.uniform(0, DAYS * 86400, pairs), 0.0)
        self._rate = rng.lognormal(0.0, 2.5, pairs)
        low, high = 1e-9, 1e3  # so that a window has so many distinct pairs on average
        for _ in range(60):
            middle = (low * high) ** 0.5
            mean = -np.expm1(-middle * self._rate)[self._born == 0].sum()
            low, high = (middle, high) if mean < per_window else (low, middle)
        self._rate *= low

    def window(self, number: int) -> str:
        """The conn.log of one window, in JSON."""
        rng, start = self._rng, number * WINDOW
        hour = start / 3600 % 24
        level = 0.3 + 1.4 * np.exp(-(((hour - 13) / 4) ** 2))
        drawn = np.minimum(rng.poisson(self._rate * level * (self._born <= start)), 5)
        pair = np.repeat(np.arange(len(drawn)), drawn)
        times = np.sort(start + WINDOW * rng.random(len(pair)))
        pair = rng.permutation(pair)
        ports = rng.choice([443, 445, 389, 88, 3389, 22], len(pair))
        columns = (times, self._src[pair], self._dst[pair], ports)
        return "".join(
            f'{{"ts":{t:.6f},"uid":"C{number}x{i}","id.orig_h":"10.0.{s >> 8}.{s & 255}",'
            f'"id.orig_p":50000,"id.resp_h":"10.0.{d >> 8}.{d & 255}","id.resp_p":{p},"proto":"tcp",'
            f'"service":"ssl","duration":1.25,"orig_bytes":812,"resp_bytes":4096,"conn_state":"SF"}}\n'
            for i, (t, s, d, p) in enumerate(zip(*(column.tolist() for column in columns), strict=True))
        )


def trained(folder: Path, company: Company, detector: str, seed: int) -> None:
    with (folder / "past.log").open("w") as file:
        file.writelines(company.window(number) for number in range(TRAINED))
    ingest(Request([str(folder / "past.log")], folder / "events"))
    settings = {
        "data": {"events": str(folder / "events"), "window": WINDOW, "train": TRAINED * WINDOW},
        "detector": {"name": detector},
        "detection": {"alerts_per_day": 10},
        "federation": {"rounds": 1},
        "seed": seed,
    }
    train(parse_experiment(settings), RunFolder(folder / "run"), baselines=())


def resident(process: int) -> float:
    """MB that a process holds now."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def state_size(service: Path) -> float:
    """MB of the state from which the service would go on."""
    for _ in range(10):  # the service may replace it meanwhile
        try:
            newest = max((service / "states").glob("[0-9]*"))
            return sum(file.stat().st_size for file in newest.rglob("*") if file.is_file()) / 2**20
        except (OSError, ValueError):
            time.sleep(0.05)
    return float("nan")


def scored(folder: Path, company: Company, windows: int) -> Iterator[int]:
    """Write one window after the other; how many of them have been scored, whenever there are more."""
    spool, database = folder / "logs", sqlite3.connect(folder / "service" / "service.db", timeout=60)
    written = done = 0
    moved = time.monotonic()
    while done < windows:
        while written < min(done + AHEAD, windows + 1):
            log = spool / "conn.log"
            if log.exists():
                log.rename(spool / f"conn.{written - 1:06d}.log")
            (spool / f"conn.{written - 1 - AHEAD:06d}.log").unlink(missing_ok=True)
            fresh = spool / "new"
            fresh.write_text(company.window(TRAINED + written))
            fresh.rename(log)
            written += 1
        stop = database.execute("SELECT max(stop) FROM scorings").fetchone()[0]
        now = 0 if stop is None else stop // (WINDOW * MICROSECONDS) - TRAINED
        if now > done:
            done, moved = now, time.monotonic()
            yield done
        elif time.monotonic() - moved > PATIENCE:
            raise SystemExit(f"no window was scored for {PATIENCE} s after {done}")
        time.sleep(0.02)
    database.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the hosts, 40 windows")
    parser.add_argument("--windows", type=int, default=1000)
    parser.add_argument("--detector", default="behaviour")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    windows, part = (40, 10) if given.quick else (given.windows, 1)
    company = Company(HOSTS // part, PAIRS // part, PER_WINDOW // part, given.seed)
    with tempfile.TemporaryDirectory(prefix="entente-bench-") as name:
        folder = Path(name)
        trained(folder, company, given.detector, given.seed)
        (folder / "logs").mkdir()
        (folder / "watch.toml").write_text(
            f'run = "{folder / "run"}"\nfolder = "{folder / "service"}"\nport = 0\n'
            f'[[sources]]\nname = "zeek"\ntype = "spool"\npath = "{folder / "logs"}"\n'
        )
        command = [sys.executable, "-m", "entente", "watch", str(folder / "watch.toml"), "--quiet"]
        began = time.monotonic()
        with subprocess.Popen(command) as service:
            try:
                while not (folder / "service" / "service.db").exists() and service.poll() is None:
                    time.sleep(0.1)
                time.sleep(2.0)
                found = measured(folder, company, windows, service.pid)
            finally:
                service.terminate()
        spent = time.monotonic() - began
        database = sqlite3.connect(folder / "service" / "service.db")
        calls, edges, alerts = database.execute(
            "SELECT count(*), sum(edges), sum(alerts) FROM scorings"
        ).fetchone()
        database.close()
    print(f"{calls} scorings, {edges:,} edges, {alerts} alerts, {spent:.0f} s")
    at, memory = (np.array(column) for column in zip(*found, strict=True))
    half = at >= windows / 2
    slope = 100 * np.polyfit(at[half], memory[half], 1)[0]
    first, second = (np.median(memory[part]) for part in (half & (at < windows * 0.75), at >= windows * 0.75))
    print(f"slope over the second half: {slope:+.2f} MB per 100 windows; median of the third quarter")
    print(f"{first:.0f} MB, of the fourth {second:.0f} MB")
    figures = {"fourth_to_third_quarter": round(float(second / first), 3)}
    print(json.dumps({"benchmark": "endurance", "windows": windows, "ratios": figures}))


def measured(folder: Path, company: Company, windows: int, process: int) -> list[tuple[int, float]]:
    """Memory after every window, printed ten times."""
    print("| windows | memory, MB (highest since the row above) | state on disk, MB | database, MB |")
    print("|---:|---:|---:|---:|", flush=True)
    found, told = list[tuple[int, float]](), 0
    for done in scored(folder, company, windows):
        found.append((done, resident(process)))
        if done >= told + windows // 10 or done >= windows:
            most = max(memory for at, memory in found if at > told)
            database = (folder / "service" / "service.db").stat().st_size / 2**20
            state = state_size(folder / "service")
            print(f"| {done} | {found[-1][1]:.0f} ({most:.0f}) | {state:.1f} | {database:.1f} |", flush=True)
            told = done
    return found


if __name__ == "__main__":
    main()
