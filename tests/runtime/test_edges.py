"""A run trained on edges that an engine computed is the run trained on the events; a night likewise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from entente.config import Experiment
from entente.graphs.snapshots import log_summary
from entente.logs.edges.engines import opened_table
from entente.logs.edges.query import TableMapping
from entente.logs.edges.store import EdgeRequest, write_edges
from entente.logs.schema import MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runtime.detecting import detect
from entente.runtime.local import train


def test_training_and_detection_take_edges_as_they_take_events(
    tiny: Path, experiment: Experiment, tmp_path: Path
) -> None:
    edges = tmp_path / "edges"
    table = opened_table("duckdb", str(tiny / "events"), {})
    width = round(experiment.data.window * MICROSECONDS)
    write_edges(table, EdgeRequest(TableMapping(time_unit="us", day="day"), width, edges))
    assert log_summary(edges).last_time == log_summary(tiny / "events").last_time
    until = 40 * experiment.data.window
    runs = {}
    for name, events in (("events", tiny / "events"), ("edges", edges)):
        data = experiment.data.model_copy(update={"events": events, "end": until})
        settings = experiment.model_copy(
            update={"data": data, "federation": experiment.federation.model_copy(update={"rounds": 1})}
        )
        folder = RunFolder(tmp_path / name)
        train(settings, folder, baselines=())
        night = detect(folder, events)
        runs[name] = (
            (tmp_path / name / "model.safetensors").read_bytes(),
            (tmp_path / name / "scores.parquet").read_bytes(),
            [replace(alert, evidence=()) for alert in night.alerts],  # edges have no rows to show
            [(f.silo, f.edges, f.windows, f.new_hosts) for f in night.findings],
        )
    assert runs["events"] == runs["edges"]
    assert runs["edges"][2]
    assert any(alert.users for alert in runs["edges"][2])
