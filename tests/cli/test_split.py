"""`entente split` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entente.cli import main
from entente.logs.events import write_events
from entente.partition.base import read_silos
from entente_lab.simulator import SimulationConfig, simulate, write


def run(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return int(end.value.code or 0)


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("company")
    simulation = simulate(SimulationConfig(sites=2, hosts=80, days=2))
    write(simulation, path, "csv")
    write_events(simulation.events, path / "events")
    return path


def test_a_site_column_becomes_silos_with_the_whole_table(
    company: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "silos.csv"
    words = (
        "split",
        company / "events",
        "--method",
        "column",
        "--hosts",
        company / "hosts.csv",
        "--out",
        out,
    )
    assert run(*words, "--json") == 0
    table = json.loads(capsys.readouterr().out)
    assert [row["silo"] for row in table["silos"]] == ["headquarters", "lyon"]
    assert sum(row["hosts"] for row in table["silos"]) == 80
    assert all(0 <= row["j"] <= 1 and row["events"] > 0 for row in table["silos"])
    assert 0 < table["cross_edges"] < table["edges"]
    assert table["hosts_deviation"] > 0
    assert set(read_silos(out).silos) == {"headquarters", "lyon"}
    assert run(*words) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("hosts", "events", "cross-silo edges", "J", "standard deviation"))


def test_the_block_model_says_its_blocks_and_writes_parquet(
    company: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "silos.parquet"
    words = ("split", company / "events", "--method", "block-model", "-k", "3", "--starts", "3", "--out", out)
    assert run(*words, "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert first["block_model"]["view"] == "auth"
    assert first["block_model"]["blocks"][1] + first["block_model"]["empty_blocks"][1] == 3
    assert len(read_silos(out)) == sum(row["hosts"] for row in first["silos"])
    assert run(*words, "--json") == 0
    assert json.loads(capsys.readouterr().out) == first


def test_subnets_that_hold_nobody_leave_everyone_in_other(company: Path, tmp_path: Path) -> None:
    (tmp_path / "nets.csv").write_text("silo,cidr\nnorth,10.0.0.0/8\n")
    out = tmp_path / "silos.csv"
    words = ("split", company / "events", "--method", "subnet", "--subnets", tmp_path / "nets.csv")
    assert run(*words, "--out", out, "-q") == 0
    assert read_silos(out).silos == ("other",)


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["--method", "guess"], 2, "unknown method 'guess'"),
        (["--method", "column"], 2, "needs to know what to split by"),
        (["--method", "subnet"], 2, "needs --subnets"),
        (["--method", "subnet", "--subnets", "absent.csv"], 3, "cannot be read"),
        (["--method", "block-model", "-k", "5000"], 2, "cannot form 5000 silos"),
        (["--method", "block-model", "--view", "flows"], 2, "no event crosses"),
    ],
)
def test_mistakes_end_in_one_message(
    company: Path,
    tmp_path: Path,
    words: list[str],
    code: int,
    problem: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("split", company / "events", *words, "--out", tmp_path / "s.csv") == code
    error = capsys.readouterr().err
    assert problem in error
    assert "Traceback" not in error
    assert not (tmp_path / "s.csv").exists()


def test_an_event_directory_that_is_not_there_is_a_log_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "split",
        tmp_path / "none",
        "--method",
        "column",
        "--column",
        "kind",
        "--out",
        tmp_path / "s.csv",
    )
    assert run(*words) == 4
    assert "none" in capsys.readouterr().err


def test_internal_prefixes_decide_which_hosts_become_silos(tmp_path: Path) -> None:
    import pyarrow as pa

    rows = [(f"142.20.56.{n}", f"10.{n // 4}.0.{m}") for n in range(8) for m in range(3)]
    table = {"time": list(range(len(rows))), "src": [a for a, _ in rows], "dst": [b for _, b in rows]}
    write_events(pa.table(table), tmp_path / "events")
    words = ("split", tmp_path / "events", "--method", "block-model", "-k", "2", "--view", "flows")
    assert run(*words, "--internal", "142.20.0.0/16", "--out", tmp_path / "silos.csv", "-q") == 0
    silo_of = read_silos(tmp_path / "silos.csv").as_dict()
    assert {silo_of[f"142.20.56.{n}"] for n in range(4)} != {silo_of[f"142.20.56.{n}"] for n in range(4, 8)}
    assert run(*words[:3], "subnet", "--internal", "10.0.0.0/8", "--out", tmp_path / "x.csv") != 0
