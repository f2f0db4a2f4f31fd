"""Every red team does what its style says, and its labels are the ground truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from entente.errors import UsageError
from entente_lab.simulator import Simulation, SimulationConfig, simulate
from entente_lab.simulator.company import RED_TEAMS
from entente_lab.simulator.redteams import STYLES, TECHNIQUES

HOUR = 3_600_000_000
KEYS = ["time", "src", "dst", "user"]


def played(*names: str, seed: int = 0, **more: Any) -> Simulation:
    return simulate(
        SimulationConfig(sites=3, hosts=300, days=8, seed=seed, activity=0.5, red_teams=names, **more)
    )


def known_pairs(simulation: Simulation) -> set[tuple[str, str]]:
    benign = simulation.events.filter(pc.equal(simulation.events["label"], 0))
    return set(zip(benign["src"].to_pylist(), benign["dst"].to_pylist(), strict=True))


def test_every_style_has_a_sentence() -> None:
    assert list(RED_TEAMS) == list(STYLES)


@pytest.mark.parametrize("style", RED_TEAMS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_labels_are_the_attack_table_and_each_row_names_one_event(style: str, seed: int) -> None:
    simulation = played(style, seed=seed)
    labelled = simulation.events.filter(pc.equal(simulation.events["label"], 1))
    truth = simulation.attack
    wanted = sorted(truth.select([*KEYS, "outcome"]).to_pylist(), key=str)
    assert sorted(labelled.select([*KEYS, "outcome"]).to_pylist(), key=str) == wanted
    assert len(truth) >= 8
    benign = simulation.events.filter(pc.equal(simulation.events["label"], 0))
    named = set(zip(*(truth[key].to_pylist() for key in KEYS), strict=True))
    assert len(named) == len(truth)
    assert not named & set(zip(*(benign[key].to_pylist() for key in KEYS), strict=True))
    assert pc.min(truth["time"]).as_py() >= simulation.config.attack_start * 1_000_000
    assert set(truth["technique"].to_pylist()) <= set(TECHNIQUES)
    assert set(truth["red_team"].to_pylist()) == {style}
    assert not pc.any(pc.equal(truth["src"], truth["dst"])).as_py()


@pytest.mark.parametrize("style", RED_TEAMS)
def test_one_site_alone_still_has_every_attack(style: str) -> None:
    simulation = simulate(SimulationConfig(sites=1, hosts=60, days=4, red_teams=(style,)))
    assert len(simulation.attack) > 3


def test_benign_events_are_the_same_whoever_attacks() -> None:
    calm = played().events.drop_columns("bytes")
    for style in RED_TEAMS:
        events = played(style).events
        assert events.filter(pc.equal(events["label"], 0)).drop_columns("bytes").equals(calm)


def test_several_red_teams_act_as_each_does_alone() -> None:
    both = played("insider", "sessions").attack
    assert pc.all(pc.greater_equal(both["time"][1:], both["time"][:-1])).as_py()
    for style in ("insider", "sessions"):
        assert both.filter(pc.equal(both["red_team"], style)).equals(played(style).attack)


def test_spread_is_over_within_hours_and_grows_from_reached_hosts() -> None:
    attack = played("spread").attack.to_pylist()
    assert attack[-1]["time"] - attack[0]["time"] <= 6.2 * HOUR
    reached = {attack[0]["src"]}
    for row in attack:
        assert row["src"] in reached
        if row["outcome"]:
            reached.add(row["dst"])
    assert len(reached) > 15
    assert 0.05 < np.mean([not row["outcome"] for row in attack]) < 0.6


def test_sessions_are_few_and_dense() -> None:
    times = np.array(played("sessions").attack["time"].to_pylist())
    breaks = int((np.diff(times) > HOUR).sum())
    assert breaks <= 5
    assert len(times) > 10 * (breaks + 1)


def test_some_sessions_use_a_service_account_from_a_workstation() -> None:
    users = [{u[:4] for u in played("sessions", seed=seed).attack["user"].to_pylist()} for seed in range(6)]
    assert 1 <= sum("svc-" in used for used in users) <= 5


def test_a_slow_chain_keeps_its_distance_and_moves_on() -> None:
    for seed in range(3):
        attack = played("slow-chain", seed=seed).attack
        times = np.array(attack["time"].to_pylist()) / HOUR
        occasions = 1 + int((np.diff(times) > 0.2).sum())
        assert (times[-1] - times[0]) / occasions > 0.8
        assert len(set(attack["src"].to_pylist())) > 1


def test_living_off_admin_paths_uses_mostly_known_pairs_and_one_admins_account() -> None:
    simulation = played("living-off-admin-paths")
    known = known_pairs(simulation)
    attack = simulation.attack.to_pylist()
    assert np.mean([(row["src"], row["dst"]) in known for row in attack]) > 0.4
    (user,) = {row["user"] for row in attack}
    assert user.startswith("ADM")


def test_an_insider_stays_at_the_own_machine_and_is_refused_now_and_then() -> None:
    attacks = [played("insider", seed=seed).attack.to_pylist() for seed in range(4)]
    for attack in attacks:
        assert len({row["src"] for row in attack}) == 1
        assert len({row["user"] for row in attack}) <= 2
    assert any(not row["outcome"] for attack in attacks for row in attack)


def test_unknown_and_repeated_red_teams_are_refused() -> None:
    with pytest.raises(UsageError, match="'worm'"):
        SimulationConfig(red_teams=("worm",))
    with pytest.raises(UsageError, match="twice"):
        SimulationConfig(red_teams=("spread", "spread"))
