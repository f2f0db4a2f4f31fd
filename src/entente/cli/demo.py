"""`entente demo`: the whole story on a simulated company."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entente.cli.terminal import Json, Quiet, Verbose, print_json, remarks, results

if TYPE_CHECKING:
    from rich.console import Console

    from entente.config import Experiment
    from entente.detection.metrics import Metrics
    from entente.federation.records import RoundRecord
    from entente.runtime.local import Run

METHODS = {
    "Entente": {"mode": "federated", "rule": "entente"},
    "FedAVG": {"mode": "federated", "rule": "fedavg"},
    "Non-FL (all logs pooled)": {"mode": "non-fl", "rule": "fedavg"},
    "local-only": {"mode": "local-only", "rule": "fedavg"},
    "Euler, a graph model": {"mode": "federated", "rule": "entente", "detector": "euler"},
}
GRAPH_ROUNDS = 20
"""Rounds of the graph model, which learns more slowly."""
SHOWN = "Entente"
"""The method whose alerts and rounds the report tells in full."""


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where everything goes.")] = Path("demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A smaller company, fewer rounds.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Another company, another attack.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """The whole story on a simulated company.

    Simulates sites with habits and a red team, reads their logs, makes one silo per site, trains a
    detector across them without sharing logs, and writes report.html. Interrupt it and call it again:
    it goes on where it stopped.

    Example: entente demo --quick --out /tmp/demo
    """
    console = remarks(quiet, verbose)
    began = time.monotonic()
    experiment = prepare(out, quick, seed, console)
    runs = {}
    for number, name in enumerate(METHODS, start=3):
        console.print(f"[bold]{number}[/] training: {name}")
        runs[name] = train_one(experiment, name, out, console)
    page = tell(runs, out, quick, seed)
    overall = {name: run.metrics.overall for name, run in runs.items()}
    rules = runs[SHOWN].metrics.baselines
    tables = {"methods": overall, "rules": rules}
    if as_json:
        figures = {kind: {n: m.as_dict() for n, m in found.items()} for kind, found in tables.items()}
        print_json({"report": str(page), **figures})
        return
    if not quiet:
        conclude(overall, rules, page, time.monotonic() - began)


def prepare(out: Path, quick: bool, seed: int, console: Console) -> Experiment:
    """Company, events, silos and the experiment file."""
    from entente.artifacts import write_text
    from entente.config import Data, Experiment, Federation, detector_options, to_toml
    from entente.logs.formats.base import Options
    from entente.logs.ingest import Request, ingest
    from entente.partition.base import write_silos
    from entente.partition.column import from_host_table
    from entente.partition.pairs import cover, host_pairs
    from entente_lab.simulator import SimulationConfig, simulate, write

    company = SimulationConfig(hosts=300, days=6.0, seed=seed) if quick else SimulationConfig(seed=seed)
    simulation = simulate(company)
    write(simulation, out / "company", "lanl")
    console.print(
        f"[bold]1[/] simulated company: {company.hosts} hosts at {company.sites} sites, "
        f"{len(simulation.events):,} log lines of {company.days:g} days, "
        f"{len(simulation.attack)} of them a red team's -> {out / 'company'}"
    )
    events, silos = out / "events", out / "silos.csv"
    manifest = ingest(
        Request(
            sources=[str(out / "company" / "auth.txt.gz")],
            out=events,
            format="lanl-auth",
            options=Options(),
            labels=out / "company" / "redteam.txt",
        )
    )
    assignment = cover(from_host_table(out / "company" / "hosts.csv", "site"), host_pairs(events))
    write_silos(silos, assignment)
    sizes = ", ".join(f"{name} {count}" for name, count in assignment.sizes().items())
    console.print(f"[bold]2[/] read {manifest.rows:,} events; one silo per site (hosts: {sizes})")
    experiment = Experiment(
        name="demo",
        seed=seed,
        data=Data(events=Path("events"), silos=Path("silos.csv"), train=company.attack_start),
        detector=detector_options({"name": "behaviour"}),
        federation=Federation(rounds=15),
    )
    write_text(out / "experiment.toml", to_toml(experiment))
    return experiment


def train_one(experiment: Experiment, name: str, out: Path, console: Console) -> Run:
    """One method, from its last checkpoint if there is one."""
    from entente.config import Experiment, resolve_paths
    from entente.runs.folder import RunFolder
    from entente.runtime.local import train

    method = METHODS[name]
    table = experiment.model_dump()
    table |= {"mode": method["mode"]}
    table["federation"]["aggregation"] = {"rule": method["rule"]}
    if "detector" in method:
        table["detector"] = {"name": method["detector"]}
        table["federation"]["rounds"] = GRAPH_ROUNDS
    settings = resolve_paths(Experiment.model_validate(table), out.resolve())
    folder = RunFolder(out / "runs" / name.split(" ")[0].strip(",").lower())
    last = 0

    def watch(record: RoundRecord) -> None:
        nonlocal last
        last = record.round
        if console.is_terminal:
            console.print(f"   round {record.round}", end="\r")

    began = time.monotonic()
    run = train(settings, folder, resume=True, watch=watch)
    overall = run.metrics.overall
    console.print(
        f"   AP {overall.ap:.3f}  AUC {overall.auc:.3f}  ({last} rounds, {time.monotonic() - began:.0f} s)"
    )
    return run


def tell(runs: Mapping[str, Run], out: Path, quick: bool, seed: int) -> Path:
    """report.html, with every method beside the one it tells in full."""
    from entente.artifacts import write_text
    from entente.detection.metrics import pr_curve
    from entente.report import Points, build, render

    data = build(runs[SHOWN].folder.path)
    curves = {}
    for name, run in runs.items():
        scored = run.evaluation.overall()
        curve = pr_curve(scored.score, scored.label if scored.label is not None else [])
        curves[name] = Points(curve.recall, curve.precision)
    page = out / "report.html"
    story = replace(
        data,
        title="Entente demo: an attack on a simulated company",
        method=SHOWN,
        simulated=True,
        command=f"entente demo{' --quick' if quick else ''} --seed {seed}",
        methods={name: run.metrics.overall for name, run in runs.items()},
        other_rounds={n: tuple(r.folder.rounds()) for n, r in runs.items() if n == "FedAVG"},
        curves=curves,
        note="One seed of a simulated company: an illustration, not a ranking of methods.",
    )
    write_text(page, render(story))
    return page


def conclude(
    methods: Mapping[str, Metrics],
    rules: Mapping[str, Metrics],
    page: Path,
    seconds: float,
) -> None:
    """What was found, in a few lines."""
    from rich.table import Table

    table = Table("", "AP", "AUC", "recall@10", "alerts/day", box=None)
    for name, m in [*methods.items(), *((f"baseline: {n}", m) for n, m in rules.items())]:
        table.add_row(
            name,
            f"{m.ap:.3f}",
            f"{m.auc:.3f}",
            f"{m.recall_at['10']:.2f}",
            f"{m.alerts_per_day:.1f}",
        )
    found = methods[SHOWN]
    console = results()
    console.print(table)
    console.print(
        f"\n{SHOWN}: {found.recall_at['10']:.0%} of the red team's {found.positives} edges are in the "
        f"top ten of their half hour;\n{found.recall:.0%} raise an alert, at "
        f"{found.alerts_per_day:.1f} alerts a day. Simulated data, one seed. ({seconds:.0f} s)"
    )
    console.print(f"report: {page}", markup=False)
    shown = page.parent / "runs" / SHOWN.lower()
    console.print(f"work through its alerts in the browser: entente console --run {shown}", markup=False)
