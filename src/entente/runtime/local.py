"""Training and evaluating in one machine: all silos in this process or in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from entente.artifacts import Arrays
from entente.config import Experiment
from entente.detection.budget import DayBudget
from entente.detection.further import SiloEdges, further_edges
from entente.detection.incidents import still_open
from entente.detection.raising import joined
from entente.detection.scores import write_scores
from entente.detection.table import write_table
from entente.detectors import reference_baselines
from entente.errors import Interrupted
from entente.federation.coordinator import Coordinator
from entente.federation.own_weights import OwnWeights
from entente.graphs.identity import collisions, host_rows
from entente.runs.exchange import ExchangeState
from entente.runs.folder import RunFolder
from entente.runs.records import ModelCard, RunMetrics, TrainingRecord
from entente.runs.state import SiloState
from entente.runtime.assembly import Dataset, SiloData, initial_model, load_dataset, trained_detector
from entente.runtime.detecting import recent_edges
from entente.runtime.evaluation import (
    Evaluation,
    edge_columns,
    evaluate_baseline,
    evaluate_models,
    raise_from,
)
from entente.runtime.evidence import complete, with_events
from entente.runtime.exchanging import exchange_key
from entente.runtime.loop import Journal, Watcher, make_coordinator, run, training_record
from entente.runtime.participants import HONEST, Participants
from entente.runtime.processes import ProcessTransport
from entente.runtime.sufficiency import Shortage, shortages
from entente.runtime.transport import SerialTransport, Transport


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A finished run: its folder has all of this too."""

    folder: RunFolder
    models: dict[str, Arrays]  # "" = one model for all, else what a silo has of its own
    evaluation: Evaluation
    metrics: RunMetrics
    card: ModelCard


def train(
    experiment: Experiment,
    folder: RunFolder,
    *,
    resume: bool = False,
    watch: Watcher | None = None,
    dataset: Dataset | None = None,
    baselines: Collection[str] | None = None,
    participants: Participants = HONEST,
    lacking: Callable[[tuple[Shortage, ...]], None] | None = None,
) -> Run:
    """Train over the silos, evaluate on the test windows and leave everything in `folder`.

    `participants` says who plays the silos, where it is not themselves. `lacking` hears, before the first
    round, what there is too little of.
    """
    with folder.locked():
        started = folder.started
        if started:
            folder.begin(experiment, resume=resume)
        dataset = dataset if dataset is not None else load_dataset(experiment)
        if not started:  # only now: a mistake in the data does not claim the folder
            folder.begin(experiment, resume=resume)
        if lacking is not None:
            lacking(shortages(experiment, dataset))
        models, training = fit(experiment, folder, dataset, watch=watch, participants=participants)
        return finish(experiment, folder, dataset, models, training, baselines, participants)


def finish(
    experiment: Experiment,
    folder: RunFolder,
    dataset: Dataset,
    models: dict[str, Arrays],
    training: Mapping[str, TrainingRecord],
    baselines: Collection[str] | None = None,
    participants: Participants = HONEST,
) -> Run:
    """Evaluate trained models on the dataset's test windows and leave everything in `folder`."""
    detectors = {name: trained_detector(experiment, dataset.shape, models, name) for name in dataset.silos}
    evaluation = evaluate_models(dataset, detectors, experiment.detection)
    chosen = reference_baselines() if baselines is None else baselines
    trivial = {
        rule: evaluate_baseline(dataset, rule, experiment.detection).metrics().overall for rule in chosen
    }
    metrics = evaluation.metrics().model_copy(update={"baselines": trivial})
    shape = dataset.shape
    card = ModelCard(
        detector=experiment.detector.name,
        shape=shape,
        training=dict(training),
        thresholds=evaluation.thresholds,
        collisions={
            n: collisions(host_rows(experiment.graph, silo.train.rows), shape.table_size)
            for n, silo in dataset.silos.items()
        },
        stand_ins=dict.fromkeys(participants.silos, participants.make),
    )
    folder.write_model(models, card)
    write_scores(folder.path / "scores.parquet", evaluation.scored.values())
    raised, said = raise_from(dataset, evaluation, detectors, exchange_key(experiment))
    table = joined(list(raised.values()))
    alerts = complete(table.alerts, experiment.data.events, model=folder.model_name())
    edges = [
        SiloEdges(
            evaluation.scored[name], silo.hosts.own, (edge_columns(silo.train), edge_columns(silo.validation))
        )
        for name, silo in dataset.silos.items()
    ]
    further = with_events(further_edges(edges, alerts), experiment.data.events, folder.model_name())
    write_table(folder.path / "alerts.parquet", alerts, table.excluded, further)
    states = {
        n: _state(silo, evaluation, raised[n].budget, folder.model_name(), said.get(n))
        for n, silo in dataset.silos.items()
    }
    folder.states.write(states, still_open((*alerts, *further)))
    folder.write_metrics(metrics)
    return Run(folder, models, evaluation, metrics, card)


