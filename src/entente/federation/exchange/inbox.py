"""What a silo has been told: packets are opened and checked once, then kept while they count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from entente.errors import RefusedError
from entente.federation.exchange.keys import DAY, ExchangeKey
from entente.federation.exchange.notes import LASTS, LATE, LEVELS, Note, Packet


@dataclass(frozen=True, slots=True)
class Saying:
    """One note on a host that the silo knows."""

    silo: str
    window: int
    odds: float

    def at(self, window: int) -> float:
        """What the note adds to an edge of that window: nothing before its own, and it fades."""
        age = window - self.window
        return self.odds * (1.0 - age / LASTS) if 0 <= age < LASTS else 0.0


@dataclass(frozen=True, slots=True)
class Inbox:
    """Notes by the silo that sent them and the window they are about; the first packet of each counts."""

    notes: Mapping[tuple[str, int], tuple[Note, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def accept(
        self, packets: Iterable[Packet], key: ExchangeKey, silo: str, width: int, since: int, until: int
    ) -> tuple[Inbox, dict[str, int]]:
        """The inbox with the packets that `silo` may take, and how many were refused, by reason.

        `since` and `until` bound the windows that are being scored: a packet counts if it is about one of
        them or can still matter to one. One packet a window and sender, each of NOTES notes, is all that a
        sender can say.
        """
        found, refused = dict(self.notes), Counter[str]()
        for packet in packets:
            place = packet.silo, packet.window
            if packet.silo == silo or place in found:
                continue  # it carries every packet again and again, its own ones too: that is no news
            try:
                _check(packet, width, since, until)
                found[place] = key.open(packet)
            except RefusedError as error:
                refused[error.what] += 1
        return Inbox(MappingProxyType(found)), dict(refused)

    def since(self, moment: int) -> Inbox:
        """Without what can no longer matter to a window that begins at `moment`."""
        kept = {place: notes for place, notes in self.notes.items() if place[1] > moment - LATE - LASTS}
        return Inbox(MappingProxyType(kept))

    def about(self, hosts: Sequence[str], key: ExchangeKey) -> dict[str, tuple[Saying, ...]]:
        """What was said of these hosts; nothing can be learnt of any other."""
        said: dict[tuple[int, bytes], list[Saying]] = {}
        for (silo, window), notes in sorted(self.notes.items()):
            for note in notes:
                saying = Saying(silo, window, note.odds)
                said.setdefault((window // DAY, note.pseudonym), []).append(saying)
        found: dict[str, tuple[Saying, ...]] = {}
        days = sorted({day for day, _ in said})
        for host in hosts:
            heard = [saying for day in days for saying in said.get((day, key.pseudonym(host, day * DAY)), ())]
            if heard:
                found[host] = tuple(heard)
        return found


def loudest(sayings: Iterable[Saying], window: int) -> Saying | None:
    """The saying that adds most to an edge of that window; more sayings never add less."""
    best = max(sayings, key=lambda one: (one.at(window), -one.window, one.silo), default=None)
    return best if best is not None and best.at(window) > 0 else None


def _check(packet: Packet, width: int, since: int, until: int) -> None:
    if packet.width != width or (packet.window - since) % width:
        raise RefusedError("is about windows of another length")
    if packet.window + width > until:
        raise RefusedError("is about a window that has not ended yet")
    if packet.window <= since - LATE - LASTS:
        raise RefusedError("is too old to count")


assert LEVELS < 256  # a level travels as one byte
