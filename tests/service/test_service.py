"""The whole service as its user runs it: a folder of Zeek logs, a killed process, alerts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import entente.service.scorer as scorer_module
from entente.config import parse_experiment
from entente.detection.feedback import NOTHING_LEARNT
from entente.errors import UsageError
from entente.logs.edges.engines import opened_table
from entente.logs.edges.query import TableMapping
from entente.logs.edges.store import EdgeRequest, write_edges
from entente.logs.events import with_all_columns
from entente.logs.formats.base import Options
from entente.logs.ingest import Request, ingest
from entente.logs.refine import Refinement
from entente.logs.stream import LineReader
from entente.runs.folder import RunFolder
from entente.runtime.detecting import detect
from entente.runtime.local import train
from entente.service.alerts import AlertStore, Filter
from entente.service.config import Watch
from entente.service.database import connect
from entente.service.loop import Input, WatchLoop
from entente.service.scorer import ModelScorer
from entente.service.service import DATABASE
from entente.service.sources.spool import Spool, SpoolOptions
from entente.service.suppression import rule_from

from .conftest import alert, eventually

WINDOW = 600
TRAIN, TEST = 30, 20  # windows


def rows(first: int, last: int) -> list[str]:
    """Habits of ten clients with two servers, and now and then a pair that was never seen."""
    lines = []
    for window in range(first, last):
        for client in range(10):
            ends = {"id.orig_h": f"10.0.0.{client + 10}", "id.resp_h": f"10.0.0.{client % 2 + 1}"}
            if window >= TRAIN and client == window % 10:
                ends["id.resp_h"] = f"10.0.0.{(client + 3) % 10 + 10}"
            row = {
                "ts": window * WINDOW + 13.0 * client,
                "uid": "C",
                "proto": "tcp",
                "id.resp_p": 445,
                **ends,
            }
            lines.append(json.dumps(row) + "\n")
    return lines


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with run/, trained on the first windows."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "past.log").write_text("".join(rows(0, TRAIN)))
    ingest(Request([str(folder / "past.log")], folder / "events"))
    experiment = parse_experiment(
        {
            "data": {"events": str(folder / "events"), "window": WINDOW, "train": TRAIN * WINDOW},
            "detector": {"name": "first-seen"},
        }
    )
    train(experiment, RunFolder(folder / "run"), baselines=())
    return folder


class Running:
    """The service in a process of its own."""

    def __init__(self, folder: Path, run: Path) -> None:
        self.folder = folder
        (folder / "logs").mkdir()
        (folder / "watch.toml").write_text(
            f'run = "{run}"\nfolder = "service"\nport = 0\nlateness = 60\n'
            '[[sources]]\nname = "zeek"\ntype = "spool"\npath = "logs"\n'
            '[[outputs]]\nname = "copy"\ntype = "file"\npath = "alerts"\n'
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "entente", "watch", str(self.folder / "watch.toml")]
        with (self.folder / "said.txt").open("ab") as said:
            self.process = subprocess.Popen(command, stderr=said, env=dict(os.environ))

    def end(self, how: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait()

    def scored(self) -> list[tuple[int, int]]:
        """(start, stop) of everything that was scored so far."""
        path = self.folder / "service" / DATABASE
        if not path.exists():
            return []
        connection = connect(path)
        try:
            return [
                tuple(row) for row in connection.execute("SELECT start, stop FROM scorings ORDER BY start")
            ]
        finally:
            connection.close()

    def alerts(self) -> list[dict[str, Any]]:
        with sqlite3.connect(self.folder / "service" / DATABASE) as connection:
            return [json.loads(row[0]) for row in connection.execute("SELECT document FROM alerts")]

    def lines(self) -> list[str]:
        folder = self.folder / "alerts"
        found = [file.read_text() for file in sorted(folder.iterdir())] if folder.is_dir() else []
        return "".join(found).splitlines()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_again_and_again_it_scores_every_window_once_and_loses_no_alert(
    trained: Path, tmp_path: Path
) -> None:
    running = Running(tmp_path, trained / "run")
    log = tmp_path / "logs" / "conn.log"
    parts = [rows(window, window + 2) for window in range(TRAIN, TRAIN + TEST, 2)]
    assert len(parts) == 10
    for part in parts:
        before = len(running.scored())
        running.start()
        with log.open("a") as file:
            file.writelines(part)
        eventually(lambda seen=before: len(running.scored()) > seen, 400)  # type: ignore[misc]
        running.end(signal.SIGKILL)
    running.start()
    with log.open("a") as file:  # somebody speaks later, so that the last window is complete
        file.writelines(rows(TRAIN + TEST + 1, TRAIN + TEST + 2))
    end = (TRAIN + TEST) * WINDOW * 1_000_000
    eventually(lambda: bool(running.scored()) and running.scored()[-1][1] >= end, 400)
    eventually(lambda: len(running.lines()) == len(running.alerts()), 400)
    assert running.end(signal.SIGTERM) == 0
    scored = running.scored()
    assert all(one[1] == two[0] for one, two in pairwise(scored))
    # The same as one call of `detect` over the whole log.
    ingest(Request([str(log)], tmp_path / "events"))
    whole = detect(RunFolder(trained / "run"), tmp_path / "events")
    expected = {alert.id for alert in whole.alerts if alert.start < end}
    assert expected
    assert {one["id"] for one in running.alerts() if one["start"] < end} == expected
    assert len(running.lines()) == len(set(running.lines()))


def test_two_services_cannot_work_in_one_folder(trained: Path, tmp_path: Path) -> None:
    from entente.artifacts import locked
    from entente.errors import UsageError
    from entente.service.service import BUSY

    with locked(tmp_path, BUSY), pytest.raises(UsageError, match="another service"), locked(tmp_path, BUSY):
        pass


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "entente", *map(str, words)],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )


def test_a_wrong_configuration_is_named_and_leaves_no_traceback(tmp_path: Path) -> None:
    config = tmp_path / "watch.toml"
    config.write_text('run = "run"\nfolder = "service"\n[[sources]]\nname = "a"\ntype = "spol"\npath = "x"\n')
    done = command("watch", config)
    assert done.returncode == 9
    assert "Traceback" not in done.stderr
    assert "holds no trained model" in done.stderr
    assert "watching" not in done.stdout + done.stderr


def test_a_queue_is_worked_through_from_the_command_line(tmp_path: Path) -> None:
    from entente.service.alerts import AlertStore
    from entente.service.database import transaction
    from entente.service.suppression import Suppressions

    from .conftest import alert

    service = tmp_path / "service"
    connection = connect(service / DATABASE)
    with transaction(connection):
        AlertStore(connection).add([alert(1), alert(2, users=("maria",))], Suppressions())
    connection.close()
    name = alert(1).id
    listed = json.loads(command("alerts", "list", "--service", service, "--json").stdout)
    assert {one["id"] for one in listed} == {alert(1).id, alert(2).id}
    closed = command(
        "alerts", "close", "--service", service, name[:8], "--reason", "benign", "--note", "patch"
    )
    assert closed.returncode == 0, closed.stderr
    shown = command("alerts", "show", "--service", service, name[:8]).stdout
    assert "closed" in shown
    assert "patch" in shown
    said = command(
        "alerts", "suppress", "--service", service, alert(2).id, "--by", "user", "--reason", "test"
    )
    assert "fits 1 of the latest 2" in said.stdout, said.stderr
    assert "maria" in (service / "suppressions.toml").read_text()
    missing = command("alerts", "show", "--service", service, "nothing")
    assert missing.returncode == 2
    assert "Traceback" not in missing.stderr


def test_a_delivered_model_takes_over_between_two_windows_and_both_are_named(
    trained: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained / "run", tmp_path / "run")
    (tmp_path / "logs").mkdir()
    source = {"name": "zeek", "type": "spool", "path": str(tmp_path / "logs")}
    values = {"run": tmp_path / "run", "folder": tmp_path / "service", "sources": [source], "lateness": 60}
    config, said = Watch.model_validate(values), list[str]()
    connection = connect(tmp_path / "service" / DATABASE)
    scorer = ModelScorer.load(config, 0, None)
    spool = Spool(SpoolOptions(path=tmp_path / "logs"), "sources.zeek")
    reader = LineReader("auto", Options(), Refinement())
    loop = WatchLoop(config, connection, [Input("zeek", spool, reader)], scorer, report=said.append)

    def arrive(first: int, last: int) -> None:
        with (tmp_path / "logs" / "conn.log").open("a") as log:
            log.writelines(rows(first, last))
        while loop.step():
            pass

    arrive(TRAIN, TRAIN + 4)
    run = RunFolder(tmp_path / "run")
    old, (models, card) = run.model_name(), run.read_model()
    (run.path / "model.json").write_text("{")  # delivered by halves
    arrive(TRAIN + 4, TRAIN + 6)
    run.write_model(
        models, card.model_copy(update={"thresholds": {n: t - 0.01 for n, t in card.thresholds.items()}})
    )
    arrive(TRAIN + 6, TRAIN + 10)
    found = AlertStore(connection).find(Filter(), 1000)
    named = {(one.alert.start // (WINDOW * 1_000_000) - TRAIN, one.alert.model) for one in found}
    new = run.model_name()
    assert {model for window, model in named if window < 5} == {old}
    assert {model for window, model in named if window > 5} == {new}
    assert {(one.alert.model, one.alert.model_before) for one in found} == {(old, None), (new, old)}
    assert {path.name for path in (tmp_path / "service" / "models").iterdir()} == {old, new}
    assert any("the former one goes on" in line for line in said)
    assert f"model {new} takes over from {old}" in said
    connection.close()


def test_an_edge_directory_is_scored_as_it_grows_and_gives_the_alerts_of_its_events(
    trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "conn.log").write_text("".join(rows(0, TRAIN + 9)))
    ingest(Request([str(tmp_path / "conn.log")], tmp_path / "events"))
    edges, now = tmp_path / "edges", [1e6]
    values = {"run": trained / "run", "folder": tmp_path / "service", "edges": edges}
    config = Watch.model_validate(values)
    connection = connect(tmp_path / "service" / DATABASE)
    loop = WatchLoop(config, connection, [], ModelScorer.load(config, 0, None), clock=lambda: now[0])
    width = WINDOW * 1_000_000

    def scored_after(until: int | None) -> int:
        """Windows that are scored by the time the table has come so far."""
        if until is not None:
            wanted = EdgeRequest(TableMapping(time_unit="us", day="day"), width, edges, end=until * width)
            write_edges(opened_table("duckdb", str(tmp_path / "events"), {}), wanted)
        while loop.step():
            pass
        return loop.tally.windows

    assert not loop.finished
    assert scored_after(None) == 0
    assert scored_after(TRAIN + 4) == 3  # the last window may still grow
    assert scored_after(TRAIN + 9) == 8
    now[0] += config.silent + 1
    assert loop.silent() == ["edges"]
    assert scored_after(None) == 9  # nobody extends it any more
    found = {one.alert.id for one in AlertStore(connection).find(Filter(), 1000)}
    assert found == {alert.id for alert in detect(RunFolder(trained / "run"), tmp_path / "events").alerts}
    assert found
    connection.close()


def test_drift_counts_edges_above_the_threshold_whatever_the_budget_and_forgets(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorer_module, "ENOUGH", 15)
    monkeypatch.setattr(scorer_module, "HALF", 20)
    shutil.copytree(trained / "run", tmp_path / "run")
    settings = tmp_path / "run" / "experiment.toml"
    settings.write_text(settings.read_text().replace("[detection]", "[detection]\nalerts_per_day = 1"))
    scorer = ModelScorer.load(Watch(run=tmp_path / "run", folder=tmp_path, edges=tmp_path), 0, None)

    def pass_by(window: int, targets: list[str]) -> None:
        rows = [
            {"time": (window * WINDOW + i) * 1_000_000, "src": f"10.0.0.{i % 10 + 10}", "dst": target}
            for i, target in enumerate(targets)
        ]
        start = window * WINDOW * 1_000_000
        events = with_all_columns(pa.Table.from_pylist(rows))
        scorer.score(events, start, start + WINDOW * 1_000_000, NOTHING_LEARNT)
        scorer.save(tmp_path / "states" / str(window))

    known = [f"10.0.0.{i % 2 + 1}" for i in range(10)]
    assert scorer.drift is None
    for window in range(TRAIN, TRAIN + 3):
        pass_by(window, known)
    assert scorer.drift is not None
    assert scorer.drift < 50
    for window in range(TRAIN + 3, TRAIN + 6):
        pass_by(window, [f"10.1.{window}.{i}" for i in range(10)])
    risen = scorer.drift
    assert risen is not None
    assert risen > 500  # half of all edges or more, where one of a thousand was expected
    for window in range(TRAIN + 6, TRAIN + 11):
        pass_by(window, known)
    assert scorer.drift is not None
    assert scorer.drift < risen / 3


@pytest.mark.parametrize(
    ("host", "net"),
    [
        ("10.1.2.3", "10.1.2.0/24"),
        ("2001:db8::5", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("ws-1", None),
    ],
)
def test_a_suppression_by_network_fits_the_neighbours_of_a_source(host: str, net: str | None) -> None:
    if net is None:
        with pytest.raises(UsageError, match="no net"):
            rule_from(alert(1, src=host), "net", "scanners", None, "maria")
        return
    rule = rule_from(alert(1, src=host), "net", "scanners", None, "maria")
    assert rule.net == net
    assert rule.fits(alert(2, src=host.replace("3", "77")))
    assert not rule.fits(alert(2, src="10.1.3.3"))
