"""What closing a benign scanner's alerts every day changes, on a simulated company with a red team.

    python benchmarks/feedback.py [--seed 1] [--hosts 200] [--days 8]

A scanner that is not in the training days begins to contact hosts on the first test day, so many new ones a
day. Each day is one call of `detect` with a budget of 10 alerts a day; with feedback, the scanner's alerts
of the day are closed as benign before the next. Simulated data.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from entente.config import parse_experiment
from entente.detection.feedback import ClosedAlert, learn
from entente.logs.events import load_events, write_events
from entente.logs.schema import DAY, MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runtime.detecting import detect
from entente.runtime.local import train
from entente_lab.simulator import SimulationConfig, simulate

SCANNER = "scanner"
TRAINED = 0.6
BUDGET = 10


def with_scanner(events: pa.Table, first: int, days: int, a_day: int, rng: np.random.Generator) -> pa.Table:
    """The events, and a scanner that contacts `a_day` hosts between 01:00 and 05:00 of every day."""
    hosts = np.unique(np.concatenate([events["src"].to_numpy(), events["dst"].to_numpy()]).astype(str))
    count = a_day * days
    targets = np.concatenate([rng.permutation(hosts) for _ in range(-(-count // len(hosts)))])[:count]
    hour = 3_600 * MICROSECONDS
    times = first + np.repeat(np.arange(days), a_day) * DAY + rng.integers(hour, 5 * hour, count)
    rows = pa.table({"time": times, "src": [SCANNER] * count, "dst": targets.tolist()})
    rows = rows.append_column("label", pa.array(np.zeros(count, dtype=np.int8)))
    columns = ["time", "src", "dst", "label"]
    both = pa.concat_tables([events.select(columns).cast(rows.schema), rows.select(columns)])
    return both.take(pa.array(np.argsort(both["time"].to_numpy(), kind="stable")))


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("seed", 1), ("hosts", 200), ("days", 8), ("targets", 30), ("rounds", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        company = simulate(
            SimulationConfig(sites=1, hosts=options.hosts, days=float(options.days), seed=options.seed)
        )
        split = round(options.days * TRAINED)
        rng = np.random.default_rng(options.seed)
        days = options.days - split
        events = with_scanner(company.events, split * DAY, days, options.targets, rng)
        write_events(events, folder / "events")
        red = {(row["src"], row["dst"]) for row in company.events.to_pylist() if row["label"]}
        data = {"events": str(folder / "events"), "train": split * 86400.0, "end": split * 86400.0}
        settings = {
            "data": data,
            "detection": {"alerts_per_day": BUDGET},
            "federation": {"rounds": options.rounds},
            "seed": options.seed,
        }
        run = RunFolder(folder / "run")
        train(parse_experiment(settings), run, baselines=())
        print("Alerts without / with feedback:")
        print("| day | scanner's | red team's | all |")
        print("|---|---|---|---|")
        told = {taught: nights(run, folder, split, days, taught, red) for taught in (False, True)}
        for day, (without, taught) in enumerate(zip(told[False], told[True], strict=True), start=1):
            cells = (f"{a} / {b}" for a, b in zip(without, taught, strict=True))
            print(f"| {day} | {' | '.join(cells)} |")


def nights(
    run: RunFolder, folder: Path, first: int, days: int, taught: bool, red: set[tuple[str, str]]
) -> list[tuple[int, int, int]]:
    """Per day: alerts of the scanner, of the red team, and all."""
    memory, verdicts, found = RunFolder(folder / f"memory-{taught}"), list[ClosedAlert](), []
    for day in range(first, first + days):
        events = folder / "day"
        write_events(load_events(folder / "events", start=day * DAY, end=(day + 1) * DAY), events)
        night = detect(run, events, memory=memory, lessons=learn(verdicts if taught else ()))
        night.commit(memory)
        closed = [alert for alert in night.alerts if alert.src == SCANNER]
        verdicts += [ClosedAlert(a.silo, a.src, a.score - a.threshold, True) for a in closed]
        hits = sum((alert.src, alert.dst) in red for alert in night.alerts)
        found.append((len(closed), hits, len(night.alerts)))
    return found


if __name__ == "__main__":
    main()
