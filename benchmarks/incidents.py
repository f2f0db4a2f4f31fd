"""How much of a red team's campaign lies in the first incidents, with a budget of alerts a day.

    python benchmarks/incidents.py [--seed 1] [--hosts 400] [--days 8] [--budget 10] [--attack own]

A simulated company of four sites, one silo each; trained together on the first 60 % of the days, the rest is
the test. `--attack slow-chains` (or another malicious kind of docs/planting.md) is planted into the test
instead of the company's own red team. An edge is a pair of hosts in a window. Then, for each campaign and day
(UTC) on which it acts: the place of its incident, the one that holds most of its edges so far, among the
incidents that got an alert on that day, told as they stood at the day's end. Simulated data.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from entente.config import parse_experiment
from entente.detection.alerts import Alert
from entente.detection.incidents import list_incidents
from entente.detection.table import read_table
from entente.logs.events import write_events
from entente.logs.schema import DAY
from entente.partition.base import Assignment, write_silos
from entente.runs.folder import RunFolder
from entente.runtime.local import train
from entente_lab.planting import planted
from entente_lab.simulator import SimulationConfig, simulate

Edge = tuple[int, str, str]
SITES, TRAINED, FIRST = 4, 0.6, 3
WINDOW = 1_800_000_000


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("seed", 1), ("hosts", 400), ("days", 8), ("rounds", 15), ("budget", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--attack", default="own")
    options = parser.parse_args()
    company = simulate(
        SimulationConfig(sites=SITES, hosts=options.hosts, days=float(options.days), seed=options.seed)
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        events, campaigns = _attacked(company.events, options)
        write_events(events, folder / "events")
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
    _tell_places(alerts, table.further, {edge: campaigns.get(edge, 0) for edge in attack})


def _attacked(events: pa.Table, options: argparse.Namespace) -> tuple[pa.Table, dict[Edge, int]]:
    """The company's log with its own red team or a planted attack, and whose campaign each edge is."""
    if options.attack == "own":
        return events, {}
    clean = events.filter(pc.not_equal(events["label"], 1))
    since = round(options.days * TRAINED * DAY)
    result = planted(clean, options.attack, options.seed, since=since)
    columns = (result.contacts[name].to_pylist() for name in ("time", "src", "dst", "campaign"))
    return result.events, {
        (int(time) // WINDOW * WINDOW, str(src), str(dst)): int(campaign)
        for time, src, dst, campaign in zip(*columns, strict=True)
    }


def _tell_places(alerts: Sequence[Alert], further: Sequence[Alert], of: Mapping[Edge, int]) -> None:
    """Places of the true incidents of each campaign and day, and what they hold in the end."""
    days = sorted({(edge[0] // DAY, campaign) for edge, campaign in of.items()})
    places: list[tuple[int, int]] = []  # day, place
    raised = 0
    for day, campaign in days:
        known = [alert for alert in alerts if alert.start < (day + 1) * DAY]
        today = {alert.incident for alert in known if alert.start >= day * DAY}
        own = [alert for alert in known if of.get((alert.start, alert.src, alert.dst)) == campaign]
        raised += any(alert.start >= day * DAY for alert in own)
        listed = [incident.id for incident in list_incidents(known) if incident.id in today]
        held = Counter(a.incident for a in own if a.incident is not None and a.incident in listed)
        if held:
            places.append((day, 1 + listed.index(held.most_common(1)[0][0])))
    first, second, third = (sum(place <= most for _, place in places) for most in (1, 2, FIRST))
    best = dict(sorted(places, reverse=True))  # of each day the first place
    acting = {day for day, _ in days}
    print(
        f"{len(acting)} days; on {sum(place == 1 for place in best.values())} the first incident is of a "
        f"campaign, on {sum(place <= 2 for place in best.values())} the first or second"
    )
    print(
        f"{len(days)} days of campaigns; on {raised} an edge of it is an alert, on {len(places)} it has an "
        f"incident of two alerts: first on {first}, first or second on {second}, among three on {third}"
    )
    for campaign in sorted(set(of.values())):
        whole = {edge for edge, whose in of.items() if whose == campaign}
        held = Counter(a.incident or "" for a in alerts if (a.start, a.src, a.dst) in whole)
        mine = held.most_common(1)[0][0] if held else "none"
        inside = _edges(a for a in alerts if a.incident == mine)
        beside = _edges(a for a in further if a.incident == mine)
        print(
            f"campaign {campaign}: {len(whole)} edges, its incident holds {len(inside & whole)} of them as "
            f"alerts and {len(beside & whole)} as further edges; {len(inside - whole)} alerts are not of it"
        )


def _edges(alerts: Iterable[Alert]) -> set[Edge]:
    return {(alert.start, alert.src, alert.dst) for alert in alerts}


if __name__ == "__main__":
    main()
