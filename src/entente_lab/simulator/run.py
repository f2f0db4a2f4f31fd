"""The simulation as a whole: company, habits, novelty and attack become one event table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entente.logs.schema import EVENT_SCHEMA, MICROSECONDS
from entente_lab.simulator.activity import (
    PACKAGES,
    PORTS,
    SERVICES,
    Events,
    build_clocks,
    draw_events,
    join,
)
from entente_lab.simulator.company import ROLES, Company, IntArray, SimulationConfig, build_company
from entente_lab.simulator.habits import build_habits
from entente_lab.simulator.novelty import build_roll_outs, draw_one_offs
from entente_lab.simulator.redteam import Attack, draw_attack


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What happened in the company, and what of it was the attack.

    `events` has the columns of EVENT_SCHEMA and is sorted by time (second 0 is midnight at the head
    office); `hosts` has host, site, role, first_day, address; `attack` has time (microseconds), src,
    dst, user, technique (ATT&CK id), protocol, step.
    """

    config: SimulationConfig
    events: pa.Table
    hosts: pa.Table
    attack: pa.Table


def simulate(config: SimulationConfig | None = None) -> Simulation:
    """Play the company's days; the same configuration gives the same tables, bit for bit."""
    config = config or SimulationConfig()
    # One stream per concern: switching the red team off leaves the benign events as they are.
    streams = [np.random.default_rng(seed) for seed in np.random.SeedSequence(config.seed).spawn(7)]
    company = build_company(config, streams[0])
    clocks = build_clocks(config, company)
    habits = join(
        [
            build_habits(config, company, clocks, streams[1]),
            build_roll_outs(config, company, clocks, streams[2]),
        ]
    )
    attack = draw_attack(config, company, clocks, streams[5])
    events = join(
        [
            draw_events(habits, clocks, company, config, streams[3]),
            draw_one_offs(config, company, clocks, streams[4]),
            attack.events,
        ]
    )
    order = np.lexsort((events.label, events.account, events.dst, events.src, events.time))
    volume = streams[6].lognormal(8.0, 1.5, len(events)).astype(np.int64) + 120
    return Simulation(
        config,
        _event_table(events, order, volume, company),
        _host_table(company),
        _attack_table(attack, company),
    )


def _event_table(events: Events, order: IntArray, volume: IntArray, company: Company) -> pa.Table:
    ports = PORTS[events.service[order]].astype(np.int32)
    columns = {
        "time": pa.array(events.time[order] * MICROSECONDS),
        "src": _words(company.names, events.src[order]),
        "dst": _words(company.names, events.dst[order]),
        "user": _words(company.accounts, events.account[order]),
        "kind": _words(PACKAGES, events.package[order]),
        "logon": pc.if_else(pa.array(ports == SERVICES["rdp"]), "RemoteInteractive", "Network"),
        "port": pa.array(ports),
        "bytes": pa.array(volume[order]),
        # Failed attempts are not simulated.
        "outcome": pa.repeat(pa.scalar(True), len(order)),
        "label": pa.array(events.label[order]),
    }
    return pa.table(columns, schema=EVENT_SCHEMA)


def _words(words: Any, index: IntArray) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(index, pa.int64()), pa.array(words.tolist())
    ).dictionary_decode()


def _host_table(company: Company) -> pa.Table:
    return pa.table(
        {
            "host": pa.array(company.names.tolist()),
            "site": _words(np.array(company.site_names), company.site),
            "role": _words(np.array(ROLES), company.role),
            "first_day": pa.array(company.first_day.astype(np.int64)),
            "address": pa.array(company.addresses.tolist()),
        }
    )


def _attack_table(attack: Attack, company: Company) -> pa.Table:
    steps, row = attack.steps, attack.step.tolist()
    return pa.table(
        {
            "time": pa.array(attack.events.time * MICROSECONDS, pa.int64()),
            "src": _words(company.names, attack.events.src),
            "dst": _words(company.names, attack.events.dst),
            "user": _words(company.accounts, attack.events.account),
            "technique": pa.array([steps[i].technique for i in row], pa.string()),
            "protocol": pa.array([steps[i].protocol for i in row], pa.string()),
            "step": pa.array([steps[i].name for i in row], pa.string()),
        }
    )
