"""Every role of the lifelike company does its job, as a claim about the events it leaves."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from entente.errors import UsageError
from entente.logs.events import load_events
from entente.logs.ingest import Request, ingest
from entente.logs.schema import EVENT_SCHEMA
from entente_lab.simulator import Simulation, SimulationConfig, simulate, varied_company, write
from entente_lab.simulator.life.settings import Life, parse_life, sentence

DAY = 86_400
RARE = {"scan_days": 1e3, "patch_days": 1e6, "inventory_days": 1e6}
KEPT = (
    "ntlm",
    "absence_days",
    "shift_hours",
    "run_as",
    "jobs_over_jump_host",
    "jobs_elsewhere",
    "strange_pivots",
)
QUIET = {name: 0.0 for name in Life.__dataclass_fields__ if name not in KEPT} | RARE
"""A life without anything out of the ordinary, to switch one thing on at a time."""


def company(preset: str = "lifelike", days: float = 8, seed: int = 0, **life: float) -> Simulation:
    settings = Life(**{**QUIET, **life}) if life else Life()
    config = SimulationConfig(3, 300, days, seed, red_teams=(), preset=preset, life=settings)
    return simulate(config)


def frame(simulation: Simulation) -> pl.DataFrame:
    """Events in seconds, with the roles of both ends."""
    events = pl.from_arrow(simulation.events)
    roles = pl.from_arrow(simulation.hosts.select(["host", "role", "site"]))
    assert isinstance(events, pl.DataFrame)
    assert isinstance(roles, pl.DataFrame)
    for end in ("src", "dst"):
        named = roles.rename({"host": end, "role": f"{end}_role", "site": f"{end}_site"})
        events = events.join(named, on=end, how="left", maintain_order="left")
    return events.with_columns(time=pl.col("time") // 1_000_000)


@pytest.fixture(scope="module")
def usual() -> Simulation:
    return company()


@pytest.fixture(scope="module")
def events(usual: Simulation) -> pl.DataFrame:
    return frame(usual)


def test_the_same_seed_gives_the_same_tables_and_another_seed_others(usual: Simulation) -> None:
    again = company()
    for name in ("events", "hosts", "leases"):
        assert getattr(usual, name).equals(getattr(again, name))
    assert not usual.events.equals(company(seed=1).events)


def test_the_event_table_has_the_schema_and_no_self_loops(usual: Simulation, events: pl.DataFrame) -> None:
    assert usual.events.schema == EVENT_SCHEMA
    assert events["time"].is_sorted()
    assert events["time"].min() >= 0  # type: ignore[operator]
    assert events["time"].max() < usual.config.end  # type: ignore[operator]
    assert not (events["src"] == events["dst"]).any()
    assert events.select(pl.col("user", "kind", "logon", "port", "outcome").is_null().any()).row(0) == (
        (False,) * 5
    )
    assert set(events["logon"].unique()) == {"Network", "RemoteInteractive", "Batch", "NewCredentials"}


def test_benign_accounts_new_on_their_source_occur(events: pl.DataFrame) -> None:
    """In the classic company hardly any does, so that user features look better than they are."""
    classic = frame(company("classic"))
    shares = {}
    for name, log in (("lifelike", events), ("classic", classic)):
        fresh = log.with_columns(fresh=pl.struct("src", "user").is_first_distinct())
        late = fresh.filter(pl.col("time") > 5 * DAY)
        host_days = late.group_by("src", pl.col("time") // DAY).agg(pl.col("fresh").any())
        shares[name] = float(host_days["fresh"].mean())  # type: ignore[arg-type]
    assert 0.015 < shares["lifelike"] < 0.15
    assert shares["lifelike"] > 2.5 * shares["classic"]


def test_shared_machines_have_several_users_and_others_mostly_one(events: pl.DataFrame) -> None:
    counted = events.group_by("src", "src_role").agg(pl.col("user").n_unique())
    by_role = {role: table["user"].to_numpy() for (role,), table in counted.group_by("src_role")}
    assert np.median(by_role["shared-workstation"]) >= 4
    assert np.median(by_role["workstation"]) == 1


def test_admins_use_one_account_for_their_mail_and_another_for_their_job(events: pl.DataFrame) -> None:
    admins = events.filter(pl.col("src_role") == "admin")
    managing = admins.filter(pl.col("port").is_in([135, 22, 5985]))
    assert managing["user"].str.starts_with("ADM").all()
    assert admins.filter(port=389)["user"].str.starts_with("U").all()


def test_admins_reach_servers_over_jump_hosts_under_their_own_account() -> None:
    log = frame(company(admin_jobs=3.0, jobs_over_jump_host=1.0))
    onward = log.filter((pl.col("src_role") == "jump-host") & (pl.col("dst_role") == "server"))
    onward = onward.filter(pl.col("user").str.starts_with("ADM"))
    assert len(onward) > 50
    arrivals = log.filter((pl.col("dst_role") == "jump-host") & (pl.col("port") == 3389)).sort("time")
    pairs = onward.sort("time").join_asof(
        arrivals.select("time", "user", src="dst", came="time"),
        on="time",
        by=["user", "src"],
        check_sortedness=False,
    )
    recent = pairs.filter(pl.col("time") - pl.col("came") < 3 * 3600)
    assert len(recent) > 0.8 * len(pairs)


def test_admin_jobs_make_bursts_of_new_targets() -> None:
    def large(log: pl.DataFrame) -> int:
        new = log.filter(pl.struct("src", "dst").is_first_distinct()).filter(pl.col("src_role") == "admin")
        sizes = new.filter(pl.col("time") > 2 * DAY).group_by("src", pl.col("time") // 5400).len()["len"]
        return int((sizes >= 8).sum())

    assert large(frame(company(admin_jobs=6.0))) > large(frame(company(admin_jobs=0.0, typos=0.01))) + 5


def test_helpdesk_visits_put_an_admins_account_on_a_users_workstation() -> None:
    at_desk = pl.col("src_role").eq("workstation") & pl.col("user").str.starts_with("ADM")
    visited = frame(company(helpdesk=3.0)).filter(at_desk)
    assert visited["src"].n_unique() > 10
    assert set(visited["dst_role"].unique()) >= {"domain-controller"}


def test_a_power_users_server_contacts_others_in_the_users_name() -> None:
    log = frame(company(power_users=0.1, pivots=1.0))
    person = pl.col("user").str.starts_with("U") | pl.col("user").str.starts_with("P")
    onward = log.filter(pl.col("src_role").eq("server") & person)
    assert len(onward) > 50
    entered = log.filter((pl.col("port") == 3389) & pl.col("src_role").eq("workstation"))
    assert onward.join(entered.select("user", src="dst").unique(), on=["user", "src"]).height == onward.height


def test_borrowed_machines_show_the_guests_account_there() -> None:
    log = frame(company(borrowed=4.0)).filter(src_role="workstation")
    users = log.group_by("src").agg(pl.col("user").n_unique())["user"]
    assert 0.03 < float((users > 1).mean()) < 0.6  # type: ignore[arg-type]


def test_some_workers_run_as_and_servers_run_under_service_accounts(events: pl.DataFrame) -> None:
    run_as = events.filter(logon="NewCredentials")
    assert run_as["user"].str.starts_with("P").all()
    assert len(run_as) > 50
    servers = events.filter(src_role="server")
    share = float(servers["user"].str.starts_with("svc-app").mean())  # type: ignore[arg-type]
    assert 0.02 < share < 0.6


def test_the_scanner_gets_round_the_whole_company_in_a_week_at_night(usual: Simulation) -> None:
    log = frame(company(days=9, scan_days=7.0)).filter(src_role="scanner", user="svc-scan@CORP")
    assert log["dst"].n_unique() >= 0.98 * len(usual.hosts) - 20
    assert set((log["time"] // 3600 % 24).unique()) <= {1, 2, 3, 4}
    assert log.group_by(pl.col("time") // DAY).agg(pl.col("dst").n_unique())["dst"].max() < 60  # type: ignore[operator]


def test_patch_rounds_come_in_three_rings_that_reach_everybody_once() -> None:
    simulation = company(days=21, patch_days=10.0, unreachable=0.0)
    pushed = frame(simulation).filter(src_role="deployer").filter(pl.col("user") == "svc-deploy@CORP")
    nights = (
        pushed.group_by(pl.col("time") // DAY).agg(pl.col("dst").n_unique()).sort("time")["dst"].to_list()
    )
    assert min(nights) < 0.2 * max(nights)
    machines = [role in ("workstation", "server") for role in simulation.hosts["role"].to_pylist()]
    assert pushed["dst"].n_unique() > 0.9 * sum(machines)


def test_deployments_push_to_many_hosts_and_new_machines_get_theirs_on_the_first_day() -> None:
    simulation = company(deployments=2.0)
    pushed = frame(simulation).filter(src_role="deployer", user="svc-deploy@CORP")
    assert pushed.group_by(pl.col("time") // 7200).agg(pl.col("dst").n_unique())["dst"].max() >= 10  # type: ignore[operator]
    first_day = dict(
        zip(simulation.hosts["host"].to_pylist(), simulation.hosts["first_day"].to_pylist(), strict=True)
    )
    new = {host for host, day in first_day.items() if day > 0}
    assert new
    log = frame(simulation)
    assert not log.filter(
        pl.col("time") < DAY * pl.col("src").replace_strict(first_day, return_dtype=pl.Int64)
    ).height
    greeted = pushed.filter(pl.col("dst").is_in(list(new)))
    assert greeted["dst"].n_unique() > 0.7 * len(new)


def test_an_inventory_reaches_every_server_of_every_site() -> None:
    simulation = company(inventory_days=7.0)
    asked = frame(simulation).filter(user="svc-inventory@CORP")
    assert asked["src"].n_unique() == 1
    servers = [host for host, role in _roles(simulation).items() if role == "server"]
    assert len(set(servers) - set(asked["dst"]) - set(asked["src"])) <= 2


def test_a_migration_moves_most_clients_of_a_server_to_another() -> None:
    calm, busy = frame(company(typos=0.01)), frame(company(migrations=2.0))

    def joined(log: pl.DataFrame) -> int:
        new = log.filter(pl.struct("src", "dst").is_first_distinct())
        new = new.filter((pl.col("time") > 2 * DAY) & (pl.col("dst_role") == "server"))
        return max(new.group_by("dst").len()["len"].to_list(), default=0)

    assert joined(busy) > joined(calm)
    assert busy.select("src", "dst").unique().height > calm.select("src", "dst").unique().height + 30


def test_failures_are_a_few_percent_and_of_every_kind(events: pl.DataFrame) -> None:
    assert 0.005 < float((~events["outcome"]).mean()) < 0.05  # type: ignore[arg-type]


def test_typos_precede_a_success_by_seconds() -> None:
    log = frame(company(typos=0.05))
    failed, fine = log.filter(~pl.col("outcome")), log.filter("outcome")
    assert failed["dst_role"].unique().to_list() == ["domain-controller"]
    after = failed.join_asof(
        fine.select("src", "dst", "user", "time", done="time"),
        on="time",
        by=["src", "dst", "user"],
        strategy="forward",
        check_sortedness=False,
    )
    assert (after["done"] - after["time"]).max() <= 40  # type: ignore[operator]


def test_expired_passwords_fail_in_the_first_hours_of_a_persons_day() -> None:
    failed = frame(company(expired=0.1)).filter(~pl.col("outcome"))
    assert failed["user"].n_unique() > 20
    per_day = failed.group_by("user", pl.col("time") // DAY).agg(
        span=pl.col("time").max() - pl.col("time").min()
    )
    assert per_day["span"].max() <= 2.1 * 3600  # type: ignore[operator]


def test_retry_storms_are_many_failures_of_one_account_at_one_host() -> None:
    failed = frame(company(storms=3.0)).filter(~pl.col("outcome"))
    storms = failed.group_by("src", "dst", "user").len()["len"]
    assert storms.median() > 20  # type: ignore[operator]


def test_wrong_links_are_new_pairs_that_never_succeed() -> None:
    log = frame(company(wrong_links=5.0))
    failed = log.filter(~pl.col("outcome"))
    assert failed["dst_role"].unique().to_list() == ["server"]
    fine = log.filter("outcome").select("src", "dst").unique()
    strangers = failed.select("src", "dst").unique()
    assert strangers.join(fine, on=["src", "dst"], how="anti").height > 0.5 * strangers.height


def test_holidays_empty_a_site_for_a_day_and_absences_a_desk() -> None:
    log = frame(company(days=21, holidays=0.2))
    per_day = (
        log.filter(pl.col("src_role") == "workstation").group_by("src_site", day=pl.col("time") // DAY).len()
    )
    weekdays = per_day.filter(((pl.col("day") + 3) % 7 < 5) & (pl.col("src_site") == "headquarters"))["len"]
    assert weekdays.min() < 0.3 * weekdays.median()  # type: ignore[operator]
    away = frame(company(absences=0.15)).filter(src_role="workstation")
    here = frame(company(typos=0.001)).filter(src_role="workstation")
    assert len(away) < 0.85 * len(here)


def test_novelty_scales_one_off_work_and_activity_everyday_events() -> None:
    def size(**factors: Any) -> int:
        return len(simulate(SimulationConfig(3, 300, 6, preset="lifelike", red_teams=(), **factors)).events)

    assert size(novelty=3.0) > 1.05 * size()
    assert size(activity=0.5) < 0.7 * size()


def test_life_at_the_weekend_is_slow(events: pl.DataFrame) -> None:
    per_day = np.bincount(events["time"].to_numpy() // DAY)
    assert per_day[2] < 0.5 * per_day[0]  # Saturday and Thursday


def test_addresses_change_hands_only_among_workstations_of_a_site(usual: Simulation, tmp_path: Path) -> None:
    leases = usual.leases.to_pylist()
    held: dict[str, set[str]] = {}
    for row in leases:
        held.setdefault(row["address"], set()).add(row["host"])
        assert row["begin"] < row["end"]
    roles = _roles(usual)
    moved = [hosts for hosts in held.values() if len(hosts) > 1]
    assert len(moved) > 20
    for hosts in moved:
        assert {roles[host] for host in hosts} <= {"workstation", "shared-workstation"}
        assert len({host.split("-")[0] for host in hosts}) == 1
    for day in range(8):
        at = [row["address"] for row in leases if row["begin"] <= day * DAY * 1_000_000 < row["end"]]
        assert len(at) == len(set(at)) == len(usual.hosts)


def test_zeek_lines_carry_the_address_of_the_day_the_user_and_the_outcome(
    usual: Simulation, tmp_path: Path
) -> None:
    files = write(usual, tmp_path, "zeek")
    assert "leases.csv" in {path.name for path in files}
    with (tmp_path / "leases.csv").open() as file:
        leases = [(r["address"], int(r["begin"]), int(r["end"]), r["host"]) for r in csv.DictReader(file)]
    holders: dict[str, list[tuple[int, int, str]]] = {}
    for address, begin, end, host in leases:
        holders.setdefault(address, []).append((begin, end, host))
    lines = [json.loads(line) for line in (tmp_path / "conn.log").read_text().splitlines()]
    original = usual.events.select(["src", "user", "outcome"]).to_pylist()
    for line, event in list(zip(lines, original, strict=True))[::50]:
        (holder,) = [h for begin, end, h in holders[line["id.orig_h"]] if begin <= line["ts"] < end]
        assert (holder, line["username"], line["success"]) == (event["src"], event["user"], event["outcome"])


def test_ingest_turns_addresses_back_into_hosts_with_the_leases(usual: Simulation, tmp_path: Path) -> None:
    write(usual, tmp_path / "company", "zeek")
    leases = tmp_path / "company" / "leases.csv"
    source = str(tmp_path / "company" / "conn.log")
    ingest(Request(sources=(source,), out=tmp_path / "events", hosts=leases))
    read = load_events(tmp_path / "events")
    for end in ("src", "dst"):
        assert _counts(read[end].to_pylist()) == _counts(usual.events[end].to_pylist())


@pytest.mark.parametrize(
    ("format", "log"), [("lanl", "auth.txt.gz"), ("zeek", "conn.log"), ("csv", "events.csv")]
)
def test_ingest_reads_user_and_outcome_from_every_format(
    usual: Simulation, tmp_path: Path, format: str, log: str
) -> None:
    write(usual, tmp_path / "company", format)
    ingest(Request(sources=(str(tmp_path / "company" / log),), out=tmp_path / "events"))
    read, made = load_events(tmp_path / "events"), usual.events
    for name in ("user", "outcome", *(("kind", "logon") if format != "zeek" else ("port",))):
        wanted = made[name].to_pylist()
        if name == "user" and format == "zeek":  # whose reader does not tell the case of accounts apart
            assert len({user.lower() for user in wanted}) == len(set(wanted))
            wanted = [user.lower() for user in wanted]
        assert _counts(read[name].to_pylist()) == _counts(wanted)


def test_every_parameter_has_a_sentence_and_the_docs_have_them_all() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")
    for name in Life.__dataclass_fields__:
        value = getattr(Life(), name)
        assert re.search(rf"\| `{name}` \| {value:g} \| {re.escape(sentence(name))} \|", page), name


def test_parameters_are_checked_by_name_and_value() -> None:
    assert parse_life(["typos=0.5"]).typos == 0.5
    with pytest.raises(UsageError, match="coffee"):
        parse_life(["coffee=1"])
    with pytest.raises(UsageError, match="typos"):
        parse_life(["typos=often"])
    with pytest.raises(UsageError, match="typos"):
        Life(typos=1.5)
    with pytest.raises(UsageError, match="scan_days"):
        Life(scan_days=0.0)
    with pytest.raises(UsageError, match="lifelike"):
        SimulationConfig(life=Life(typos=0.5))
    with pytest.raises(UsageError, match="classic"):
        SimulationConfig(preset="dreamlike")


@pytest.mark.parametrize("sites", [1, 5])
def test_small_companies_live_too(sites: int) -> None:
    simulation = simulate(SimulationConfig(sites=sites, hosts=20 * sites, days=1, preset="lifelike"))
    assert len(simulation.events) > 100
    assert len(simulation.attack) > 3


def test_varied_companies_differ_in_everything_and_are_the_same_by_seed() -> None:
    drawn = [varied_company(seed) for seed in range(40)]
    assert drawn == [varied_company(seed) for seed in range(40)]
    assert {config.preset for config in drawn} == {"classic", "lifelike"}
    assert len({config.red_teams for config in drawn}) == 6
    assert len({config.life for config in drawn}) > 20
    assert min(config.hosts for config in drawn) < 200 < 800 < max(config.hosts for config in drawn)
    for config in sorted(drawn, key=lambda config: config.hosts)[:3]:
        assert len(simulate(config).attack) > 0


def _roles(simulation: Simulation) -> dict[str, str]:
    hosts = simulation.hosts
    return dict(zip(hosts["host"].to_pylist(), hosts["role"].to_pylist(), strict=True))


def _counts(values: list[Any]) -> dict[Any, int]:
    found, count = np.unique(np.array([str(value) for value in values]), return_counts=True)
    return dict(zip(found.tolist(), count.tolist(), strict=True))
