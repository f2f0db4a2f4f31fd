"""The simulation as a whole: company, habits, novelty and attack become one event table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from entente.logs.schema import EVENT_SCHEMA, MICROSECONDS
from entente_lab.simulator.activity import (
    LOGONS,
    PACKAGES,
    PORTS,
    Events,
    build_clocks,
    draw_events,
    join,
)
from entente_lab.simulator.company import ROLES, Company, IntArray, SimulationConfig, build_company
from entente_lab.simulator.habits import build_habits
from entente_lab.simulator.life.play import Days, lifelike
from entente_lab.simulator.novelty import build_roll_outs, draw_one_offs
from entente_lab.simulator.redteams import STYLES, Attack, Scene

STREAMS = 40
"""Streams of random numbers; a stream does not depend on how many there are."""
RED_TEAM_STREAMS = {
    "campaign": 5,
    "sessions": 10,
    "spread": 11,
    "slow-chain": 12,
    "living-off-admin-paths": 13,
    "insider": 14,
}
ATTACK_SCHEMA = pa.schema(
    [
        ("time", pa.int64()),
        *((name, pa.string()) for name in ("src", "dst", "user", "technique", "protocol", "step")),
        ("outcome", pa.bool_()),
        ("red_team", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What happened in the company, and what of it was the attack.

    `events` has the columns of EVENT_SCHEMA and is sorted by time (second 0 is midnight at the head
    office); `hosts` has host, site, role, first_day, address; `attack` has time (microseconds), src,
    dst, user, technique (ATT&CK id), protocol, step, outcome, red_team, in time order; `leases` has host,
    address, begin, end (microseconds): which host had which address, one row per host if none changes.
    """

    config: SimulationConfig
    events: pa.Table
    hosts: pa.Table
    attack: pa.Table
    leases: pa.Table


def simulate(config: SimulationConfig | None = None) -> Simulation:
    """Play the company's days; the same configuration gives the same tables, bit for bit."""
    config = config or SimulationConfig()
    # One stream per concern: another red team leaves the benign events as they are.
    streams = [np.random.default_rng(seed) for seed in np.random.SeedSequence(config.seed).spawn(STREAMS)]
    days = classic(config, streams) if config.preset == "classic" else lifelike(config, streams)
    company, benign = days.company, days.benign
    scene = Scene.of(config, company, days.clocks, benign)
    attacks = [STYLES[name](scene, streams[RED_TEAM_STREAMS[name]]) for name in config.red_teams]
    events = join([benign, *(attack.events for attack in attacks)])
    order = np.lexsort((events.label, events.account, events.dst, events.src, events.time))
    volume = streams[6].lognormal(8.0, 1.5, len(events)).astype(np.int64) + 120
    return Simulation(
        config,
        _event_table(events, order, volume, company),
        _host_table(company, days.role),
        _attack_table(attacks, company),
        _lease_table(days, config),
    )


def classic(config: SimulationConfig, streams: list[np.random.Generator]) -> Days:
    """The company as it was before there was a lifelike one, bit for bit."""
    company = build_company(config, streams[0])
    clocks = build_clocks(config, company)
    habits = join(
        [
            build_habits(config, company, clocks, streams[1]),
            build_roll_outs(config, company, clocks, streams[2]),
        ]
    )
    benign = join(
        [
            draw_events(habits, clocks, company, config, streams[3]),
            draw_one_offs(config, company, clocks, streams[4]),
        ]
    )
    return Days(company, company.role, clocks, benign, None)


def _event_table(events: Events, order: IntArray, volume: IntArray, company: Company) -> pa.Table:
    columns = {
        "time": pa.array(events.time[order] * MICROSECONDS),
        "src": _words(company.names, events.src[order]),
        "dst": _words(company.names, events.dst[order]),
        "user": _words(company.accounts, events.account[order]),
        "kind": _words(PACKAGES, events.package[order]),
        "logon": _words(LOGONS, events.logon[order]),
        "port": pa.array(PORTS[events.service[order]].astype(np.int32)),
        "bytes": pa.array(volume[order]),
        "outcome": pa.array(events.outcome[order]),
        "label": pa.array(events.label[order]),
    }
    return pa.table(columns, schema=EVENT_SCHEMA)


def _words(words: Any, index: IntArray) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(index, pa.int64()), pa.array(words.tolist())
    ).dictionary_decode()


def _lease_table(days: Days, config: SimulationConfig) -> pa.Table:
    """One row per host and spell with one address, by host and time."""
    company = days.company
    tenants = np.arange(len(company))[None, :] if days.tenants is None else days.tenants
    changed = np.ones(tenants.shape, dtype=np.bool_)
    changed[1:] = tenants[1:] != tenants[:-1]
    host, day = np.nonzero(changed.T)
    begin = day * 86_400
    last = np.append(host[1:] != host[:-1], True)
    end = np.where(last, int(config.end), np.append(begin[1:], 0))
    return pa.table(
        {
            "host": _words(company.names, host),
            "address": _words(company.addresses, tenants[day, host]),
            "begin": pa.array(begin * MICROSECONDS),
            "end": pa.array(end * MICROSECONDS),
        }
    )


def _host_table(company: Company, role: IntArray) -> pa.Table:
    return pa.table(
        {
            "host": pa.array(company.names.tolist()),
            "site": _words(np.array(company.site_names), company.site),
            "role": _words(np.array(ROLES), role),
            "first_day": pa.array(company.first_day.astype(np.int64)),
            "address": pa.array(company.addresses.tolist()),
        }
    )


def _attack_table(attacks: Sequence[Attack], company: Company) -> pa.Table:
    tables = [
        pa.table(
            {
                "time": pa.array(attack.events.time * MICROSECONDS, pa.int64()),
                "src": _words(company.names, attack.events.src),
                "dst": _words(company.names, attack.events.dst),
                "user": _words(company.accounts, attack.events.account),
                "technique": pa.array([attack.steps[i].technique for i in attack.step], pa.string()),
                "protocol": pa.array([attack.steps[i].protocol for i in attack.step], pa.string()),
                "step": pa.array([attack.steps[i].name for i in attack.step], pa.string()),
                "outcome": pa.array(attack.events.outcome),
                "red_team": pa.array([attack.style] * len(attack.events), pa.string()),
            },
            schema=ATTACK_SCHEMA,
        )
        for attack in attacks
    ]
    whole = pa.concat_tables([ATTACK_SCHEMA.empty_table(), *tables]).combine_chunks()
    return whole.take(pa.array(np.argsort(whole["time"].to_numpy(), kind="stable")))
