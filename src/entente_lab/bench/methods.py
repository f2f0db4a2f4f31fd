"""The methods of the paper's tables, each as a change to an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from entente.config import Experiment, detector_options, parse_experiment

AGGREGATION = "federation.aggregation."
"""Where the aggregation rule and its options stand in an experiment, for `change`."""
LAB_RULE = "lab-entente"
"""Entente with every switch."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of a table."""

    name: str
    title: str
    kind: Literal["reference", "federated", "beyond", "rule"]
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Dotted path in the experiment -> value."""

    def apply(self, experiment: Experiment) -> Experiment:
        if self.kind == "rule":
            return experiment.model_copy(update={"detector": detector_options({"name": self.name})})
        return change(experiment, self.changes)


def _federated(name: str, title: str, **changes: Any) -> Method:
    return Method(name, title, "federated", {AGGREGATION + "rule": name, **changes})


PAPER = (
    Method("non-fl", "Non-FL", "reference", {"mode": "non-fl"}),
    Method("local-only", "local-only", "reference", {"mode": "local-only"}),
    _federated("fedavg", "FedAVG"),
    # The paper gives FedOpt five local epochs; it is the only rule with more than one.
    _federated("fedopt", "FedOpt (E = 5)", **{"federation.epochs": 5}),
    _federated("fedprox", "FedProx"),
    _federated("fedavg-n", "FedAVG-N"),
    _federated("entente-ub", "Entente-UB"),
    _federated("entente", "Entente"),
)
"""The paper's methods, in its order, and local-only."""

ENSEMBLE = {"detection.ensemble": "rare-target"}
FIXED = {"detector.identities": "fixed"}
BEYOND = (
    Method("local-only-ensemble", "local-only, ensemble", "beyond", {"mode": "local-only", **ENSEMBLE}),
    Method("entente-ensemble", "Entente, ensemble", "beyond", ENSEMBLE),
    Method("entente-fixed", "Entente, fixed identities", "beyond", FIXED),
    Method("entente-fixed-ensemble", "Entente, fixed identities, ensemble", "beyond", {**FIXED, **ENSEMBLE}),
)
"""What the paper does not have, for the detection of attacks; the rule is the rarest target."""

RULES = tuple(
    Method(name, title, "rule")
    for name, title in (
        ("first-seen", "rule: first-seen pair"),
        ("pair-frequency", "rule: pair frequency"),
        ("rare-target", "rule: rarest target first"),
        ("novelty-burst", "rule: novelty burst"),
        ("evidence", "rule: evidence of the last day"),
        ("evidence-young", "rule: evidence, young pairs"),
    )
)
"""Baselines for the detection of attacks."""

LINK_RULES = (Method("edgebank", "rule: EdgeBank", "rule"),)
"""Baselines for link prediction."""

METHODS = {method.name: method for method in (*PAPER, *BEYOND, *RULES, *LINK_RULES)}

RIVALS = ("fedavg", "fedopt", "fedprox", "fedavg-n", "local-only")
"""What Entente is asked to be at least as good as."""


def title(name: str) -> str:
    """A method's name as tables print it; variants of other benches keep their own."""
    return METHODS[name].title if name in METHODS else name


def change(experiment: Experiment, changes: Mapping[str, Any]) -> Experiment:
    """The experiment with some values replaced, by dotted path; the result is validated again.

    Another detector or aggregation rule starts from its own defaults.
    """
    table = experiment.model_dump(mode="python")
    if changes.get("detector.name", experiment.detector.name) != experiment.detector.name:
        table["detector"] = {}
    rule = experiment.federation.aggregation.rule
    if changes.get(AGGREGATION + "rule", rule) != rule:
        table["federation"]["aggregation"] = {}
    for path, value in changes.items():
        *parents, last = path.split(".")
        section = table
        for part in parents:
            section = section[part]
        section[last] = value
    return parse_experiment(table)
