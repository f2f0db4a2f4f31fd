"""`bench robustness`: attacks x aggregation rules, who cheats and how hard, beside the clean run.

The default is a part of the grid that tells the story; `full` is all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from entente_lab.attacks import Attack
from entente_lab.bench.cells import ATTACK, Cell, Label
from entente_lab.bench.datasets import REAL, SMALL, rounds
from entente_lab.bench.events import Prepared
from entente_lab.bench.methods import AGGREGATION, LAB_RULE, change
from entente_lab.bench.paper import DIRECTED, EULER
from entente_lab.bench.request import Finished, Request, execute
from entente_lab.bench.robustness.page import draw

GRID = "robustness"
K, KS = 4, {"optc": 3}
"""Silos: four, or what the paper's table has for a data set."""
COMPANY = "simulated-lab"
Part = Literal["clean", "paper's attack", "every attack", "who cheats", "full"]


RULES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "fedavg": ("FedAVG", {AGGREGATION + "rule": "fedavg", AGGREGATION + "step_limit": 0.0}),
    "median": ("median", {AGGREGATION + "rule": "median"}),
    "trimmed-mean": ("trimmed mean", {AGGREGATION + "rule": "trimmed-mean"}),
    "multi-krum": ("Multi-Krum", {AGGREGATION + "rule": "multi-krum"}),
    "geometric-median": ("geometric median", {AGGREGATION + "rule": "geometric-median"}),
    "entente-ub": ("Entente-UB", {AGGREGATION + "rule": "entente-ub", AGGREGATION + "step_limit": 0.0}),
    "entente": ("Entente", {}),
    "entente-constant": ("Entente, M = 5", {AGGREGATION + "adaptive": False}),
    "entente-loose": (
        "Entente, M twice the norms",
        {AGGREGATION + "rule": LAB_RULE, AGGREGATION + "adaptive_factor": 2.0},
    ),
    "entente-hardened": (
        "Entente, hardened",
        {
            AGGREGATION + "rule": LAB_RULE,
            AGGREGATION + "sketch": False,
            AGGREGATION + "row_cap": 2.0,
        },
    ),
    "entente-weak-dp": (
        "Entente + weak DP",
        {"privacy.mechanism": "weak", "privacy.sigma": 1.0},
    ),
    "entente-cdp": (
        "Entente + CDP",
        {"privacy.mechanism": "central", "privacy.sigma": 0.2, AGGREGATION + "adaptive": False},
    ),
}
"""Rule -> its name in tables, and what it changes in the default Entente. The noise is the paper's."""

GAMMAS = (2.0, 5.0, 10.0, 25.0, 100.0)
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
STRONGEST = {"p": 1.0, "gamma": 100.0}
BOUND = 5.0  # Entente's M for Euler, which an attacker reads in the paper


@dataclass(frozen=True, slots=True)
class Threat:
    """An attack as the grid uses it: which of gamma and p it listens to, and what else it is given."""

    attack: str
    axes: tuple[str, ...] = ()
    fixed: Mapping[str, Any] | None = None
    pair: bool = False

    def settings(self) -> Iterator[dict[str, float]]:
        """All gammas and shares that make a difference to it."""
        for gamma in GAMMAS if "gamma" in self.axes else (None,):
            for p in SHARES if "p" in self.axes else (None,):
                given = {"gamma": gamma, "p": p}
                yield {name: value for name, value in given.items() if value is not None}

    @property
    def strongest(self) -> dict[str, float]:
        return {name: STRONGEST[name] for name in self.axes}


BOTH = ("gamma", "p")
THREATS: Mapping[str, Threat] = {
    "replay": Threat("replay", BOTH),
    "replay, whole weights": Threat("replay", BOTH, {"scaling": "weights"}),
    "covering": Threat("covering", BOTH, {"strength": 3.0}),
    "distributed backdoor": Threat("distributed-backdoor", BOTH, pair=True),
    "lying sketch": Threat("lying-sketch", BOTH, {"strength": 10.0}),
    "model replacement": Threat("model-replacement", ("p",), {"strength": float(K)}),
    "adaptive": Threat("adaptive", ("p",), {"strength": BOUND}),
    "targeted rows": Threat("targeted-rows", ("p",), {"strength": BOUND}),
    "whisper": Threat("whisper", ("p",)),
    "label flip": Threat("label-flip"),
    "turncoat": Threat("turncoat"),
    "sign flip": Threat("sign-flip", ("gamma",)),
    "Gaussian": Threat("gaussian", ("gamma",)),
    "ALIE": Threat("alie", (), {"strength": 1.5}),
    "IPM": Threat("ipm", (), {"strength": 2.0 * K}),
    "Min-Max": Threat("min-max"),
    "Min-Sum": Threat("min-sum"),
    "free rider": Threat("free-rider"),
    "NaN / inf": Threat("non-finite"),
}

