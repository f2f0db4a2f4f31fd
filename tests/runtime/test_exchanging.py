"""Silos that tell one another which hosts stand out: entries are raised, nothing is ever hidden."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.config import Experiment
from entente.config.sections import detector_options
from entente.detection.incidents import assign_incidents, list_incidents
from entente.detection.linked import own_part
from entente.detection.policy import AlertPolicy
from entente.detection.raising import raise_alerts
from entente.detection.scored import ScoredEdges
from entente.detection.table import read_table
from entente.detectors import baseline
from entente.detectors.base import GraphShape, Standing, State
from entente.detectors.baselines.pairs import RareTarget
from entente.detectors.suspicion import told_score
from entente.errors import ConfigError
from entente.federation.exchange.keys import DAY, ExchangeKey
from entente.federation.exchange.notes import LASTS, NOTES, Note, Packet
from entente.graphs.hosts import HostTable
from entente.graphs.temporal import Float32, TemporalGraph
from entente.logs.events import load_events, write_events
from entente.logs.schema import COLUMNS
from entente.runs.exchange import ExchangeState
from entente.runs.folder import RunFolder
from entente.runs.mailbox import Mailbox
from entente.runs.state import SiloState, no_edges
from entente.runtime.detecting import detect
from entente.runtime.exchanging import ExchangeView, Heard, exchange, exchange_key
from entente.runtime.local import train

KEY = ExchangeKey(b"a secret that silos share")
WIDTH = 1_800_000_000
START = 100 * DAY
HOSTS = ("ws-1", "ws-2", "ws-3", "srv-1", "srv-2", "srv-3")
POLICY = AlertPolicy(10.0)
Edge = tuple[int, str, str, float]
"""Window number, source, target, score."""


def view(
    silo: str,
    own: Sequence[str],
    edges: Sequence[Edge],
    standing: Sequence[tuple[int, str]] = (),
    *,
    windows: tuple[int, int] = (0, 8),
    before: ExchangeState | None = None,
    history: Sequence[tuple[str, str]] = (),
    policy: AlertPolicy = POLICY,
) -> ExchangeView:
    """One silo's windows, with the alerts it raises by itself."""
    number = {host: place for place, host in enumerate(HOSTS)}
    columns = list(zip(*sorted(edges), strict=True)) or [(), (), (), ()]
    window, src, dst, score = columns
    mine = np.array([host in own for host in HOSTS])
    scored = ScoredEdges(
        hosts=np.array(HOSTS),
        silos=(silo,),
        thresholds=(0.9,),
        width=WIDTH,
        window=START + np.array(window, dtype=np.int64) * WIDTH,
        src=np.array([number[host] for host in src], dtype=np.int32),
        dst=np.array([number[host] for host in dst], dtype=np.int32),
        score=np.array(score, dtype=np.float32),
        silo=np.zeros(len(window), dtype=np.int16),
        own_source=np.array([host in own for host in src], dtype=bool),
        alert=np.array(score, dtype=np.float32) > 0.9,
    )
    past = no_edges()
    if history:
        src_end, dst_end = (
            np.array([number[pair[end]] for pair in history], dtype=np.int32) for end in (0, 1)
        )
        past = (np.full(len(history), START - WIDTH, dtype=np.int64), src_end, dst_end)
    stood = sorted(standing)
    return ExchangeView(
        hosts=HostTable(np.array(HOSTS), mine, np.zeros((len(HOSTS), 1), dtype=np.int32)),
        scored=scored,
        span=(START + windows[0] * WIDTH, START + (windows[1] - 1) * WIDTH),
        standing=Standing(
            START + np.array([w for w, _ in stood], dtype=np.int64) * WIDTH,
            np.array([number[host] for _, host in stood], dtype=np.int64),
            np.full(len(stood), 5.0),
        ),
        detector=baseline("rare-target", GraphShape(16)),
        history=(past,),
        policy=policy,
        calibration=None,
        raised=raise_alerts(scored, mine, [past], own_part(policy)),
        before=before or ExchangeState(),
    )


PORTO = ("ws-1", "ws-2", "ws-3")
LYON = ("srv-1", "srv-2", "srv-3")


