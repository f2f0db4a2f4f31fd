"""Packets of the exchange over FLARE: the coordinator collects what silos put out and hands it to all others.

A relay is a job of its own, short, without a graph or a model. Everything that can still matter is carried in
every turn, so that nothing has to be remembered: a job that is lost is made good by the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from entente.deployment.site import Site
from entente.deployment.transport import JobTransport
from entente.errors import FederationError, RefusedError
from entente.federation.exchange.notes import LASTS, LATE, Packet
from entente.federation.messages import ExchangeReply, ExchangeTask, Task
from entente.runs.mailbox import MOST, Mailbox

FOLDER = "exchange"
"""The mailbox in a silo's kit."""
MOST_TURNS, LONGEST_PAUSE = 10_000, 86_400.0
CARRIED = 5000
"""Packets in one message at most, the newest."""


def check_turns(turns: Any, pause: Any) -> str | None:
    """Why a relay may not be asked for this, in words."""
    if not isinstance(turns, int) or isinstance(turns, bool) or not 1 <= turns <= MOST_TURNS:
        return f"a relay has 1 to {MOST_TURNS} turns"
    if not isinstance(pause, int | float) or isinstance(pause, bool) or not 0 <= pause <= LONGEST_PAUSE:
        return f"a relay pauses 0 to {LONGEST_PAUSE:g} seconds"
    return None


def mailbox(site: Site) -> Mailbox:
    return Mailbox(site.path / FOLDER)


def answer(site: Site, task: Task) -> ExchangeReply:
    """A silo's part in one turn: take in what others sent, hand over its own."""
    terms = site.kit.federation.terms
    if not terms.exchange:
        raise FederationError("the terms of this federation have no exchange")
    if not isinstance(task, ExchangeTask):
        raise RefusedError("the coordinator sent something that is not an exchange")
    box = mailbox(site)
    senders = set(site.kit.federation.silos) - {site.name}
    for sender, packets in _by_silo(task.packets).items():
        if sender in senders:
            box.deliver(sender, packets)
    return ExchangeReply(task.id, site.name, _written({site.name: box.outgoing()}))


def relay(
    site: Site,
    transport: JobTransport,
    turns: int,
    pause: float,
    deadline: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """The coordinator's part: so many turns, whoever is there. What is not the sender's own is dropped."""
    known: dict[str, list[Packet]] = {}
    for turn in range(1, turns + 1):
        if turn > 1:
            sleep(pause)
        replies, missing = transport.carry(ExchangeTask(turn, _written(known)), deadline)
        for reply in replies:
            try:
                sent = _by_silo(reply.packets if isinstance(reply, ExchangeReply) else {})
            except RefusedError as error:  # one silo's rubbish is only its own trouble
                site.audit.append("update-refused", silo=reply.silo, reason=error.what)
                continue
            own = sent.get(reply.silo, [])
            known[reply.silo] = sorted(own, key=lambda packet: packet.window)[-MOST:]
        site.audit.append(
            "exchange",
            turn=turn,
            packets={silo: len(some) for silo, some in sorted(known.items())},
            missing=dict(missing),
        )


def _written(known: Mapping[str, Collection[Packet]]) -> dict[str, str]:
    """Packets of silos as a message has them, those that can still matter.

    What is old is told by the sender's own newest packet, and all senders have the same room: no silo
    that speaks of the far future, or often, takes another's place.
    """
    found: dict[str, str] = {}
    for _, packets in sorted(known.items()):
        newest = max((packet.window for packet in packets), default=0)
        chosen = [packet for packet in packets if packet.window > newest - LASTS - LATE]
        for one in sorted(chosen, key=lambda packet: packet.window)[-(CARRIED // len(known)) :]:
            found[f"{one.window}/{one.width}/{one.silo}"] = one.sealed.hex()
    return found


def _by_silo(packets: Mapping[str, str]) -> dict[str, list[Packet]]:
    """The packets of a message by the silo that they name; RefusedError if one is none."""
    found: dict[str, list[Packet]] = {}
    for packet in _read(packets.items()):
        found.setdefault(packet.silo, []).append(packet)
    return found


def _read(items: Iterable[tuple[str, str]]) -> list[Packet]:
    packets = []
    for name, sealed in items:
        window, width, silo = [*name.split("/", 2), "", ""][:3]
        if not (window.isdecimal() and width.isdecimal() and len(window) < 20 and len(width) < 20):
            raise RefusedError("is a packet without a window")
        given = {"silo": silo, "window": int(window), "width": int(width), "sealed": sealed}
        packets.append(Packet.from_dict(given))
    return packets
