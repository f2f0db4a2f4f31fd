"""How much of a red team's campaign lies in the first incidents, with a budget of alerts a day.

    python benchmarks/incidents.py [--seed 1] [--hosts 400] [--days 8] [--budget 10]

A simulated company of four sites, one silo each; trained together on the first 60 % of the days, the rest is
the test. An edge is a pair of hosts in a window. Simulated data.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path

from entente.config import parse_experiment
from entente.detection.alerts import Alert
from entente.detection.incidents import list_incidents
from entente.detection.table import read_table
from entente.logs.events import write_events
from entente.logs.schema import DAY
from entente.partition.base import Assignment, write_silos
from entente.runs.folder import RunFolder
from entente.runtime.local import train
from entente_lab.simulator import SimulationConfig, simulate

SITES, TRAINED, FIRST = 4, 0.6, 3


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("seed", 1), ("hosts", 400), ("days", 8), ("rounds", 15), ("budget", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    company = simulate(
        SimulationConfig(sites=SITES, hosts=options.hosts, days=float(options.days), seed=options.seed)
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_events(company.events, folder / "events")
        names, sites = (company.hosts[column].to_pylist() for column in ("host", "site"))
        write_silos(folder / "silos.csv", Assignment.from_mapping(dict(zip(names, sites, strict=True))))
        settings = {
            "data": {
                "events": str(folder / "events"),
                "silos": str(folder / "silos.csv"),
                "train": options.days * TRAINED * 86400,
            },
            "detection": {"alerts_per_day": options.budget},
            "federation": {"rounds": options.rounds},
            "seed": options.seed,
        }
        run = train(parse_experiment(settings), RunFolder(folder / "run"), baselines=())
        scored = run.evaluation.overall()
        table = read_table(folder / "run" / "alerts.parquet")
    assert scored.label is not None
    red = scored.chosen(scored.label == 1)
    attack = set(zip(red.window.tolist(), red.src_names(), red.dst_names(), strict=True))
    alerts = table.alerts
    first = {incident.id for incident in list_incidents(alerts)[:FIRST]}
    raised = _edges(alerts) & attack
    inside = _edges(a for a in alerts if a.incident in first) & attack
    further = _edges(a for a in table.further if a.incident in first)
    days = (int(scored.window.max()) - int(scored.window.min()) + scored.width) / DAY
    print(f"seed {options.seed}: {len(alerts) / days / SITES:.2f} alerts a day and silo over {days:.1f} days")
    print(
        f"{len(attack)} edges of the attack, {len(raised)} of them alerts, {len(inside)} of these in the "
        f"first {FIRST} incidents: {len(inside) / max(1, len(raised)):.0%} of those raised, "
        f"{len(inside) / len(attack):.0%} of all"
    )
    print(
        f"with their {len(further)} further edges, {len(further & attack)} of the attack: "
        f"{len(inside | further & attack) / len(attack):.0%} of all; {len(table.further)} in all"
    )


def _edges(alerts: Iterable[Alert]) -> set[tuple[int, str, str]]:
    return {(alert.start, alert.src, alert.dst) for alert in alerts}


if __name__ == "__main__":
    main()
