from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from entente.config import Experiment
from entente_lab.bench.cells import Cell, Store
from entente_lab.bench.grid import families, run_grid

RUNNERS = """
import os, time
from pathlib import Path

def figure(experiment, options, work):
    with Path(options["log"]).open("a") as log:
        log.write(f"{experiment.seed}\\n")
    return {"values": {"ap": experiment.seed / 10}}

def slow(experiment, options, work):
    Path(options["log"]).open("a").write(f"{os.getpid()}\\n")
    time.sleep(60)

def half(experiment, options, work):
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "half").exists():
        (work / "half").write_text("")
        time.sleep(60)
    return {"values": {"ap": 1.0}}

def broken(experiment, options, work):
    raise ValueError("no such thing")

def refused(experiment, options, work):
    from entente.errors import FederationError
    raise FederationError("below quorum", remedy="Wait.")

def infinite(experiment, options, work):
    return {"values": {"ap": float("nan")}}

def killed(experiment, options, work):
    os.kill(os.getpid(), 9)

def gone(experiment, options, work):
    os.write(2, b"last words")
    os._exit(3)
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "made_up_runners.py").write_text(RUNNERS)
    paths = [str(tmp_path / "modules"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
    return tmp_path / "log"


def cell(log: Path, seed: int = 0, runner: str = "figure", **labels: str) -> Cell:
    return Cell(
        Experiment(seed=seed),
        data="abc",
        labels={"seed": seed, **labels},
        options={"log": str(log)},
        runner=f"made_up_runners:{runner}",
    )


def test_every_cell_is_a_record_with_what_is_needed_to_repeat_it(tmp_path: Path, log: Path) -> None:
    rows = run_grid([cell(log, 3)], Store(tmp_path / "out"), command="entente bench x")
    (labels, record), *rest = rows
    assert not rest
    assert labels == {"seed": 3}
    assert record.values == {"ap": 0.3}
    assert record.config == Experiment(seed=3)
    assert (record.seed, record.data, record.command) == (3, "abc", "entente bench x")
    assert set(record.versions) >= {"entente", "torch", "numpy", "python", "code"}
    assert record.seconds >= 0
    assert record.peak_memory_mb is not None
    stored = json.loads((tmp_path / "out" / "cells" / f"{record.key}.json").read_text())
    assert stored["status"] == "done"


def test_recorded_cells_are_reused_and_equal_cells_run_once(tmp_path: Path, log: Path) -> None:
    store = Store(tmp_path / "out")
    run_grid([cell(log, 0), cell(log, 1)], store)
    rows = run_grid([cell(log, 0), cell(log, 1), cell(log, 2), cell(log, 2, table="other")], store)
    assert sorted(log.read_text().split()) == ["0", "1", "2"]
    assert [record.values["ap"] for _, record in rows] == [0.0, 0.1, 0.2, 0.2]
    assert rows[3][0]["table"] == "other"


@pytest.mark.parametrize(
    ("runner", "said"),
    [
        ("broken", "ValueError: no such thing (made_up_runners.py:"),
        ("refused", "below quorum"),
        ("infinite", "not JSON compliant"),
        ("killed", "SIGKILL"),
        ("gone", "code 3: last words"),
        ("missing", "made_up_runners"),
    ],
)
def test_a_failed_cell_is_a_row_and_the_grid_goes_on(
    tmp_path: Path, log: Path, runner: str, said: str
) -> None:
    store = Store(tmp_path / "out")
    rows = run_grid([cell(log, 0, runner), cell(log, 1)], store, workers=1)
    assert [record.status for _, record in rows] == ["failed", "done"]
    assert said in (rows[0][1].error or "")


def test_a_failed_cell_is_repeated_only_on_request(tmp_path: Path, log: Path) -> None:
    store = Store(tmp_path / "out")
    first = run_grid([cell(log, 0, "broken")], store)[0][1]
    assert run_grid([cell(log, 0, "broken")], store)[0][1] == first
    store.write(run_grid([cell(log, 0, "broken")], store, retry=True)[0][1])
    assert (store.read(first.key) or first).finished >= first.finished


def test_a_cell_that_other_code_computed_is_repeated_only_on_request(tmp_path: Path, log: Path) -> None:
    store = Store(tmp_path / "out")
    old = run_grid([cell(log, 1)], store)[0][1]
    store.write(replace(old, versions={**old.versions, "code": "older"}))
    assert run_grid([cell(log, 1)], store)[0][1].versions["code"] == "older"
    assert run_grid([cell(log, 1)], store, fresh=True)[0][1].versions["code"] != "older"
    assert log.read_text().split() == ["1", "1"]


def test_a_cell_beyond_its_time_is_ended_and_says_so(tmp_path: Path, log: Path) -> None:
    rows = run_grid([cell(log, 0, "slow")], Store(tmp_path / "out"), limit=1.0)
    assert str(rows[0][1].error).startswith("took longer than 1 s")


def test_a_cell_that_took_too_long_goes_on_with_what_it_has_when_it_is_retried(
    tmp_path: Path, log: Path
) -> None:
    store = Store(tmp_path / "out")
    stopped = cell(log, 0, "half")
    assert run_grid([stopped], store, limit=8.0)[0][1].status == "failed"
    assert (store.work(stopped.key) / "half").exists()
    assert run_grid([stopped], store, retry=True)[0][1].values == {"ap": 1.0}
    assert not store.work(stopped.key).exists()


def test_a_damaged_record_is_run_again(tmp_path: Path, log: Path) -> None:
    store = Store(tmp_path / "out")
    wanted = cell(log, 0)
    store.file(wanted.key).parent.mkdir(parents=True)
    store.file(wanted.key).write_text('{"key": ')
    assert run_grid([wanted], store)[0][1].status == "done"


def test_where_the_data_lies_and_the_labels_do_not_change_a_cell() -> None:
    here = Experiment.model_validate({"data": {"events": "here", "silos": "a.csv"}})
    there = Experiment.model_validate({"data": {"events": "there", "silos": "b.csv"}, "workers": 2})
    assert Cell(here, "h", {"method": "x"}).key == Cell(there, "h", {"method": "y"}).key
    assert Cell(here, "h").key != Cell(here, "other").key
    assert Cell(here, "h").key != Cell(here.model_copy(update={"seed": 1}), "h").key
    assert Cell(here, "h").key != Cell(here, "h", options={"task": "other"}).key


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_cell_outlives_an_interrupted_grid(tmp_path: Path, log: Path, how: signal.Signals) -> None:
    script = textwrap.dedent(f"""
        from pathlib import Path
        from entente_lab.bench.cells import Cell, Store
        from entente_lab.bench.grid import run_grid
        from entente.config import Experiment
        from entente.errors import Interrupted
        cells = [
            Cell(Experiment(seed=s), "d", options={{"log": {str(log)!r}}}, runner="made_up_runners:slow")
            for s in range(4)
        ]
        try:
            run_grid(cells, Store(Path({str(tmp_path / "out")!r})))
        except Interrupted as stop:
            print(stop)
            raise SystemExit(stop.exit_code)
    """)
    grid = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    wait_until(lambda: log.exists() and len(log.read_text().split()) == 2)
    grid.send_signal(how)
    said, _ = grid.communicate(timeout=30)
    if how == signal.SIGINT:
        assert grid.returncode == 130
        assert "0 of 4 cells done" in said
    wait_until(lambda: not any(alive(int(pid)) for pid in log.read_text().split()))
    assert not list((tmp_path / "out").rglob("*.json"))


def wait_until(condition: object) -> None:
    until = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_cells_of_the_same_data_detector_and_seed_share_a_process() -> None:
    def of(method: str, seed: int, silos: str) -> Cell:
        mode = "non-fl" if method == "non-fl" else "federated"
        data = {"events": "here", "silos": silos}
        return Cell(Experiment.model_validate({"data": data, "seed": seed, "mode": mode}), silos)

    tables = ("2.csv", "3.csv", "4.csv")
    cells = [of(m, s, k) for s in (0, 1) for k in tables[:2] for m in ("non-fl", "entente", "fedavg")]
    assert [len(part) for part in families(cells, 2)] == [2] * 6  # Non-FL of both K is one family
    assert [len(part) for part in families(cells[1:3], 2)] == [1, 1]  # no worker is left idle
    measured = [replace(of("entente", 0, silos), runner="made_up:timed") for silos in tables]
    assert [len(part) for part in families(measured, 2)] == [1, 1, 1]
