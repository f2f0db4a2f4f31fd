from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.errors import UsageError
from entente.runtime.assembly import load_dataset
from entente_lab.bench.datasets import Library
from entente_lab.bench.events import Prepared
from entente_lab.bench.methods import change
from entente_lab.bench.paper import TRANSDUCTIVE
from entente_lab.bench.partition import merge, partition
from entente_lab.bench.request import Request


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 12))
def test_merged_sites_keep_every_host_once_and_never_part_a_site(sizes: list[int], k: int) -> None:
    site_of = {f"{site}-{host}": f"s{site}" for site, size in enumerate(sizes) for host in range(size)}
    silo_of = merge(site_of, k)
    assert set(silo_of) == set(site_of)
    assert len(set(silo_of.values())) == min(k, len(sizes))
    for site in set(site_of.values()):
        assert len({silo_of[host] for host in site_of if site_of[host] == site}) == 1


def test_merging_takes_the_smallest_sites() -> None:
    site_of = {f"{name}{i}": name for name, size in (("a", 9), ("b", 3), ("c", 1)) for i in range(size)}
    assert sorted(Counter(merge(site_of, 2).values()).values()) == [4, 9]


def test_more_silos_than_sites_come_from_the_block_model(small_company: Prepared) -> None:
    assignment, how = partition(small_company.events.path, 3, sites=small_company.events.sites, view="auth")
    assert "block model" in how
    assert len(assignment) >= 50
    assert len(assignment.silos) == 3 or "dropped" in how


def test_data_are_prepared_once_and_recognised_by_their_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from entente_lab.bench import datasets

    small = datasets._company(2, 60, 2.0)
    monkeypatch.setattr(datasets, "MAKERS", {"simulated": small})
    first = Library(tmp_path / "a").prepare("simulated", 2)
    again = Library(tmp_path / "b").prepare("simulated", 2)
    assert first.hash == again.hash
    monkeypatch.setattr(datasets, "MAKERS", {"simulated": None})  # it would fail if it were called
    assert Library(tmp_path / "a").prepare("simulated", 2) == first


def test_a_data_set_without_its_files_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--data lanl=FOLDER"):
        Library(tmp_path).prepare("lanl", 4)
    with pytest.raises(UsageError, match="unknown data set"):
        Library(tmp_path).prepare("lnal", 4)
    with pytest.raises(UsageError, match=r"auth\.txt"):
        Library(tmp_path, {"lanl": tmp_path}).prepare("lanl", 4)


def test_no_attack_lies_in_the_training_windows(small_company: Prepared) -> None:
    from entente.logs.events import load_events

    events = load_events(small_company.events.path, ["time", "label"])
    first = min(t for t, label in zip(*(c.to_pylist() for c in events.columns), strict=True) if label == 1)
    dataset = load_dataset(small_company.experiment())
    assert all(silo.test.start <= first for silo in dataset.silos.values())


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_link_prediction_is_cut_by_event_and_not_by_window(small_company: Prepared, share: float) -> None:
    from entente.logs.events import load_events

    events = load_events(small_company.events.path, ["time", "src", "dst"])
    times = sorted(events["time"].to_pylist())
    cut = times[int(0.85 * share * (len(times) - 1))]
    end = times[int(share * (len(times) - 1))]
    experiment = TRANSDUCTIVE.experiment(small_company, 0, share)
    dataset = load_dataset(change(experiment, {"mode": "non-fl"}))
    silo = dataset.silos["all"]
    rows = [
        t for t, s, d in zip(*(c.to_pylist() for c in events.columns), strict=True) if s != d and t <= end
    ]
    assert silo.train.num_edges == sum(t <= cut for t in rows)
    assert silo.test.num_edges == sum(t > cut for t in rows)


def test_what_is_left_out_is_not_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from entente_lab.bench import ablation, paper, rules, scale
    from entente_lab.bench.robustness import plan as robustness

    def prepare(library: Library, name: str, k: int) -> Prepared:
        asked.append((name, k))
        raise UsageError("far enough")

    monkeypatch.setattr(Library, "prepare", prepare)
    sources = {"lanl": tmp_path, "optc": tmp_path}
    for grid, only, expected in (
        (paper, ("dataset=optc", "k=3"), ("optc", 3)),
        (rules, ("dataset=lanl", "k=5"), ("lanl", 5)),
        (ablation, ("dataset=lanl",), ("lanl", 4)),
        (scale, ("dataset=lanl", "k=20"), ("lanl", 20)),
        (robustness, ("dataset=optc",), ("optc", 3)),
    ):
        asked: list[tuple[str, int]] = []
        with pytest.raises(UsageError, match="far enough"):
            grid.plan(Request(tmp_path / "out", sources=sources, only=only))
        assert asked == [expected]
    with pytest.raises(UsageError, match="no cell has it"):
        paper.plan(Request(tmp_path / "out", sources=sources, only=("k=9",)))
