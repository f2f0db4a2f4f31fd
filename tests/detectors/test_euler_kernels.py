"""Every fast kernel of Euler against the plain way."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from entente.detectors.base import Candidates, GraphShape
from entente.detectors.euler import layout, recurrence, visits
from entente.detectors.euler.detector import Euler
from entente.detectors.euler.layout import lay_out_graph
from entente.detectors.euler.recurrence import Recurrence
from entente.detectors.euler.visits import visits_of
from entente.detectors.layers import GAT, SAGE, Adjacency
from entente.detectors.neural import average_precision_and_auc
from entente.graphs.temporal import TemporalGraph
from entente_lab.variants.euler import LabEulerOptions


def gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad


@pytest.fixture(scope="module")
def plain() -> ModuleType:
    """The published way, as the benchmark keeps it."""
    path = Path(__file__).parents[2] / "benchmarks" / "euler.py"
    spec = importlib.util.spec_from_file_location("benchmark_euler", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (layout, recurrence, visits):
        monkeypatch.setattr(module, "BLOCK", 7)
    monkeypatch.setattr(visits, "ROWS_AT_ONCE", 20)


def graph_of(plain: ModuleType, nodes: int, windows: int, edges: int, seed: int) -> TemporalGraph:
    graph: TemporalGraph = plain.made_up_graph(nodes, windows, edges, seed)
    return graph


def lively(module: torch.nn.Module, seed: int) -> None:
    """Weights large enough that every non-linearity matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)


@pytest.mark.parametrize(("nodes", "windows", "edges"), [(60, 6, 90), (1400, 3, 900), (9, 5, 3), (30, 40, 8)])
def test_loss_and_gradients_equal_the_published_way(
    plain: ModuleType, nodes: int, windows: int, edges: int
) -> None:
    graph = graph_of(plain, nodes, windows, edges, seed=nodes)
    config = LabEulerOptions(
        decoder="inner",
        task="detection",
        dropout=0.0,
        advance="windows",
        validation_edges=1e-9,
        hidden=8,
        embedding=5,
    )
    detector = Euler(config, GraphShape(graph.table_size), 0)
    lively(detector.module, 1)
    prepared = detector._prepare(graph)
    assert prepared.held.num_edges == 0
    loss = detector._loss(prepared, np.random.default_rng(3), torch.Generator())
    loss.backward()  # type: ignore[no-untyped-call]
    fast = {name: gradient(p).clone() for name, p in detector.module.named_parameters()}
    detector.module.zero_grad()

    non_edges = Candidates(*prepared.non_edges.draw(np.diff(graph.offsets), np.random.default_rng(3)))
    oracle = plain.plain_loss(dict(detector.module.named_parameters()), graph, non_edges)
    oracle.backward()
    assert loss.item() == pytest.approx(oracle.item(), abs=1e-5)
    for name, parameter in detector.module.named_parameters():
        assert torch.allclose(fast[name], gradient(parameter), atol=1e-5), name


@pytest.mark.parametrize("advance", ["windows", "visits"])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.usefixtures("small_blocks")
def test_recurrence_equals_torch_on_the_dense_table(plain: ModuleType, kind: str, advance: str) -> None:
    graph = graph_of(plain, 25, 6, 12, seed=2)
    layout = lay_out_graph(graph)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(layout.rows + 25, 5, generator=generator, requires_grad=True)
    recurrence, projection = Recurrence(kind, 5, 5), torch.nn.Linear(5, 3)
    lively(recurrence, 3)
    initial = tuple(torch.randn(25, 5, generator=generator) for _ in range(recurrence.cell.states))
    network = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[kind](5, 5)
    own: dict[str, torch.Tensor] = {f"{name}_l0": p for name, p in recurrence.named_parameters()}
    window, host = (axis.ravel() for axis in np.meshgrid(np.arange(6), np.arange(25), indexing="ij"))
    dense = x[torch.from_numpy(layout.position(window, host))].view(6, 25, 5)
    moves = torch.ones(6, 25, 1, dtype=torch.bool)
    states = initial
    if advance == "visits":
        for state in initial:
            state[::2] = 0.0  # nobody has met these
        states = (torch.where(initial[0] == 0, x[layout.rows :], initial[0]), *initial[1:])
        for t in range(6):
            part = graph.windows(t, t + 1)
            moves[t] = torch.from_numpy(np.isin(np.arange(25), [part.src, part.dst]))[:, None]
    expected = []
    for t in range(6):
        given = tuple(state[None] for state in states)
        _, after = torch.func.functional_call(
            network, own, (dense[t : t + 1], given[0] if kind == "gru" else given)
        )
        after = (after,) if kind == "gru" else after
        states = tuple(torch.where(moves[t], new[0], old) for new, old in zip(after, states, strict=True))
        expected.append(projection(states[0]))

    if advance == "windows":
        z, last = recurrence.by_window(x, layout, initial, projection)
    else:
        visits = visits_of(layout)
        table, last = recurrence.by_visit(x, visits, initial, projection)
        z = table[torch.from_numpy(visits.position(window, host))]
        met = moves.any(dim=0) | (initial[0] != 0)
        states = tuple(state * met for state in states)
    assert torch.allclose(z.view(6, 25, 3), torch.stack(expected), atol=1e-6)
    for ours, theirs in zip(last, states, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)

    probe = torch.randn(6, 25, 3, generator=generator)
    sought = [x, *recurrence.parameters(), *projection.parameters()]
    found = torch.autograd.grad((z.view(6, 25, 3) * probe).sum(), sought)
    wanted = torch.autograd.grad((torch.stack(expected) * probe).sum(), sought)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("kind", [SAGE, GAT])
