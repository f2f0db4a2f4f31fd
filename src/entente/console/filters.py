"""What the queue is filtered by: checked values from a query string, and their condition in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from entente.detection.explanations import SEVERITIES, Severity

CaseStatus = Literal["open", "acknowledged", "closed", "suppressed", "all"]
Order = Literal["severity", "newest", "oldest", "alerts"]
STATUSES: tuple[CaseStatus, ...] = get_args(CaseStatus)
LONGEST = 500
"""Characters of a text to look for."""
MOST_WORDS = 8
MICROSECONDS = 1_000_000


class CaseQuery(BaseModel):
    """The fields of the filter form, which are also the query parameters of the REST interface."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    q: str = Field(default="", max_length=LONGEST, description="words in hosts, accounts, ports, techniques")
    status: CaseStatus = Field(default="open", description="open, acknowledged, closed, suppressed or all")
    severity: Severity | Literal[""] = Field(default="", description="at least this")
    host: str = Field(default="", max_length=LONGEST, description="source or target")
    user: str = Field(default="", max_length=LONGEST, description="account")
    net: str = Field(default="", max_length=64, description="network that holds a host: 10.1.0.0/16")
    port: str = Field(default="", pattern=r"^([0-9]{1,5})?$", description="port at the target")
    technique: str = Field(default="", max_length=32, description="ATT&CK id; T1021 takes T1021.002 in")
    silo: str = Field(default="", max_length=LONGEST, description="silo that raised it")
    assignee: str = Field(default="", max_length=64, description="who works on it")
    since: str = Field(default="", max_length=32, description="time or day in UTC: 2026-11-18T09:30")
    until: str = Field(default="", max_length=32, description="time or day in UTC")
    order: Order = "severity"

    @field_validator("net")
    @classmethod
    def _network(cls, net: str) -> str:
        if net:
            ip_network(net, strict=False)
        return net

    @field_validator("since", "until")
    @classmethod
    def _moment(cls, text: str) -> str:
        if text:
            microseconds(text)
        return text

    @property
    def given(self) -> dict[str, str]:
        """What differs from the defaults, for links."""
        return {k: str(v) for k, v in self.model_dump().items() if v != type(self).model_fields[k].default}

    def plain(self) -> tuple[list[str], list[Any]]:
        """Conditions in SQL on a case itself, and their values."""
        wanted: tuple[tuple[str, Any], ...] = (
            ("status = ?", self.status if self.status != "all" else ""),
            ("severity >= ?", SEVERITIES.index(self.severity) if self.severity else ""),
            ("assignee = ?", self.assignee),
            ("last >= ?", microseconds(self.since) if self.since else ""),
            ("first < ?", microseconds(self.until) if self.until else ""),
        )
        given = [(condition, value) for condition, value in wanted if value != ""]
        return [condition for condition, _ in given], [value for _, value in given]

    def terms(self) -> list[Term]:
        """What has to be named by one of a case's alerts."""
        exact = {"host": self.host, "user": self.user, "silo": self.silo, "port": self.port}
        found = [Term("kind = ? AND value = ?", (kind, value)) for kind, value in exact.items() if value]
        if self.technique:
            parent = self.technique + "."
            values = (self.technique, len(parent), parent)
            found.append(Term("kind = 'technique' AND (value = ? OR substr(value, 1, ?) = ?)", values))
        if self.net:
            network = ip_network(self.net, strict=False)
            ends = (network.network_address, network.broadcast_address)
            found.append(Term("address BETWEEN ? AND ?", tuple(address_place(str(end)) for end in ends)))
        for word in self.q.split()[:MOST_WORDS]:
            found.append(Term("instr(lower(value), ?) > 0", (word.lower(),), word))
        return found


@dataclass(frozen=True, slots=True)
class Term:
    """Which names are meant, as a condition on the index's table of them."""

    condition: str
    values: tuple[Any, ...]
    incident: str | None = None
    """The incident with this id is meant too."""


def address_place(host: str) -> bytes | None:
    """Bytes by which addresses sort as numbers, the two versions apart; None for what is no address."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return bytes([address.version]) + address.packed


def microseconds(text: str) -> int:
    """A day or a time in UTC; ValueError for anything else."""
    moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int((aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * MICROSECONDS
