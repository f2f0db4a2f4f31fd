"""`bench scale`: what more silos cost in time, bytes and memory, and what they do to AP and AUC."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entente.artifacts import write_text
from entente.config import Experiment, resolve_paths, to_toml
from entente_lab.bench.cells import Cell, Label, Row
from entente_lab.bench.document import Block, Command, Document, Entry, Figure, Heading, Paragraph, Table
from entente_lab.bench.methods import METHODS, RULES, change, title
from entente_lab.bench.paper import EULER
from entente_lab.bench.plots import lines
from entente_lab.bench.published.numbers import SCALE
from entente_lab.bench.request import Finished, Request, execute
from entente_lab.bench.tables import distinct, failures, interval, percent, summary, versus, where

GRID = "scale"
RUNNER = "entente_lab.bench.scale:measure_scale"
KS, QUICK_KS = (5, 10, 20, 50), (5, 10)
QUICK_ROUNDS, RECORDED_ROUNDS = 5, 10
LONG_K, LONGER = 50, ", 30 rounds"
"""The recorded table trains so many silos as long as is published, too: are its ten rounds too few?"""
UP, DOWN = 1e6, 1e7
"""The paper's links: 1 MB/s from a silo, 10 MB/s to it."""
MB = 1e6


def run(request: Request) -> Finished:
    """Run Entente and FedAVG over growing K: a company of 50 sites, and what `sources` names."""
    cells, facts = plan(request)
    return execute(request, GRID, cells, facts, draw)


def plan(request: Request) -> tuple[list[Cell], dict[str, Any]]:
    company = "simulated-many" if request.recorded else "simulated-scale"
    names = [company, *(name for name in ("lanl-replay", "lanl") if name in request.sources)]
    names = request.narrowed("dataset", names)
    ks = request.narrowed("k", QUICK_KS if request.quick else KS)
    data = {(name, k): request.library.prepare(name, k) for name in names for k in ks}
    short = QUICK_ROUNDS if request.quick else RECORDED_ROUNDS if request.recorded else None
    cells = []
    for seed in range(request.seeds):
        for (name, k), prepared in data.items():
            shared: dict[str, Label] = {"dataset": name, "k": k, "silos": len(prepared.sizes), "seed": seed}
            for method in ("entente", "fedavg"):
                whole = METHODS[method].apply(EULER.experiment(prepared, seed))
                cut = whole if short is None else change(whole, {"federation.rounds": short})
                options = {**EULER.options, "memory": method == "entente" and seed == 0}
                labels = {**shared, "method": method}
                cells.append(Cell(cut, prepared.hash, labels, options, RUNNER))
                if request.recorded and k == LONG_K:
                    labels = {**shared, "method": method + LONGER}
                    options = {**EULER.options, "memory": False}
                    cells.append(Cell(whole, prepared.hash, labels, options, RUNNER))
            for rule in RULES if seed == 0 else ():
                labels = {**shared, "method": rule.name}
                experiment = rule.apply(EULER.experiment(prepared, 0))
                cells.append(Cell(experiment, prepared.hash, labels, EULER.options))
    facts = {
        "command": request.command,
        "seeds": request.seeds,
        "data": [prepared.facts() for prepared in data.values()],
    }
    return cells, facts


def measure_scale(experiment: Experiment, options: Mapping[str, Any], work: Path) -> dict[str, Any]:
    """As `measure`, with traffic per silo, the paper's latency estimate and, on request, memory per silo."""
    from entente_lab.bench.measure import measure

    outcome = measure(experiment, {**options, "sharing": False}, work)
    outcome["values"] |= traffic(outcome["rounds"])
    if options.get("memory"):
        outcome["memory"], outcome["memory_errors"] = silo_memory(experiment)
        if outcome["memory"]:
            peaks = [found["peak_mb"] for found in outcome["memory"].values()]
            outcome["values"] |= {"silo_peak_mb": max(peaks)}
    return outcome