@pytest.mark.parametrize("first", [True, False])
def test_pooling_and_attention_equal_a_loop_over_hosts(
    plain: ModuleType, kind: type[SAGE] | type[GAT], first: bool
) -> None:
    graph = graph_of(plain, 14, 3, 20, seed=5)
    layout = lay_out_graph(graph)
    adjacency = Adjacency(layout)
    layer = kind(None if first else 6, 4, 14)
    lively(layer, 6)
    table = torch.randn(layout.rows + 14, 6, generator=torch.Generator().manual_seed(1))
    x = torch.from_numpy(graph.rows.astype(np.int64)) if first else table
    fast = layer(x, adjacency)
    mapped = layer.map(x)
    for t, part in enumerate(graph.each_window()):
        for host in range(14):
            at = int(layout.position(np.array([t]), np.array([host]))[0])
            senders = part.src[part.dst == host]
            weights = torch.log2(1 + torch.from_numpy(part.weight[part.dst == host]))
            rows = layout.position(np.full(len(senders), t), senders.astype(np.int64))
            own, others = (host, senders.tolist()) if first else (at, rows.tolist())
            if isinstance(layer, SAGE):
                messages = torch.relu(layer.pool(x) + layer.pool_bias)[others] * weights[:, None]
                largest = messages.max(dim=0).values if len(others) else torch.zeros(4)
                expected = mapped[own] + layer.bias
                expected = expected + (layer.neighbours(largest) if len(others) else 0)
            else:
                rows_in = [*others, own]
                counts = torch.cat((weights, torch.ones(1)))
                raw = mapped[rows_in] @ layer.attention[0] + mapped[own] @ layer.attention[1]
                raw = raw + layer.attention_weight * (counts - 1)
                share = torch.softmax(torch.nn.functional.leaky_relu(raw, 0.2), dim=0)
                expected = share @ mapped[rows_in] + layer.bias
            assert torch.allclose(fast[at], expected, atol=1e-5)


def test_several_identity_rows_per_host_are_summed(plain: ModuleType) -> None:
    graph = graph_of(plain, 20, 2, 30, seed=1)
    rows = np.random.default_rng(0).integers(0, 12, (20, 2)).astype(np.int32)
    detector = Euler(LabEulerOptions(), GraphShape(12, rows_per_host=2), 0)
    table = detector.weights()["encoder.first.map.weight"]
    looked_up = detector.module.encoder.first.map(torch.from_numpy(rows.astype(np.int64)))
    one_hot = np.zeros((20, 12), np.float32)
    np.add.at(one_hot, (np.arange(20)[:, None], rows), 1)
    assert np.allclose(looked_up.detach().numpy(), one_hot @ table, atol=1e-6)
    assert graph.num_nodes == 20


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=2, max_size=60))
def test_ap_and_auc_equal_scikit_learn_with_ties(pairs: list[tuple[bool, int]]) -> None:
    label = np.array([positive for positive, _ in pairs])
    score = np.array([value for _, value in pairs], dtype=np.float32)
    ap, auc = average_precision_and_auc(label, score)
    if label.all() or not label.any():
        assert (ap, auc) == (0.0, 0.0)
        return
    assert ap == pytest.approx(average_precision_score(label, score))
    assert auc == pytest.approx(roc_auc_score(label, score))
