"""`bench privacy`: membership inference and inversion against one update, by detector, identity and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entente.artifacts import write_text
from entente_lab.bench.cells import INFER, Cell, Label, Row
from entente_lab.bench.datasets import of_seed
from entente_lab.bench.document import Block, Command, Document, Entry, Heading, Paragraph, Table
from entente_lab.bench.methods import change
from entente_lab.bench.request import Finished, Request, execute
from entente_lab.bench.statistics import half_width
from entente_lab.bench.tables import distinct, failures, figure, where

GRID = "privacy"
COMPANY = "simulated-lab"
K = 4
ROUND = 10
"""The round that is looked at."""
RULE = {"federation.aggregation.rule": "fedavg"}
NOISE: Mapping[str, Mapping[str, Any]] = {"none": {}} | {
    f"sigma {sigma:g}": {"privacy.mechanism": "central", "privacy.sigma": sigma, "privacy.clip": 1.0}
    for sigma in (0.03, 1.0)
}
DETECTORS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "behaviour": ({"detector.name": "behaviour"}, {}),
    "behaviour, largest silo": ({"detector.name": "behaviour"}, {"largest": True}),
    "euler, trained rows": ({"detector.name": "euler"}, {}),
    "euler, rows stay in the silo": ({"detector.name": "euler", "detector.identities": "local"}, {}),
    "euler, fixed rows": ({"detector.name": "euler", "detector.identities": "fixed"}, {}),
    "euler, hashed, secret unknown": (
        {"detector.name": "euler", "graph.identity": "keyed-hash"},
        {"guess": True},
    ),
    "euler, hashed, secret known": ({"detector.name": "euler", "graph.identity": "keyed-hash"}, {}),
}
"""Line -> changes to the experiment, and what the attacker has to guess."""
NOISY = ("behaviour", "euler, trained rows")
"""Lines that are tried with noise as well."""
ATTACKS = {
    "pair_by_score": "pair, by score",
    "pair_by_rows": "pair, by rows",
    "host_by_rows": "host, by rows",
    "edge_by_rows": "connection, by rows",
    "example_by_gradient": "example, by first layer",
}
VIEWS = {
    "update": "one silo's update, as the coordinator sees it",
    "released": "the released model, as all see it",
}


def run(request: Request) -> Finished:
    """Run the attacks on a simulated company of its own for every seed."""
    cells, facts = plan(request)
    return execute(request, GRID, cells, facts, draw)


def plan(request: Request) -> tuple[list[Cell], dict[str, Any]]:
    seeds = range(request.first_seed, request.first_seed + request.seeds)
    names = request.narrowed("detector", list(DETECTORS))
    noises = request.narrowed("noise", ["none"] if request.quick else list(NOISE))
    secret = _secret(request.out)
    cells = []
    for seed in seeds:
        prepared = request.library.prepare(of_seed(COMPANY, seed), K)
        plain = prepared.experiment(seed=seed, federation={"rounds": ROUND})
        for name in names:
            changes, options = DETECTORS[name]
            if "graph.identity" in changes:
                changes = {**changes, "graph.secret": secret, "graph.table_size": 4096}
            for noise in noises if name in NOISY else ["none"]:
                labels: dict[str, Label] = {
                    "dataset": COMPANY,
                    "k": K,
                    "detector": name,
                    "noise": noise,
                    "seed": seed,
                }
                experiment = change(plain, {**changes, **RULE, **NOISE[noise]})
                cells.append(Cell(experiment, prepared.hash, labels, {"round": ROUND, **options}, INFER))
    return cells, {"command": request.command, "seeds": list(seeds)}


def _secret(out: Path) -> Path:
    """The silos' shared secret, for companies that do not exist."""
    path = (out / "data" / "secret").resolve()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "a secret of simulated silos, known to everybody\n")
    return path


def draw(rows: Sequence[Row], facts: Mapping[str, Any]) -> Document:
    blocks: list[Block] = [
        Paragraph(
            f"Simulated company {COMPANY} (200 hosts), one per seed, {K} silos, FedAVG, round {ROUND}. The "
            "smallest silo (in one line the largest) trains on a random half of its pairs; the attacker "
            "knows its whole graph and must say which half. AUC: 0.5 is a coin, 1 is certainty; mean ± half "
            "of the 95 % interval over seeds."
        ),
        Command(str(facts["command"])),
    ]
    for view, words in VIEWS.items():
        blocks += [Heading(words[0].upper() + words[1:]), table(rows, view)]
    failed = failures(rows)
    if failed is not None:
        blocks += [Heading("Failed cells"), failed]
    return Document("What an update reveals, measured", blocks)


def table(rows: Sequence[Row], view: str) -> Table:
    body = []
    noises = distinct(rows, "noise") if view == "released" else ["none"]
    for detector in distinct(rows, "detector"):
        for noise in noises:
            found = where(rows, detector=detector, noise=noise)
            if found:
                entries = [Entry(detector if noise == "none" else f"{detector}; {noise}")]
                epsilon = [figure(record, "epsilon") for _, record in found]
                if view == "released":
                    entries.append(Entry("–" if epsilon[0] is None else f"{epsilon[0]:.3g}"))
                entries += [Entry(_mean([figure(r, f"{view}_{name}") for _, r in found])) for name in ATTACKS]
                body.append(entries)
    seeds = len(distinct(rows, "seed"))
    columns = ("detector", *(("ε",) if view == "released" else ()), *ATTACKS.values())
    return Table(columns, body, caption=f"AUC, {seeds} seeds")


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "no rows" if values else "–"
    half = f" ± {half_width(known):.2f}" if len(known) > 1 else ""
    return f"{sum(known) / len(known):.2f}{half}"
