"""What each part of a silo's data may know."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np

from entente.config import Experiment, Graph
from entente.graphs.temporal import TemporalGraph
from entente.runtime.assembly import load_dataset


def same(one: TemporalGraph, other: TemporalGraph) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))


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
        assert silo.test.num_nodes == len(silo.names)