def _state(
    silo: SiloData,
    evaluation: Evaluation,
    budget: DayBudget | None,
    model: str,
    said: ExchangeState | None,
) -> SiloState:
    """What the silo goes on from after the test windows."""
    test = silo.test
    return SiloState(
        until=test.start + test.width * test.num_windows,
        hosts=silo.hosts,
        detector=evaluation.states[silo.name],
        history=recent_edges(*map(edge_columns, (silo.train, silo.validation, test))),
        calibration=evaluation.calibrations[silo.name],
        budget=budget,
        model=model,
        exchange=said,
    )


def fit(
    experiment: Experiment,
    folder: RunFolder,
    dataset: Dataset,
    *,
    watch: Watcher | None = None,
    participants: Participants = HONEST,
) -> tuple[dict[str, Arrays], dict[str, TrainingRecord]]:
    """Train only: the model ("") or, local-only, one per silo, and how the training of each ended.

    What silos never send of a common model is under their names. Training goes on from the folder's last
    checkpoint where there is one.
    """
    if experiment.mode == "federated":
        participants.check(list(dataset.silos))
    if not initial_model(experiment, dataset.shape)[1]:
        return {"": {}}, {"": TrainingRecord(stopped="the detector has no weights")}
    if experiment.mode != "local-only":
        coordinator, own = federate(experiment, folder, dataset, "", participants, watch)
        return {"": coordinator.best_weights, **own}, {"": training_record(coordinator)}
    models, training = {}, {}
    for name in dataset.silos:
        alone, own = federate(experiment, folder, dataset, name, participants, watch)
        models[name] = {**alone.best_weights, **own.get(name, {})}
        training[name] = training_record(alone)
    return models, training


def federate(
    experiment: Experiment,
    folder: RunFolder,
    dataset: Dataset,
    alone: str,
    participants: Participants,
    watch: Watcher | None,
) -> tuple[Coordinator, dict[str, Arrays]]:
    """One federation over all silos, or over the silo `alone`, run to its end, and what silos never sent."""
    members = [alone] if alone else sorted(dataset.silos)
    coordinator = make_coordinator(experiment, dataset.shape, members)
    transport = make_transport(experiment, folder, dataset, members, participants)
    try:
        run(coordinator, transport, Journal(folder, alone, watch))
        own = {
            name: OwnWeights.of(state.arrays).after(coordinator.best_round)
            for name, state in transport.states().items()
        }
    except KeyboardInterrupt as stop:
        raise Interrupted(
            f"stopped after round {coordinator.round}; nothing before it is lost",
            where=folder.path,
            remedy="Go on with --resume.",
        ) from stop
    finally:
        transport.close()
    return coordinator, {name: weights for name, weights in own.items() if weights}


def make_transport(
    experiment: Experiment,
    folder: RunFolder,
    dataset: Dataset,
    members: Sequence[str],
    participants: Participants = HONEST,
) -> Transport:
    if experiment.workers > 1 and len(members) > 1:
        sizes = {name: dataset.silos[name].train.num_edges for name in members}
        return ProcessTransport(folder.path / "experiment.toml", sizes, experiment.workers, participants)
    return SerialTransport({name: participants.build(experiment, dataset, name) for name in members})
