"""What a cell of `bench robustness` does: train under attack, then ask what the attacker got for it.

SR is the share of malicious test edges that no silo alerts on. It is counted over all silos, and over the
honest ones alone: the attacker's own view hides nothing from itself. A clean run has the same two figures
for every set of silos that may cheat, so that an attacked run always stands beside its own clean one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from entente.config import Experiment
from entente.detection.scored import ScoredEdges, unite
from entente.detection.thresholds import learn_threshold
from entente.detectors import baseline
from entente.detectors.base import Detector
from entente.errors import DetectorError, FederationError
from entente.federation.records import RoundRecord
from entente.runtime.assembly import Dataset, trained_detector
from entente.runtime.evaluation import NEVER, label_scores
from entente.runtime.local import fit
from entente.runtime.participants import Participants
from entente_lab.attacks import Attack, attackers
from entente_lab.attacks.base import Attacker
from entente_lab.bench.measure import cell_folder, shortened, training_facts
from entente_lab.bench.robustness.cutoff import euler_threshold
from entente_lab.bench.sharing import shared_dataset

LOOSE = 0.05
"""Share of false alarms of the second, looser threshold: at 0.001 a clean model misses most edges already,
and what is missed already cannot be hidden."""
LOCAL_BASELINE = "rare-target"
"""A rule that a silo keeps beside the model: it is counted at home and no other silo can poison it."""
MOST_SILOS = 8
"""Pairs of cheating silos are prepared for in a clean run up to this many silos."""


def measure_attack(experiment: Experiment, options: Mapping[str, Any], work: Path) -> dict[str, Any]:
    """Train and evaluate one experiment, attacked or clean; a run that breaks down is a result too.

    Options: `attack`, the attack's settings; without them nobody cheats.
    """
    attack = Attack.model_validate(options["attack"]) if "attack" in options else None
    participants = attackers(attack)
    dataset = shared_dataset(experiment)
    liars = participants.silos
    values: dict[str, Any] = cost(experiment, dataset, participants)
    folder = cell_folder(experiment, work)
    try:
        models, training = fit(experiment, folder, dataset, participants=participants)
        detectors = {
            name: trained_detector(experiment, dataset.shape, models, name) for name in dataset.silos
        }
        views = judge(experiment, dataset, detectors, liars)
        facts = training_facts(training)
    except (FederationError, DetectorError) as error:
        facts, views = {"broken": str(error), "best_round": None, "rounds": None}, {}
    rounds = folder.rounds()
    values |= {"finite": float("broken" not in facts)}
    values |= {"best_round": facts["best_round"], "rounds": facts["rounds"]}
    values |= views.get("", {})
    values |= {f"honest_{name}": figure for name, figure in views.get("+".join(liars), {}).items()}
    values |= watched(rounds, liars, len(dataset.silos)) | guarantee(experiment, rounds, len(dataset.silos))
    return {
        "values": values,
        "views": views,
        "rounds": [shortened(record) for record in rounds],
        "warnings": {str(record.round): list(record.warnings) for record in rounds if record.warnings},
        "training": facts,
    }


def cost(experiment: Experiment, dataset: Dataset, participants: Participants) -> dict[str, float]:
    """What the attack injects: edges over all windows, and per malicious pair (EPM).

    `epm_paper` counts as the paper does: every malicious pair once in every poisoned window, whether or not
    its hosts are there (its 80 on LANL are all 80 training windows).
    """
    injected, pairs, counted = 0, 0, 0
    for name in participants.silos:
        silo = participants.build(experiment, dataset, name)
        if isinstance(silo, Attacker):
            injected += silo.injected
            pairs += len(silo.targets())
            counted += silo.poisoned_windows * len(silo.targets())
    whole = max(pairs, 1)
    return {"injected": float(injected), "epm": injected / whole, "epm_paper": counted / whole}


def judge(
    experiment: Experiment, dataset: Dataset, detectors: Mapping[str, Detector], liars: Collection[str]
) -> dict[str, dict[str, float | None]]:
    """Figures over all silos ("") and without those that cheat (their names, joined by +)."""
    levels = (experiment.detection.false_alarms, LOOSE)
    strict, loose, eulers = score_at(dataset, detectors, levels, seed=experiment.seed)
    rules = {name: baseline(LOCAL_BASELINE, dataset.shape) for name in dataset.silos}
    local = [
        either(one, other)
        for one, other in zip((strict, loose), score_at(dataset, rules, levels), strict=True)
    ]
    sets: list[tuple[str, ...]] = [(), tuple(liars)]
    if not liars:
        sizes = (1, 2) if len(dataset.silos) <= MOST_SILOS else (1,)
        sets = [(), *(group for size in sizes for group in combinations(sorted(dataset.silos), size))]
    found = {}
    for group in sets:
        honest = [name for name in dataset.silos if name not in group]
        if honest:
            parts = [[scored[n] for n in honest] for scored in (strict, loose, *local)]
            found["+".join(group)] = figures(*parts) | {"sr_euler": missed([eulers[n] for n in honest])}
    return found


def figures(
    strict: list[ScoredEdges],
    loose: list[ScoredEdges],
    local: list[ScoredEdges],
    local_loose: list[ScoredEdges],
) -> dict[str, float | None]:
    whole = unite(strict).metrics((10,))
    return {
        "ap": whole.ap,
        "auc": whole.auc,
        "sr": missed(strict),
        "sr_loose": missed(loose),
        "sr_local": missed(local),
        "sr_local_loose": missed(local_loose),
        "recall_at_10": whole.recall_at["10"],
        "positives": None if whole.positives is None else float(whole.positives),
    }


def missed(parts: list[ScoredEdges]) -> float | None:
    """Share of malicious edges that none of the silos alerts on."""
    recall = unite(parts).metrics(()).recall
    return None if recall is None else 1.0 - recall


def either(model: Mapping[str, ScoredEdges], baseline: Mapping[str, ScoredEdges]) -> dict[str, ScoredEdges]:
    """Alerts of the model or of a baseline beside it; scores stay the model's."""
    return {name: replace(one, alert=one.alert | baseline[name].alert) for name, one in model.items()}