PAPER_STEPS = (
    *((0.1, 2.0), (0.25, 5.0), (0.5, 5.0), (0.5, 10.0), (0.5, 25.0), (0.75, 25.0), (1.0, 25.0)),
    (1.0, 100.0),
)
"""Every (p, gamma) of the paper's attack tables, on LANL and on OpTC; the strongest last."""
PUBLISHED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "entente-paper": ("Entente as published", {}),
    "entente-ub-paper": (
        "Entente-UB as published",
        {AGGREGATION + "rule": "entente-ub", AGGREGATION + "step_limit": 0.0},
    ),
}
"""Rules with the paper's Euler, learning rate, epochs, rounds and M, for its own grid."""
PAPER_RULES = ("fedavg", "entente-ub", "entente", "entente-loose", "entente-constant", "entente-hardened")
QUICK_RULES = ("fedavg", "median", "entente-ub", "entente", "entente-constant", "entente-hardened")
QUICK_THREATS = ("replay", "adaptive", "sign flip", "NaN / inf")
BESIDE = ("trimmed-mean", "geometric-median", "entente-loose", "entente-weak-dp", "entente-cdp")
BESIDE_THREATS = ("replay", "adaptive", "targeted rows", "sign flip")
"""Rules that the story shows against a few attacks only."""
QUICK_ROUNDS = 6
WHOLE_SEEDS = 1
"""The matrix of attacks and rules is wide; it gets this many seeds, the targets all that are asked for."""


def run(request: Request, *, full: bool = False, paper: bool = False) -> Finished:
    """Run the lab on a simulated company, and the paper's attack on the data sets that `sources` names.

    `paper` runs nothing but the paper's own tables: its settings, every p and gamma, each silo and each pair.
    """
    cells, facts = plan(request, full=full, paper=paper)
    return execute(request, GRID, cells, facts, draw)


def plan(request: Request, *, full: bool = False, paper: bool = False) -> tuple[list[Cell], dict[str, Any]]:
    """Seeds are the outermost loop, so that an interrupted grid is whole for fewer seeds."""
    company = SMALL if request.recorded else COMPANY
    names = [company, *(name for name in REAL if name in request.sources)]
    data = {
        name: request.library.prepare(name, KS.get(name, K)) for name in request.narrowed("dataset", names)
    }
    cheat = {name: busiest(prepared) for name, prepared in data.items()}
    cells: list[Cell] = []
    for seed in range(request.seeds):
        for name, prepared in data.items():
            lab = Lab(prepared, cheat[name], seed, request.quick)
            if paper:
                cells += lab.papers_tables()
            elif full:
                cells += lab.everything()
            elif request.quick:
                cells += lab.quick()
            elif request.recorded:
                cells += lab.recorded(whole=name == company and seed < WHOLE_SEEDS)
            else:
                cells += lab.story(whole=name == company and seed < WHOLE_SEEDS)
    facts = {
        "command": request.command,
        "quick": request.quick,
        "full": full,
        "seeds": request.seeds,
        "rules": {name: title for name, (title, _) in {**RULES, **PUBLISHED}.items()},
        "cheats": {name: silos[0] for name, silos in cheat.items()},
        "data": [prepared.facts() for prepared in data.values()],
    }
    return cells, facts


