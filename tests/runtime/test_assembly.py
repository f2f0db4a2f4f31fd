"""What each part of a silo's data may know."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entente.config import Experiment, Graph
from entente.detectors import find
from entente.logs.events import load_events
from entente.runtime.assembly import load_dataset


def same(one: Any, other: Any) -> bool:
    """Whether two graphs hold the same, their edges' context included."""
    if one is None or other is None:
        return one is other
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return np.array_equal(one, other)


def test_nothing_that_is_trained_or_validated_on_hangs_on_the_future(
    experiment: Experiment, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("0123456789abcdef" * 2)
    # Hashed hosts: a shared index is the list of all hosts, and known to everybody by its very name.
    graph = Graph(identity="keyed-hash", secret=tmp_path / "secret", table_size=4096)
    whole = load_dataset(experiment.model_copy(update={"graph": graph}))
    before_test = next(iter(whole.silos.values())).test.start / 1e6
    data = experiment.data.model_copy(update={"end": before_test})
    past = load_dataset(experiment.model_copy(update={"graph": graph, "data": data}))
    assert any(silo.test.num_nodes > past.silos[name].test.num_nodes for name, silo in whole.silos.items())
    for name, silo in whole.silos.items():
        assert same(silo.train, past.silos[name].train)
        assert same(silo.validation, past.silos[name].validation)


def test_a_part_knows_exactly_the_hosts_that_have_been_met_by_its_end(experiment: Experiment) -> None:
    for silo in load_dataset(experiment).silos.values():
        met: set[int] = set()
        for part in (silo.train, silo.validation):
            met |= set(part.src.tolist()) | set(part.dst.tolist())
            assert met == set(range(part.num_nodes))
        assert silo.test.num_nodes == len(silo.hosts)


def test_a_detector_that_asks_for_context_gets_it_for_its_own_edges_only(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(silo.train.context is None for silo in load_dataset(experiment).silos.values())
    monkeypatch.setattr(find(experiment.detector.name), "reads_context", True)
    events = load_events(experiment.data.events, ["time", "src", "dst", "user"]).to_pylist()
    for silo in load_dataset(experiment).silos.values():
        for part in (silo.train, silo.validation, silo.test):
            context = part.context
            assert context is not None
            assert context.user is not None
            own = set(silo.hosts.names[silo.hosts.own].tolist())
            end = part.start + part.width * part.num_windows
            there = {
                e["user"] for e in events if {e["src"], e["dst"]} & own and part.start <= e["time"] < end
            }
            assert set(context.user.values.tolist()) <= there
            edge = part.num_edges // 2
            assert set(context.user.of(edge)) <= there
