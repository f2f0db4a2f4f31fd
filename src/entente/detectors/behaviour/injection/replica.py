"""A replica: a history with campaigns, and with benign work that looks like them, drawn into it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from entente.detectors.behaviour.injection.campaigns import STRANGER, Campaigns, Recipe
from entente.detectors.behaviour.injection.history import Contacts, Ints, Past
from entente.detectors.behaviour.injection.work import Work, visitors
from entente.graphs.context import NOTHING, EdgeContext, Frequent
from entente.graphs.temporal import Int32, TemporalGraph

WORK = -1
"""Number of what is benign but not the silo's own."""
HIDDEN = 0.4
"""Chance that a replica has no accounts; likewise outcomes and log-on types, each by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """`campaign` is 0 for the silo's own edges, WORK for benign work, else a campaign's number from 1 on."""

    graph: TemporalGraph
    campaign: Int32


class Injector:
    """Draws replicas of one history, with campaigns in the windows from `first` on."""

    def __init__(self, graph: TemporalGraph, first: int, recipe: Recipe | None = None) -> None:
        self.graph, self.recipe = graph, recipe or Recipe()
        self.history = Past(graph, first)
        self._campaigns, self._work = Campaigns(self.history, self.recipe), Work(self.history)

    def draw(self, rng: np.random.Generator) -> Replica:
        """One replica; the history alone where it is too short or too small for a campaign."""
        if not self.history.enough:
            return self._merged([], 0, rng)
        campaigns = self._campaigns.draw(rng)
        work = self._work.draw(rng) if self.recipe.work else []
        return self._merged([*campaigns, *work], len(campaigns), rng)

    def _merged(self, parts: list[Contacts], campaigns: int, rng: np.random.Generator) -> Replica:
        """The silo's own edges and what was drawn, in a graph's order; no pair twice in a window."""
        graph, own = self.graph, self.graph.num_edges
        numbers = [number + 1 if number < campaigns else WORK for number in range(len(parts))]
        drawn = np.repeat(np.array(numbers, dtype=np.int64), [len(part) for part in parts])
        window, src, dst = (
            np.concatenate([first, *(getattr(part, name) for part in parts)]).astype(np.int64)
            for name, first in (("window", self.history.window), ("src", graph.src), ("dst", graph.dst))
        )
        campaign = np.concatenate((np.zeros(own, dtype=np.int64), drawn))
        order = np.lexsort((np.abs(campaign), dst, src, window))  # what the log has itself comes first
        keep = np.ones(len(order), dtype=bool)
        same = [np.diff(values[order]) == 0 for values in (window, src, dst)]
        keep[1:] = ~(same[0] & same[1] & same[2])
        order = order[keep]
        events = np.concatenate((graph.weight, np.ones(len(drawn), dtype=np.float32)))
        time = np.concatenate((graph.time, graph.start + window[own:] * graph.width))
        context = self._context(parts, time, rng)
        merged = TemporalGraph(
            rows=graph.rows,
            table_size=graph.table_size,
            start=graph.start,
            width=graph.width,
            offsets=np.searchsorted(window[order], np.arange(graph.num_windows + 1)).astype(np.int64),
            src=src[order].astype(np.int32),
            dst=dst[order].astype(np.int32),
            time=time[order],
            weight=events[order],
            context=None if context is None else context[order],
        )
        return Replica(merged, campaign[order].astype(np.int32))

    # ---- accounts, outcomes, log-on types ----------------------------------------------------

    def _context(self, parts: list[Contacts], time: Ints, rng: np.random.Generator) -> EdgeContext | None:
        """Of the own edges and of what was drawn, each column as in the log, or hidden."""
        context = self.graph.context
        hidden = rng.random(3) < HIDDEN
        if context is None:
            return None
        added = len(time) - self.graph.num_edges
        user = failures = logon = None
        if context.user is not None and not hidden[0]:
            user = self._users(context.user, [part.account for part in parts], rng)
        if context.failures is not None and not hidden[1]:
            drawn = [part.failures for part in parts]
            failures = np.concatenate([context.failures, *drawn]).astype(np.int32)
        if context.logon is not None and not hidden[2]:
            pattern = rng.integers(0, max(1, self.graph.num_edges), added)
            rows = np.concatenate((np.arange(self.graph.num_edges), pattern))
            logon = context.logon[rows]
        return EdgeContext(last_time=time, user=user, failures=failures, logon=logon)

    def _users(self, column: Frequent, drawn: list[Ints], rng: np.random.Generator) -> Frequent:
        own = column.top.astype(np.int64)
        if self.recipe.work:
            own[:, 0] = visitors(rng, self.history, own[:, 0])
        account = np.concatenate([np.zeros(0, dtype=np.int64), *drawn])
        stranger = len(column.values)
        account = np.where(account == STRANGER, stranger, account)
        top = np.full((len(own) + len(account), own.shape[1]), NOTHING, dtype=np.int32)
        top[: len(own)], top[len(own) :, 0] = own, account
        values = np.append(column.values, f"stranger {rng.integers(1 << 62)}")
        return Frequent(values, top, (top != NOTHING).sum(axis=1).astype(np.int32))
