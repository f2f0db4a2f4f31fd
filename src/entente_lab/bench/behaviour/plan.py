"""`bench behaviour`: the behaviour detector under every rule, with cheats, with noise, and taken apart."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from entente_lab.bench.behaviour.methods import BASELINES, PARTS, POOLED
from entente_lab.bench.behaviour.page import draw
from entente_lab.bench.behaviour.suite import POOL, SUITE
from entente_lab.bench.cells import Cell, Label, Record, Row
from entente_lab.bench.datasets import of_seed
from entente_lab.bench.events import Prepared
from entente_lab.bench.methods import change
from entente_lab.bench.request import Finished, Request, execute

GRID = "behaviour"
KS = (3, 4, 5, 10, 20)
QUICK_K = (4,)
ROUNDS = 15
DATASETS = ("simulated", "lanl-replay")
FILLED_IN = ("lanl-replay",)
"""Data whose accounts follow from the hosts, so that a red team's would give it away."""
FOUR = ("cheats", "features", "injection")
"""Parts that are run with four silos only."""
COMPARED = (3, 5, 10)
"""Numbers of silos for forms of J."""
NOISY = (4, 20)
"""Numbers of silos with which noise is tried: what is released moves by one silo's share."""


def run(request: Request) -> Finished:
    """Run the grid on simulated companies, and on the replays that `sources` names."""
    cells, facts = plan(request)
    # The plan has obeyed these already: a pooled cell stands for every K, a cell for many methods.
    left = tuple(text for text in request.only if text.partition("=")[0].strip() not in ("k", "method"))
    return execute(replace(request, only=left), GRID, cells, facts, draw, spread)


def plan(request: Request) -> tuple[list[Cell], dict[str, Any]]:
    """Parts first, then data sets and K; seeds innermost: a table that is cut short has whole rows."""
    names = request.narrowed("dataset", [n for n in DATASETS if n == "simulated" or n in request.sources])
    ks = request.narrowed("k", QUICK_K if request.quick else KS)
    parts = request.narrowed("part", list(PARTS) if not request.quick else ["clean"])
    known = dict.fromkeys(name for part in parts for name in (*PARTS[part], *BASELINES, POOLED))
    methods = request.narrowed("method", list(known))
    seeds = range(request.first_seed, request.first_seed + request.seeds)
    library, cells, described = request.library, [], []
    for name in names:
        prepared = {(k, seed): library.prepare(of_seed(name, seed), k) for k in ks for seed in seeds}
        described += [{"dataset": name, "k": k, "seed": s, **_about(p)} for (k, s), p in prepared.items()]
        if "clean" in parts and POOLED in methods:
            cells += [_pooled(name, seed, {k: prepared[k, seed] for k in ks}) for seed in seeds]
        cells += [
            _cell(name, part, k, seed, prepared[k, seed], own)
            for part in parts
            if (own := _methods(part, methods))
            for k in ks
            if k in _silos_of(part, ks)
            for seed in seeds
        ]
    return cells, {"command": request.command, "seeds": list(seeds), "rounds": ROUNDS, "data": described}


def _silos_of(part: str, ks: Sequence[int]) -> Sequence[int]:
    if part == "noise":
        return NOISY
    if part == "similarity":
        return COMPARED
    return (4,) if part in FOUR else ks


def _methods(part: str, wanted: Sequence[str]) -> list[str]:
    return [name for name in (*PARTS[part], *(BASELINES if part == "clean" else ())) if name in wanted]


def _cell(name: str, part: str, k: int, seed: int, prepared: Prepared, methods: list[str]) -> Cell:
    return Cell(
        prepared.experiment(seed=seed, federation={"rounds": ROUNDS}, detector=_detector(name)),
        prepared.hash,
        {"dataset": name, "k": k, "part": part, "seed": seed},
        {"part": part, "methods": methods},
        SUITE,
    )


def _pooled(name: str, seed: int, prepared: Mapping[int, Prepared]) -> Cell:
    """One cell for all K: the model is the same, only what silos see of its scores differs."""
    first = next(iter(prepared.values()))
    own = first.experiment(seed=seed, federation={"rounds": ROUNDS}, detector=_detector(name))
    whole = " ".join(part.hash for part in prepared.values())
    return Cell(
        change(own, {"mode": "non-fl"}),
        hashlib.sha256(whole.encode()).hexdigest()[:16],
        {"dataset": name, "k": None, "part": "clean", "seed": seed},
        {"ks": list(prepared)},
        POOL,
    )


def _detector(dataset: str) -> dict[str, Any]:
    return {"name": "behaviour", "accounts": dataset not in FILLED_IN}


def _about(prepared: Prepared) -> dict[str, Any]:
    return {"silos": len(prepared.sizes), "split": prepared.split, "hash": prepared.hash}


def spread(rows: Sequence[Row]) -> list[Row]:
    """Cells of many methods -> one row per method, labelled with it."""
    found: list[Row] = []
    for labels, record in rows:
        methods = record.outcome.get("methods", {})
        if POOLED in methods:
            found += [
                _row(labels | {"k": int(k)}, POOLED, outcome, record)
                for k, outcome in methods[POOLED].items()
            ]
        elif record.status == "done":
            found += [_row(labels, method, outcome, record) for method, outcome in methods.items()]
        else:
            found.append((labels | {"method": "all"}, record))
    return found


def _row(labels: Mapping[str, Label], method: str, outcome: Mapping[str, Any], record: Record) -> Row:
    return {**labels, "method": method}, replace(record, outcome=dict(outcome))