@dataclass(frozen=True, slots=True)
class Lab:
    """The cells of one data set and seed. `order`: silos, those with most malicious edges first."""

    prepared: Prepared
    order: Sequence[str]
    seed: int
    short: bool = False

    def quick(self) -> list[Cell]:
        cells = [self.clean(rule) for rule in QUICK_RULES]
        return cells + self.matrix(QUICK_THREATS, QUICK_RULES)

    def story(self, *, whole: bool) -> list[Cell]:
        """The paper's attack at its strongest beside clean runs; `whole`: and everything else once."""
        rules = tuple(RULES) if whole else PAPER_RULES
        cells = [self.clean(rule) for rule in rules]
        for rule in PAPER_RULES:
            for p, gamma in PAPER_STEPS if whole else PAPER_STEPS[-1:]:
                cells.append(self.attacked("paper's attack", rule, "replay", {"p": p, "gamma": gamma}))
        if whole:
            for rule in ("entente", "entente-hardened"):
                for silos in self.groups():
                    cells.append(self.attacked("who cheats", rule, "replay", STRONGEST, silos))
            cells += self.matrix(tuple(THREATS), tuple(rule for rule in RULES if rule not in BESIDE))
            cells += self.matrix(BESIDE_THREATS, BESIDE)
        return cells

    def recorded(self, *, whole: bool) -> list[Cell]:
        """The paper's attack at its strongest beside clean runs; `whole`: and every attack on two rules."""
        cells = [self.clean(rule) for rule in PAPER_RULES]
        p, gamma = PAPER_STEPS[-1]
        cells += [self.attacked("paper's attack", r, "replay", {"p": p, "gamma": gamma}) for r in PAPER_RULES]
        return cells + (self.matrix(tuple(THREATS), ("fedavg", "entente")) if whole else [])

    def papers_tables(self) -> list[Cell]:
        """The paper's attack tables in its own settings; who cheats at the strongest attack."""
        cells = [self.clean(rule) for rule in PUBLISHED]
        for rule in PUBLISHED:
            for p, gamma in PAPER_STEPS:
                cells.append(self.attacked("paper's attack", rule, "replay", {"p": p, "gamma": gamma}))
        for silos in self.groups():
            cells.append(self.attacked("who cheats", "entente-paper", "replay", STRONGEST, silos))
        return cells

    def everything(self) -> list[Cell]:
        cells = [self.clean(rule) for rule in RULES]
        for rule in RULES:
            for name, threat in THREATS.items():
                for silos in self.groups():
                    for setting in threat.settings():
                        cells.append(self.attacked("full", rule, name, setting, silos))
        return cells

    def matrix(self, threats: Sequence[str], rules: Sequence[str]) -> list[Cell]:
        """Every threat at its strongest against every rule."""
        return [
            self.attacked(
                "every attack", rule, name, THREATS[name].strongest, self.order[: 1 + THREATS[name].pair]
            )
            for name in threats
            for rule in rules
        ]

    def groups(self) -> list[tuple[str, ...]]:
        """Each silo alone, and each pair."""
        return [group for size in (1, 2) for group in combinations(sorted(self.order), size)]

    def clean(self, rule: str) -> Cell:
        return self._cell("clean", rule, "none", {}, ())

    def attacked(
        self, part: Part, rule: str, name: str, setting: Mapping[str, float], silos: Sequence[str] = ()
    ) -> Cell:
        return self._cell(part, rule, name, setting, sorted(silos or self.order[:1]))

    def _cell(
        self, part: Part, rule: str, name: str, setting: Mapping[str, float], silos: Sequence[str]
    ) -> Cell:
        if rule in PUBLISHED:
            changes = {**PUBLISHED[rule][1], **({"federation.rounds": QUICK_ROUNDS} if self.short else {})}
            experiment = change(EULER.experiment(self.prepared, self.seed), changes)
        else:
            length = QUICK_ROUNDS if self.short else rounds(self.prepared.events.name)
            changes = {**RULES[rule][1], "federation.rounds": length}
            experiment = change(DIRECTED.experiment(self.prepared, self.seed), changes)
        options = {"attack": attack_settings(THREATS[name], setting, silos)} if silos else {}
        labels: dict[str, Label] = {
            "dataset": self.prepared.events.name,
            "part": part,
            "rule": rule,
            "attack": name,
            "silos": "+".join(silos),
            "p": setting.get("p"),
            "gamma": setting.get("gamma"),
            "seed": self.seed,
        }
        return Cell(experiment, self.prepared.hash, labels, options, ATTACK)


def attack_settings(threat: Threat, setting: Mapping[str, float], silos: Sequence[str]) -> dict[str, Any]:
    """The settings of an attack, every one of them."""
    table = {"name": threat.attack, "silos": tuple(silos), **(threat.fixed or {}), **setting}
    return Attack.model_validate(table).model_dump(mode="json")


def busiest(prepared: Prepared) -> list[str]:
    """Silos by the number of malicious pairs they see, most first: the paper lets such a one cheat."""
    import pyarrow.compute as pc

    from entente.logs.events import load_events
    from entente.partition.base import read_silos

    events = load_events(prepared.events.path, ["src", "dst", "label"])
    bad = events.filter(pc.greater(pc.fill_null(events["label"], 0), 0))
    owner = read_silos(prepared.silos).as_dict()
    seen = dict.fromkeys(sorted(prepared.sizes), 0)
    for src, dst in set(zip(bad["src"].to_pylist(), bad["dst"].to_pylist(), strict=True)):
        for silo in {owner.get(src), owner.get(dst)} - {None}:
            seen[str(silo)] += 1
    return sorted(seen, key=lambda name: (-seen[name], name))
