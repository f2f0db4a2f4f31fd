"""A run folder -> what its report shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entente.config import Experiment
from entente.detectors import find
from entente.errors import UsageError
from entente.federation.records import BootstrapRecord, RoundRecord
from entente.report.data import ReportData
from entente.report.scored import as_attack, from_alerts, from_scores
from entente.runs.folder import RunFolder
from entente.runs.records import ModelCard, RunMetrics
from entente.text import count

NO_ALERTS = "The run has no alerts.parquet, so no alert is shown: `entente train --resume` writes it."


def build(run_folder: Path) -> ReportData:
    """Read a run. Only experiment.toml and metrics.json must be there; what else is there is shown."""
    for name in ("experiment.toml", "metrics.json"):
        if not (run_folder / name).is_file():
            raise UsageError(
                f"is not a finished run: {name} is missing",
                where=run_folder,
                remedy="Give the folder that `entente train --out RUN` wrote; finish it with --resume.",
            )
    folder = RunFolder(run_folder)
    experiment, metrics, rounds = folder.experiment(), folder.metrics(), tuple(folder.rounds())
    card = folder.card() if folder.has_model else None
    homes = _homes(experiment)
    bootstrap = next((record.bootstrap for record in rounds if record.bootstrap), None)
    method = method_name(experiment)
    title = f"{experiment.name}: {method}"
    data: dict[str, Any] = {
        "title": title,
        "method": method,
        "overall": metrics.overall,
        "facts": _facts(experiment, metrics, rounds, card),
        "command": f"entente train {run_folder.name}/experiment.toml",
        "baselines": metrics.baselines,
        "per_silo": metrics.per_silo,
        "warnings": _warnings(metrics, rounds, card),
        "privacy": privacy_statement(experiment, card, bootstrap),
        "versions": _versions(run_folder / "experiment.toml"),
        **_by_silo(rounds, method),
    }
    scores, stored = run_folder / "scores.parquet", run_folder / "alerts.parquet"
    if stored.is_file():
        data |= from_alerts(stored)
    elif scores.is_file():
        data["warnings"] += (NO_ALERTS,)
    if scores.is_file():
        data |= from_scores(scores, experiment.data.window, homes, data.get("alerts", ()), method)
    if not data.get("attack") and data.get("incidents"):
        data["attack"] = as_attack(data["incidents"][0])
    return ReportData(**data)


def method_name(experiment: Experiment) -> str:
    """How a run is called beside others: what trained and how the silos worked together."""
    detector, ensemble = experiment.detector.name, experiment.detection.ensemble
    beside = f" with {ensemble}" if ensemble != "none" else ""
    if not find(detector).federated:
        return detector + (beside if ensemble == "suspicion" else "")
    how = experiment.federation.aggregation.rule if experiment.mode == "federated" else experiment.mode
    return f"{detector} {how}{beside}"


def _by_silo(rounds: tuple[RoundRecord, ...], method: str) -> dict[str, Any]:
    """Local-only runs have rounds of every silo apart; they are shown as runs of their own."""
    alone = sorted({record.silo for record in rounds if record.silo})
    if not alone:
        return {"rounds": rounds}
    others = {silo: tuple(record for record in rounds if record.silo == silo) for silo in alone}
    return {"other_rounds": {f"{method} {silo}": records for silo, records in others.items()}}


def _facts(
    experiment: Experiment, metrics: RunMetrics, rounds: tuple[RoundRecord, ...], card: ModelCard | None
) -> tuple[tuple[str, str], ...]:
    overall, data = metrics.overall, experiment.data
    facts = [
        ("Experiment", experiment.name),
        ("Seed", str(experiment.seed)),
        ("Events", str(data.events)),
        ("Window", f"{data.window:g} s"),
        ("Training", f"first {data.train / 3600:g} h, last {data.validation:.0%} for the threshold"),
        ("Test edges", f"{overall.edges:,}"),
    ]
    if overall.positives is not None:
        facts.append(("Malicious edges", f"{overall.positives:,}"))
    if metrics.per_silo:
        facts.append(("Silos", str(len(metrics.per_silo))))
    trained = [record.round for record in rounds if record.loss is not None]
    if trained:
        best = card.best_round if card is not None else None
        last = max(trained)
        facts.append(("Rounds", f"{last}" + (f", best {best}" if best else "")))
    return tuple(facts)


def _warnings(
    metrics: RunMetrics, rounds: tuple[RoundRecord, ...], card: ModelCard | None
) -> tuple[str, ...]:
    warnings = []
    overall = metrics.overall
    if overall.positives == 0:
        warnings.append(
            "No edge of the test windows is labelled malicious: AP, AUC and recall are undefined."
        )
    elif overall.positives is not None and overall.positives < 20:
        warnings.append(
            f"Only {overall.positives} malicious edges: the figures change much with each of them."
        )
    known = {name: figures.ap for name, figures in metrics.baselines.items() if figures.ap is not None}
    if known and overall.ap is not None and overall.ap <= max(known.values()):
        name = max(known, key=lambda one: known[one])
        warnings.append(f"The baseline {name} does as well as the model or better.")
    for silo, windows in sorted(metrics.short_history.items()):
        said = count(windows, "test window")
        warnings.append(f"{silo}: {said} had too little history before and were scored by a baseline.")
    refused: dict[str, list[Any]] = {}
    for record in rounds:
        for silo, reason in record.refused.items():
            refused.setdefault(silo, []).append((record.round, reason))
    for silo, cases in sorted(refused.items()):
        last, reason = cases[-1]
        warnings.append(f"{silo} was refused in {count(len(cases), 'round')}, last in round {last}: {reason}")
    for silo, maker in sorted(card.stand_ins.items()) if card is not None else ():
        warnings.append(f"In this run {maker} stood in for {silo}.")
    return tuple(warnings)


def privacy_statement(
    experiment: Experiment, card: ModelCard | None, bootstrap: BootstrapRecord | None
) -> tuple[str, ...]:
    """What others could see, for the run that was made."""
    if experiment.mode == "non-fl":
        return ("All logs were put in one place; this mode keeps nothing private.",)
    if experiment.mode == "local-only":
        return ("Nothing left a silo; every silo trained alone.",)
    names = (
        "Host names are one shared index that every silo knows."
        if experiment.graph.identity == "shared-index"
        else "Host names were hashed with a secret that only the silos have; names did not leave a silo."
    )
    lines = [
        "Model weights and a few numbers per round went to the coordinator; logs stayed in the silos.",
        names,
    ]
    if bootstrap is not None and bootstrap.masked:
        lines.append("Host counts were added up under pairwise masks: the coordinator saw only the total.")
    lines += [f"Bootstrap: {note}." for note in (bootstrap.notes if bootstrap is not None else ())]
    report = card.privacy if card is not None else None
    mechanism = experiment.privacy.mechanism
    if report is not None:
        lines.append(f"Differential privacy: {report.guarantee}.")
    elif mechanism == "none":
        lines.append("Differential privacy: no guarantee, no noise was added.")
    else:
        lines.append(f"Noise was added ({mechanism}); the run does not state a guarantee.")
    return tuple(lines)


def _versions(path: Path) -> dict[str, str]:
    """The first comment line of experiment.toml names the versions that made the run."""
    from entente import __version__

    with path.open(encoding="utf-8") as lines:
        first = lines.readline()
    versions = {}
    if first.startswith("#"):
        for part in first[1:].split(","):
            name, _, version = part.strip().partition(" ")
            if version:
                versions[name] = version
    return versions or {"entente": __version__}


def _homes(experiment: Experiment) -> dict[str, str]:
    """Host -> silo, where the table is still there."""
    if experiment.data.silos is None or not experiment.data.silos.is_file():
        return {}
    from entente.partition.base import read_silos

    return read_silos(experiment.data.silos).as_dict()
