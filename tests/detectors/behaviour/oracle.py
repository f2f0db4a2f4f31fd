"""The features of an edge in plain slow Python: dictionaries, one edge at a time."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np

from entente.detectors.behaviour.accounts import KINDS, OF_ACCOUNT, fingerprint
from entente.detectors.behaviour.memory import BURST, FADING, HOUR, LEARNING, MOST_WINDOWS
from entente.detectors.behaviour.peers import BURST_STEPS, CLASSES, DAY_STEPS
from entente.graphs.temporal import TemporalGraph


def degree_class(degree: float) -> int:
    return 0 if degree <= 0 else max(0, min(CLASSES - 1, math.floor(math.log2(degree)) + 1))


class Oracle:
    """Remembers everything for ever; graphs of the tests are shorter than the memory."""

    def __init__(self) -> None:
        self.pair: dict[tuple[int, int], dict[str, float]] = {}
        self.sums: dict[str, defaultdict[int, float]] = {name: defaultdict(float) for name in FADING}
        self.first: dict[int, int] = {}
        self.burst: dict[int, int] = {}
        self.last_in: dict[int, int] = {}
        self.last_out: dict[int, int] = {}
        self.active: defaultdict[int, int] = defaultdict(int)
        self.classes: defaultdict[int, set[int]] = defaultdict(set)
        self.day: dict[str, defaultdict[tuple[int, int], float]] = {
            "out": defaultdict(float),
            "in": defaultdict(float),
        }
        self.moves = [[0.0] * CLASSES for _ in range(CLASSES)]
        self.novelty, self.windows, self.large, self.sudden = 0.0, 0.0, 0.0, 0.0
        self.accounts = AccountOracle()
        # who was how far, for how long: (host, class then, evidence of a day, burst, amount that fades)
        self.past: list[tuple[int, int, float, int, float]] = []
        self.hours = 0.0

    def targets(self, host: int) -> int:
        return sum(a == host for a, _ in self.pair)

    def sources(self, host: int) -> int:
        return sum(b == host for _, b in self.pair)

    def describe(self, graph: TemporalGraph) -> list[dict[str, float]]:
        rows = []
        hours = graph.width / HOUR
        for t in range(graph.num_windows):
            part = slice(int(graph.offsets[t]), int(graph.offsets[t + 1]))
            edges = list(zip(graph.src[part].tolist(), graph.dst[part].tolist(), strict=True))
            hour = (graph.start + t * graph.width) // HOUR % 24
            described = self.window(t, hour, hours, edges)
            context = self.accounts.window(t, hours, graph, part, edges)
            rows += [row | more for row, more in zip(described, context, strict=True)]
        return rows

    def window(self, t: int, hour: int, hours: float, edges: list[tuple[int, int]]) -> list[dict[str, float]]:
        self.past = [(*row[:4], row[4] * 2.0 ** (-hours / 336.0)) for row in self.past]
        self.hours *= 2.0 ** (-hours / 336.0)
        ripens = (("new_24", "ripe_new"), ("evidence_24", "ripe_evidence"), ("bursts_24", "ripe_bursts"))
        for young, old in ripens:
            for host, value in self.sums[young].items():  # as much goes over as is about to fade
                self.sums[old][host] = self.sums[old][host] * 2.0 ** (-hours / 336.0) + value * (
                    1.0 - 2.0 ** (-hours / 24.0)
                )
        for name, life in FADING.items():
            for host in self.sums[name]:
                self.sums[name][host] *= 1.0 if name.startswith("ripe") else 2.0 ** (-hours / life)
        self.moves = [[value * 2.0 ** (-hours / 336.0) for value in row] for row in self.moves]
        self.novelty *= 2.0 ** (-hours / 96.0)
        self.windows *= 2.0 ** (-hours / 96.0)
        self.large *= 2.0 ** (-hours / 96.0)
        self.sudden *= 2.0 ** (-hours / 96.0)
        worth = 1.0 - 2.0 ** (-(t + 1) * hours / LEARNING)
        new = [edge for edge in edges if edge not in self.pair]
        now: dict[str, Any] = {
            "t": t, "hour": hour, "hours": hours, "worth": worth, "edges": edges, "new": new,
            "new_out": defaultdict(int), "new_in": defaultdict(int),
            "evidence": defaultdict(float), "rare": defaultdict(int), "odd": defaultdict(float),
        }  # fmt: skip
        for a, b in new:
            now["new_out"][a] += 1
            now["new_in"][b] += 1
            now["evidence"][a] += 1.0 / (2.0 + self.sources(b))
            now["rare"][a] += self.sources(b) <= 1
            now["odd"][a] += self.oddity(a, b)
        rows = [self.edge(a, b, now) for a, b in edges]
        self.close(now)
        return rows

    def settled(self, a: int) -> float:
        return max(0.0, self.targets(a) - self.sums["new_96"][a])

    def oddity(self, a: int, b: int) -> float:
        row = self.moves[degree_class(self.settled(a))]
        return -math.log((row[degree_class(self.sources(b))] + 0.25) / (sum(row) + 0.25 * CLASSES))

    def push(self, x: int, h: int, now: dict[str, Any]) -> float:
        strength = math.log1p(now["new_out"][x] + now["evidence"][x] + self.sums["chain_24"][x])
        return float(strength * now["worth"] / (1.0 + self.sources(h)))

    def pushed(self, h: int, now: dict[str, Any], but: tuple[int, int] | None = None) -> float:
        return sum(self.push(x, h, now) for x, y in now["new"] if y == h and (x, y) != but)

    def habit(self, side: str, host: int, hour: int) -> float:
        day = [self.day[side][host, h] for h in range(24)]
        around = sum(day[(hour + step) % 24] for step in (-1, 0, 1)) / 3.0
        return (around + 0.25) / (sum(day) / 24.0 + 0.25)

    def latest(self, a: int, now: dict[str, Any]) -> set[int]:
        """What a has turned to within four hours, this window included; nothing if these are too few."""
        if not now["new_out"][a] or now["new_out"][a] + self.sums["new_4"][a] < 3:
            return set()
        since = now["t"] - round(4.0 / now["hours"])
        found = {b for (x, b), pair in self.pair.items() if x == a and pair["first"] >= since}
        found |= {b for x, b in now["new"] if x == a}
        return found if len(found) >= 3 else set()

    def kin(self, a: int, latest: set[int], into: bool) -> tuple[float, int]:
        """The largest surprise that these targets share a partner, and that partner."""
        pairs = {(y, x) for x, y in self.pair} if into else set(self.pair)
        popular, acting = (self.targets, self.sources) if into else (self.sources, self.targets)
        hosts = {host for pair in self.pair for host in pair}
        active = sum(acting(host) > 0 for host in hosts)
        best = (0.0, -1)
        for s in sorted({s for b, s in pairs if b in latest and s != a}):
            count = sum((b, s) in pairs for b in latest)
            if count >= 2:
                chance = min((popular(s) + 1.0) / (active + 2.0), 0.999)
                share = count / len(latest)
                rest = max(1.0 - share, 1e-12)
                gain = share * math.log(share / chance) + rest * math.log(rest / (1.0 - chance))
                gain = gain if share > chance else 0.0
                if gain > best[0] + 1e-12 or best[1] < 0:
                    best = (gain, s)
        return best

    def peers(self, a: int, day: float, count: int, hours: float) -> dict[str, float]:
        """How long, and how often, others were as far as `a` is: all of them, and those of its class."""
        kind = degree_class(self.settled(a))
        level = max((step for step in DAY_STEPS if step <= day), default=-1.0)
        size = max((step for step in BURST_STEPS if step <= count), default=0)
        far = [row for row in self.past if row[2] >= level]
        many = [row for row in self.past if row[3] >= max(size, 1)]
        own_day = sum(row[4] for row in far if row[0] == a) if level > 0 else 0.0
        own_burst = sum(row[4] for row in many if row[0] == a) if size > 0 else 0.0
        all_days, all_bursts = sum(row[4] for row in far), sum(row[4] for row in many)
        class_days = sum(row[4] for row in far if row[1] == kind)
        class_bursts = sum(row[4] for row in many if row[1] == kind)
        members = sum(row[4] for row in self.past if row[1] == kind) * hours
        return {
            "others_day": (max(all_days - own_day, 0.0) * hours + 0.25) / (self.hours + 0.25),
            "peers_day": (max(class_days - own_day, 0.0) * hours + 0.5) / (members + 24.0),
            "others_burst": (max(all_bursts - own_burst, 0.0) + 0.1) / (self.hours / 24.0 + 0.5),
            "peers_burst": (max(class_bursts - own_burst, 0.0) + 0.1) / (members / 24.0 + 1.0),
        }

    def edge(self, a: int, b: int, now: dict[str, Any]) -> dict[str, float]:
        t, hours, worth, s = now["t"], now["hours"], now["worth"], self.sums
        pair = self.pair.get((a, b))
        count, exposure = now["new_out"][a], s["exposure_96"][a] + 24.0
        usual = (s["new_96"][a] + 1.2) / exposure * hours
        level = (s["level"][a] + 1.2) / exposure
        day = s["evidence_24"][a] + worth * now["evidence"][a]
        kind = degree_class(self.sources(b))
        targets_now = sum(x == a for x, _ in now["edges"])
        never = 1 << 30
        latest = self.latest(a, now)
        out, by_out = self.kin(a, latest, False)
        into, by_in = self.kin(a, latest, True)
        days = max(self.windows, 1.0) * hours / 24.0
        lived = (t - self.first.get(a, t)) * hours
        since = (t - self.burst.get(a, t)) * hours
        habit = min(max(lived - 24.0, 24.0), 480.0) / 24.0
        fresh = s["new_24"][a] + worth * count
        return self.peers(a, day, count, hours) | {
            "onset": lived - since,
            "burst_age": since,
            "fresh_new": (fresh + 0.5) / (s["ripe_new"][a] / habit + 0.5),
            "fresh_evidence": (day + 0.1) / (s["ripe_evidence"][a] / habit + 0.1),
            "kin_out": out,
            "kin_in": into,
            "kin_b": float((b, by_out) in self.pair or (by_in, b) in self.pair),
            "silo_large": self.large / days,
            "silo_sudden": self.sudden / days,
            "new": float(pair is None),
            "pair_windows": 0.0 if pair is None else pair["windows"],
            "pair_rest": 1e4 if pair is None else (t - pair["last"]) * hours,
            "pair_age": 0.0 if pair is None else (t - pair["first"]) * hours,
            "birth": max(count, 1) / (2.0 + self.sources(b)) if pair is None else pair["birth"],
            "reverse": self.pair[b, a]["windows"] if (b, a) in self.pair else 0.0,
            "b_sources": self.sources(b),
            "b_unknown": float(self.sources(b) == 0 and self.targets(b) == 0),
            "b_age": (t - self.first.get(b, -never)) * hours,
            "b_new_now": now["new_in"][b] - (pair is None),
            "b_now": sum(y == b for _, y in now["edges"]),
            "b_fan_in": s["fan_in_96"][b],
            "b_targets": self.targets(b),
            "a_targets": self.targets(a),
            "a_unknown": float(self.sources(a) == 0 and self.targets(a) == 0),
            "a_age": (t - self.first.get(a, -never)) * hours,
            "a_active": self.active[a],
            "a_sources": self.sources(a),
            "a_old": self.settled(a),
            "new_now": count,
            "targets_now": targets_now,
            "usual": usual,
            "surprise": count * math.log(count / usual) - count + usual if count > usual else 0.0,
            "largest": s["largest"][a],
            "new_share": count / targets_now,
            "bursts": s["ripe_bursts"][a],
            "new_24": s["new_24"][a] + worth * count,
            "now": now["evidence"][a],
            "evidence_2": s["evidence_2"][a] + worth * now["evidence"][a],
            "evidence_24": day,
            "evidence_72": s["evidence_72"][a] + worth * now["evidence"][a],
            "relative": (day + 0.02) / (level + 0.02),
            "level": level,
            "rare_72": s["rare_72"][a] + worth * now["rare"][a],
            "chain_a": s["chain_24"][a] + self.pushed(a, now),
            "chain_b": s["chain_24"][b] + self.pushed(b, now, (a, b)),
            "chain_a_72": s["chain_72"][a] + self.pushed(a, now),
            "rest_in": (t - self.last_in.get(a, -never)) * hours,
            "rest_out": (t - self.last_out.get(a, -never)) * hours,
            "fan_in_a": s["fan_in_72"][a] + worth * now["new_in"][a],
            "odd": self.oddity(a, b),
            "odd_new": float(kind not in self.classes[a]),
            "odd_24": s["odd_24"][a] + worth * now["odd"][a],
            "odd_72": s["odd_72"][a] + worth * now["odd"][a],
            "hour_a": self.habit("out", a, now["hour"]),
            "hour_b": self.habit("in", b, now["hour"]),
            "others": (1.0 + len(now["new"]) - count) / (1.0 + self.novelty / max(self.windows, 1.0)),
        }

    def close(self, now: dict[str, Any]) -> None:
        t, worth, hours, s = now["t"], now["worth"], now["hours"], self.sums
        pushed = {h: self.pushed(h, now) for _, h in now["new"]}
        known = {*self.first, *(host for edge in now["edges"] for host in edge)}
        before = {host: degree_class(self.settled(host)) for host in known}
        kinds = [(degree_class(self.settled(a)), degree_class(self.sources(b))) for a, b in now["new"]]
        births = {(a, b): now["new_out"][a] / (2.0 + self.sources(b)) for a, b in now["new"]}
        for a, b in now["edges"]:
            pair = self.pair.setdefault(
                (a, b), {"windows": 0.0, "first": t, "birth": births.get((a, b), 0.0)}
            )
            pair["windows"] = min(pair["windows"] + 1, MOST_WINDOWS)
            pair["last"] = t
        for host, count in now["new_out"].items():
            self.large += worth * (count >= 8)
            self.sudden += worth * (count >= 8 and s["largest"][host] < 4)
            if worth * count >= BURST:
                self.burst.setdefault(host, t)
        for (a, b), (kind_a, kind_b) in zip(now["new"], kinds, strict=True):
            self.moves[kind_a][kind_b] += worth
            self.classes[a].add(kind_b)
            self.last_out[a], self.last_in[b] = t, t
        for host in {host for edge in now["edges"] for host in edge}:
            self.first.setdefault(host, t)
        for host in {a for a, _ in now["edges"]}:
            self.active[host] = min(self.active[host] + 1, MOST_WINDOWS)
        for host in self.first:
            s["exposure_96"][host] += hours
            for name in ("new_96", "new_24", "new_4"):
                s[name][host] += worth * now["new_out"][host]
            s["largest"][host] = max(s["largest"][host], worth * now["new_out"][host])
            s["bursts_24"][host] += worth * (now["new_out"][host] >= BURST)
            for name in ("evidence_2", "evidence_24", "evidence_72"):
                s[name][host] += worth * now["evidence"][host]
            s["level"][host] += s["evidence_24"][host] * hours
            s["rare_72"][host] += worth * now["rare"][host]
            for name in ("fan_in_96", "fan_in_72"):
                s[name][host] += worth * now["new_in"][host]
            for name in ("odd_24", "odd_72"):
                s[name][host] += worth * now["odd"][host]
            for name in ("chain_24", "chain_72"):
                s[name][host] += pushed.get(host, 0.0)
            for side, hosts in (("out", [a for a, _ in now["edges"]]), ("in", [b for _, b in now["edges"]])):
                key = (host, now["hour"])
                self.day[side][key] = self.day[side][key] * 2.0 ** (-24.0 * hours / 168.0) + hours * (
                    host in hosts
                )
        self.past += [
            (host, kind, s["evidence_24"][host], now["new_out"][host], worth) for host, kind in before.items()
        ]
        self.hours += worth * hours
        self.novelty += worth * len(now["new"])
        self.windows += 1.0


class AccountOracle:
    """Accounts, failures and log-on types, one event column at a time."""

    def __init__(self) -> None:
        self.use: dict[tuple[str, int], float] = {}
        self.total: defaultdict[str, float] = defaultdict(float)
        self.spread: defaultdict[str, float] = defaultdict(float)
        self.of_host: defaultdict[int, float] = defaultdict(float)
        self.failures: defaultdict[int, float] = defaultdict(float)
        self.logons: defaultdict[tuple[int, int], float] = defaultdict(float)

    def window(
        self, t: int, hours: float, graph: TemporalGraph, part: slice, edges: list[tuple[int, int]]
    ) -> list[dict[str, float]]:
        tables: tuple[tuple[dict[Any, float], float], ...] = (
            (self.use, 336.0), (self.total, 336.0), (self.spread, 24.0),
            (self.of_host, 336.0), (self.failures, 24.0), (self.logons, 336.0),
        )  # fmt: skip
        for table, life in tables:
            for key in table:
                table[key] *= 2.0 ** (-hours / life)
        context = graph.context
        users = [context.user.of(i) if context and context.user else () for i in range(part.start, part.stop)]
        failed = [int(context.failures[i]) if context and context.failures is not None else -1
                  for i in range(part.start, part.stop)]  # fmt: skip
        kinds = [
            fingerprint(context.logon.of(i)[0]) % KINDS
            if context and context.logon and context.logon.of(i)
            else -1
            for i in range(part.start, part.stop)
        ]
        rows = [
            self.account(a, names) | self.outcome(a, count) | self.logon(a, kind)
            for (a, _), names, count, kind in zip(edges, users, failed, kinds, strict=True)
        ]
        worth = 1.0 - 2.0 ** (-(t + 1) * hours / LEARNING)
        for name, a in {(name, a) for (a, _), names in zip(edges, users, strict=True) for name in names}:
            self.spread[name] += worth * ((name, a) not in self.use)
            self.use[name, a] = self.use.get((name, a), 0.0) + 1.0
            self.total[name] += 1.0
            self.of_host[a] += 1.0
        for (a, _), count, kind in zip(edges, failed, kinds, strict=True):
            self.failures[a] += max(count, 0)
            if kind >= 0:
                self.logons[kind, a] += 1.0
        return rows

    def account(self, a: int, names: tuple[str, ...]) -> dict[str, float]:
        if not names:
            return {"has_user": 0.0} | dict.fromkeys(OF_ACCOUNT, math.nan)
        name = min(names, key=lambda name: self.use.get((name, a), -1.0))
        used = self.use.get((name, a), 0.0)
        hosts = sum(other == name for other, _ in self.use)
        return {
            "has_user": 1.0,
            "u_new": float((name, a) not in self.use),
            "u_unknown": float(hosts == 0),
            "u_share": (used + 0.1) / (self.total[name] + 1.0),
            "u_hosts": hosts,
            "u_spread": self.spread[name],
            "u_main": (used + 0.1) / (self.of_host[a] + 1.0),
            "a_accounts": sum(host == a for _, host in self.use),
        }

    def outcome(self, a: int, count: int) -> dict[str, float]:
        if count < 0:
            return {"has_outcome": 0.0, "failed": math.nan, "a_failures": math.nan}
        return {"has_outcome": 1.0, "failed": count, "a_failures": self.failures[a] + count}

    def logon(self, a: int, kind: int) -> dict[str, float]:
        if kind < 0:
            return {"has_logon": 0.0, "logon_odd": math.nan}
        general = [0.1 + sum(v for (k, _), v in self.logons.items() if k == g) for g in range(KINDS)]
        own = [self.logons[k, a] for k in range(KINDS)]
        odd = -math.log((own[kind] + general[kind] / sum(general)) / (sum(own) + 1.0))
        return {"has_logon": 1.0, "logon_odd": odd}


def table(rows: list[dict[str, float]], names: tuple[str, ...]) -> np.ndarray[Any, Any]:
    return np.array([[row[name] for name in names] for row in rows], dtype=np.float64)
