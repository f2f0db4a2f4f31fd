"""`ingest`, `train`, `detect` and `load_run` for programs: what the commands of these names do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entente.config import Experiment, load_experiment, parse_experiment
from entente.errors import UsageError
from entente.federation.records import RoundRecord
from entente.library.frames import event_table
from entente.library.run import TrainedRun, detect_events
from entente.logs.events import Manifest, write_events
from entente.partition.base import Assignment, write_silos
from entente.runs.folder import RunFolder
from entente.runtime.detecting import Night
from entente.runtime.loop import Watcher

Named = str | os.PathLike[str]
"""A path."""


def ingest(
    source: Any,
    out: Named,
    *,
    format: str = "auto",
    labels: Named | None = None,
    engine: str = "duckdb",
    time_unit: str | None = None,
    **options: Any,
) -> Manifest:
    """Read logs, or a frame of events, into the event directory `out`.

    `source` is a path, a glob, several of them, or a frame (see `event_table`). Further `options` are those
    of `entente ingest`: `hosts`, `host_case`, `domains`, `timezone`, `on_bad`, `workers`. A former
    directory is replaced whole or not at all.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"time": [0.0, 2.5, 9.0], "src": ["a", "b", "b"], "dst": ["b", "c", "a"]})
    >>> entente.ingest(frame, "three").rows
    3
    """
    from entente.logs.ingest import Request
    from entente.logs.ingest import ingest as read_logs

    several = isinstance(source, list | tuple) and all(isinstance(one, str | os.PathLike) for one in source)
    if not several and not isinstance(source, str | os.PathLike):
        if labels is not None or options:
            raise UsageError(
                "a frame takes no options of log files", remedy="Put labels into a column `label`."
            )
        return write_events(event_table(source, time_unit=time_unit), Path(out))
    names = [os.fspath(one) for one in (source if several else [source])]
    options = {key: Path(value) if key == "hosts" else value for key, value in options.items()}
    try:
        request = Request(
            names,
            Path(out),
            format,
            engine=engine,
            labels=None if labels is None else Path(labels),
            **options,
        )
    except TypeError as error:
        raise UsageError(f"ingest: {error}") from error
    return read_logs(request)


def train(
    experiment: Experiment | Mapping[str, Any] | Named | None = None,
    out: Named = "run",
    *,
    events: Any = None,
    silos: Mapping[str, str] | Assignment | Named | None = None,
    resume: bool = False,
    watch: Watcher | None = None,
    track: Sequence[str] = (),
    time_unit: str | None = None,
) -> TrainedRun:
    """Train a detector over silos, evaluate it on the test windows, and leave everything in the folder `out`.

    `experiment` is an `Experiment`, a mapping or TOML file of the same sections, or None for the defaults.
    `events` (an event directory or a frame) and `silos` (a mapping host -> silo, an assignment or a table)
    stand in for its `data.events` and `data.silos`; a frame is stored in the run folder. `watch` is called
    with the record of every round, `track` names trackers (tensorboard, mlflow). The same seed gives the
    same bits.

    >>> company = entente.datasets.simulated("company", hosts=40, sites=2, days=3)
    >>> settings = {"data": {"train": company.train}, "federation": {"rounds": 2}}
    >>> run = entente.train(settings, "trained", events=company.events, silos=company.silos)
    >>> sorted(run.metrics.per_silo)
    ['headquarters', 'lyon']
    """
    from entente.runtime.local import train as run_training
    from entente.runtime.trackers.base import tracking

    folder = RunFolder(Path(out))
    settings = resolve(experiment)
    changed: dict[str, Any] = {}
    if isinstance(events, str | os.PathLike):
        changed["events"] = Path(events).resolve()
    elif events is not None:
        changed["events"] = (folder.path / "events").resolve()
        _new_or_resumed(folder, resume)
        write_events(event_table(events, time_unit=time_unit), changed["events"])
    if isinstance(silos, str | os.PathLike):
        changed["silos"] = Path(silos).resolve()
    elif silos is not None:
        _new_or_resumed(folder, resume)
        changed["silos"] = (folder.path / "silos.csv").resolve()
        given = silos if isinstance(silos, Assignment) else Assignment.from_mapping(silos)
        folder.path.mkdir(parents=True, exist_ok=True)
        write_silos(changed["silos"], given)
    if changed:
        settings = settings.model_copy(update={"data": settings.data.model_copy(update=changed)})
    with tracking(track, folder, settings) as tracked:

        def told(record: RoundRecord) -> None:
            tracked(record)
            if watch is not None:
                watch(record)

        run_training(settings, folder, resume=resume, watch=told)
    return TrainedRun(folder)


def resolve(experiment: Experiment | Mapping[str, Any] | Named | None) -> Experiment:
    """An experiment out of whatever describes one; paths of a mapping are relative to where we are."""
    if isinstance(experiment, Experiment):
        return experiment
    if isinstance(experiment, str | os.PathLike):
        return load_experiment(Path(experiment))
    return parse_experiment(dict(experiment or {}))


def _new_or_resumed(folder: RunFolder, resume: bool) -> None:
    """Before anything of the caller's is written into a folder that holds a run."""
    if folder.started and not resume:
        raise UsageError("holds a run already", where=folder.path, remedy="Resume it, or name another `out`.")


def detect(
    run: TrainedRun | RunFolder | Named,
    events: Any,
    *,
    silos: Sequence[str] = (),
    state: Named | None = None,
    partition: Named | None = None,
    time_unit: str | None = None,
) -> Night:
    """Score new events (an event directory or a frame) with a run's model; `alerts` of the result has what
    was raised.

    Windows up to the run's end have been scored and are left out. `state` is a folder with what an earlier
    call left; nothing is stored until you call `commit(entente.RunFolder(state))` on the result, once the
    alerts are safe.

    >>> new = {"time": [400000.0], "src": ["headquarters-adm0001"], "dst": ["headquarters-dc0000"]}
    >>> night = entente.detect("run", new)
    >>> {finding.silo: finding.edges for finding in night.findings}
    {'headquarters': 1, 'lyon': 0}
    """
    folder = (
        run.folder
        if isinstance(run, TrainedRun)
        else run
        if isinstance(run, RunFolder)
        else RunFolder(Path(run))
    )
    return detect_events(folder, events, silos=silos, state=state, partition=partition, time_unit=time_unit)


def load_run(path: Named) -> TrainedRun:
    """The run in a folder of `entente train` or `entente.train`.

    >>> entente.load_run("run").metrics.overall.edges > 0
    True
    """
    folder = RunFolder(Path(path))
    if not folder.has_model:
        raise UsageError(
            "holds no finished run",
            where=folder.path,
            remedy="Name a folder that `entente train` has finished.",
        )
    return TrainedRun(folder)
