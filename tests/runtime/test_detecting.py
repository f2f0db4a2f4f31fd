"""Detection goes on where a run stopped, night after night."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

from entente.config import Experiment, parse_experiment
from entente.detection.table import read_table
from entente.detectors.baselines.base import TIE
from entente.errors import StorageError, UsageError
from entente.graphs.snapshots import read_timeline
from entente.logs.events import load_events, write_events
from entente.logs.schema import COLUMNS, MICROSECONDS
from entente.partition.base import Assignment, read_silos, write_silos
from entente.partition.ownership import UNASSIGNED
from entente.report import build
from entente.runs.folder import RunFolder
from entente.runtime.assembly import load_dataset
from entente.runtime.detecting import Night, detect
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
    slack: dict[str, Any] = {"abs": 1e-6} if run.experiment().detection.ensemble == "none" else {"rel": TIE}
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


def test_a_night_without_events_keeps_what_every_silo_remembers(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    (last,) = nights(experiment, tmp_path, 3.0, 4.0)
    first, second = RunFolder(tmp_path / "first"), RunFolder(tmp_path / "second")
    detect(run, last).commit(first)
    detect(run, last, memory=first).commit(second)
    for silo in run.read_model()[1].thresholds:
        assert second.states.read(silo).until == first.states.read(silo).until
        assert second.states.read(silo).until > run.states.read(silo).until


def test_a_silo_that_does_not_exist_is_named(run: RunFolder, experiment: Experiment, tmp_path: Path) -> None:
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    with pytest.raises(UsageError, match="no silo 'mars'"):
        detect(run, night, ["mars"])


def test_a_run_without_silos_cannot_detect_and_says_so(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    """As the coordinator's own folder is: a model, and nobody's threshold."""
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    models, card = run.read_model()
    folder = RunFolder(tmp_path / "coordinator")
    folder.begin(run.experiment(), resume=False)
    folder.write_model(models, card.model_copy(update={"thresholds": {}}))
    with pytest.raises(UsageError, match="no silo that could detect"):
        detect(folder, night)


def test_hosts_never_seen_before_are_scored_too(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    table = load_events(night, list(COLUMNS), None, None)
    renamed = pc.replace_substring(table["src"], "ws", "brand-new-ws")
    write_events(table.set_column(table.schema.get_field_index("src"), "src", renamed), tmp_path / "new")
    findings = detect(run, tmp_path / "new").findings
    assert sum(f.new_hosts for f in findings) > 0


def test_all_silos_move_on_together_or_none_does(
    run: RunFolder, experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = nights(experiment, tmp_path, 3.0, 3.5, 4.0)
    memory = RunFolder(tmp_path / "memory")
    detect(run, first, memory=memory).commit(memory)
    night = detect(run, second, memory=memory)
    written: list[Path] = []
    write = parquet.write_table

    def full(table: object, where: Path, **options: object) -> None:
        written.append(where)
        if len(written) > 1:
            raise OSError(28, "No space left on device")
        write(table, where, **options)

    monkeypatch.setattr("entente.runs.state.parquet.write_table", full)
    with pytest.raises(StorageError, match="No space left"):
        night.commit(memory)
    monkeypatch.undo()
    assert detect(run, second, memory=memory).alerts == night.alerts
    night.commit(memory)
    assert {f.windows for f in detect(run, second, memory=memory).findings} == {0}


def test_one_silo_alone_leaves_the_others_where_they_were(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    memory = RunFolder(tmp_path / "memory")
    detect(run, night, memory=memory).commit(memory)
    name = sorted(run.card().thresholds)[0]
    detect(run, night, [name]).commit(memory)
    assert {f.windows for f in detect(run, night, memory=memory).findings} == {0}


def test_a_folder_without_states_is_named(run: RunFolder, experiment: Experiment, tmp_path: Path) -> None:
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    copy = RunFolder(tmp_path / "copy")
    shutil.copytree(run.path, copy.path)
    shutil.rmtree(copy.path / "state")
    with pytest.raises(StorageError, match="has no state of silo"):
        detect(copy, night)


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
        data: dict[str, Any] = {"events": str(folder / "events"), "silos": str(folder / "silos.csv")}
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
    assert [replace(alert, model=None) for alert in found] == [replace(a, model=None) for a in stored]
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


# ---- whose hosts -------------------------------------------------------------------------


def strangers(experiment: Experiment, folder: Path, names: tuple[str, str] = ("new-1", "new-2")) -> Path:
    """The fourth day with some connections between two hosts that nobody has met."""
    (night,) = nights(experiment, folder, 3.0, 4.0)
    table = load_events(night, list(COLUMNS), None, None)
    some = table.slice(0, 5)
    for column, name in zip(("src", "dst"), names, strict=True):
        place = some.schema.get_field_index(column)
        some = some.set_column(place, some.schema.field(column), pa.array([name] * 5, pa.string()))
    write_events(pa.concat_tables([some, table]), folder / "strangers")
    return folder / "strangers"


def edges(night: Night) -> dict[str, int]:
    return {finding.silo: finding.edges for finding in night.findings}


def test_the_event_table_is_read_once_for_all_silos(
    run: RunFolder, experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    read: list[tuple[object, ...]] = []

    def scan(*arguments: Any, **more: Any) -> Any:
        read.append(arguments)
        return read_timeline(*arguments, **more)

    monkeypatch.setattr("entente.runtime.nights.read_timeline", scan)
    assert len(detect(run, night).findings) > 1
    assert len(read) == 1


def test_what_two_unknown_hosts_do_is_scored_though_neither_has_a_silo(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    before, after = edges(detect(run, night)), edges(detect(run, strangers(experiment, tmp_path)))
    assert after.pop(UNASSIGNED) == 1
    assert after == before


def test_unassigned_hosts_are_remembered_from_night_to_night(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    memory = RunFolder(tmp_path / "memory")
    first, second = nights(experiment, tmp_path, 3.0, 3.5, 4.0)
    for night in (first, second):
        table = load_events(night, list(COLUMNS), None, None)
        some = table.slice(0, 1)
        for column in ("src", "dst"):
            place = some.schema.get_field_index(column)
            some = some.set_column(place, some.schema.field(column), pa.array([f"new-{column}"], pa.string()))
        write_events(pa.concat_tables([some, table]), tmp_path / "more")
        outcome = detect(run, tmp_path / "more", memory=memory)
        outcome.commit(memory)
        found = next(f for f in outcome.findings if f.silo == UNASSIGNED)
        assert found.edges == 1
        assert found.new_hosts == (2 if night == first else 0)


def test_a_newer_host_table_says_whose_a_new_host_is(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    night = strangers(experiment, tmp_path)
    assert experiment.data.silos is not None
    assigned = read_silos(experiment.data.silos).as_dict()
    home = next(iter(assigned.values()))
    table = tmp_path / "silos.csv"
    write_silos(table, Assignment.from_mapping({**assigned, "new-1": home, "new-2": home}))
    old, new = edges(detect(run, night)), edges(detect(run, night, partition=table))
    assert UNASSIGNED not in new
    assert new[home] == old[home] + 1
    write_silos(table, Assignment.from_mapping({"new-1": "mars"}))
    with pytest.raises(UsageError, match="names no silo of the run"):
        detect(run, night, partition=table)


@pytest.mark.parametrize(("policy", "where"), [("subnet", "porto"), ("lisbon", "lisbon")])
def test_the_policy_for_unknown_hosts_holds_in_training_and_at_night(
    tmp_path: Path, policy: str, where: str
) -> None:
    day = 86400 * MICROSECONDS
    hosts = [f"10.0.{site}.{i}" for site in (1, 2) for i in range(4)]
    pairs = [(a, b) for a in hosts for b in hosts if a != b]
    rows = [(hour * day // 24 + i, *pair) for hour in range(48) for i, pair in enumerate(pairs)]
    late = [(2 * day + 5, "10.0.1.77", "10.0.1.78")]
    for name, chosen in (("events", rows), ("tonight", late)):
        columns = [pa.array(column) for column in zip(*chosen, strict=True)]
        write_events(pa.table(columns, names=["time", "src", "dst"]), tmp_path / name)
    known = {host: "porto" if host.startswith("10.0.1.") else "lisbon" for host in hosts[:-1]}
    write_silos(tmp_path / "silos.csv", Assignment.from_mapping(known))
    data = {"train": 86400.0, "window": 3600.0, "unknown_hosts": policy}
    paths = {"events": str(tmp_path / "events"), "silos": str(tmp_path / "silos.csv")}
    experiment = parse_experiment({"data": data | paths, "detector": {"name": "first-seen"}})
    folder = RunFolder(tmp_path / "run")
    train(experiment, folder, baselines=())
    # The host that the table leaves out is lisbon's by both policies.
    assert load_dataset(experiment).silos["lisbon"].hosts.own_hosts == 4
    found = edges(detect(folder, tmp_path / "tonight"))
    assert found == {"lisbon": 0, "porto": 0, where: 1}


def test_a_silo_without_a_host_table_owns_its_hosts_under_its_own_name(
    experiment: Experiment, tmp_path: Path
) -> None:
    """As a deployed silo has it: no partition, and a name other than the default."""
    data = experiment.data.model_copy(update={"end": 3 * 86400.0, "silos": None})
    alone = experiment.model_copy(update={"data": data})
    dataset = load_dataset(alone, ["porto"], home="porto")
    folder = RunFolder(tmp_path / "run")
    train(alone, folder, baselines=(), dataset=dataset)
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    before, after = edges(detect(folder, night)), edges(detect(folder, strangers(experiment, tmp_path)))
    assert list(after) == ["porto"]
    assert after["porto"] == before["porto"] + 1