def porto(standing: Sequence[tuple[int, str]] = ((2, "ws-1"),)) -> ExchangeView:
    return view("porto", PORTO, [(2, "ws-1", "srv-3", 0.2), (2, "ws-1", "ws-2", 0.99)], standing)


def lyon(**more: object) -> ExchangeView:
    return view("lyon", LYON, [(3, "ws-1", "srv-3", 0.2), (4, "ws-2", "srv-3", 0.2)], **more)  # type: ignore[arg-type]


BY_THRESHOLD = AlertPolicy()
"""By themselves the faint edges of these tests are no alerts."""


def told(heard: Heard) -> list[tuple[str, str]]:
    return [
        (a.src, a.dst) for a in heard.raised.alerts if any("entered here" in why for why in a.explanation)
    ]


def test_an_edge_from_a_host_that_stood_out_elsewhere_is_raised_and_says_so() -> None:
    alone = exchange([lyon()], KEY)[0]["lyon"]
    assert not told(alone)
    both, _ = exchange([porto(), lyon()], KEY)
    assert ("ws-1", "srv-3") in told(both["lyon"])
    alert = next(a for a in both["lyon"].raised.alerts if a.src == "ws-1")
    assert (
        "entered here from a host of porto that stood out there at 1970-04-11 01:00 UTC" in alert.explanation
    )


def test_both_silos_alerts_carry_the_same_link_and_no_other_alert_has_one() -> None:
    both, _ = exchange([porto(), lyon()], KEY)
    links = {(silo, alert.src): alert.link for silo, one in both.items() for alert in one.raised.alerts}
    assert links["porto", "ws-1"] == links["lyon", "ws-1"] == KEY.link("ws-1")
    assert links.get(("lyon", "ws-2")) is None


def test_an_incident_says_where_it_came_from_and_under_which_link_to_ask() -> None:
    alerts = exchange([porto(), lyon()], KEY)[0]["lyon"].raised.alerts
    (incident,) = list_incidents(assign_incidents(a for a in alerts if a.src == "ws-1"), smallest=1)
    assert any("entered here from a host of porto" in said for said in incident.explanation)
    assert any(KEY.link("ws-1") in said for said in incident.explanation)


def test_only_own_hosts_that_have_dealt_with_others_are_spoken_of() -> None:
    said, packets = exchange([porto([(1, "ws-1"), (2, "ws-1"), (2, "ws-2"), (2, "srv-3")])], KEY)
    spoken = {
        (packet.window, host)
        for packet in packets
        for host in HOSTS
        if KEY.pseudonym(host, packet.window) in {note.pseudonym for note in KEY.open(packet)}
    }
    # ws-1 meets srv-3 in window 2; ws-2 has never met a host of others; srv-3 is lyon's to speak of.
    assert spoken == {(START + 2 * WIDTH, "ws-1")}
    assert said["porto"].state.spoken.tolist() == [[0, START + 2 * WIDTH]]


