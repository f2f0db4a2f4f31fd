"""What is known of pairs and hosts before a window: the material of an alert's explanation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Novelty:
    """How unusual one edge is, seen from the windows before it."""

    pair_windows: int  # earlier windows with this pair
    targets_now: int  # distinct targets of the source in this window
    new_targets_now: int  # those among them that it never contacted before
    targets_usual: float | None  # median per earlier active window; None if it never was a source
    sources_before: int  # distinct sources that contacted the target earlier
    new_silo: bool  # the source never reached into the target's silo, which is not its own


class History:
    """Edges by window, indexed for the hosts that alerts name.

    `window` are window starts; an edge of a window is history only for later windows, so the scored
    edges themselves can and should be part of it.
    """

    def __init__(
        self,
        window: ArrayLike,
        src: ArrayLike,
        dst: ArrayLike,
        *,
        sources: ArrayLike,
        targets: ArrayLike,
        home: Mapping[str, str] | None = None,
    ) -> None:
        windows = np.asarray(window, dtype=np.int64)
        names, (src_code, dst_code, wanted_src, wanted_dst) = encode(src, dst, sources, targets)
        self._code: dict[str, int] = {name: code for code, name in enumerate(names)}
        self._home = dict(home or {})
        self._hosts = max(len(names), 1)
        self.start = int(windows.min()) if len(windows) else 0
        keep = np.isin(src_code, wanted_src) | np.isin(dst_code, wanted_dst)
        s, d, w = _distinct(src_code[keep], dst_code[keep], windows[keep])
        self._pairs = _Groups(s * self._hosts + d, w)
        first = np.ones(len(s), dtype=bool)
        first[1:] = (s[1:] != s[:-1]) | (d[1:] != d[:-1])
        self._by_source = _Groups(s, w, first)
        self._by_target = _Groups(d[first], w[first])
        silos = sorted(set(self._home.values()))
        number = {silo: i for i, silo in enumerate(silos)}
        silo = np.array([number.get(self._home.get(name, ""), -1) for name in names], dtype=np.int64)
        self._silo_number = number
        self._reach = _Groups(s * (len(silos) + 1) + (silo[d] if len(names) else d), w)

    def novelty(self, window: int, src: str, dst: str) -> Novelty:
        s, d = self._code[src], self._code[dst]
        active, fresh = self._by_source.of(s)
        starts, counts = np.unique(active, return_counts=True)
        before = counts[starts < window]
        now = active == window
        own, other = self._home.get(src), self._home.get(dst)
        reached = True
        if own is not None and other is not None and own != other:
            key = s * (len(self._silo_number) + 1) + self._silo_number[other]
            reached = self._reach.before(key, window) > 0
        return Novelty(
            pair_windows=self._pairs.before(s * self._hosts + d, window),
            targets_now=int(now.sum()),
            new_targets_now=int((now & fresh).sum()),
            targets_usual=float(np.median(before)) if len(before) else None,
            sources_before=self._by_target.before(d, window),
            new_silo=not reached,
        )


class _Groups:
    """Windows by integer key, sorted, so that one alert costs a binary search."""

    def __init__(self, key: Ints, window: Ints, flag: NDArray[np.bool_] | None = None) -> None:
        order = np.lexsort((window, key))
        self._key, self._window = key[order], window[order]
        self._flag = np.zeros(len(key), dtype=bool) if flag is None else flag[order]

    def of(self, key: int) -> tuple[Ints, NDArray[np.bool_]]:
        span = slice(*np.searchsorted(self._key, (key, key + 1)).tolist())
        return self._window[span], self._flag[span]

    def before(self, key: int, window: int) -> int:
        return int(np.searchsorted(self.of(key)[0], window))


def _distinct(s: Ints, d: Ints, w: Ints) -> tuple[Ints, Ints, Ints]:
    """Each (src, dst, window) once, sorted."""
    order = np.lexsort((w, d, s))
    s, d, w = s[order], d[order], w[order]
    new = np.ones(len(s), dtype=bool)
    new[1:] = (s[1:] != s[:-1]) | (d[1:] != d[:-1]) | (w[1:] != w[:-1])
    return s[new], d[new], w[new]


def encode(*columns: ArrayLike) -> tuple[list[str], list[Ints]]:
    """The names of all columns once, and every column as numbers of them."""
    import pyarrow as pa

    parts = [pa.array(np.asarray(column)).cast(pa.string()) for column in columns]
    joined = pa.concat_arrays(parts).dictionary_encode()
    codes = joined.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    names: list[str] = joined.dictionary.to_pylist()
    return names, np.split(codes, np.cumsum([len(part) for part in parts])[:-1])
