"""Detection goes on where a run stopped, night after night."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from entente.config import Experiment, parse_experiment
from entente.detection.table import read_table
from entente.detectors.baselines.base import TIE
from entente.errors import UsageError
from entente.logs.events import load_events, write_events
from entente.logs.schema import COLUMNS, MICROSECONDS
from entente.partition.base import Assignment, write_silos
from entente.report import build
from entente.runs.folder import RunFolder
from entente.runtime.detecting import detect
from entente.runtime.local import train


@pytest.fixture(scope="module", params=["none", "rare-target"])
def run(
    request: pytest.FixtureRequest, experiment: Experiment, tmp_path_factory: pytest.TempPathFactory
) -> RunFolder:
    """A run over the first three days, with and without a rule beside the model."""
    data = experiment.data.model_copy(update={"end": 3 * 86400.0})
    detection = experiment.detection.model_copy(update={"ensemble": request.param})
    folder = RunFolder(tmp_path_factory.mktemp("detect") / "run")
    train(experiment.model_copy(update={"data": data, "detection": detection}), folder, baselines=())
    return folder


def nights(experiment: Experiment, folder: Path, *cuts: float) -> list[Path]:
    events = load_events(experiment.data.events, list(COLUMNS), None, None)
    paths = []
    for low, high in pairwise(cuts):
        inside = pc.and_(
            pc.greater_equal(events["time"], int(low * 86400 * MICROSECONDS)),
            pc.less(events["time"], int(high * 86400 * MICROSECONDS)),
        )
        paths.append(folder / f"{low}")
        write_events(events.filter(inside), paths[-1])
    return paths


def test_two_nights_one_after_the_other_equal_both_at_once(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    both, first, second = (
        *nights(experiment, tmp_path, 3.0, 4.0),
        *nights(experiment, tmp_path / "halves", 3.0, 3.5, 4.0),
    )
    at_once = detect(run, both)
    memory = RunFolder(tmp_path / "memory")
    in_turn = []
    for events in (first, second):
        night = detect(run, events, memory=memory)
        night.commit(memory)
        in_turn.append(night)
    for finding in at_once.findings:
        parts = [f for night in in_turn for f in night.findings if f.silo == finding.silo]
        assert sum(f.edges for f in parts) == finding.edges
    found = [alert for night in in_turn for alert in night.alerts]
    facts = [(a.start, a.src, a.dst, a.severity, a.incident) for a in found]
    assert facts == [(a.start, a.src, a.dst, a.severity, a.incident) for a in at_once.alerts]
    # Products over other numbers of rows may round the last bit the other way, and a rule's ties are
    # broken by hosts' numbers, which newcomers of the second night have others of.
    slack = {"abs": 1e-6} if run.experiment().detection.ensemble == "none" else {"rel": TIE}
    assert [a.score for a in found] == pytest.approx([a.score for a in at_once.alerts], **slack)


def test_windows_already_scored_are_left_out(run: RunFolder, experiment: Experiment, tmp_path: Path) -> None:
    (old,) = nights(experiment, tmp_path, 1.0, 2.0)
    night = detect(run, old)
    assert night.alerts == ()
    assert {finding.windows for finding in night.findings} == {0}
    night.commit(RunFolder(tmp_path / "memory"))
    assert detect(run, old, memory=RunFolder(tmp_path / "memory")).alerts == ()


def test_nothing_is_stored_before_the_night_is_committed(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    memory = RunFolder(tmp_path / "memory")
    first = detect(run, night, memory=memory)
    again = detect(run, night, memory=memory)
    assert again.alerts == first.alerts
    again.commit(memory)
    assert detect(run, night, memory=memory).alerts == ()


def test_a_silo_that_does_not_exist_is_named(run: RunFolder, experiment: Experiment, tmp_path: Path) -> None:
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    with pytest.raises(UsageError, match="no silo 'mars'"):
        detect(run, night, ["mars"])


def test_hosts_never_seen_before_are_scored_too(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    table = load_events(night, list(COLUMNS), None, None)
    renamed = pc.replace_substring(table["src"], "ws", "brand-new-ws")
    write_events(table.set_column(table.schema.get_field_index("src"), "src", renamed), tmp_path / "new")
    findings = detect(run, tmp_path / "new").findings
    assert sum(f.new_hosts for f in findings) > 0


# ---- one alert, whoever asks ---------------------------------------------------------------


HOUR = 3600
HOMES = {**{f"n{i}": "north" for i in range(6)}, **{f"s{i}": "south" for i in range(6)}}


def crossing_log() -> pa.Table:
    """Four days of habits within two silos; on the third day n0 contacts five hosts of the other silo."""
    rows = []
    for hour in range(4 * 24):
        for i in range(6):
            rows.append((hour * HOUR + 60 * i, f"n{i}", f"n{(i + 1) % 6}", "sam"))
            rows.append((hour * HOUR + 60 * i, f"s{i}", f"s{(i + 1) % 6}", "pippin"))
    rows += [(74 * HOUR + 100 + i, "n0", f"s{i}", "frodo") for i in range(5)]
    time, src, dst, user = zip(*rows, strict=True)
    times = [second * MICROSECONDS for second in time]
    return pa.table({"time": pa.array(times, pa.int64()), "src": src, "dst": dst, "user": user})


@pytest.fixture(scope="module")
def crossing(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float | None], RunFolder]:
    """A run over the log up to a second, or over all of it."""
    folder = tmp_path_factory.mktemp("crossing")
    write_events(crossing_log(), folder / "events")
    write_silos(folder / "silos.csv", Assignment.from_mapping(HOMES))

    def make(end: float | None) -> RunFolder:
        data = {"events": str(folder / "events"), "silos": str(folder / "silos.csv")}
        data |= {"window": HOUR, "train": 48 * HOUR, "validation": 0.25} | ({"end": end} if end else {})
        run = RunFolder(folder / f"run-{end}")
        if not run.started:
            settings = {"data": data, "detector": {"name": "novelty-burst"}}
            train(parse_experiment(settings), run, baselines=())
        return run

    return make


def test_the_same_edge_is_the_same_alert_for_training_detection_and_report(
    crossing: Callable[[float | None], RunFolder],
) -> None:
    whole, short = crossing(None), crossing(72 * HOUR)
    stored = read_table(whole.path / "alerts.parquet").alerts
    found = detect(short, whole.experiment().data.events).alerts
    assert found == stored
    assert build(whole.path).alerts == stored
    assert len({alert.id for alert in found}) == len(found) == 5


def test_an_edge_into_a_new_silo_is_critical_in_detect_too(
    crossing: Callable[[float | None], RunFolder],
) -> None:
    run = crossing(72 * HOUR)
    night = detect(run, run.experiment().data.events)
    assert {alert.severity for alert in night.alerts} == {"critical"}
    assert {(alert.silo, alert.also, alert.direction) for alert in night.alerts} == {
        ("north", ("south",), "outbound")
    }
    (incident,) = {alert.incident for alert in night.alerts}
    assert incident is not None
    (alone,) = {alert.severity for alert in detect(run, run.experiment().data.events, ["south"]).alerts}
    assert alone == "critical"
