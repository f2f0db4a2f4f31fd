"""LANL, OpTC and Pivoting from small files in the formats they are published in."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from entente.errors import UsageError
from entente.logs.events import load_events, read_manifest
from entente.runtime.assembly import load_dataset
from entente_lab.bench import presets
from entente_lab.bench.datasets import Library
from entente_lab.bench.methods import change
from entente_lab.bench.paper import EULER, TRANSDUCTIVE
from entente_lab.bench.paper import run as bench_paper
from entente_lab.bench.request import Request

RED = (150_885, 151_036)


def lanl_files(folder: Path) -> Path:
    """Two domains of eight computers; the first two red events, at their true seconds, and one on day 15."""
    rng = np.random.default_rng(0)
    lines = []
    for second in sorted(rng.integers(1, 16 * 86_400, 6000).tolist()):
        domain = int(rng.integers(2))
        user, src, dst = f"U{domain}{rng.integers(4)}@DOM{domain}", rng.integers(8), rng.integers(8)
        package = "NTLM" if rng.random() < 0.9 else "Kerberos"
        lines.append((second, f"{user},{user},C{domain}{src},C{domain}{dst},{package},Network,LogOn,Success"))
    red = [(second, "U00@DOM0", "C00", "C15") for second in (*RED, 15 * 86_400)]
    lines += [(second, f"{u},{u},{a},{b},NTLM,Network,LogOn,Success") for second, u, a, b in red]
    text = "".join(f"{second},{rest}\n" for second, rest in sorted(lines))
    folder.mkdir()
    (folder / "auth.txt.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "redteam.txt").write_text("".join(f"{s},{u},{a},{b}\n" for s, u, a, b in red))
    return folder


def test_lanl_trains_before_the_first_red_event_and_gives_jbeil_fourteen_days(tmp_path: Path) -> None:
    library = Library(tmp_path / "data", {"lanl": lanl_files(tmp_path / "lanl")})
    prepared = library.prepare("lanl", 2)
    events = load_events(prepared.events.path)
    assert set(events["kind"].to_pylist()) == {"NTLM"}
    assert sum(events["label"].to_pylist()) == 3
    dataset = load_dataset(EULER.experiment(prepared, 0))
    for silo in dataset.silos.values():
        assert silo.test.start == 149_400 * 1_000_000 <= RED[0] * 1_000_000
        assert silo.train.num_windows + silo.validation.num_windows == 83
    links = load_dataset(change(TRANSDUCTIVE.experiment(prepared, 0), {"mode": "non-fl"})).silos["all"]
    assert links.test.time.max() < 14 * 86_400 * 1_000_000
    seen = [t for t in events["time"].to_pylist() if t < 14 * 86_400 * 1_000_000]
    assert (
        links.train.start + links.train.num_windows * links.train.width
        == sorted(seen)[int(0.85 * (len(seen) - 1))] + 1
    )


def flow(number: int, second: float, src: str, dst: str, **more: object) -> dict[str, object]:
    return {
        "timestamp": int(1_568_700_000_000 + 1000 * second),
        "id": f"{number:08x}-0000-4000-8000-000000000000",
        "hostname": "H",
        "object": "FLOW",
        "action": "START",
        "actorID": "a",
        "objectID": "o",
        "principal": "",
        "properties": {"src_ip": src, "dest_ip": dst, "dest_port": "445", "l4protocol": "6"},
        **more,
    }


def optc_files(folder: Path, labels: str | None = "redteam.csv") -> Path:
    """Two groups of internal hosts, each with external ones of its own; noise that is no host."""
    rng = np.random.default_rng(0)
    rows = [flow(0, 0.0, "142.20.56.1", "142.20.56.2")]
    for number in range(1, 3000):
        group = int(rng.integers(2))
        src = f"142.20.5{6 + group}.{rng.integers(6)}"
        dst = (
            f"10.{group}.0.{rng.integers(3)}"
            if rng.random() < 0.5
            else f"142.20.5{6 + group}.{rng.integers(6)}"
        )
        rows.append(flow(number, float(rng.integers(1, 745_983)), src, dst))
    rows += [
        flow(4000, 10.0, "fe80::1", "ff02::fb"),
        flow(4001, 11.0, "142.20.56.1", "224.0.0.252"),
        flow(4002, 12.0, "142.20.56.1", "142.20.56.3", object="PROCESS", action="CREATE"),
        flow(4003, 600_000.0, "142.20.56.1", "142.20.57.5"),
        flow(4004, 745_983.0, "142.20.56.1", "142.20.56.2"),
    ]
    (folder / "ecar" / "17-18Sep19").mkdir(parents=True)
    for part, name in enumerate(("AIA-1.ecar.json", "AIA-2.ecar.json.gz")):
        text = "".join(json.dumps(row) + "\n" for row in rows[part::2]).encode()
        (folder / "ecar/17-18Sep19" / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    (folder / "known_addresses.json").write_text('{"142.20.56.1": "SysClient0001"}')
    if labels is not None:
        (folder / labels).write_text(
            f"id,description,label\n{flow(4003, 0, '', '')['id']},Day 1,Lateral movement\n"
        )
    return folder


def test_optc_has_silos_of_its_own_prefix_no_multicast_and_the_cut_at_573290(tmp_path: Path) -> None:
    library = Library(tmp_path / "data", {"optc": optc_files(tmp_path / "optc")})
    prepared = library.prepare("optc", 2)
    manifest = read_manifest(prepared.events.path)
    events = load_events(prepared.events.path)
    hosts = set(events["src"].to_pylist()) | set(events["dst"].to_pylist())
    assert not any(host.startswith(("fe80", "ff02", "224.")) for host in hosts)
    assert sum(events["label"].to_pylist()) == 1
    assert sum(source.filtered.get("not FLOW/START", 0) for source in manifest.sources) == 1
    assert set(prepared.sizes) == {"silo0", "silo1"}
    from entente.partition.base import read_silos

    silo_of = read_silos(prepared.silos).as_dict()
    inside = [{silo_of[h] for h in hosts if h.startswith(f"142.20.5{n}.")} for n in (6, 7)]
    assert [len(group) for group in inside] == [1, 1]
    assert inside[0] != inside[1]
    test = next(iter(load_dataset(EULER.experiment(prepared, 0)).silos.values())).test
    cut = (test.start - manifest.first_time) / 1e6
    assert cut == 573_290 // 360 * 360
    assert 0.76 < cut / 745_983 < 0.78


HEADER = ",src,dst,p_src,p_dst,b_in,b_out,pkt_in,pkt_out,proto,t_start,t_end,label\n"


def pivoting_table(rows: int) -> str:
    rng = np.random.default_rng(0)
    lines = [HEADER]
    for number in range(rows):
        group = int(rng.integers(2))
        src, dst = 10 * group + rng.integers(8), 10 * group + rng.integers(8)
        port, protocol = ((445, 6), (53, 17))[group]
        start = 1_478_500_000 + number * 1158.0 / 2000
        lines.append(
            f"{number},{src},{dst},50000,{port},10,20,1,1,{protocol},{start:.3f},{start + 1:.3f},0\n"
        )
    return "".join(lines)


def packed(folder: Path, how: str, table: str) -> Path:
    folder.mkdir()
    data = table.encode()
    if how == "tar.gz":
        with tarfile.open(folder / "pivoting.tar.gz", "w:gz") as archive:
            archive.addfile(tarfile.TarInfo("pivoting"), None)
            member = tarfile.TarInfo("pivoting/flows.csv")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    elif how == "csv.gz":
        (folder / "flows.csv.gz").write_bytes(gzip.compress(data))
    else:
        (folder / "flows.csv").write_bytes(data)
    return folder


@pytest.mark.parametrize("how", ["tar.gz", "csv.gz", "csv"])
def test_pivoting_keeps_its_first_rows_and_is_cut_70_15_15_by_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(presets, "PIVOTING_ROWS", 2000)
    source = packed(tmp_path / "source", how, pivoting_table(3000))
    prepared = Library(tmp_path / "data", {"pivoting": source}).prepare("pivoting", 2)
    events = load_events(prepared.events.path)
    assert len(events) == 2000
    assert {path.name for path in prepared.events.path.parent.iterdir()} >= {"events", "dataset.json"}
    assert not (prepared.events.path.parent / "first-rows.csv").exists()
    experiment = change(TRANSDUCTIVE.experiment(prepared, 0), {"mode": "non-fl"})
    silo = load_dataset(experiment).silos["all"]
    rows = sorted(zip(*(events[n].to_pylist() for n in ("time", "src", "dst")), strict=True))
    trained, tested = rows[:1700], rows[1700:]
    assert silo.train.num_edges == sum(src != dst for _, src, dst in trained)
    assert silo.test.num_edges == sum(src != dst for _, src, dst in tested)
    assert getattr(experiment.detector, "validation_events") == pytest.approx(0.15 / 0.85)  # noqa: B009


def test_pivoting_never_reads_beyond_its_first_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies behind them may be of any size, or damaged."""
    monkeypatch.setattr(presets, "PIVOTING_ROWS", 50)
    source = packed(tmp_path / "source", "csv.gz", pivoting_table(200_000))
    whole = (source / "flows.csv.gz").read_bytes()
    (source / "flows.csv.gz").write_bytes(whole[: len(whole) // 2])
    prepared = Library(tmp_path / "data", {"pivoting": source}).prepare("pivoting", 2)
    assert len(load_events(prepared.events.path)) == 50


def test_a_missing_file_is_named_with_what_it_is_for(tmp_path: Path) -> None:
    lanl = lanl_files(tmp_path / "lanl")
    (lanl / "redteam.txt").unlink()
    optc = optc_files(tmp_path / "optc", labels=None)
    (tmp_path / "empty").mkdir()
    sources: Mapping[str, Path] = {"lanl": lanl, "optc": optc, "pivoting": tmp_path / "empty"}
    for name, said in (("lanl", r"redteam\.txt"), ("optc", r"redteam\.csv"), ("pivoting", r"\*\.tar\.gz")):
        with pytest.raises(UsageError, match=said) as error:
            Library(tmp_path / "data", sources).prepare(name, 2)
        assert error.value.where is not None
        assert not (tmp_path / "data" / name / "events").exists()


@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("lanl", ("detector=euler", "method=entente,rare-target")),
        ("optc", ("detector=euler", "method=entente")),
        ("pivoting", ("detector=jbeil-transductive", "method=entente,edgebank")),
    ],
)
def test_a_preset_runs_from_original_files_to_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, only: tuple[str, ...]
) -> None:
    monkeypatch.setattr(presets, "PIVOTING_ROWS", 600)
    files: dict[str, Callable[[Path], Path]] = {
        "lanl": lanl_files,
        "optc": optc_files,
        "pivoting": lambda folder: packed(folder, "tar.gz", pivoting_table(900)),
    }
    source = files[name](tmp_path / name)
    request = Request(
        tmp_path / "bench",
        seeds=1,
        quick=True,
        sources={name: source},
        only=(f"dataset={name}", *only),
        workers=1,
        quiet=True,
    )
    finished = bench_paper(request)
    assert not finished.failed, [record.error for _, record in finished.rows]
    assert all(0.0 <= (record.values["ap"] or 0.0) <= 1.0 for _, record in finished.rows)
    assert {path.suffix for path in finished.files} >= {".md", ".html", ".parquet"}
    assert not (tmp_path / "bench" / "work").exists() or not any((tmp_path / "bench" / "work").iterdir())
    assert sorted(p.name for p in (tmp_path / "bench" / "data").iterdir()) == [name]
