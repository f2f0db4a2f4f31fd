from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.errors import UsageError
from entente.runtime.assembly import load_dataset
from entente_lab.bench.datasets import Library, Prepared
from entente_lab.bench.partition import merge, partition


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


def test_link_prediction_trains_on_about_85_percent_of_its_share(small_company: Prepared) -> None:
    data = small_company.link_data(0.5)
    marks = small_company.events.percentiles
    start = marks[0] // small_company.events.window * small_company.events.window
    assert data["data.end"] == marks[50]
    assert abs(start + data["data.train"] - marks[42]) <= small_company.events.window
