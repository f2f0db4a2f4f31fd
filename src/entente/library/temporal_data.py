"""Events <-> PyTorch Geometric's `TemporalData`, for models that are written against it (extra `pyg`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from entente.errors import MissingExtraError, UsageError
from entente.library.frames import event_table

FEATURES = ("port", "bytes", "outcome")
"""Columns of an event that become its message, as they are; what a log does not say is 0."""


def to_temporal_data(events: Any, *, time_unit: str | None = None) -> tuple[Any, list[str]]:
    """Events (a frame or an event directory) as `torch_geometric.data.TemporalData`, and the hosts' names.

    In the order of time: `src` and `dst` are numbers of hosts, `t` is in whole seconds since the first
    event, `msg` has the columns port, bytes and outcome, and `y` the labels (0 where nobody said).

    >>> data, hosts = entente.to_temporal_data({"time": [0.0, 2.5], "src": ["b", "b"], "dst": ["c", "a"]})
    >>> data
    TemporalData(src=[2], dst=[2], t=[2], msg=[2, 3], y=[2])
    >>> hosts
    ['a', 'b', 'c']
    """
    try:
        from torch_geometric.data import TemporalData
    except ImportError as error:
        raise MissingExtraError(
            "torch_geometric is not installed", remedy="pip install 'entente[pyg]' (torch stays as it is)."
        ) from error
    table = event_table(events, time_unit=time_unit).sort_by("time")
    names = np.array(table["src"].to_pylist() + table["dst"].to_pylist(), dtype=np.str_)
    hosts, number = np.unique(names, return_inverse=True)
    src, dst = (torch.from_numpy(ends) for ends in number.astype(np.int64).reshape(2, -1))
    time = table["time"].to_numpy()
    seconds = (time - (time[0] if len(time) else 0)) // 1_000_000
    columns = [_filled(table[name], pa.float32()) for name in FEATURES]
    data = TemporalData(
        src=src,
        dst=dst,
        t=torch.from_numpy(seconds),
        msg=torch.from_numpy(np.stack(columns, axis=1)),
        y=torch.from_numpy(_filled(table["label"], pa.int64())),
    )
    return data, hosts.tolist()


def from_temporal_data(data: Any, hosts: Sequence[str] | None = None) -> pa.Table:
    """A `TemporalData` as an event table: hosts by their names, or by `node-` and their numbers; `t` is in
    seconds.

    >>> data, hosts = entente.to_temporal_data({"time": [0.0, 2.0], "src": ["b", "b"], "dst": ["c", "a"]})
    >>> entente.from_temporal_data(data, hosts)["dst"].to_pylist()
    ['c', 'a']
    """
    src, dst, seconds = (np.asarray(getattr(data, name)) for name in ("src", "dst", "t"))
    most = int(max(src.max(), dst.max())) + 1 if len(src) else 0
    if hosts is None:
        hosts = [f"node-{number}" for number in range(most)]
    if len(hosts) < most:
        raise UsageError(f"{len(hosts)} names for {most} nodes", remedy="Give a name per node, or none.")
    names = np.array(hosts, dtype=np.str_)
    columns: dict[str, Any] = {"time": seconds.astype(np.float64), "src": names[src], "dst": names[dst]}
    if getattr(data, "y", None) is not None:
        columns["label"] = np.asarray(data.y).astype(np.int8)
    return event_table(columns)


def _filled(column: pa.ChunkedArray, kind: pa.DataType) -> np.ndarray[Any, Any]:
    filled: np.ndarray[Any, Any] = column.cast(kind).fill_null(0).to_numpy()
    return filled
