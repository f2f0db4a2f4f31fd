"""The published protocol on interaction streams: its exact numbers, and runs that are not repeated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from entente.errors import UsageError
from entente_lab.bench.published import streams as published_streams
from entente_lab.bench.published.streams import (
    PUBLISHED,
    TIME_WINDOW,
    batch_means,
    edgebank,
    read_split,
    rows,
)


@pytest.mark.data
@pytest.mark.parametrize("graph", sorted(TIME_WINDOW))
def test_edgebank_gives_the_published_numbers_to_two_decimals(shared_data: Path, graph: str) -> None:
    split = read_split(shared_data / "temporal_graphs" / f"{graph}.npz")
    ap, auc = edgebank(split, TIME_WINDOW[graph])
    assert (round(ap, 2), round(auc, 2)) == PUBLISHED["EdgeBank", graph, "transductive"]


def write_stream(path: Path, events: int = 1500, nodes: int = 40) -> None:
    rng = np.random.default_rng(0)
    src = 1 + (nodes * rng.random(events) ** 2).astype(np.int32)
    dst = 1 + (src + rng.integers(1, 4, events)) % nodes
    np.savez(path, src=src, dst=dst.astype(np.int32), ts=np.sort(rng.random(events)) * 1e5)


def test_no_training_event_has_a_node_that_is_new_in_the_test(tmp_path: Path) -> None:
    write_stream(tmp_path / "uci.npz")
    split = read_split(tmp_path / "uci.npz")
    known = np.union1d(split.src[split.train], split.dst[split.train])
    new = ~np.isin(split.src[split.new_test], known) | ~np.isin(split.dst[split.new_test], known)
    assert len(split.new_test)
    assert new.all()
    assert split.time[split.train].max() < split.time[split.validation].min()
    assert split.time[split.validation].max() < split.time[split.test].min()
    assert len(split.test) == pytest.approx(0.15 * len(split.src), abs=1)


def test_a_finished_run_is_read_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for graph in TIME_WINDOW:
        write_stream(tmp_path / f"{graph}.npz")
    first = rows(tmp_path, range(5), tmp_path / "out", quick=True)
    assert {(row.method, row.graph, row.task) for row in first} == set(PUBLISHED)
    assert all(0 <= row.ours <= 100 and row.seeds == 1 for row in first)
    monkeypatch.setattr(published_streams, "tgn", lambda *_: pytest.fail("trained again"))
    assert rows(tmp_path, range(5), tmp_path / "out", quick=True) == first


def test_figures_are_means_over_batches() -> None:
    real = np.concatenate((np.ones(200), np.zeros(100)))
    drawn = np.concatenate((np.zeros(200), np.ones(100)))
    ap, auc = batch_means(real, drawn)
    assert auc == pytest.approx(50.0)
    assert ap == pytest.approx((100 + 50) / 2)


def test_a_missing_stream_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not an interaction stream"):
        read_split(tmp_path / "uci.npz")
