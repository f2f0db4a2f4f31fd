"""Euler in batches of hosts, and by several processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from entente.detectors.base import GraphShape
from entente.detectors.euler import detector as euler_module
from entente.detectors.euler.batches import TrainingGraph
from entente.detectors.euler.detector import Euler
from entente.detectors.euler.options import EulerOptions
from entente.detectors.peers import Peers, joined
from entente.graphs.temporal import TemporalGraph, distinct

HOSTS, WINDOWS = 400, 8


def servers(seed: int = 0) -> TemporalGraph:
    """Hosts with two friends each, most of them in their own half, and one server that all call."""
    rng = np.random.default_rng(seed)
    window, src = np.divmod(np.arange(WINDOWS * HOSTS * 2), HOSTS * 2)
    src = src % HOSTS
    half = HOSTS // 2
    dst = (src + rng.integers(1, 4, len(src))) % half + half * (src >= half)
    dst = np.where(rng.random(len(src)) < 0.2, 0, dst)
    keys = distinct(((window * HOSTS + src) * HOSTS + dst)[src != dst])
    window, src, dst = keys // HOSTS**2, keys // HOSTS % HOSTS, keys % HOSTS
    return TemporalGraph(
        rows=np.arange(HOSTS, dtype=np.int32)[:, None],
        table_size=HOSTS,
        start=0,
        width=10,
        offsets=np.searchsorted(window, np.arange(WINDOWS + 1)).astype(np.int64),
        src=src.astype(np.int32),
        dst=dst.astype(np.int32),
        time=window * 10,
        weight=np.ones(len(keys), dtype=np.float32),
    )


def build(batch_edges: int | None = 1500) -> Euler:
    return Euler(EulerOptions(batch_edges=batch_edges, hidden=16, embedding=8), GraphShape(HOSTS), 0)


def named(graph: TemporalGraph) -> set[tuple[int, int, int]]:
    """Edges by the identity rows of their hosts."""
    host = graph.rows[:, 0]
    return set(
        zip(graph.window_of_edge().tolist(), host[graph.src].tolist(), host[graph.dst].tolist(), strict=True)
    )


def test_a_batch_has_every_edge_that_touches_its_hosts_and_each_host_is_in_one_batch() -> None:
    graph = servers()
    split = TrainingGraph.of(graph, 0.05)
    batches = [make(np.random.default_rng(0)) for make in split.batches(1500, np.random.default_rng(0))]
    assert len(batches) > 3
    met: list[int] = []
    for batch in batches:
        own = batch.source.rows[batch._touching, 0].tolist()
        met += own
        expected = {edge for edge in named(graph) if edge[1] in own or edge[2] in own}
        assert named(batch.source) == expected
        keys = (batch.source.window_of_edge() * HOSTS + batch.source.src) * HOSTS + batch.source.dst
        assert all(a < b for a, b in pairwise(keys.tolist()))
        assert batch.learnt <= 1650  # a sample where the server's edges are too many
        if batch.source.num_edges <= 1500:
            assert named(batch.held) == named(split.held) & expected
        assert not named(batch.train) & named(split.held)
    assert sorted(met) == list(range(HOSTS))


def test_non_edges_of_a_batch_touch_its_hosts_and_are_edges_of_nobody() -> None:
    graph = servers()
    make = next(TrainingGraph.of(graph, 0.05).batches(1000, np.random.default_rng(1)))
    batch = make(np.random.default_rng(0))
    window, src, dst = batch.non_edges.draw(np.full(WINDOWS, 300), np.random.default_rng(2))
    host, own = batch.source.rows[:, 0], set(batch._touching.tolist())  # type: ignore[union-attr]
    assert len(window) == 300 * WINDOWS
    assert all(a in own or b in own for a, b in zip(src.tolist(), dst.tolist(), strict=True))
    drawn = set(zip(window.tolist(), host[src].tolist(), host[dst].tolist(), strict=True))
    assert not drawn & named(graph)
    assert not any(a == b for _, a, b in drawn)
    assert {a in own for a in src.tolist()} == {True, False}


def test_batches_learn_in_fewer_epochs_and_the_same_seed_gives_the_same_bits() -> None:
    graph = servers()
    one, two, whole = build(), build(), build(None)
    for detector in (one, two, whole):
        detector.train(graph, 20, np.random.default_rng(0))
    assert all(np.array_equal(a, two.weights()[name]) for name, a in one.weights().items())
    in_batches = one.validate(graph, np.random.default_rng(1))
    at_once = whole.validate(graph, np.random.default_rng(1))
    assert in_batches.edges == at_once.edges
    assert in_batches.auc > max(0.8, at_once.auc)


def test_a_validation_does_not_hang_on_how_many_windows_are_held_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, detector = servers(), build()
    detector.train(graph, 1, np.random.default_rng(0))
    whole = build(None)
    whole.load_weights(detector.weights())
    for rows in (HOSTS, 3 * HOSTS):
        monkeypatch.setattr(euler_module, "ROWS_AT_ONCE", rows)
        part = detector.validate(graph, np.random.default_rng(1))
        assert abs(part.auc - whole.validate(graph, np.random.default_rng(1)).auc) < 0.03


def trained_by_two(rank: int, folder: Path) -> None:
    """One of the two processes; the gradients of every step are kept."""
    with joined() as peers:
        assert peers == Peers.present() == Peers(rank, 2)
        detector = build(3500)
        kept = gradients(detector)
        detector.train(servers(), 1, np.random.default_rng(0))
    assert Peers.present() == Peers()
    save_file(kept, folder / f"{rank}.safetensors")


def gradients(detector: Euler) -> dict[str, np.ndarray[Any, Any]]:
    """Filled, step by step, with the gradients that the optimiser is given."""
    kept: dict[str, np.ndarray[Any, Any]] = {}

    def keep(optimiser: torch.optim.Optimizer, *_: object) -> None:
        step = len({name.split("/")[0] for name in kept})
        for place, parameter in enumerate(optimiser.param_groups[0]["params"]):
            assert parameter.grad is not None
            kept[f"{step}/{place}"] = parameter.grad.numpy().copy()

    detector.optimiser.register_step_pre_hook(keep)
    return kept


def test_two_processes_have_the_gradients_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They meet by the variables that torchrun gives them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", port), ("WORLD_SIZE", 2), ("RANK", 0)):
        monkeypatch.setenv(name, str(value))
    other = "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import test_euler_batches as here; "
    other += "here.trained_by_two(1, pathlib.Path(sys.argv[2]))"
    words = [sys.executable, "-c", other, str(Path(__file__).parent), str(tmp_path)]
    with subprocess.Popen(words, env={**os.environ, "RANK": "1"}) as peer:
        trained_by_two(0, tmp_path)
        assert peer.wait() == 0
    detector, rng = build(3500), np.random.default_rng(0)
    noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
    batches = list(detector._batches(servers(), rng, noise))
    assert len(batches) == 4  # two steps; the second is taken where the first has led
    alone = gradients(detector)
    for step in (batches[:2], batches[2:]):
        detector.optimiser.zero_grad()
        for batch in step:
            (batch() / 2).backward()  # type: ignore[no-untyped-call]
        detector.optimiser.step()
    assert max(float(np.abs(gradient).max()) for gradient in alone.values()) > 1e-3
    for rank in range(2):
        together = load_file(tmp_path / f"{rank}.safetensors")
        assert set(together) == set(alone)
        assert max(float(np.abs(together[name] - alone[name]).max()) for name in alone) <= 1e-5
