"""From habits (who contacts whom, how often, at what hours) to single events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from entente_lab.simulator.company import DAY, Company, FloatArray, IntArray, SimulationConfig

STEP = 600.0
"""Seconds of one step of the activity curves."""

SERVICES = {"smb": 445, "wmi": 135, "rdp": 3389, "winrm": 5985, "ldap": 389, "http": 80, "https": 443,
            "sql": 1433, "ssh": 22, "print": 9100, "mail": 993, "proxy": 3128}  # fmt: skip
PORTS = np.array(list(SERVICES.values()))
SERVICE = {name: number for number, name in enumerate(SERVICES)}

PACKAGES = np.array(["NTLM", "Kerberos", "Negotiate"])
NTLM, KERBEROS = 0, 1
PACKAGE_SHARES = (0.85, 0.11, 0.04)
"""How many pairs use which package, in the classic company."""

LOGONS = np.array(["Network", "RemoteInteractive", "Batch", "NewCredentials"])
NETWORK, REMOTE, BATCH, RUN_AS = range(4)


@dataclass(frozen=True, slots=True, eq=False)
class Habits:
    """Pairs with a rate (events on a full working day), a clock and a span of life."""

    src: IntArray
    dst: IntArray
    account: IntArray
    service: IntArray
    rate: FloatArray
    clock: IntArray  # a site's working hours, or the two clocks after the last site
    born: FloatArray
    died: FloatArray

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Single events as parallel arrays; `time` in whole seconds."""

    time: IntArray
    src: IntArray
    dst: IntArray
    account: IntArray
    service: IntArray
    package: IntArray
    logon: IntArray
    outcome: NDArray[np.bool_]
    label: NDArray[np.int8]

    @classmethod
    def of(
        cls,
        time: IntArray,
        src: IntArray,
        dst: IntArray,
        account: IntArray,
        service: IntArray,
        package: IntArray,
        *,
        outcome: NDArray[np.bool_] | None = None,
        label: int = 0,
    ) -> Events:
        """Events of one label, successful unless told otherwise, with the logon type of their service."""
        return cls(
            time=time,
            src=src,
            dst=dst,
            account=account,
            service=service,
            package=package,
            logon=np.where(service == SERVICE["rdp"], REMOTE, NETWORK),
            outcome=np.ones(len(time), dtype=np.bool_) if outcome is None else outcome,
            label=np.full(len(time), label, dtype=np.int8),
        )

    def take(self, rows: IntArray | NDArray[np.bool_]) -> Events:
        """Some of the events."""
        return replace(self, **{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def __len__(self) -> int:
        return len(self.time)


Part = TypeVar("Part", Habits, Events)


def join(parts: Sequence[Part]) -> Part:
    """One table out of several, in their order."""
    first = parts[0]
    return replace(
        first, **{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(first)}
    )


@dataclass(frozen=True, slots=True, eq=False)
class Clocks:
    """Cumulative activity per clock on a common time grid; a weekday's working hours add up to 1."""

    grid: FloatArray  # seconds
    total: FloatArray  # [clocks, grid]

    @property
    def always(self) -> int:
        """The clock of machines that never rest."""
        return len(self.total) - 2

    @property
    def night(self) -> int:
        """The clock of batch jobs."""
        return len(self.total) - 1

    def until(self, clock: IntArray, seconds: FloatArray) -> FloatArray:
        """Activity of each clock from the start until each moment."""
        done = np.empty(len(clock))
        for number in range(len(self.total)):
            chosen = clock == number
            done[chosen] = np.interp(seconds[chosen], self.grid, self.total[number])
        return done

    def when(self, clock: IntArray, done: FloatArray) -> FloatArray:
        """The moment at which each clock has seen that much activity."""
        seconds = np.empty(len(clock))
        for number in range(len(self.total)):
            chosen = clock == number
            seconds[chosen] = np.interp(done[chosen], self.total[number], self.grid)
        return seconds


def build_clocks(
    config: SimulationConfig, company: Company, holidays: NDArray[np.bool_] | None = None
) -> Clocks:
    """Day 0 is a Thursday, so that the first weekend lies in the attack-free part of eight days.

    `holidays` tells for each site and local day, the first of them being the day before day 0, whether
    people stay at home as on a weekend.
    """
    grid = np.append(np.arange(0.0, config.end, STEP), config.end)
    middle = (grid[:-1] + grid[1:]) / 2
    curves = []
    for site, hours in enumerate(company.hours):
        local = middle / 3600 + hours
        hour, weekday = local % 24, (local // 24 + 3) % 7
        rest = weekday >= 5
        if holidays is not None:
            rest = rest | holidays[site, (local // 24).astype(np.int64) + 1]
        work = np.exp(-(((hour - 10.5) / 2.2) ** 4)) + 0.9 * np.exp(-(((hour - 15.0) / 2.4) ** 4))
        curves.append((0.03 + work) * np.where(rest, 0.1, 1.0) / (0.03 * 24 + 8.0) * 24)
    hour = middle / 3600 % 24
    curves.append(np.ones(len(middle)))
    curves.append(24 / 3 * np.exp(-(((hour - 2.5) / 1.5) ** 6)) + 0.01)
    steps = np.array(curves) * np.diff(grid) / DAY
    return Clocks(grid, np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1))


def draw_events(
    habits: Habits,
    clocks: Clocks,
    company: Company,
    config: SimulationConfig,
    rng: np.random.Generator,
    packages: tuple[float, float, float] = PACKAGE_SHARES,
) -> Events:
    """Sessions at the habit's hours, a few events in each; users come a little earlier or later."""
    mean = 2.5  # events per session
    low = clocks.until(habits.clock, habits.born)
    high = clocks.until(habits.clock, np.minimum(habits.died, config.end))
    sessions = rng.poisson(habits.rate * config.activity / mean * np.maximum(high - low, 0))
    habit = np.repeat(np.arange(len(habits)), sessions)
    done = low[habit] + (high - low)[habit] * rng.random(len(habit))
    begin = clocks.when(habits.clock[habit], done)
    events = rng.geometric(1 / mean, len(habit))
    row = np.repeat(habit, events)
    shift = rng.normal(0, 2400, len(company))
    time = np.repeat(begin, events) + rng.exponential(240, len(row)) + shift[habits.src[row]]
    # An account keeps to one package towards one host, as machines negotiate the same way each time.
    package = rng.choice(len(PACKAGES), len(habits), p=packages)
    kept = (time >= habits.born[row]) & (time < np.minimum(habits.died[row], config.end))
    kept &= time >= company.first_day[habits.src[row]] * DAY
    row = row[kept]
    return Events.of(
        time=time[kept].astype(np.int64),
        src=habits.src[row],
        dst=habits.dst[row],
        account=habits.account[row],
        service=habits.service[row],
        package=package[row],
    )
