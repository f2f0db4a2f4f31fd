"""Campaigns drawn into a silo's own history: what the network learns to tell from everyday traffic.

A campaign is an intruder who holds one host and contacts others from it. The distributions are broad on
purpose: small and large, an hour and the whole span, in sessions, around the clock or only while the held
host is awake, staying put or moving on. They know no label, no test window and no other silo.

In ATT&CK's terms: discovery from a foothold (T1018, T1046, T1135) is many targets from one source; lateral
movement (T1021) is pivoting; valid accounts (T1078) are carried along or stolen; guessing (T1110) leaves
failures; living off the held host's working hours is `awake`; the slow chain is the patient intruder with
hours between two steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from entente.detectors.behaviour.injection.history import Contacts, Ints, Past, log_uniform


@dataclass(frozen=True, slots=True)
class Recipe:
    """How campaigns are drawn. Rates are per replica of a history; `U` is uniform, `logU` log-uniform."""

    quick: float = 0.6
    """Share of quick campaigns: size logU(2, `largest`), length logU(half an hour, the whole span)."""
    slow: float = 0.4
    """Share of slow chains: 3 to 59 contacts, mean gap logU(1 h, 12 h)."""
    largest: int = 200
    """Most contacts of a quick campaign; never more than half of the hosts."""
    hosts_per_campaign: float = 20.0
    """One campaign for so many hosts of the silo ..."""
    fewest: int = 4
    most: int = 30
    """... but at least and at most so many in one replica."""
    pivots: tuple[float, ...] = (0.0, 0.05, 0.2)
    """Chance that a quick campaign goes on from the host it has just reached."""
    slow_pivots: tuple[float, float] = (0.1, 0.5)
    """The same of a slow chain, U of these; one contact in ten that stays goes back to a host held before."""
    repeats: float = 0.4
    """Up to this share of a quick campaign's contacts is made again later."""
    slow_repeats: float = 0.35
    """The same of a slow chain."""
    sessions: float = 0.5
    """Share of quick campaigns whose contacts come in sessions."""
    awake: float = 0.5
    """Share of quick campaigns that act only in windows in which the first held host is active."""
    slow_awake: float = 0.4
    """The same of slow chains."""
    accounts: tuple[float, float, float] = (0.4, 0.3, 0.2)
    """Shares of campaigns under each host's own account, under that of the first host, under a stolen one;
    the rest uses one that nobody has met."""
    failing: float = 0.4
    """Share of campaigns some of whose contacts fail first: up to half of them."""
    work: bool = True
    """Whether benign work that looks like a campaign, and visiting accounts, are drawn too (`work.py`)."""