def score_at(
    dataset: Dataset, detectors: Mapping[str, Detector], levels: Sequence[float], seed: int | None = None
) -> list[dict[str, ScoredEdges]]:
    """Every silo's scored test edges, once per share of false alarms that its threshold is learnt for.

    With a seed also, as the last, at Euler's own threshold.
    """
    found: list[dict[str, ScoredEdges]] = [{} for _ in range(len(levels) + (seed is not None))]
    for name, silo in dataset.silos.items():
        detector = detectors[name]
        trained, warm = detector.score(silo.train, detector.initial_state(silo.train))
        seen, state = detector.score(silo.validation, warm)
        scores, _ = detector.score(silo.test, state)
        if not all(np.isfinite(part).all() for part in (trained, seen, scores)):
            raise DetectorError(f"scores of silo {name!r} are not finite")
        benign = seen if len(seen) else trained
        for place, level in enumerate(levels):
            threshold = learn_threshold(benign, level) if len(benign) else NEVER
            found[place][name] = label_scores(silo, scores, threshold)
        if seed is not None:
            graph, start = (silo.validation, warm) if len(seen) else (silo.train, None)
            begin = detector.initial_state(silo.train) if start is None else start
            cutoff = euler_threshold(detector, graph, begin, seed)
            found[-1][name] = label_scores(silo, scores, NEVER if cutoff is None else cutoff)
    return found


def guarantee(experiment: Experiment, rounds: Sequence[RoundRecord], silos: int) -> dict[str, float | None]:
    """Epsilon by the accountant, and by the paper's formula K M_qs sqrt(R ln(1/delta)) / sigma."""
    released = [record.privacy for record in rounds if record.privacy is not None]
    last = released[-1] if released else None
    if last is None or last.sensitivity is None or not last.sigma:
        return {}
    spread = math.sqrt(len(released) * math.log(1.0 / experiment.privacy.delta))
    return {"epsilon": last.epsilon, "epsilon_paper": silos * last.sensitivity * spread / last.sigma}


def watched(rounds: Iterable[RoundRecord], liars: Collection[str], silos: int) -> dict[str, float | None]:
    """Whether the coordinator's warnings named who cheats, since when, and how often they named others."""
    first: int | None = None
    accused: set[str] = set()
    trained = 0
    for record in rounds:
        if not record.trained:
            continue
        trained += 1
        for warning in record.warnings:
            name = warning.partition(":")[0]
            if name in liars:
                first = record.round if first is None else first
            else:
                accused.add(name)
    honest = silos - len(liars)
    return {
        "warned": float(first is not None),
        "warned_round": None if first is None else float(first),
        "accused": len(accused) / honest if honest and trained else 0.0,
    }
