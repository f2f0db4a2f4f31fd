"""One-off work as contacts, collected and turned into events all at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entente_lab.simulator.activity import SERVICE, Clocks, Events
from entente_lab.simulator.company import FloatArray, IntArray, SimulationConfig

COLUMNS = ("begin", "src", "dst", "account", "service", "mean", "failed")


@dataclass(slots=True)
class Work:
    """Contacts so far, in the order in which they were added."""

    rng: np.random.Generator
    parts: list[tuple[NDArray[np.float64], ...]] = field(default_factory=list)

    def add(
        self,
        begin: ArrayLike,
        src: ArrayLike,
        dst: ArrayLike,
        account: ArrayLike,
        services: str,
        *,
        mean: float = 2.0,
        failed: float = 0.0,
    ) -> None:
        """Contacts of any of the services, each one to a few events; a share of the contacts fails."""
        columns = np.broadcast_arrays(*(np.atleast_1d(np.asarray(x)) for x in (begin, src, dst, account)))
        count = len(columns[0])
        numbers = np.array([SERVICE[name] for name in services.split()])
        service = numbers[self.rng.integers(0, len(numbers), count)]
        fails = self.rng.random(count) < failed
        more = (service, np.full(count, mean), fails)
        self.parts.append(tuple(column.astype(np.float64) for column in (*columns, *more)))

    def events(self, config: SimulationConfig) -> Events:
        """Within minutes of each contact; nothing before the start or after the end, no self loops."""
        rng = self.rng
        table = [np.concatenate([np.zeros(0), *column]) for column in zip(*self.parts, strict=True)]
        begin, src, dst, account, service, mean, failed = table or [np.zeros(0)] * len(COLUMNS)
        mean = np.maximum(mean, 1.0)
        row = (
            np.repeat(np.arange(len(begin)), rng.geometric(1 / mean)) if len(begin) else np.zeros(0, np.int64)
        )
        time = np.floor(begin[row] + rng.exponential(60, len(row)))
        row, time = _kept(row, time, src, dst, config)
        return Events.of(
            time=time.astype(np.int64),
            src=src[row].astype(np.int64),
            dst=dst[row].astype(np.int64),
            account=account[row].astype(np.int64),
            service=service[row].astype(np.int64),
            package=np.zeros(len(row), dtype=np.int64),
            outcome=failed[row] == 0,
        )


def _kept(
    row: IntArray, time: FloatArray, src: FloatArray, dst: FloatArray, config: SimulationConfig
) -> tuple[IntArray, FloatArray]:
    kept = (time >= 0) & (time < config.end) & (src[row] != dst[row])
    return row[kept], time[kept]


def occasions(
    rate: ArrayLike, clocks: Clocks, site: IntArray, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Poisson moments in the hours of each entry's site, `rate` per working day: entries and seconds."""
    days = clocks.total[site, -1]
    count = rng.poisson(np.asarray(rate) * days)
    entry = np.repeat(np.arange(len(site)), count)
    moments = clocks.when(site[entry], rng.random(len(entry)) * days[entry])
    return entry, moments