class Campaigns:
    """Draws campaigns into the windows from `history.first` on."""

    def __init__(self, history: Past, recipe: Recipe) -> None:
        self.history, self.recipe = history, recipe

    def draw(self, rng: np.random.Generator) -> list[Contacts]:
        recipe, history = self.recipe, self.history
        count = int(np.clip(len(history.hosts) / recipe.hosts_per_campaign, recipe.fewest, recipe.most))
        found = []
        for _ in range(count):
            slow = rng.random() < recipe.slow / (recipe.slow + recipe.quick)
            contacts = self._slow(rng) if slow else self._quick(rng)
            found.append(self._under_accounts(rng, contacts))
        return found

    # ---- two kinds of campaign -------------------------------------------------------------

    def _quick(self, rng: np.random.Generator) -> Contacts:
        recipe, history = self.recipe, self.history
        source = self._foothold(rng)
        largest = max(2.0, min(float(recipe.largest), len(history.hosts) / 2))
        size = round(log_uniform(rng, 2.0, largest))
        whole = history.span * history.hours
        length = min(history.span, max(1, round(log_uniform(rng, 0.5, whole) / history.hours)))
        begin = history.first + int(rng.integers(0, history.span - length + 1))
        window = self._moments(rng, source, begin, length, size)
        pivot = float(rng.choice(recipe.pivots))
        src, dst = self._contacts(rng, source, len(window), pivot, 0.0)
        return _again(rng, window[: len(src)], src, dst, rng.uniform(0, recipe.repeats), begin + length)

    def _slow(self, rng: np.random.Generator) -> Contacts:
        recipe, history = self.recipe, self.history
        windows = history.graph.num_windows
        source = self._foothold(rng)
        size = int(rng.integers(3, 60))
        gap = log_uniform(rng, 1.0, 12.0) / history.hours
        begin = history.first + rng.uniform(0, history.span * 0.7)
        moment = begin + np.cumsum(rng.exponential(gap, size)) - gap
        window = np.floor(moment).astype(np.int64)
        window = np.maximum(window[window < windows], history.first)
        if rng.random() < recipe.slow_awake:
            window = np.unique(history.when_awake(source, window))
        src, dst = self._contacts(rng, source, len(window), rng.uniform(*recipe.slow_pivots), 0.1)
        return _again(rng, window[: len(src)], src, dst, rng.uniform(0, recipe.slow_repeats), windows)

    # ---- who, when, whom -------------------------------------------------------------------

    def _foothold(self, rng: np.random.Generator) -> int:
        """Mostly any sender, sometimes a busy one, sometimes a host that has sent nothing so far."""
        history = self.history
        draw = rng.random()
        if draw < 0.15:
            return int(rng.choice(history.hosts))
        if draw < 0.3:
            weight = np.sqrt(history.targets[history.senders])
            return int(rng.choice(history.senders, p=weight / weight.sum()))
        return int(rng.choice(history.senders))

    def _moments(self, rng: np.random.Generator, source: int, begin: int, length: int, size: int) -> Ints:
        if rng.random() < self.recipe.sessions:
            sessions = max(1, int(rng.integers(1, 2 + max(1, size // 4))))
            middle = rng.uniform(0, length, sessions)
            spread = log_uniform(rng, 0.25, 4.0) / self.history.hours
            drawn = middle[rng.integers(0, sessions, size)] + rng.exponential(spread, size)
        else:
            drawn = rng.uniform(0, length, size)
        window: Ints = np.sort(begin + np.minimum(np.floor(drawn).astype(np.int64), length - 1))
        if rng.random() < self.recipe.awake:
            window = self.history.when_awake(source, window)
        return window

    def _contacts(
        self, rng: np.random.Generator, source: int, count: int, pivot: float, back: float
    ) -> tuple[Ints, Ints]:
        """Targets one after another, none of which the host that is held at the time knows."""
        mix = rng.dirichlet(np.full(5, 0.4))
        power = rng.uniform(0.0, 1.0)
        held, current, made = [source], source, set()
        src, dst = [], []
        for _ in range(count):
            for _ in range(8):
                target = self._target(rng, current, int(rng.choice(5, p=mix)), power)
                fresh = target != current and (current, target) not in made
                if fresh and not self.history.knows(current, target):
                    break
            else:
                continue
            made.add((current, target))
            src.append(current)
            dst.append(target)
            if rng.random() < pivot:
                held.append(target)
                current = target
            elif rng.random() < back:
                current = held[int(rng.integers(0, len(held)))]
        return np.array(src, dtype=np.int64), np.array(dst, dtype=np.int64)

    def _target(self, rng: np.random.Generator, source: int, kind: int, power: float) -> int:
        history = self.history
        if kind == 1:  # popular hosts
            edge = history.neighbour[int(rng.integers(0, len(history.neighbour)))]
            return int(edge) if rng.random() < power else int(rng.choice(history.hosts))
        if kind == 2:  # a neighbour's neighbour
            at = source
            for _ in range(2):
                near = history.targets_of(at)
                if not len(near):
                    break
                at = int(near[int(rng.integers(0, len(near)))])
            return at if at != source else int(rng.choice(history.hosts))
        pool = {3: history.servers, 4: history.quiet}.get(kind, history.hosts)
        return int(rng.choice(pool if len(pool) else history.hosts))

    def _under_accounts(self, rng: np.random.Generator, made: Contacts) -> Contacts:
        """Whose account each contact is made under, and how often it failed before it succeeded."""
        if not len(made):
            return made
        usual = self.history.account
        way = int(np.searchsorted(np.cumsum(self.recipe.accounts), rng.random()))
        if way == 0:
            account = usual[made.src]
        elif way == 1:
            account = np.full(len(made), usual[made.src[0]])
        elif way == 2:
            account = np.full(len(made), usual[int(rng.choice(self.history.senders))])
        else:
            account = np.full(len(made), STRANGER)
        share = rng.uniform(0.0, 0.5) if rng.random() < self.recipe.failing else 0.0
        failed = rng.random(len(made)) < share
        failures = np.where(failed, rng.integers(1, 5, len(made)), 0)
        return replace(made, account=account.astype(np.int64), failures=failures)


STRANGER = -2
"""An account that nobody has met."""


def _again(rng: np.random.Generator, window: Ints, src: Ints, dst: Ints, share: float, end: int) -> Contacts:
    """Some of the contacts made once more, some time before `end`."""
    chosen = np.flatnonzero(rng.random(len(src)) < share)
    later = window[chosen] + np.floor(rng.random(len(chosen)) * (end - window[chosen])).astype(np.int64)
    return Contacts.of(
        np.concatenate((window, later)),
        np.concatenate((src, src[chosen])),
        np.concatenate((dst, dst[chosen])),
    )
