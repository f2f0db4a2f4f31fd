"""`import entente`: what it gives, that every example in it runs, and that it costs nothing to import."""

from __future__ import annotations

import doctest
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import entente

CHEAP = {"ingest", "partition", "train", "detect", "load_run", "Experiment"}
"""What the design promises."""


def test_the_surface_is_what_is_promised() -> None:
    assert set(entente.__all__) >= CHEAP
    assert set(entente.__all__) == set(entente.PUBLIC)
    assert set(dir(entente)) >= set(entente.__all__)
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = entente.absent


def test_importing_entente_loads_nothing_heavy() -> None:
    code = "import sys, entente; print(*(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "numpy", "pyarrow", "pydantic", "duckdb", "typer"}.isdisjoint(done.stdout.split())


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(entente.__file__).parent / "py.typed").is_file()


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run in it, which examples may use."""
    folder = tmp_path_factory.mktemp("examples")
    company = entente.datasets.simulated(folder / "company", hosts=40, sites=2, days=3)
    entente.train(company.experiment(rounds=2), folder / "run")
    made_up_files(folder)
    return folder


def made_up_files(folder: Path) -> None:
    """A few rows each of LANL, OpTC and Pivoting in the formats in which these are published."""
    logon = "{0},U{1}@D,U{1}@D,C{1},C{2},NTLM,Network,LogOn,Success\n"
    begun = {"object": "FLOW", "action": "START", "actorID": "a", "objectID": "o", "principal": ""}
    number = "{:08x}-0000-4000-8000-000000000000"
    flow, seen = "{0},{1},{2},50000,445,10,20,1,1,6,{3},{3}.5,0\n", list[dict[str, object]]()
    for i in range(200):
        ends = {"src_ip": f"142.20.56.{i % 6}", "dest_ip": f"10.0.0.{i % 11}"}
        made = {"timestamp": 1_568_700_000_000 + i * 3_720_000, "id": number.format(i), "hostname": "H"}
        seen.append({**made, **begun, "properties": {**ends, "dest_port": "445", "l4protocol": "6"}})
    flows = "".join(flow.format(i, i % 8, i % 5, 1_478_500_000 + i) for i in range(200))
    head = ",src,dst,p_src,p_dst,b_in,b_out,pkt_in,pkt_out,proto,t_start,t_end,label\n"
    files = {
        "lanl/auth.txt": "".join(logon.format(i * 1000, i % 7, i % 5) for i in range(200)),
        "lanl/redteam.txt": "151000,U4@D,C4,C1\n",
        "optc/AIA-1.ecar.json": "".join(json.dumps(one) + "\n" for one in seen),
        "optc/redteam.csv": f"id,description,label\n{number.format(170)},Day 1,Lateral movement\n",
        "pivoting/flows.csv": head + flows,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def documented(name: str) -> Any:
    from entente.partition.split import partition

    return partition if name == "partition" else getattr(entente, name)


@pytest.mark.parametrize(
    "name", [*entente.__all__, *(f"datasets.{n}" for n in ("LogData", "names", *entente.datasets.names()))]
)
def test_every_public_name_has_a_docstring_and_its_example_runs(
    name: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "temporal_data" in name:
        pytest.importorskip("torch_geometric")
    monkeypatch.chdir(workplace)
    base, _, inner = name.partition(".")
    found = getattr(entente.datasets, inner) if inner else documented(base)
    assert inspect.getdoc(found)
    (test,) = doctest.DocTestFinder(recurse=False).find(found, name, globs={"entente": entente})
    assert test.examples, f"{name} has no example"
    test.globs["__name__"] = __name__
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.failed == 0, "".join(said)


def test_the_methods_of_public_classes_say_what_they_do() -> None:
    for name in entente.__all__:
        found = documented(name)
        if inspect.isclass(found) and found.__module__.startswith("entente.library"):
            bare = [
                n for n, m in vars(found).items() if inspect.isfunction(m) and n[0] != "_" and not m.__doc__
            ]
            assert bare == [], name
