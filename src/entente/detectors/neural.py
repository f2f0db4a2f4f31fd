"""What detectors with weights share: weights and Adam's memory as plain arrays, checked on arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from entente.artifacts import Arrays
from entente.detectors.base import Detector, GraphShape
from entente.errors import DetectorError
from entente.graphs.temporal import NOBODY, TemporalGraph


@contextmanager
def one_thread() -> Iterator[None]:
    """For everything a detector computes: sums in another order, as of two threads, give other bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def chosen_device(name: str) -> torch.device:
    """The device behind `device = "auto"`, "cpu" or "cuda"; DetectorError where it is not there."""
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        why = "torch was built without CUDA" if torch.version.cuda is None else "no GPU can be used"
        raise DetectorError(
            f'detector.device = "cuda", but {why} on this machine',
            remedy='Set device = "auto" or "cpu", or install torch with CUDA and a driver that fits it.',
        )
    return torch.device("cuda" if there and name != "cpu" else "cpu")


class NeuralDetector(Detector):
    """A detector around one torch module, trained by Adam."""

    def __init__(self, config: Any, shape: GraphShape, seed: int, build: Callable[[], nn.Module]) -> None:
        """`build` makes the module; its weights come from `seed`, torch's own generator is left alone."""
        self.config = config
        self.shape = shape
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.module = build()
        self.module.to(chosen_device(getattr(config, "device", "cpu")))
        self.optimiser = torch.optim.Adam(
            self.module.parameters(), lr=config.lr, weight_decay=getattr(config, "weight_decay", 0.0)
        )

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    @property
    def own_names(self) -> tuple[str, ...]:
        """Parameters that are trained and stay in the silo."""
        return ()

    def weights(self) -> Arrays:
        return {name: _array(p) for name, p in self._parameters(own=False).items()}

    def load_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        _load("weight", self._parameters(own=False), weights)

    def own_weights(self) -> Arrays:
        return {name: _array(p) for name, p in self._parameters(own=True).items()}

    def load_own_weights(self, weights: Mapping[str, NDArray[Any]]) -> None:
        _load("own weight", self._parameters(own=True), weights)

    def _parameters(self, *, own: bool) -> dict[str, nn.Parameter]:
        """Those that stay in the silo, or all others."""
        stays = self.own_names
        return {name: p for name, p in self.module.named_parameters() if (name in stays) == own}

    def optimiser_state(self) -> Arrays:
        """Adam's step and moments, by weight; empty before the first step."""
        memory: Arrays = {}
        for name, parameter in self.module.named_parameters():
            for part, value in self.optimiser.state.get(parameter, {}).items():
                memory[f"{part}.{name}"] = _array(value)
        return memory

    def load_optimiser_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.optimiser.state.clear()
        if not state:
            return
        # Adam knows nothing of a weight that has had no gradient yet.
        parameters = {
            name: parameter
            for name, parameter in self.module.named_parameters()
            if any(f"{part}.{name}" in state for part in ("step", *_MOMENTS))
        }
        shapes = {f"{part}.{name}": tuple(p.shape) for name, p in parameters.items() for part in _MOMENTS}
        check_arrays("Adam moment", shapes | {f"step.{name}": () for name in parameters}, state)
        for name, parameter in parameters.items():
            kept = {part: torch.from_numpy(np.array(state[f"{part}.{name}"])) for part in ("step", *_MOMENTS)}
            self.optimiser.state[parameter] = {
                part: value if part == "step" else value.to(parameter.device) for part, value in kept.items()
            }

    def anchor(self) -> list[torch.Tensor]:
        """The shared weights on entry, for FedProx's term."""
        return [parameter.detach().clone() for parameter in self._parameters(own=False).values()]

    def proximal_term(self, anchor: list[torch.Tensor], mu: float) -> torch.Tensor:
        """mu / 2 times the squared distance to the anchor; part of the loss, so that its gradient counts."""
        pairs = zip(self._parameters(own=False).values(), anchor, strict=True)
        return 0.5 * mu * torch.stack([((now - then) ** 2).sum() for now, then in pairs]).sum()


_MOMENTS = ("exp_avg", "exp_avg_sq")


def _array(tensor: torch.Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().cpu().numpy().astype(np.float32, copy=True)
    return array


def _load(kind: str, parameters: Mapping[str, nn.Parameter], given: Mapping[str, NDArray[Any]]) -> None:
    check_arrays(kind, {name: tuple(p.shape) for name, p in parameters.items()}, given)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.from_numpy(np.array(given[name])))


def check_arrays(kind: str, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, NDArray[Any]]) -> None:
    """DetectorError unless `given` has exactly these names and shapes, float32 and finite."""
    missing, surplus = shapes.keys() - given.keys(), given.keys() - shapes.keys()
    if missing or surplus:
        problem = f"missing {sorted(missing)}" if missing else f"unknown {sorted(surplus)}"
        raise DetectorError(
            f"{kind} names do not fit the detector: {problem}",
            remedy="Weights and state only fit the detector settings they were made with.",
        )
    for name, shape in shapes.items():
        array = given[name]
        if array.shape != shape or array.dtype != np.float32:
            raise DetectorError(
                f"{kind} {name!r} is {array.dtype}{list(array.shape)}, the detector has float32{list(shape)}",
                remedy="Weights and state only fit the detector settings they were made with.",
            )
        if not np.isfinite(array).all():
            raise DetectorError(f"{kind} {name!r} holds a value that is not a finite number")


def check_graph(graph: TemporalGraph, shape: GraphShape) -> None:
    """DetectorError unless the graph is what the detector was built for, with finite positive weights."""
    if graph.table_size != shape.table_size or graph.rows.shape[1] != shape.rows_per_host:
        raise DetectorError(
            f"the graph has {graph.rows.shape[1]} identity row(s) per host in a table of {graph.table_size}, "
            f"the detector {shape.rows_per_host} in {shape.table_size}",
            remedy="Build the graph with the identity settings of the trained model.",
        )
    if graph.rows.size and not NOBODY <= int(graph.rows.min()) <= int(graph.rows.max()) < shape.table_size:
        raise DetectorError("a host's identity row lies outside the table")
    if not (np.isfinite(graph.weight) & (graph.weight > 0)).all():
        raise DetectorError("an edge weight is not a positive finite number")


def average_precision_and_auc(
    label: NDArray[np.bool_], score: NDArray[np.floating[Any]]
) -> tuple[float, float]:
    """AP and ROC AUC; ties share their rank. Both are 0 where one of the classes is empty."""
    positives = int(label.sum())
    negatives = len(label) - positives
    if not positives or not negatives:
        return 0.0, 0.0
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    hits = np.cumsum(label[order])[ends].astype(np.float64)
    false = ends + 1.0 - hits
    gained, passed = np.diff(hits, prepend=0.0), np.diff(false, prepend=0.0)
    ap = float((gained * hits / (ends + 1.0)).sum() / positives)
    auc = float((passed * (hits - gained / 2.0)).sum() / (positives * negatives))
    return ap, auc