def traffic(rounds: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Bytes of the busiest silo, and seconds per round if every silo had the paper's links."""
    up: dict[str, float] = {}
    down: dict[str, float] = {}
    latencies, compute = [], []
    for record in rounds:
        answered = {n: c for n, c in record["silos"].items() if c.get("bytes_up")}
        if not answered:
            continue
        for name, credit in answered.items():
            up[name] = up.get(name, 0) + credit["bytes_up"]
            down[name] = down.get(name, 0) + credit["bytes_down"]
        latencies.append(
            max(c["bytes_up"] / UP + c["bytes_down"] / DOWN + c["seconds"] for c in answered.values())
        )
        compute.append(max(c["seconds"] for c in answered.values()))
    if not latencies:
        return {"silo_bytes_up": None, "silo_bytes_down": None, "round_latency": None, "latency": None}
    return {
        "silo_bytes_up": max(up.values()),
        "silo_bytes_down": max(down.values()),
        "round_latency": sum(latencies) / len(latencies),
        "round_compute": sum(compute) / len(compute),
        "latency": sum(latencies),
    }


def silo_memory(experiment: Experiment) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Peak memory of the largest, the median and the smallest silo, each in a process of its own.

    And, by silo, why it could not be measured.
    """
    from entente.partition.base import read_silos
    from entente_lab.bench.silo_memory import measure_silo

    if not sys.platform.startswith("linux") or experiment.data.silos is None:
        return {}, {}
    sizes = read_silos(experiment.data.silos).sizes()
    order = sorted(sizes, key=lambda name: (-sizes[name], name))
    chosen = dict.fromkeys((order[0], order[len(order) // 2], order[-1]))
    found, errors = {}, {}
    with tempfile.TemporaryDirectory(prefix="entente-scale-") as scratch:
        path = Path(scratch) / "experiment.toml"
        # The other process reads the file elsewhere, so its paths must not depend on where it lies.
        write_text(path, to_toml(resolve_paths(experiment, Path.cwd())))
        for name in chosen:
            try:
                found[name] = measure_silo(path, name) | {"hosts": sizes[name]}
            except subprocess.CalledProcessError as error:
                said = [line for line in error.stderr.splitlines() if line and not line[0].isspace()]
                errors[name] = said[-1] if said else str(error)
            except (OSError, ValueError) as error:
                errors[name] = str(error)
    return found, errors


# ---- the page ------------------------------------------------------------------------------


def draw(rows: Sequence[Row], facts: Mapping[str, Any]) -> Document:
    blocks: list[Block] = [
        Paragraph(
            "Training seconds are those of one process that trains all silos in turn, so they grow with K; "
            "silos of their own work side by side. Latency is the paper's estimate per round: the slowest "
            "silo's computation, 1 MB/s up and 10 MB/s down. Memory is the peak of a process that holds "
            "one silo, the largest, with Python and PyTorch in it."
        ),
        Command(str(facts["command"])),
    ]
    for dataset in distinct(rows, "dataset"):
        part = where(rows, dataset=dataset)
        described = next(item["description"] for item in facts["data"] if item["dataset"] == dataset)
        usual = [record for labels, record in part if labels["method"] in METHODS]
        length = max((record.values.get("rounds") or 0 for record in usual), default=0)
        said = f"{described}. Euler as published, {length:g} rounds."
        blocks += [Heading(dataset), Paragraph(said), *enough(part)]
        blocks += [scale_table(part, dataset), *unmeasured(part), *figures(part, dataset)]
    failed = failures(rows)
    if failed is not None:
        blocks += [Heading("Failed cells"), failed]
    return Document("Scale", blocks)


def enough(rows: Sequence[Row]) -> list[Block]:
    """Whether more rounds bring Entente level with FedAVG."""
    part = where(rows, k=LONG_K)
    if not where(part, method="entente" + LONGER):
        return []
    said = []
    for length in ("", LONGER):
        found = {
            name: versus(part, {"method": "entente" + length}, {"method": "fedavg" + length}, name)
            for name in ("ap", "auc")
        }
        told = " and ".join(f"{name.upper()} {interval(one)}" for name, one in found.items())
        seeds = f"seeds: {found['ap'].seeds}"
        said.append(f"{told} with {length.strip(', ') or 'the rounds of the table'} ({seeds})")
    return [Paragraph(f"K = {LONG_K}, Entente − FedAVG in percent points: {'; '.join(said)}.")]


def scale_table(rows: Sequence[Row], dataset: str) -> Table:
    body = []
    for k in distinct(rows, "k"):
        for method in distinct(rows, "method"):
            part = where(rows, k=k, method=method)
            if not part:
                continue
            silos = distinct(part, "silos")[0]
            name = title(method.removesuffix(LONGER)) + (LONGER if method.endswith(LONGER) else "")
            entries = [Entry(f"{k} ({silos}), {name}"), percent(summary(part, "ap"))]
            entries.append(percent(summary(part, "auc")))
            for name, unit in (
                ("train_seconds", 1.0),
                ("bytes_up", MB),
                ("bytes_down", MB),
                ("silo_bytes_up", MB),
                ("silo_bytes_down", MB),
                ("round_latency", 1.0),
                ("silo_peak_mb", 1.0),
            ):
                mean = summary(part, name).mean
                entries.append(Entry("–" if mean is None else f"{mean / unit:.1f}"))
            if dataset == "lanl" and k in SCALE and method == "entente":
                theirs = SCALE[k]
                cost = f"{theirs.seconds:.0f} s, {theirs.cpu_mb:.0f} MB"
                entries.append(Entry(f"{theirs.silos}: {theirs.ap} / {theirs.auc}, {cost}"))
            elif dataset == "lanl":
                entries.append(Entry(""))
            body.append(entries)
    columns = ["K (silos), method", "AP", "AUC", "training s", "MB up", "MB down"]
    columns += ["MB up per silo", "MB down per silo", "s per round", "peak MB per silo"]
    return Table([*columns, "paper"] if dataset == "lanl" else columns, body)


def unmeasured(rows: Sequence[Row]) -> list[Block]:
    """Why a silo's memory is missing."""
    said = [
        f"K = {labels['k']}, {silo}: {reason}"
        for labels, record in rows
        for silo, reason in record.outcome.get("memory_errors", {}).items()
    ]
    return [Paragraph(f"Memory that could not be measured: {'; '.join(said)}.")] if said else []


def figures(rows: Sequence[Row], dataset: str) -> list[Block]:
    drawn: list[Block] = []
    for name, y, unit in (("ap", "AP, %", 0.01), ("train_seconds", "training seconds", 1.0)):
        series: dict[str, tuple[list[float], list[float]]] = {}
        for method in (m for m in distinct(rows, "method") if m in METHODS and METHODS[m].kind != "rule"):
            xs, ys = series.setdefault(title(method), ([], []))
            for k in distinct(rows, "k"):
                mean = summary(where(rows, k=k, method=method), name).mean
                if mean is not None:
                    xs.append(float(k))
                    ys.append(mean / unit)
        drawn.append(Figure(lines(f"{y} over K: {dataset}", series, "K", y, log_x=True)))
    return drawn
