"""The relay of the exchange, over silos that are folders: what is carried, dropped and refused."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from entente.artifacts import write_json
from entente.config import Experiment
from entente.deployment.audit import read
from entente.deployment.job import client_config, portable, server_config, why_refused, write_job
from entente.deployment.relay import answer, mailbox, relay
from entente.deployment.settings import Terms, parse_federation
from entente.deployment.site import Site
from entente.deployment.submit import submit_relay
from entente.deployment.transport import JobTransport
from entente.deployment.wire import decode, encode
from entente.errors import EntenteError, FederationError, RefusedError, UsageError
from entente.federation.exchange.keys import ExchangeKey
from entente.federation.exchange.notes import LASTS, LATE, Packet
from entente.federation.messages import ExchangeReply, ExchangeTask, KeyTask, Reply, Task, ValidateTask
from entente.runtime.transport import Answers

SILOS = ("east", "north", "west")
KEY = ExchangeKey(b"a secret that silos share")
WIDTH = 1_800_000_000
NOW = 1000 * WIDTH


def make_site(folder: Path, name: str, *, exchange: bool = True) -> Site:
    federation = parse_federation({"silos": SILOS, "terms": {"exchange": exchange, "gathering": 0.1}})
    path = folder / name
    path.mkdir()
    role = "coordinator" if name == "coordinator" else "silo"
    table = {"site": name, "role": role, "version": "0", "federation": federation.model_dump(mode="json")}
    write_json(path / "kit.json", table)
    return Site.load(path)


class Folders(JobTransport):
    """Silos that answer at once, unless they are away; messages go over the wire all the same."""

    def __init__(self, coordinator: Site, silos: dict[str, Site]) -> None:
        super().__init__(coordinator.kit.federation)
        self.silos = silos
        self.away: set[str] = set()

    def present(self) -> Collection[str]:
        return sorted(set(self.silos) - self.away)

    def returned(self) -> Collection[str]:
        return ()

    def deliver(self, model: ValidateTask, deadline: float) -> dict[str, str]:
        return {}

    def carry(self, task: Task, deadline: float) -> Answers:
        replies: list[Reply] = []
        missing = dict.fromkeys(self.away, "is not connected")
        for name in self.present():
            received = decode(encode(task), 1 << 20)
            assert isinstance(received, Task)
            try:
                reply = decode(encode(answer(self.silos[name], received)), 1 << 20)
            except EntenteError as error:
                missing[name] = error.what
                continue
            assert isinstance(reply, Reply)
            replies.append(reply)
        return replies, missing


@pytest.fixture
def coordinator(tmp_path: Path) -> Site:
    return make_site(tmp_path, "coordinator")


@pytest.fixture
def silos(tmp_path: Path) -> dict[str, Site]:
    return {name: make_site(tmp_path, name) for name in SILOS}


def packet(silo: str, window: int = NOW) -> Packet:
    return KEY.seal(silo, window, WIDTH, [])


def turn(coordinator: Site, transport: Folders, turns: int = 2) -> None:
    relay(coordinator, transport, turns, 0.0, 5.0)


def test_every_silo_gets_what_the_others_put_out(coordinator: Site, silos: dict[str, Site]) -> None:
    sent = {name: packet(name) for name in SILOS}
    for name, site in silos.items():
        mailbox(site).post([sent[name]])
    turn(coordinator, Folders(coordinator, silos))
    for name, site in silos.items():
        assert mailbox(site).arrived() == [sent[other] for other in SILOS if other != name]
    last = [entry for _, entry in read(coordinator.audit.path) if entry["event"] == "exchange"][-1]
    assert last["packets"] == dict.fromkeys(SILOS, 1)


def test_a_silo_that_was_away_gets_everything_when_it_is_back(
    coordinator: Site, silos: dict[str, Site]
) -> None:
    mailbox(silos["east"]).post([packet("east", NOW - 4 * WIDTH), packet("east")])
    transport = Folders(coordinator, silos)
    transport.away = {"west"}
    turn(coordinator, transport)
    assert not mailbox(silos["west"]).arrived()
    transport.away = {"north"}
    turn(coordinator, transport)  # another job: nothing of the first is remembered
    assert [one.window for one in mailbox(silos["west"]).arrived()] == [NOW - 4 * WIDTH, NOW]


def test_packets_under_another_silos_name_are_dropped_by_the_coordinator(
    coordinator: Site, silos: dict[str, Site]
) -> None:
    mailbox(silos["east"]).post([replace(packet("north"), window=NOW)])
    turn(coordinator, Folders(coordinator, silos))
    assert not mailbox(silos["west"]).arrived()


class Rubbish(Folders):
    """East answers with what is no packet."""

    def carry(self, task: Task, deadline: float) -> Answers:
        replies, missing = super().carry(task, deadline)
        bad = ExchangeReply(task.id, "east", {"no": "packet"})
        return [bad if reply.silo == "east" else reply for reply in replies], missing


def test_one_silos_rubbish_leaves_the_others_their_packets(coordinator: Site, silos: dict[str, Site]) -> None:
    mailbox(silos["north"]).post([packet("north")])
    turn(coordinator, Rubbish(coordinator, silos))
    assert [one.silo for one in mailbox(silos["west"]).arrived()] == ["north"]
    refused = [entry for _, entry in read(coordinator.audit.path) if entry["event"] == "update-refused"]
    assert {entry["silo"] for entry in refused} == {"east"}


def test_a_silo_that_speaks_of_the_far_future_leaves_the_others_their_packets(
    coordinator: Site, silos: dict[str, Site]
) -> None:
    """Packets are old by what their own sender says, not by what any other does."""
    mailbox(silos["east"]).post([packet("east", 10**6 * WIDTH)])
    mailbox(silos["north"]).post([packet("north", NOW - WIDTH), packet("north")])
    turn(coordinator, Folders(coordinator, silos))
    assert [one.window for one in mailbox(silos["west"]).arrived() if one.silo == "north"] == [
        NOW - WIDTH,
        NOW,
    ]


def test_a_silo_with_many_packets_takes_no_others_place(
    coordinator: Site, silos: dict[str, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entente.deployment.relay.CARRIED", 9)
    mailbox(silos["east"]).post([packet("east", NOW + k * WIDTH) for k in range(20)])
    mailbox(silos["north"]).post([packet("north", NOW - k * WIDTH) for k in range(3)])
    turn(coordinator, Folders(coordinator, silos))
    assert sum(one.silo == "north" for one in mailbox(silos["west"]).arrived()) == 3


def test_old_packets_are_not_carried(coordinator: Site, silos: dict[str, Site]) -> None:
    folder = mailbox(silos["east"]).path / "out"
    for one in (packet("east", NOW - LASTS - LATE), packet("east")):
        write_json(folder / f"{one.window:020d}.json", one.as_dict())
    turn(coordinator, Folders(coordinator, silos))
    assert [one.window for one in mailbox(silos["west"]).arrived()] == [NOW]


def test_a_silo_takes_part_only_where_the_terms_say_so(tmp_path: Path, coordinator: Site) -> None:
    silent = make_site(tmp_path, "east", exchange=False)
    with pytest.raises(FederationError, match="no exchange"):
        answer(silent, ExchangeTask(1))
    transport = Folders(coordinator, {"east": silent})
    turn(coordinator, transport)  # goes on without it
    assert not (silent.path / "exchange").exists()


@pytest.mark.parametrize(
    "packets", [{"": ""}, {"1/2": "00"}, {"x/1/east": "00"}, {f"{10**30}/1/east": "00"}, {"1/1/east": "zz"}]
)
def test_what_is_no_packet_is_a_refusal(silos: dict[str, Site], packets: dict[str, str]) -> None:
    with pytest.raises(RefusedError):
        answer(silos["east"], ExchangeTask(1, packets))


def test_a_relay_is_asked_nothing_but_to_exchange(silos: dict[str, Site]) -> None:
    with pytest.raises(RefusedError, match="not an exchange"):
        answer(silos["east"], KeyTask(1))


def test_a_silo_speaks_in_its_own_name(silos: dict[str, Site]) -> None:
    reply: Any = answer(silos["east"], ExchangeTask(7))
    assert isinstance(reply, ExchangeReply)
    assert (reply.id, reply.silo) == (7, "east")


# ---- the job ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"turns": 2, "pause": 5.0}, None),
        ({"turns": 0, "pause": 5.0}, "turns"),
        ({"turns": True, "pause": 5.0}, "turns"),
        ({"turns": 2, "pause": -1}, "pauses"),
        ({"turns": 2, "pause": "long"}, "pauses"),
        ({"turns": 2, "pause": 1, "more": 1}, "not the configuration"),
    ],
)
def test_a_site_accepts_a_relays_job_within_bounds(
    tmp_path: Path, coordinator: Site, asked: dict[str, Any], said: str | None
) -> None:
    federation = coordinator.kit.federation
    experiment = portable(federation.terms.apply(Experiment(name="exchange")))
    job = write_job(tmp_path / "job", experiment, federation, asked)
    reason = why_refused(job / "entente")
    assert (reason is None) if said is None else (reason is not None and said in reason)


def test_a_run_and_a_relay_do_not_mix(tmp_path: Path, coordinator: Site) -> None:
    federation = coordinator.kit.federation
    experiment = portable(federation.terms.apply(Experiment(name="exchange")))
    job = write_job(tmp_path / "job", experiment, federation, {"turns": 2, "pause": 5.0})
    write_json(job / "entente" / "config" / "config_fed_client.json", client_config())
    assert "config_fed_client.json" in (why_refused(job / "entente") or "")
    assert server_config() != server_config({"turns": 2, "pause": 5.0})


def test_the_exchange_is_off_unless_agreed_and_an_experiment_cannot_change_that(tmp_path: Path) -> None:
    terms = Terms()
    assert not terms.exchange
    agreed = terms.apply(Experiment())
    federation = agreed.federation.model_copy(update={"exchange": True})
    assert "federation.exchange" in (terms.breach(agreed.model_copy(update={"federation": federation})) or "")
    with pytest.raises(UsageError, match="no exchange"):
        submit_relay(make_site(tmp_path, "coordinator", exchange=False), 2, 5.0)
    with pytest.raises(UsageError, match="is a silo"):
        submit_relay(make_site(tmp_path, "east"), 2, 5.0)


# ---- the halves inside FLARE ------------------------------------------------------------------


def test_the_silos_half_answers_without_building_a_silo(
    silos: dict[str, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nvflare")
    from nvflare.apis.fl_constant import ReturnCode
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.shareable import Shareable
    from nvflare.apis.signal import Signal

    from entente.deployment.executor import SiloExecutor

    mailbox(silos["east"]).post([packet("east")])
    monkeypatch.chdir(silos["east"].path)
    executor = SiloExecutor(**client_config(relay=True)["executors"][0]["executor"]["args"])
    sent = ExchangeTask(3, {f"{NOW}/{WIDTH}/north": packet("north").sealed.hex()})
    reply = executor.execute("entente", Shareable(encode(sent)), FLContext(), Signal())
    assert reply.get_return_code(default=ReturnCode.OK) == ReturnCode.OK
    said = decode(reply, 1 << 20)
    assert isinstance(said, ExchangeReply)
    assert list(said.packets) == [f"{NOW}/{WIDTH}/east"]
    assert [one.silo for one in mailbox(silos["east"]).arrived()] == ["north"]
    refused = executor.execute("entente", Shareable(encode(KeyTask(4))), FLContext(), Signal())
    assert refused.get_return_code() != ReturnCode.OK


def test_the_coordinators_half_takes_what_the_jobs_file_says() -> None:
    pytest.importorskip("nvflare")
    from entente.deployment.controller import CoordinatorController

    for asked in (None, {"turns": 2, "pause": 5.0}):
        arguments = server_config(asked)["workflows"][0]["args"]
        assert CoordinatorController(**arguments).relay == (asked or {})
