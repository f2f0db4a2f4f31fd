"""The lines of the behaviour grid's tables: what each changes in the default experiment, and who cheats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from entente.detectors.behaviour.features import FEATURES
from entente_lab.bench.methods import AGGREGATION, LAB_RULE

MAIN = "entente"
POOLED = "pooled"
BASELINES = ("first-seen", "rare-target", "novelty-burst", "evidence", "evidence-young")


@dataclass(frozen=True, slots=True)
class Line:
    """One trained method."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    """Dotted path in the experiment -> value."""
    attack: Mapping[str, Any] = field(default_factory=dict)
    """The attack's settings; `cheats` says how many silos."""
    cheats: int = 0
    """So many silos are left out of the figures, and cheat where there is an attack."""
    without: str = ""
    """Family of features that the network does not see."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the campaigns that are injected."""
    within: float = 0.0
    """Take the last round whose validation is within this share of the best, instead of the best."""
    trained: bool = True
    """Otherwise the base model scores alone."""


def _rule(name: str, **more: Any) -> dict[str, Any]:
    return {AGGREGATION + "rule": name, **{AGGREGATION + key: value for key, value in more.items()}}


RULES = {
    MAIN: {},
    "fedavg": _rule("fedavg"),
    "fedavg-n": _rule("fedavg-n"),
    "fedprox": _rule("fedprox"),
    "fedopt": _rule("fedopt"),
    "median": _rule("median"),
}
NO_BASE = {"detector.base": False, "detector.lr": 0.003}
"""What is trained alone decides; ablations are of this: the base model knows all features and campaigns."""
CLEAN = {name: Line(changes) for name, changes in RULES.items()} | {
    "local-only": Line({"mode": "local-only"}),
    "base model alone": Line(trained=False),
    "no base model": Line(NO_BASE),
    "no base model, local-only": Line(NO_BASE | {"mode": "local-only"}),
}

ATTACKS: Mapping[str, Mapping[str, Any]] = {
    "sign-flip": {"name": "sign-flip", "gamma": 3.0},
    "gaussian": {"name": "gaussian", "gamma": 3.0},
    "model-replacement": {"name": "model-replacement", "strength": 4.0},
    "alie": {"name": "alie", "strength": 1.5},
    "min-max": {"name": "min-max"},
    "label-flip": {"name": "label-flip"},
}
DEFENDERS = (MAIN, "fedavg", "median")
NOBODY = "nobody"
CHEATS = {
    f"{rule}, {attack} x {count}": Line(RULES[rule], settings, count)
    for count in (1, 2)
    for attack, settings in {NOBODY: {}, **ATTACKS}.items()
    for rule in DEFENDERS
}
"""`nobody x 2`: no silo cheats, and the two that would are left out of the figures as they are elsewhere."""

CLIP = 1.0
SIGMAS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
NO_NOISE = "no noise"
NOISE = {
    f"{name}, {noise}": Line(_rule("fedavg") | base | settings)
    for name, base in (("fedavg", {}), ("no base model", NO_BASE))
    for noise, settings in {
        NO_NOISE: {},
        **{
            f"sigma {sigma:g}": {
                "privacy.mechanism": "central",
                "privacy.sigma": sigma,
                "privacy.clip": CLIP,
            }
            for sigma in SIGMAS
        },
    }.items()
}

FAMILIES = tuple(dict.fromkeys(feature.family for feature in FEATURES))
FEATURE_LINES = {"all features": Line(NO_BASE)} | {
    f"without {name}": Line(NO_BASE, without=name) for name in FAMILIES
}

INJECTION: Mapping[str, Mapping[str, Any]] = {
    "all campaigns": {},
    "size: at most 20 contacts": {"largest": 20},
    "sessions: none": {"sessions": 0.0},
    "pivots: none": {"pivots": (0.0,), "slow_pivots": (0.0, 0.0)},
    "slow chains: none": {"slow": 0.0},
    "slow chains: only": {"quick": 0.0},
    "awake: never": {"awake": 0.0, "slow_awake": 0.0},
    "repeats: none": {"repeats": 0.0, "slow_repeats": 0.0},
    "targets: uniform": {"targets": "uniform"},
    "pace of quick ones: within two hours": {"pace": 2.0},
    "accounts: each host's own": {"accounts": (1.0, 0.0, 0.0)},
    "failures: none": {"failing": 0.0},
    "benign work: none": {"work": False},
}
INJECTION_LINES = {name: Line(NO_BASE, recipe=recipe) for name, recipe in INJECTION.items()}

SIMILARITY = {
    MAIN: Line(),
    "fedavg": Line(RULES["fedavg"]),
    "fedavg-n": Line(RULES["fedavg-n"]),
    "J = 1": Line(_rule(LAB_RULE, sketch=False)),
    "J relative": Line(_rule(LAB_RULE, similarity="relative")),
    "relative degrees": Line(_rule(LAB_RULE, labels="relative-degree", iterations=1)),
    "r of mean 1": Line(_rule(LAB_RULE, normalised=True)),
    "J relative, r of mean 1": Line(_rule(LAB_RULE, similarity="relative", normalised=True)),
    "last within 5 %": Line(within=0.05),
    "J relative, r of mean 1, last within 5 %": Line(
        _rule(LAB_RULE, similarity="relative", normalised=True), within=0.05
    ),
}
"""Forms of J and r that keep the bound, and another choice of the round."""


def reference(part: str, method: str) -> str:
    """The line that a line of a part is compared with: for an attack or noise, itself without it."""
    if part == "cheats":
        rule, _, attack = method.partition(", ")
        return f"{rule}, {NOBODY} x {attack.rpartition(' ')[2]}"
    if part == "noise":
        return f"{method.partition(', ')[0]}, {NO_NOISE}"
    return next(iter(PARTS[part]))


PARTS: Mapping[str, Mapping[str, Line]] = {
    "clean": CLEAN,
    "cheats": CHEATS,
    "noise": NOISE,
    "features": FEATURE_LINES,
    "injection": INJECTION_LINES,
    "similarity": SIMILARITY,
}
"""What a cell runs, by the name of its part."""