def test_a_packet_leaves_in_every_window_whatever_happened() -> None:
    _, packets = exchange([porto(())], KEY)
    assert [(one.window - START) // WIDTH for one in packets] == list(range(8))


def test_a_note_does_not_reach_back_in_time() -> None:
    early = view("lyon", LYON, [(1, "ws-1", "srv-3", 0.2)])
    assert not told(exchange([porto(), early], KEY)[0]["lyon"])


def test_what_was_told_is_not_passed_on() -> None:
    reached = view("lyon", LYON, [(3, "ws-1", "srv-3", 0.2)], [])
    _, packets = exchange([porto(), reached], KEY)
    graz = view("graz", ("ws-3",), [(5, "srv-3", "ws-3", 0.2)])
    heard, _ = exchange([graz], KEY, [one for one in packets if one.silo == "lyon"])
    assert not told(heard["graz"])


def test_a_note_that_comes_late_still_finds_its_edge_once() -> None:
    _, packets = exchange([porto()], KEY)

    def step(
        number: int, edges: Sequence[Edge], before: ExchangeState | None, arrived: Sequence[Packet]
    ) -> Heard:
        windows = (number, number + 1)
        now = view("lyon", LYON, edges, windows=windows, before=before, policy=BY_THRESHOLD)
        return exchange([now], KEY, arrived)[0]["lyon"]

    seen = step(3, [(3, "ws-1", "srv-3", 0.2)], None, [])
    assert not told(seen)
    later = step(4, [], seen.state, packets)
    assert told(later) == [("ws-1", "srv-3")]
    assert not told(step(5, [], later.state, packets))
    for number in range(4, 8):
        seen = step(number, [], seen.state, [])
    assert not told(step(8, [], seen.state, packets))  # more than two hours: it waits no longer


def test_a_source_that_was_raised_already_takes_no_place_of_an_entry() -> None:
    again = view("lyon", LYON, [(3, "ws-1", "srv-3", 0.99), (4, "ws-1", "srv-2", 0.2)], policy=POLICY)
    heard = exchange([porto(), again], KEY)[0]["lyon"]
    assert len(heard.raised.alerts) == len(again.raised.alerts)


def test_known_pairs_are_no_entries() -> None:
    known = lyon(history=[("ws-1", "srv-3")])
    assert ("ws-1", "srv-3") not in told(exchange([porto(), known], KEY)[0]["lyon"])


def test_silos_that_speak_take_turns() -> None:
    edges: list[Edge] = [
        (3, host, "srv-3", score) for host, score in (("ws-1", 0.3), ("ws-2", 0.2), ("ws-3", 0.1))
    ]
    quiet = view("lyon", LYON, edges)
    loud = [Note(KEY.pseudonym(host, START), 3) for host in ("ws-1", "ws-2")]
    honest = [Note(KEY.pseudonym("ws-3", START), 1)]
    packets = [KEY.seal("loud", START, WIDTH, loud), KEY.seal("porto", START, WIDTH, honest)]
    quiet = replace(quiet, raised=replace(quiet.raised, alerts=()), policy=AlertPolicy(48 / 8 * 2 / 0.2))
    heard = exchange([quiet], KEY, packets)[0]["lyon"]
    assert told(heard) == [("ws-1", "srv-3"), ("ws-3", "srv-3")]


LIES = st.lists(
    st.tuples(
        st.sampled_from(["graz", "porto"]), st.integers(-50, 12), st.lists(st.sampled_from(HOSTS), max_size=6)
    ),
    max_size=12,
)
EDGES = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(HOSTS), st.sampled_from(HOSTS), st.floats(0, 1)), max_size=40
)


@settings(max_examples=40, deadline=None)
@given(LIES, EDGES, st.sampled_from([None, 3.0, 10.0, 100.0]))
def test_a_lying_silo_can_add_alerts_within_its_bound_and_hide_none(
    lies: list[tuple[str, int, list[str]]], edges: list[Edge], budget: float | None
) -> None:
    told_of = {(w, a, b): score for w, a, b, score in edges if a != b}
    given_edges = [(w, a, b, score) for (w, a, b), score in told_of.items()]
    packets = [
        KEY.seal(
            silo,
            START + window * WIDTH,
            WIDTH,
            [Note(KEY.pseudonym(host, START + window * WIDTH), 3) for host in hosts],
        )
        for silo, window, hosts in lies
    ]
    policy = AlertPolicy(budget)
    honest = exchange([view("lyon", LYON, given_edges, policy=policy)], KEY)[0]["lyon"].raised
    lied = exchange([view("lyon", LYON, given_edges, policy=policy)], KEY, packets)[0]["lyon"].raised
    kept = {alert.id: alert for alert in lied.alerts}
    for alert in honest.alerts:
        assert kept[alert.id].score >= alert.score
        assert kept[alert.id].severity == alert.severity
    assert lied.budget == honest.budget
    most = 2 if budget is None else int(np.ceil(budget * 0.2))
    assert len(lied.alerts) <= len(honest.alerts) + most


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1, width=32), st.floats(0, 7)), min_size=1))
def test_what_others_say_never_lowers_a_score(pairs: list[tuple[float, float]]) -> None:
    score = np.array([one for one, _ in pairs], dtype=np.float32)
    odds = np.array([two for _, two in pairs])
    for raised in (told_score(score, odds), baseline("rare-target", GraphShape(16)).with_told(score, odds)):
        assert (raised >= score).all()
        assert (raised[odds == 0] == score[odds == 0]).all()


