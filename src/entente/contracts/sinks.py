"""What every sink promises, checked on alerts with hostile names."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from entente.contracts.base import Check, claims, require
from entente.detection.alerts import Alert
from entente.detection.sinks.base import Sink

HOSTILE = (
    "plain-host",
    "10.0.0.1",
    "2001:db8::1",
    "new\nline",
    "carriage\r\nreturn",
    "pi|pe",
    "quo\"te's",
    "back\\slash\\n",
    "equals=sign key=value",
    "<script>alert(1)</script>",
    "ünïcode-主机-🔥",
    "separators\u2028\u2029\x85\x0b\x0c",
    "null\x00byte",
    "\ud800 lone surrogate",
    "CEF:0|Fake|Fake|1|x|y|10|",
    "",
)
BASE = Alert(
    start=1_700_000_000_000_000,
    end=1_700_001_800_000_000,
    src="a",
    dst="b",
    score=0.93,
    threshold=0.5,
    severity="high",
    silo="north",
    explanation=("first connection between these hosts",),
)
ALERTS = tuple(replace(BASE, src=src, dst=dst) for src in HOSTILE for dst in HOSTILE[:3])
CHECKS: list[Check] = []


@claims(CHECKS, "it describes itself")
def described(sink: Sink) -> None:
    require(sink.summary, "there is no summary")
    require(sink.suffix.startswith("."), "the suffix is no file suffix")


@claims(CHECKS, "hostile names are written, and as UTF-8")
def hostile(sink: Sink) -> None:
    for alert in ALERTS:
        sink.render([alert]).encode("utf-8")


@claims(CHECKS, "a name cannot add lines")
def no_extra_lines(sink: Sink) -> None:
    for name in HOSTILE:
        tame = "".join(char if char.isprintable() else "_" for char in name)
        lines = [sink.render([replace(BASE, src=each)]).count("\n") for each in (name, tame)]
        require(lines[0] == lines[1], f"{name!r} adds lines")


@claims(CHECKS, "the same alerts give the same bytes")
def same_bytes(sink: Sink) -> None:
    require(sink.render(ALERTS) == type(sink)().render(ALERTS), "the texts differ")


@claims(CHECKS, "different alerts give different texts")
def tells_apart(sink: Sink) -> None:
    other = replace(BASE, src="another")
    require(sink.render([BASE]) != sink.render([other]), "the source host is not in the text")
    require(sink.render([BASE]) != sink.render([BASE, other]), "the second alert is not in the text")


@claims(CHECKS, "no alerts give a file")
def nothing(sink: Sink) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"alerts{sink.suffix}"
        sink.write(path, [])
        require(path.is_file(), "there is no file")
