"""Planted campaigns and planted benign work do what docs/planting.md says."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from entente.errors import UsageError
from entente_lab.planting import KINDS, AdminBursts, Planted, planted
from entente_lab.simulator import SimulationConfig, simulate

US = 1_000_000
DAY = 86_400 * US
SINCE = 3 * DAY
MALICIOUS = [name for name, kind in KINDS.items() if kind.label == 1]
BENIGN = [name for name, kind in KINDS.items() if kind.label == 0]


@pytest.fixture(scope="module")
def log() -> pa.Table:
    events = simulate(SimulationConfig(sites=3, hosts=300, days=8, activity=0.5)).events
    return events.filter(pc.equal(events["label"], 0))


def rows(planting: Planted) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = planting.contacts.to_pylist()
    return found


def pairs(table: pa.Table) -> set[tuple[str, str]]:
    return set(zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_plants_the_same_events_and_another_seed_others(log: pa.Table, kind: str) -> None:
    first, again, other = (planted(log, kind, seed, since=SINCE) for seed in (1, 1, 2))
    assert first.events.equals(again.events)
    assert first.contacts.equals(again.contacts)
    assert not first.contacts.equals(other.contacts)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_planted_outside_the_span_and_nothing_of_the_log_is_lost(log: pa.Table, kind: str) -> None:
    result = planted(log, kind, 0, since=SINCE, until=6 * DAY)
    time = result.contacts["time"].to_numpy()
    assert len(time) > 0
    assert time.min() >= SINCE
    assert time.max() < 6 * DAY
    assert result.events.schema == log.schema
    assert (np.diff(result.events["time"].to_numpy()) >= 0).all()
    assert len(result.events) >= len(log) + len(time)
    assert pairs(result.events) == pairs(log) | pairs(result.contacts)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_tell_malicious_from_benign(log: pa.Table, kind: str) -> None:
    result = planted(log, kind, 0, since=SINCE)
    labelled = result.events.filter(pc.equal(result.events["label"], 1))
    if kind in BENIGN:
        assert len(labelled) == 0
    else:
        assert pairs(labelled) == pairs(result.contacts)
        assert pc.min(labelled["time"]).as_py() >= SINCE - 300 * US


def test_labels_that_nobody_gave_become_benign_and_the_own_red_team_stays(log: pa.Table) -> None:
    place = log.schema.get_field_index("label")
    unknown = log.set_column(place, log.schema.field("label"), pa.nulls(len(log), pa.int8()))
    assert pc.sum(planted(unknown, "admin-bursts", 0).events["label"]).as_py() == 0
    own = simulate(SimulationConfig(sites=3, hosts=120, days=4)).events
    kept = planted(own, "admin-bursts", 0).events
    assert pc.sum(kept["label"]).as_py() == pc.sum(own["label"]).as_py() > 0


def test_slow_chains_keep_hours_between_contacts_and_move_on(log: pa.Table) -> None:
    result = planted(log, "slow-chains", 0, since=SINCE, contacts_each=(10, 10))
    chains = defaultdict(list)
    for row in rows(result):
        chains[row["campaign"]].append(row)
    assert len(chains) == 6
    gaps = np.concatenate([np.diff([row["time"] for row in chain]) for chain in chains.values()])
    assert 1.5 < gaps.mean() / US / 3600 < 14
    sources = [len({row["src"] for row in chain}) for chain in chains.values()]
    assert np.mean(sources) > 1.5
    for chain in chains.values():
        held = {chain[0]["src"]}
        for row in chain:
            assert row["src"] in held
            held.add(row["dst"])


@pytest.mark.parametrize("kind", ["slow-chains", "sessions"])
def test_these_attackers_use_no_pair_of_the_log(log: pa.Table, kind: str) -> None:
    assert not pairs(planted(log, kind, 3, since=SINCE).contacts) & pairs(log)


def test_the_slow_operator_comes_on_few_days_at_one_hour_and_rides_on_known_pairs(log: pa.Table) -> None:
    result = planted(log, "slow-operator", 0, since=SINCE)
    known = pairs(log)
    shares = [(row["src"], row["dst"]) in known for row in rows(result)]
    assert 0 < np.mean(shares) < 0.5
    for campaign in range(6):
        hours = [row["time"] / US / 3600 for row in rows(result) if row["campaign"] == campaign]
        angle = np.exp(2j * np.pi * np.array(hours) / 24)
        assert abs(angle.mean()) > 0.8  # one time of the day
        assert len(hours) <= 3 * (8 - 3 + 1)


def test_sessions_are_dense(log: pa.Table) -> None:
    result = planted(log, "sessions", 0, since=SINCE, sittings=(1, 1), contacts_each=(20, 20))
    for campaign in range(6):
        own = [row for row in rows(result) if row["campaign"] == campaign]
        assert len({row["src"] for row in own}) == 1
        assert own[-1]["time"] - own[0]["time"] <= 2 * 3600 * US


@pytest.mark.parametrize("per_day", [3.0, 12.0])
def test_admin_bursts_come_at_the_rate_asked_for_and_mostly_from_the_same_machines(
    log: pa.Table, per_day: float
) -> None:
    result = planted(log, AdminBursts(per_day=per_day), 0)
    bursts = defaultdict(list)
    for row in rows(result):
        bursts[row["campaign"]].append(row)
    assert len(bursts) == pytest.approx(8 * per_day, rel=0.45)
    assert np.median([len(burst) for burst in bursts.values()]) > 6
    assert all(len({row["src"] for row in burst}) == 1 for burst in bursts.values())
    by_source: dict[str, int] = defaultdict(int)
    for burst in bursts.values():
        by_source[burst[0]["src"]] += 1
    assert sum(sorted(by_source.values())[-4:]) > 0.5 * len(bursts)


def test_a_benign_pivot_is_one_hop_and_then_others_from_there_under_the_first_account(log: pa.Table) -> None:
    result = planted(log, "benign-pivots", 0)
    pivots = defaultdict(list)
    for row in rows(result):
        pivots[row["campaign"]].append(row)
    onward = [pivot for pivot in pivots.values() if len(pivot) > 1]
    assert len(onward) > 10
    for pivot in onward:
        assert pivot[1]["src"] == pivot[0]["dst"]
        assert len({row["user"] for row in pivot}) == 1


def test_carried_accounts_belong_to_the_first_host(log: pa.Table) -> None:
    result = planted(log, "slow-chains", 0, since=SINCE, carried=True)
    for campaign in range(6):
        assert len({row["user"] for row in rows(result) if row["campaign"] == campaign}) == 1


def test_stolen_accounts_are_one_per_campaign_and_new_on_the_first_host(log: pa.Table) -> None:
    used = set(zip(log["src"].to_pylist(), log["user"].to_pylist(), strict=True))
    for kind in ("slow-chains", "sessions"):
        plain, result = (planted(log, kind, 0, since=SINCE, stolen=share) for share in (0.0, 1.0))
        for campaign in range(6):
            own = [row for row in rows(result) if row["campaign"] == campaign]
            assert len({row["user"] for row in own}) == 1
        first = {row["campaign"]: (row["src"], row["user"]) for row in reversed(rows(result))}
        assert len(set(first.values()) - used) >= 4
        known = {row["campaign"]: (row["src"], row["user"]) for row in reversed(rows(plain))}
        assert set(known.values()) <= used


def test_noisy_accounts_are_new_on_their_source_and_use_its_own_pairs(log: pa.Table) -> None:
    result = planted(log, "noisy-accounts", 0, host_days=0.1)
    assert pairs(result.contacts) <= pairs(log)
    used = set(zip(log["src"].to_pylist(), log["user"].to_pylist(), strict=True))
    fresh = [(row["src"], row["user"]) not in used for row in rows(result)]
    assert np.mean(fresh) > 0.9
    active = {(s, t // DAY) for s, t in zip(log["src"].to_pylist(), log["time"].to_pylist(), strict=True)}
    noisy = {(row["src"], row["time"] // DAY) for row in rows(result)}
    assert len(noisy) == pytest.approx(0.1 * len(active), rel=0.3)


def test_package_logon_type_and_port_of_what_is_planted_occur_together_in_the_log(log: pa.Table) -> None:
    words = ["kind", "logon", "port"]
    result = planted(log, "sessions", 0, since=SINCE).events
    malicious = result.filter(pc.equal(result["label"], 1)).select(words).to_pylist()
    known = {tuple(row.values()) for row in log.select(words).to_pylist()}
    assert {tuple(row.values()) for row in malicious} <= known
    assert len({row["kind"] for row in malicious}) > 1


def test_a_log_with_times_and_hosts_only_can_be_planted_into(log: pa.Table) -> None:
    bare = log.select(["time", "src", "dst"])
    result = planted(bare, "sessions", 0, since=SINCE)
    assert result.events.column_names == ["time", "src", "dst", "label"]
    assert result.contacts["user"].null_count == len(result.contacts)


def test_wrong_kinds_parameters_and_spans_are_named(log: pa.Table) -> None:
    with pytest.raises(UsageError, match="slow-chains"):
        planted(log, "worm", 0)
    with pytest.raises(UsageError, match="per_week"):
        planted(log, "admin-bursts", 0, per_week=3)
    with pytest.raises(UsageError, match="span"):
        planted(log, "sessions", 0, since=9 * DAY)
    with pytest.raises(UsageError, match="empty"):
        planted(log.slice(0, 0), "sessions", 0)