def test_the_same_notes_give_the_same_alerts_whatever_the_padding() -> None:
    first, second = (exchange([porto(), lyon()], KEY)[0] for _ in range(2))
    assert {n: one.raised.alerts for n, one in first.items()} == {
        n: one.raised.alerts for n, one in second.items()
    }


def test_the_state_of_the_exchange_survives_the_disk(tmp_path: Path) -> None:
    state = exchange([porto(), lyon()], KEY)[0]["lyon"].state
    SiloState(START, lyon().hosts, {}, exchange=state).store(tmp_path / "state")
    again = SiloState.load(tmp_path / "state").exchange
    assert again is not None
    assert dict(again.inbox.notes) == dict(state.inbox.notes)
    assert again.budget == state.budget
    for name in ("spoken", "entered"):
        assert (getattr(again, name) == getattr(state, name)).all()
    assert {n: a.tolist() for n, a in again.inbound.items()} == {
        n: a.tolist() for n, a in state.inbound.items()
    }


def test_a_mailbox_carries_packets_between_folders(tmp_path: Path) -> None:
    _, packets = exchange([porto()], KEY)
    here, there = Mailbox(tmp_path / "porto"), Mailbox(tmp_path / "lyon")
    here.post(packets)
    here.post(packets)
    assert here.outgoing() == list(packets)
    assert there.deliver("porto", here.outgoing()) == 0
    assert there.deliver("graz", here.outgoing()) == len(packets)
    assert there.arrived() == list(packets)
    heard = exchange([lyon()], KEY, there.arrived())[0]["lyon"]
    assert ("ws-1", "srv-3") in told(heard)


def test_a_mailbox_keeps_no_more_than_can_matter_and_passes_over_what_is_damaged(tmp_path: Path) -> None:
    box = Mailbox(tmp_path)
    old, new = (KEY.seal("porto", moment, WIDTH, []) for moment in (START - 2 * LASTS, START))
    box.post([old, new])
    assert box.outgoing() == [new]
    (tmp_path / "out" / "00000000000000000001.json").write_text("not a packet")
    assert box.outgoing() == [new]


def test_an_experiment_that_exchanges_needs_a_secret(tmp_path: Path) -> None:
    plain = Experiment()
    assert exchange_key(plain) is None
    wants = plain.model_copy(update={"federation": plain.federation.model_copy(update={"exchange": True})})
    with pytest.raises(ConfigError, match=r"graph\.secret"):
        exchange_key(wants)


def test_no_more_notes_than_fit_and_the_strongest_first() -> None:
    assert NOTES == 16
    packet: Packet = KEY.seal("porto", START, WIDTH, [Note(bytes([i]) * 16, 1) for i in range(40)])
    assert {note.pseudonym for note in KEY.open(packet)} == {bytes([i]) * 16 for i in range(16)}


# ---- through `detect`, over files -----------------------------------------------------------------


class _Suspects(RareTarget):
    """A baseline that says which hosts stand out: every source, in every window."""

    def score_hosts(self, graph: TemporalGraph, state: State) -> tuple[Float32, State, Standing]:
        scores, after = self.score(graph, state)
        window, host = np.unique(np.stack([graph.window_of_edge(), graph.src]), axis=1)
        start = graph.start + window.astype(np.int64) * graph.width
        return scores, after, Standing(start, host.astype(np.int64), np.full(len(host), 5.0))


