"""TGN against its plain form: the same logits, the same memory, and nothing from the future."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from entente.detectors.jbeil.layers import TimeEncoding
from entente.detectors.jbeil.memory import TgnMemory
from entente.detectors.jbeil.options import JbeilSettings
from entente.detectors.jbeil.tgn import TGN, Asked, Stream
from entente.detectors.jbeil.training import batches, link_logits, other_targets, train_epoch
from entente.errors import DetectorError
from entente.graphs.neighbours import Ring
from entente_lab.variants.jbeil import LabJbeilOptions

HOSTS, EVENTS, K = 15, 120, 4


def plain_module() -> Any:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "plain_tgn.py"
    spec = importlib.util.spec_from_file_location("plain_tgn", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def config(**changes: Any) -> JbeilSettings:
    small = {"memory": 6, "time": 5, "embedding": 7, "neighbours": K, "batch": 16, "dropout": 0.0}
    return LabJbeilOptions(**(small | changes)).settings()


def model(**changes: Any) -> TGN:
    torch.manual_seed(0)
    return TGN(config(**changes))


def arrays(seed: int = 0) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    src = rng.integers(0, HOSTS, EVENTS)
    dst = (src + rng.integers(1, HOSTS, EVENTS)) % HOSTS
    time = np.sort(rng.integers(0, 300, EVENTS)) * 1_000_000
    return src, dst, time


def stream(src: Any, dst: Any, time: Any) -> Stream:
    return Stream(src.astype(np.int32), dst.astype(np.int32), time, Ring.empty(HOSTS, K), K)


def memory(net: TGN) -> TgnMemory:
    return TgnMemory.empty(HOSTS, net.width, torch.device("cpu"))


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_logits_and_gradients_are_those_of_the_plain_recursion(layers: int) -> None:
    net, data = model(layers=layers), arrays()
    events, store = stream(*data), memory(net)
    plain = plain_module().PlainTGN(net, *data, HOSTS, K, shared_moment=True)
    rng = np.random.default_rng(1)
    for batch in batches(np.arange(EVENTS), 16):
        targets = rng.integers(0, HOSTS, len(batch))
        both = Asked(
            np.tile(events.src[batch], 2),
            np.concatenate((events.dst[batch], targets)),
            np.tile(events.time[batch], 2),
        )
        logits, updated = net(events, store, batch, both)
        net.observe(events, store, batch, updated)
        slow = plain.batch(batch, targets)
        torch.testing.assert_close(logits, slow, atol=1e-5, rtol=1e-4)
        gradients = [
            torch.autograd.grad(x.square().sum(), list(net.parameters()), allow_unused=True)
            for x in (logits, slow)
        ]
        for one, two in zip(*gradients, strict=True):
            assert (one is None) == (two is None)
            if one is not None:
                torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-3)
    for node, (other, gap) in plain.messages.items():
        assert store.pending[node]
        torch.testing.assert_close(store.other[node], other, atol=1e-5, rtol=1e-4)
        assert float(store.gap[node]) == pytest.approx(gap)
    torch.testing.assert_close(store.rows, plain.memory, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("layers", [1, 2])
def test_shuffling_the_future_changes_no_logit(layers: int) -> None:
    net, (src, dst, time) = model(layers=layers), arrays()
    found = []
    for seed in (0, 1):
        order = np.random.default_rng(seed).permutation(np.arange(64, EVENTS))
        mixed = np.concatenate((np.arange(64), order))
        events, store = stream(src[mixed], dst[mixed], time), memory(net)
        drawn = np.random.default_rng(9).integers(0, HOSTS, 64)
        found.append(link_logits(net, events, store, batches(np.arange(64), 16), drawn))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_an_event_does_not_see_itself_or_its_own_moment() -> None:
    net, (src, dst, _) = model(), arrays()
    time = np.full(EVENTS, 7_000_000)
    events, store = stream(src, dst, time), memory(net)
    real, _ = link_logits(net, events, store, [np.arange(EVENTS)], np.zeros(EVENTS, np.int64))
    assert np.ptp(real) < 1e-6  # nobody has a past, so all hosts look the same


def test_observing_alone_leaves_the_memory_that_asking_leaves() -> None:
    net, data = model(), arrays()
    events, asked, observed = stream(*data), memory(net), memory(net)
    link_logits(net, events, asked, batches(np.arange(EVENTS), 16), events.dst)
    for batch in batches(np.arange(EVENTS), 16):
        net.observe(events, observed, batch)
    for name, values in asked.state().items():
        np.testing.assert_allclose(values, observed.state()[name], atol=1e-6)


def test_another_target_is_never_the_events_own() -> None:
    rng = np.random.default_rng(0)
    targets = np.array([1, 3, 5, 9])
    own = rng.integers(0, 10, 5000)
    drawn = other_targets(targets, own, rng)
    assert not (drawn == own).any()
    shares = [np.mean(drawn[own == 3] == target) for target in (1, 5, 9)]
    np.testing.assert_allclose(shares, 1 / 3, atol=0.08)
    assert set(other_targets(targets[:1], own, rng)) == {1}


def test_the_time_encoding_is_a_cosine_of_each_frequency() -> None:
    encoding, seconds = TimeEncoding(6), torch.tensor([0.0, 1.0, 100.0, 5e4])
    exact = np.cos(seconds.numpy().astype(np.float64)[:, None] * 10.0 ** -np.linspace(0, 9, 6))
    np.testing.assert_allclose(encoding(seconds).numpy(), exact, atol=0.02)
    np.testing.assert_allclose(encoding(seconds)[:3].numpy(), exact[:3], atol=1e-4)
    assert bool((encoding(torch.zeros(1)) == 1).all())


def test_a_diverging_run_is_an_error_with_a_remedy() -> None:
    net, events = model(), stream(*arrays())
    optimiser = torch.optim.Adam(net.parameters(), lr=1e30)
    with pytest.raises(DetectorError, match="diverged"):
        train_epoch(net, optimiser, events, memory(net), 16, np.arange(HOSTS), np.random.default_rng(0))
