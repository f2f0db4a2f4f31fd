"""One window: what its edges add up to, what that makes of each of them, and what of it is remembered.

In what follows a is the source and b the target of an edge; an edge is new if the pair is not remembered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.detectors.behaviour.kinship import Kinship
from entente.detectors.behaviour.memory import BURST, HOUR, MOST_WINDOWS, Memory, degree_class
from entente.detectors.behaviour.peers import CLASSES
from entente.graphs.temporal import Int32

Values = NDArray[Any]
Places = NDArray[np.intp]

LONG_AGO = 1e4
"""Hours since a pair was last seen that never was."""
PRIOR_HOURS = 24.0
"""A host's own rate counts as much as the general one after so many hours."""
PRIOR_RATE = 0.05
"""New targets an hour, and evidence, of a host that nothing is known of."""
LEAST = 0.02
"""Added to evidence before it is compared with its usual level."""
LARGE = 8
"""New targets in one window from which on a burst is large."""
HABIT_HOURS = 480.0
"""A host's long sums say how much it does in at most so many hours."""
DAYS_KEPT = 168.0
"""Half-life in hours of a host's hours of the day."""


class Window:
    """The edges of one window between the moment they are known and the moment they are remembered."""

    def __init__(self, memory: Memory, start: int, src: Int32, dst: Int32, place: Places) -> None:
        self.memory, self.src, self.dst, self.place = memory, src, dst, place
        self.number = memory.number(start)
        self.hour = start // HOUR % 24
        memory.forget(self.number)
        memory.fade_sums()
        host, nodes = memory.host, memory.nodes
        self.worth = memory.worth(self.number)
        self.new = memory.pair["pair_windows"][place] == 0
        self.a, self.b = src[self.new], dst[self.new]
        a, b = self.a, self.b
        self.targets_now = np.bincount(src, minlength=nodes)
        self.sources_now = np.bincount(dst, minlength=nodes)
        self.new_out = np.bincount(a, minlength=nodes)
        self.new_in = np.bincount(b, minlength=nodes)
        sources = host["sources"][b]
        self.evidence = np.bincount(a, 1.0 / (2.0 + sources), nodes)
        self.rare = np.bincount(a, sources <= 1, nodes)
        self.push = (np.log1p(self.new_out + self.evidence + host["chain_24"]) * self.worth).astype(
            np.float32
        )
        self.pushed = np.bincount(b, self.push[a] / (1.0 + sources), nodes).astype(np.float32)
        # Without the targets of the last days: an intruder who has contacted many is no administrator yet.
        self.settled = np.maximum(host["targets"] - host["new_96"], 0)
        # Sources of every part have classes of their own.
        self.class_a = degree_class(self.settled) + CLASSES * memory.part
        self.class_b = degree_class(host["sources"])
        rows = memory.moves.sum(axis=1, keepdims=True)
        self.oddity = -np.log((memory.moves + 0.25) / (rows + 0.25 * CLASSES))
        self.odd = np.bincount(a, self.oddity[self.class_a[a], self.class_b[b]], nodes)
        self.kinship = Kinship(memory, self.number, a, b)

    # ---- features --------------------------------------------------------------------------

    def values(self, a: Int32, b: Int32, place: Places, reverse: Places) -> dict[str, Values]:
        """Raw values of pairs of this window, by feature."""
        pair = self._of_pair(a, b, place, reverse)
        new = pair["new"]
        burst = self._of_burst(a)
        peers = self.memory.peers.values(a, self.class_a[a], burst["evidence_24"], burst["new_now"])
        own = pair | self._of_hosts(a, b, new) | burst | peers | self._of_chains(a, b, new)
        return own | self.kinship.values(a, b)

    def _of_pair(self, a: Int32, b: Int32, place: Places, reverse: Places) -> dict[str, Values]:
        memory, pair = self.memory, self.memory.pair
        if not len(memory.keys):
            place = reverse = np.zeros(len(a), dtype=np.intp)
            pair = {name: np.zeros(1, dtype=values.dtype) for name, values in pair.items()}
        windows = np.where(place >= 0, pair["pair_windows"][place], 0)
        new = windows == 0
        birth = np.maximum(self.new_out[a], new) / (2.0 + memory.host["sources"][b])
        return {
            "new": new,
            "pair_windows": windows,
            "pair_rest": np.where(new, LONG_AGO, (self.number - pair["pair_last"][place]) * memory.hours),
            "pair_age": np.where(new, 0.0, (self.number - pair["pair_first"][place]) * memory.hours),
            "birth": np.where(new, birth, pair["pair_birth"][place]),
            "reverse": np.where(reverse >= 0, pair["pair_windows"][reverse], 0),
        }

    def _of_hosts(self, a: Int32, b: Int32, new: Values) -> dict[str, Values]:
        host, hours = self.memory.host, self.memory.hours
        targets, sources = host["targets"], host["sources"]
        age = (self.number - host["first_seen"].astype(np.int64)) * hours
        part, kind = self.memory.part[a], self.class_b[b]
        novelty, windows, large, sudden = self.memory.novelty.T
        days = np.maximum(windows, 1.0) * hours / 24.0
        fresh, usual = self._per_part(self.a), novelty / np.maximum(windows, 1.0)
        return {
            "b_sources": sources[b],
            "b_unknown": (sources[b] == 0) & (targets[b] == 0),
            "b_age": age[b],
            "b_new_now": np.maximum(self.new_in[b] - new, 0),
            "b_now": self.sources_now[b],
            "b_fan_in": host["fan_in_96"][b],
            "b_targets": targets[b],
            "a_targets": targets[a],
            "a_unknown": (targets[a] == 0) & (sources[a] == 0),
            "a_age": age[a],
            "a_active": host["active"][a],
            "a_sources": sources[a],
            "a_old": self.settled[a],
            "odd": self.oddity[self.class_a[a], kind],
            "odd_new": (host["classes"][a] >> kind & 1) == 0,
            "odd_24": host["odd_24"][a] + self.worth * self.odd[a],
            "odd_72": host["odd_72"][a] + self.worth * self.odd[a],
            "hour_a": self._habit("hours_out", a),
            "hour_b": self._habit("hours_in", b),
            "silo_large": (large / days)[part],
            "silo_sudden": (sudden / days)[part],
            "others": (1.0 + fresh[part] - self.new_out[a]) / (1.0 + usual[part]),
        }

    def _of_burst(self, a: Int32) -> dict[str, Values]:
        host, hours, worth = self.memory.host, self.memory.hours, self.worth
        count, now = self.new_out[a], self.evidence[a]
        exposure = host["exposure_96"][a] + PRIOR_HOURS
        usual = (host["new_96"][a] + PRIOR_RATE * PRIOR_HOURS) / exposure * hours
        level = (host["level"][a] + PRIOR_RATE * PRIOR_HOURS) / exposure
        day = host["evidence_24"][a] + worth * now
        born = host["first_seen"][a].astype(np.int64)
        lived = np.where(born >= 0, (self.number - born) * hours, 0.0)
        days = np.clip(lived - 24.0, 24.0, HABIT_HOURS) / 24.0
        begun = host["first_burst"][a].astype(np.int64)
        since = np.where(begun >= 0, (self.number - begun) * hours, 0.0)
        fresh = host["new_24"][a] + worth * count
        poisson = count * np.log(np.maximum(count, 1) / usual) - count + usual
        return {
            "new_now": count,
            "targets_now": self.targets_now[a],
            "usual": usual,
            "surprise": np.where(count > usual, poisson, 0.0),
            "largest": host["largest"][a],
            "new_share": count / np.maximum(self.targets_now[a], 1),
            "bursts": host["ripe_bursts"][a],
            "new_24": fresh,
            "onset": lived - since,
            "burst_age": since,
            "fresh_new": (fresh + 0.5) / (host["ripe_new"][a] / days + 0.5),
            "fresh_evidence": (day + 0.1) / (host["ripe_evidence"][a] / days + 0.1),
            "now": now,
            "evidence_2": host["evidence_2"][a] + worth * now,
            "evidence_24": day,
            "evidence_72": host["evidence_72"][a] + worth * now,
            "relative": (day + LEAST) / (level + LEAST),
            "level": level,
            "rare_72": host["rare_72"][a] + worth * self.rare[a],
        }

    def _of_chains(self, a: Int32, b: Int32, new: Values) -> dict[str, Values]:
        host, hours = self.memory.host, self.memory.hours
        own = np.where(new, self.push[a] / (1.0 + host["sources"][b]), 0.0)
        return {
            "chain_a": host["chain_24"][a] + self.pushed[a],
            "chain_b": np.maximum(
                host["chain_24"][b] + self.pushed[b] - np.minimum(own, self.pushed[b]), 0.0
            ),
            "chain_a_72": host["chain_72"][a] + self.pushed[a],
            "rest_in": (self.number - host["last_new_in"][a].astype(np.int64)) * hours,
            "rest_out": (self.number - host["last_new_out"][a].astype(np.int64)) * hours,
            "fan_in_a": host["fan_in_72"][a] + self.worth * self.new_in[a],
        }

    def _habit(self, name: str, hosts: Int32) -> Values:
        """Activity in this hour and its neighbours against the host's mean hour."""
        each, row = np.unique(hosts, return_inverse=True)
        day = self.memory.host[name][:, each]
        near = [(self.hour + step) % 24 for step in (-1, 0, 1)]
        around, mean = day[near].sum(axis=0) / 3.0, day.sum(axis=0) / 24.0
        found: Values = ((around + 0.25) / (mean + 0.25))[row]
        return found

    def _per_part(self, hosts: NDArray[Any]) -> Values:
        """How many of these hosts each part has."""
        return np.bincount(self.memory.part[hosts], minlength=self.memory.parts)

    # ---- memory ----------------------------------------------------------------------------

    def close(self) -> None:
        """Take the window's edges into the memory."""
        self._remember_pairs()
        memory, host = self.memory, self.memory.host
        a, b, hours = self.a, self.b, np.float32(self.memory.hours)
        np.bitwise_or.at(host["classes"], a, (1 << self.class_b[b]).astype(np.int32))
        np.add.at(memory.moves, (self.class_a[a], self.class_b[b]), float(self.worth))
        worth = float(self.worth)
        burst = self.new_out >= BURST
        starts = (worth * self.new_out >= BURST) & (host["first_burst"] < 0)
        host["first_burst"][starts] = self.number
        large = self.new_out >= LARGE
        sudden = large & (host["largest"] < LARGE / 2)
        counts = [self._per_part(hosts) for hosts in (a, np.flatnonzero(large), np.flatnonzero(sudden))]
        memory.novelty[:, 1] += 1.0
        for column, count in zip((0, 2, 3), counts, strict=True):
            memory.novelty[:, column] += worth * count
        memory.edges += len(self.src)
        host["targets"] += self.new_out.astype(np.int32)
        host["sources"] += self.new_in.astype(np.int32)
        host["last_new_out"][a] = self.number
        host["last_new_in"][b] = self.number
        out, into = self.targets_now > 0, self.sources_now > 0
        first = host["first_seen"]
        first[(first < 0) & (out | into)] = self.number
        np.minimum(host["active"] + out, MOST_WINDOWS, out=host["active"], casting="unsafe")
        host["exposure_96"] += np.where(first >= 0, hours, np.float32(0.0))
        for sums, values in (
            (("new_96", "new_24", "new_4"), self.new_out),
            (("bursts_24",), burst),
            (("evidence_2", "evidence_24", "evidence_72"), self.evidence),
            (("rare_72",), self.rare),
            (("fan_in_96", "fan_in_72"), self.new_in),
            (("odd_24", "odd_72"), self.odd),
        ):
            seen = (self.worth * values).astype(np.float32)
            for name in sums:
                host[name] += seen
        np.maximum(host["largest"], (self.worth * self.new_out).astype(np.float32), out=host["largest"])
        host["level"] += host["evidence_24"] * hours
        memory.peers.learn(self.class_a, first >= 0, host["evidence_24"], self.new_out, worth)
        for name in ("chain_24", "chain_72"):
            host[name] += self.pushed
        for name, active in (("hours_out", out), ("hours_in", into)):
            row = host[name][self.hour]
            row *= np.float32(2.0 ** (-24.0 * float(hours) / DAYS_KEPT))
            row += active.astype(np.float32) * hours

    def _remember_pairs(self) -> None:
        pair, place = self.memory.pair, self.place
        fresh = place[self.new]
        pair["pair_first"][fresh] = self.number
        pair["pair_birth"][fresh] = self.new_out[self.a] / (2.0 + self.memory.host["sources"][self.b])
        pair["pair_last"][place] = self.number
        pair["pair_windows"][place] = np.minimum(pair["pair_windows"][place] + 1, MOST_WINDOWS)
