"""Alerts a day and silo with a budget of ten, over the days of a test: at once, and in the service's steps.

    python benchmarks/budget.py [--seed 5] [--hosts 200] [--days 12] [--budget 10] [--steps]
    python benchmarks/budget.py --events EVENTS --silos silos.csv --train 149400

Without `--events` a simulated company of four sites, one silo each, trained on the first 40 % of the days. At
once is one call of `detect` for all test days; `--steps` adds one call per window, as `entente watch` does.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from entente.config import parse_experiment
from entente.detection.alerts import Alert
from entente.logs.events import load_events, write_events
from entente.logs.schema import DAY, MICROSECONDS
from entente.partition.base import Assignment, write_silos
from entente.runs.folder import RunFolder
from entente.runtime.detecting import detect
from entente.runtime.local import train
from entente_lab.simulator import SimulationConfig, simulate

SITES, TRAINED, ROUNDS, WINDOW = 4, 0.4, 8, 1800


def company(folder: Path, hosts: int, days: int, seed: int) -> tuple[Path, Path, float]:
    """Events, silos and the seconds of training of a simulated company."""
    made = simulate(SimulationConfig(sites=SITES, hosts=hosts, days=float(days), seed=seed))
    write_events(made.events, folder / "events")
    names, sites = (made.hosts[column].to_pylist() for column in ("host", "site"))
    write_silos(folder / "silos.csv", Assignment.from_mapping(dict(zip(names, sites, strict=True))))
    return folder / "events", folder / "silos.csv", days * TRAINED * 86400


def in_steps(run: RunFolder, events: Path, folder: Path, start: int, end: int) -> list[Alert]:
    """Alerts of one call per window."""
    found, memory = list[Alert](), RunFolder(folder / "memory")
    whole = load_events(events, start=start, end=end)
    times, width = whole["time"].to_numpy(), WINDOW * MICROSECONDS
    for begin in range(start, end, width):
        low, high = times.searchsorted((begin, begin + width)).tolist()
        if low == high:
            continue
        write_events(whole.slice(low, high - low), folder / "window")
        night = detect(run, folder / "window", memory=memory)
        night.commit(memory)
        found += night.alerts
    return found


def told(alerts: Sequence[Alert], silos: Sequence[str], days: float) -> str:
    """Alerts counted at the owner of their source, and at every silo that raised them."""
    owners = Counter(alert.silo for alert in alerts)
    raisers = Counter(silo for alert in alerts for silo in alert.silos)
    return "; ".join(
        f"{name} {counts.total() / days / len(silos):.2f} "
        f"({' '.join(f'{silo} {counts[silo] / days:.2f}' for silo in silos)})"
        for name, counts in (("by owner", owners), ("by every silo that raised it", raisers))
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("seed", 5), ("hosts", 200), ("days", 12), ("budget", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--events", type=Path)
    parser.add_argument("--silos", type=Path)
    parser.add_argument("--train", type=float)
    parser.add_argument("--steps", action="store_true", help="one call per window as well")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="entente-bench-") as name:
        folder = Path(name)
        if given.events is None:
            events, silos, until = company(folder, given.hosts, given.days, given.seed)
        else:
            events, silos, until = given.events, given.silos, given.train
        start = round(until) // WINDOW * WINDOW * MICROSECONDS
        data = {"events": str(events), "silos": str(silos), "train": until, "end": until}
        settings = {
            "data": {**data, "window": WINDOW},
            "detection": {"alerts_per_day": given.budget},
            "federation": {"rounds": ROUNDS},
            "seed": given.seed,
        }
        run = RunFolder(folder / "run")
        train(parse_experiment(settings), run, baselines=())
        names = sorted(run.read_model()[1].thresholds)
        last = int(load_events(events, start=start)["time"].to_numpy()[-1])
        end = (last // (WINDOW * MICROSECONDS) + 1) * WINDOW * MICROSECONDS
        write_events(load_events(events, start=start, end=end), folder / "test")
        at_once = detect(run, folder / "test").alerts
        days = (end - start) / DAY
        print(f"seed {given.seed}, {len(names)} silos, {days:.2f} days, alerts a day and silo:")
        print(f"  at once  {told(at_once, names, days)}", flush=True)
        if given.steps:
            print(f"  in steps {told(in_steps(run, events, folder, start, end), names, days)}")


if __name__ == "__main__":
    main()
