"""Notes between silos: what they say, to whom, how much, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entente.errors import RefusedError
from entente.federation.exchange.inbox import Inbox, Saying, loudest
from entente.federation.exchange.keys import DAY, ExchangeKey
from entente.federation.exchange.notes import LASTS, LATE, LEVELS, NOTES, SEALED, STEP, Note, Packet, level_of

KEY = ExchangeKey(b"a secret that silos share")
HOUR = 3_600_000_000
WIDTH = HOUR // 2
NOW = 20 * DAY


def note(host: str, window: int, level: int = 2) -> Note:
    return Note(KEY.pseudonym(host, window), level)


def packet(silo: str, window: int, *hosts: str) -> Packet:
    return KEY.seal(silo, window, WIDTH, [note(host, window) for host in hosts])


def heard(*packets: Packet, until: int = NOW + WIDTH) -> tuple[Inbox, dict[str, int]]:
    return Inbox().accept(packets, KEY, "lyon", WIDTH, NOW, until)


def test_a_silo_recognises_hosts_that_it_knows_and_no_others() -> None:
    inbox, refused = heard(packet("porto", NOW, "ws-1", "ws-2"))
    said = inbox.about(["ws-1", "ws-3"], KEY)
    assert said == {"ws-1": (Saying("porto", NOW, 2 * STEP),)}
    assert not refused


def test_the_coordinator_can_neither_read_nor_change_a_packet() -> None:
    sent = packet("porto", NOW, "ws-1")
    assert KEY.pseudonym("ws-1", NOW) not in sent.sealed
    with pytest.raises(RefusedError, match="not sealed"):
        ExchangeKey(b"the coordinator does not know").open(sent)
    for changed in (
        replace(sent, silo="graz"),
        replace(sent, window=NOW + WIDTH),
        replace(sent, width=2 * WIDTH),
        replace(sent, sealed=sent.sealed[:-1] + bytes([sent.sealed[-1] ^ 1])),
    ):
        with pytest.raises(RefusedError):
            KEY.open(changed)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 3 * NOTES))
def test_every_packet_has_the_same_size_however_much_it_says(hosts: int) -> None:
    sent = packet("porto", NOW, *(f"ws-{i}" for i in range(hosts)))
    assert len(sent.sealed) == SEALED
    notes = KEY.open(sent)
    assert len(notes) == NOTES
    assert len(Inbox({("porto", NOW): notes}).about([f"ws-{i}" for i in range(hosts)], KEY)) == min(
        hosts, NOTES
    )


def test_a_note_on_nobody_looks_like_a_note_on_somebody_unknown() -> None:
    notes = KEY.open(packet("porto", NOW))
    assert len({one.pseudonym for one in notes}) == NOTES
    assert all(1 <= one.level <= LEVELS for one in notes)


def test_pseudonyms_change_every_day_and_links_do_not() -> None:
    assert KEY.pseudonym("ws-1", NOW) == KEY.pseudonym("ws-1", NOW + 23 * HOUR)
    assert KEY.pseudonym("ws-1", NOW) != KEY.pseudonym("ws-1", NOW + 24 * HOUR)
    assert KEY.link("ws-1") == KEY.link("ws-1") != KEY.link("ws-2")
    assert KEY.link("ws-1") not in KEY.pseudonym("ws-1", NOW).hex()


def test_a_packet_counts_once_and_a_second_one_of_the_same_window_not_at_all() -> None:
    inbox, _ = heard(packet("porto", NOW, "ws-1"))
    again, refused = inbox.accept([packet("porto", NOW, "ws-2")], KEY, "lyon", WIDTH, NOW, NOW + WIDTH)
    assert set(again.about(["ws-1", "ws-2"], KEY)) == {"ws-1"}
    assert not refused


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        (NOW + WIDTH, "not ended"),
        (NOW - LASTS - LATE, "too old"),
        (NOW - WIDTH + 1, "another length"),
    ],
)
def test_packets_of_other_times_are_refused(window: int, reason: str) -> None:
    inbox, refused = heard(packet("porto", window, "ws-1"))
    assert not inbox.notes
    assert [reason in why for why in refused] == [True]


def test_a_silo_does_not_listen_to_itself() -> None:
    assert not heard(packet("lyon", NOW, "ws-1"))[0].notes


def test_notes_fade_and_are_forgotten() -> None:
    said = Saying("porto", NOW, 2 * STEP)
    assert said.at(NOW - WIDTH) == 0
    assert said.at(NOW) == 2 * STEP
    assert said.at(NOW + LASTS // 2) == pytest.approx(STEP)
    assert said.at(NOW + LASTS) == 0
    inbox, _ = heard(packet("porto", NOW, "ws-1"))
    assert inbox.since(NOW + LASTS).notes
    assert not inbox.since(NOW + LASTS + LATE).notes


SAYINGS = st.lists(
    st.builds(
        Saying, st.sampled_from(["porto", "graz"]), st.integers(NOW - LASTS, NOW + LASTS), st.floats(0, 7)
    )
)


@given(SAYINGS, SAYINGS, st.integers(NOW, NOW + LASTS))
def test_more_sayings_never_add_less_and_never_more_than_the_cap(
    honest: list[Saying], lies: list[Saying], window: int
) -> None:
    def added(sayings: list[Saying]) -> float:
        best = loudest(sayings, window)
        return best.at(window) if best is not None else 0.0

    assert 0 <= added(honest) <= added(honest + lies) <= max([7.0, LEVELS * STEP])


@given(st.floats(0, 1000))
def test_levels_are_coarse_and_bounded(above: float) -> None:
    level = level_of(above)
    assert 1 <= level <= LEVELS
    assert level * STEP <= max(above, STEP) + 1e-6


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"silo": "a", "window": 0, "width": 1, "sealed": "00"},
        {"silo": "a\n", "window": 0, "width": 1, "sealed": "00" * SEALED},
        {"silo": "a", "window": -1, "width": 1, "sealed": "00" * SEALED},
        {"silo": "a", "window": True, "width": 1, "sealed": "00" * SEALED},
        {"silo": "a", "window": 1 << 63, "width": 1, "sealed": "00" * SEALED},
        {"silo": "a", "window": 0, "width": 1, "sealed": "zz" * SEALED},
    ],
)
def test_what_is_no_packet_is_refused(document: object) -> None:
    with pytest.raises(RefusedError):
        Packet.from_dict(document)


def test_a_packet_survives_the_wire() -> None:
    sent = packet("porto", NOW, "ws-1")
    assert Packet.from_dict(sent.as_dict()) == sent