@pytest.fixture(scope="module")
def run(experiment: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFolder]:
    """A run over three days whose silos exchange suspicion."""
    folder = tmp_path_factory.mktemp("exchange")
    (folder / "secret").write_text("a secret that silos share")
    settings = experiment.model_copy(
        update={
            "data": experiment.data.model_copy(update={"end": 3 * 86400.0}),
            "graph": experiment.graph.model_copy(update={"secret": folder / "secret"}),
            "detector": detector_options({"name": "rare-target"}),
            "federation": experiment.federation.model_copy(update={"exchange": True}),
            "detection": experiment.detection.model_copy(update={"alerts_per_day": 10.0, "exclude": ()}),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RareTarget, "score_hosts", _Suspects.score_hosts)
        train(settings, RunFolder(folder / "run"), baselines=())
        yield RunFolder(folder / "run")


def night_of(experiment: Experiment, folder: Path, low: float, high: float) -> Path:
    events = load_events(experiment.data.events, list(COLUMNS), None, None)
    time = events["time"].to_numpy()
    inside = (time >= low * DAY) & (time < high * DAY)
    write_events(events.filter(pa.array(inside)), folder)
    return folder


def test_train_and_detect_raise_entries_within_the_budget_and_say_who_spoke(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    trained = read_table(run.path / "alerts.parquet").alerts
    night = detect(run, night_of(experiment, tmp_path / "n", 3.0, 4.0))
    for alerts in (trained, night.alerts):
        entries = [a for a in alerts if any("entered here from a host of" in why for why in a.explanation)]
        assert entries
        assert all(a.link is not None for a in entries)
    per_silo = Counter(silo for alert in night.alerts for silo in alert.silos)
    assert max(per_silo.values()) <= 10
    assert len(night.packets) == 3 * 12


def test_two_nights_one_after_the_other_tell_the_same_as_both_at_once(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    at_once = detect(run, night_of(experiment, tmp_path / "both", 3.0, 4.0))
    memory, told_in_turn = RunFolder(tmp_path / "memory"), dict[tuple[int, str], str | None]()
    for low, high in ((3.0, 3.5), (3.5, 4.0)):
        night = detect(run, night_of(experiment, tmp_path / f"{low}", low, high), memory=memory)
        night.commit(memory)
        told_in_turn |= {(a.start, a.src): a.link for a in night.alerts}
    # A day's budget is spent in parts, so that other edges may be raised; what is said of them is the same.
    shared = [a for a in at_once.alerts if (a.start, a.src) in told_in_turn]
    assert shared
    assert [told_in_turn[a.start, a.src] for a in shared] == [a.link for a in shared]


def test_silos_on_machines_of_their_own_hear_each_other_through_their_mailboxes(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    events = night_of(experiment, tmp_path / "n", 3.0, 4.0)
    names = sorted(run.read_model()[1].thresholds)
    together = detect(run, events, names)
    home, *others = names
    box = Mailbox(tmp_path / home)
    for name in others:
        there = Mailbox(tmp_path / name)
        memory = RunFolder(tmp_path / f"memory-{name}")
        detect(run, events, [name], memory, mailbox=there).commit(memory, there)
        assert box.deliver(name, there.outgoing()) == 0
    alone = detect(run, events, [home])
    heard = detect(run, events, [home], mailbox=box)
    own = {a.id: a for a in together.alerts if home in a.silos}
    assert {a.id for a in heard.alerts} == set(own)
    by_itself = {a.id for a in alone.alerts if not a.explanation[0].startswith("entered here")}
    assert by_itself < {a.id for a in heard.alerts}


def test_a_note_after_the_events_of_its_edge_are_gone_still_makes_an_alert(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    """As in the service, which scores one window at a time and keeps no events."""
    home, *others = sorted(run.read_model()[1].thresholds)
    first = night_of(experiment, tmp_path / "first", 3.5, 3.5 + 1 / 12)
    second = night_of(experiment, tmp_path / "second", 3.5 + 1 / 12, 3.5 + 2 / 12)
    memory, box = RunFolder(tmp_path / "memory"), Mailbox(tmp_path / "box")
    memory.states.write({home: replace(run.states.read(home), exchange=None)})
    detect(run, first, [home], memory, mailbox=box).commit(memory, box)
    for name in others:
        box.deliver(name, detect(run, first, [name]).packets)
    night = detect(run, second, [home], memory, mailbox=box)
    late = [a for a in night.alerts if a.end <= round((3.5 + 1 / 12) * DAY)]
    assert late
    assert all("entered here from a host of" in alert.explanation[0] for alert in late)
