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


@dataclass(frozen=True, slots=True)
class CaseFilter:
    """A checked query, with the hosts of its network looked up."""

    query: CaseQuery
    hosts: tuple[str, ...] | None = None  # of the network; None without one

    @property
    def order(self) -> str:
        return self.query.order

    def where(self) -> tuple[str, list[Any]]:
        """The condition in SQL, and its values."""
        query, parts, values = self.query, ["1"], list[Any]()
        if query.status != "all":
            parts.append("status = ?")
            values.append(query.status)
        if query.severity:
            parts.append("severity >= ?")
            values.append(SEVERITIES.index(query.severity))
        if query.assignee:
            parts.append("assignee = ?")
            values.append(query.assignee)
        for condition, text in (("last >= ?", query.since), ("first < ?", query.until)):
            if text:
                parts.append(condition)
                values.append(microseconds(text))
        for kind, value in (
            ("host", query.host),
            ("user", query.user),
            ("silo", query.silo),
            ("port", query.port),
        ):
            if value:
                parts.append(_named("kind = ? AND value = ?"))
                values += [kind, value]
        if query.technique:
            parts.append(_named("kind = 'technique' AND (value = ? OR substr(value, 1, ?) = ?)"))
            parent = query.technique + "."
            values += [query.technique, len(parent), parent]
        if self.hosts is not None:
            parts.append(_named("kind = 'host' AND value IN (SELECT value FROM json_each(?))"))
            values.append(_json(self.hosts))
        for word in query.q.split()[:MOST_WORDS]:
            parts.append(_named("instr(lower(value), ?) > 0", "id = ? OR "))
            values += [word, word.lower()]
        return " AND ".join(parts), values


def _named(condition: str, other: str = "") -> str:
    terms = f"SELECT number FROM terms WHERE {condition}"  # noqa: S608 - conditions are fixed texts
    return f"({other}id IN (SELECT incident FROM case_terms WHERE term IN ({terms})))"  # noqa: S608


def _json(values: tuple[str, ...]) -> str:
    import json

    return json.dumps(values)


def hosts_in(net: str, hosts: list[str]) -> tuple[str, ...]:
    """Those of `hosts` that are addresses in the network."""
    network, found = ip_network(net, strict=False), []
    for host in hosts:
        try:
            inside = ip_address(host) in network
        except ValueError:
            continue
        if inside:
            found.append(host)
    return tuple(found)


def microseconds(text: str) -> int:
    """A day or a time in UTC; ValueError for anything else."""
    moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int((aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * MICROSECONDS
