"""What a silo knows of pairs and hosts before a window: the material of an alert's explanation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.detection.roles import Role, role_of

Ints = NDArray[np.int64]
Edges = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
"""Window starts, sources and targets; hosts by their number in the silo."""


@dataclass(frozen=True, slots=True)
class Novelty:
    """How unusual one edge is, seen from the windows before it in one silo's logs."""

    pair_windows: int  # earlier windows with this pair
    targets_now: int  # distinct targets of the source in this window
    new_targets_now: int  # those among them that it never contacted before
    targets_usual: float | None  # median per earlier active window; None if it never was a source
    sources_before: int  # distinct sources that contacted the target earlier
    new_border: bool  # the source crosses the silo's border in this direction for the first time


class History:
    """A silo's edges by window, indexed for the hosts that alerts name.

    An edge of a window is history only for later windows, so the scored edges themselves can and should
    be among the `parts`. `own` says for every host whether the silo owns it.
    """

    def __init__(self, parts: Iterable[Edges], own: NDArray[np.bool_], sources: Ints, targets: Ints) -> None:
        self._own = own
        self._hosts = max(len(own), 1)
        named = np.zeros(self._hosts, dtype=bool)
        named[sources], named[targets] = True, True
        empty = np.zeros(0, dtype=np.int32)
        kept: list[Edges] = [(np.zeros(0, dtype=np.int64), empty, empty)]
        starts = []
        for window, src, dst in parts:
            if len(window):
                starts.append(int(window.min()))
                keep = named[src] | named[dst]
                kept.append((window[keep], src[keep], dst[keep]))
        self.start = min(starts, default=0)
        w, s, d = (np.concatenate(column).astype(np.int64) for column in zip(*kept, strict=True))
        s, d, w = _distinct(s, d, w)
        self._pairs = _Groups(s * self._hosts + d, w)
        first = np.ones(len(s), dtype=bool)
        first[1:] = (s[1:] != s[:-1]) | (d[1:] != d[:-1])
        self._by_source = _Activity(s, w, first)
        self._by_target = _Groups(d[first], w[first])
        self._targets = _Groups(s[first], w[first])
        self._reach = _Groups(s * 2 + own[d], w)

    def known(self, window: int, src: int, dst: int) -> bool:
        """Whether an earlier window has this pair."""
        return self._pairs.before(src * self._hosts + dst, window) > 0

    def role(self, window: int, host: int) -> Role | None:
        """What a host was before the window, by how many hosts it contacted and was contacted by."""
        targets, sources = self._targets.before(host, window), self._by_target.before(host, window)
        return role_of(targets, sources, len(self._own))

    def novelty(self, window: int, src: int, dst: int) -> Novelty:
        starts, targets, new = self._by_source.of(src)
        place = int(np.searchsorted(starts, window))
        before, active = targets[:place], place < len(starts) and int(starts[place]) == window
        crosses = bool(self._own[src] != self._own[dst])
        return Novelty(
            pair_windows=self._pairs.before(src * self._hosts + dst, window),
            targets_now=int(targets[place]) if active else 0,
            new_targets_now=int(new[place]) if active else 0,
            targets_usual=float(np.median(before)) if len(before) else None,
            sources_before=self._by_target.before(dst, window),
            new_border=crosses and self._reach.before(src * 2 + int(self._own[dst]), window) == 0,
        )


class _Groups:
    """Windows by integer key, sorted, so that one alert costs a binary search."""

    def __init__(self, key: Ints, window: Ints) -> None:
        order = np.lexsort((window, key))
        self._key, self._window = key[order], window[order]

    def before(self, key: int, window: int) -> int:
        """How many windows of the key are earlier."""
        low, high = np.searchsorted(self._key, (key, key + 1)).tolist()
        return int(np.searchsorted(self._window[low:high], window))


class _Activity:
    """Per source and window: how many targets, and how many of them for the first time."""

    def __init__(self, source: Ints, window: Ints, first: NDArray[np.bool_]) -> None:
        order = np.lexsort((window, source))
        source, window, first = source[order], window[order], first[order]
        new = np.ones(len(source), dtype=bool)
        new[1:] = (source[1:] != source[:-1]) | (window[1:] != window[:-1])
        starts = np.flatnonzero(new)
        self._source, self._window = source[starts], window[starts]
        self._targets = np.diff(np.append(starts, len(source)))
        self._new = np.add.reduceat(first, starts, dtype=np.int64) if len(starts) else starts

    def of(self, source: int) -> tuple[Ints, Ints, Ints]:
        """Windows in which the source was active, its targets there, and the new ones among them."""
        span = slice(*np.searchsorted(self._source, (source, source + 1)).tolist())
        return self._window[span], self._targets[span], self._new[span]


def _distinct(s: Ints, d: Ints, w: Ints) -> tuple[Ints, Ints, Ints]:
    """Each (src, dst, window) once, sorted."""
    order = np.lexsort((w, d, s))
    s, d, w = s[order], d[order], w[order]
    new = np.ones(len(s), dtype=bool)
    new[1:] = (s[1:] != s[:-1]) | (d[1:] != d[:-1]) | (w[1:] != w[:-1])
    return s[new], d[new], w[new]
