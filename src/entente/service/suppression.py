"""Rules that mark alerts as expected: a readable TOML file, made by hand or from an alert."""

from __future__ import annotations

import re
import sqlite3
import tomllib
from dataclasses import dataclass
from datetime import UTC, date, datetime
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError, field_validator, model_validator

from entente.artifacts import write_text
from entente.config import Section
from entente.detection.alerts import Alert
from entente.errors import ConfigError, UsageError
from entente.service.database import fact, set_fact, transaction

By = Literal["src", "dst", "pair", "net", "user", "port"]
FIELDS: tuple[By, ...] = get_args(By)
"""What a rule made from an alert shares with it."""
FILE = "suppressions.toml"
FACT = "suppressions"


class Suppression(Section):
    """One rule: an alert is suppressed when everything that is given here fits it."""

    id: str = Field(min_length=1, max_length=64)
    """Short name; suppressed alerts carry it."""
    reason: str = Field(min_length=1, max_length=500)
    """Why such alerts are expected."""
    src: str | None = None
    """Source host."""
    dst: str | None = None
    """Target host."""
    net: str | None = None
    """Network (10.0.0.0/8) that holds the source."""
    user: str | None = None
    """Account."""
    port: int | None = Field(default=None, ge=0, le=65535)
    """Port at the target."""
    until: date | None = None
    """Last day on which the rule holds; for ever without it."""
    by: str = ""
    """Who made it."""

    @field_validator("net")
    @classmethod
    def _network(cls, net: str | None) -> str | None:
        if net is not None:
            ip_network(net)
        return net

    @model_validator(mode="after")
    def _something(self) -> Suppression:
        if not any(v is not None for v in (self.src, self.dst, self.net, self.user, self.port)):
            raise ValueError("a suppression needs src, dst, net, user or port: it must not fit everything")
        return self

    def fits(self, alert: Alert) -> bool:
        """Whether the alert is one that this rule expects."""
        day = datetime.fromtimestamp(alert.start / 1_000_000, UTC).date()
        return (
            (self.until is None or day <= self.until)
            and self.src in (None, alert.src)
            and self.dst in (None, alert.dst)
            and (self.user is None or self.user in alert.users)
            and (self.port is None or self.port in alert.ports)
            and (self.net is None or _inside(alert.src, self.net))
        )


@dataclass(frozen=True, slots=True)
class Suppressions:
    """All rules of a service, the first that fits counts."""

    rules: tuple[Suppression, ...] = ()

    def of(self, alert: Alert) -> str | None:
        """The id of the rule that fits the alert."""
        return next((rule.id for rule in self.rules if rule.fits(alert)), None)


class SuppressionFile:
    """The rules as they are now. A file that cannot be read changes nothing: the rules it had go on.

    The last good text is kept in the service's database, so that this also holds over a restart.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        kept = fact(connection, FACT)
        self._text, self._rules = kept, _parsed(kept, path) if kept else Suppressions()
        self.problem: str | None = None

    def read(self) -> Suppressions:
        """The rules of the file, or those before where it is not valid; `problem` then says why."""
        try:
            text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
            if text != self._text:
                rules = _parsed(text, self._path)
                with transaction(self._connection):
                    set_fact(self._connection, FACT, text)
                self._text, self._rules = text, rules
            self.problem = None
        except (OSError, UnicodeDecodeError) as error:
            self.problem = f"{self._path} cannot be read ({error}); the rules before it go on"
        except ConfigError as error:
            self.problem = f"{self._path} {error.what}; the rules before it go on"
        return self._rules


def read_suppressions(path: Path) -> Suppressions:
    """The rules in a file; none where there is no file."""
    try:
        return _parsed(path.read_text(encoding="utf-8"), path) if path.exists() else Suppressions()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read ({error})", where=path) from error


def _parsed(text: str, path: Path) -> Suppressions:
    try:
        table = tomllib.loads(text)
        rules = tuple(Suppression.model_validate(row) for row in table.get("suppress", []))
    except (ValueError, RecursionError, TypeError) as error:
        raise ConfigError(
            f"is not a list of suppressions ({error})",
            where=path,
            remedy="Each rule is a [[suppress]] table.",
        ) from error
    names = [rule.id for rule in rules]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"two rules are called {twice!r}", where=path)
    return Suppressions(rules)


def add_suppression(path: Path, rule: Suppression) -> None:
    """Append a rule to the file; what stands there stays as it was written."""
    present = read_suppressions(path)
    if any(other.id == rule.id for other in present.rules):
        raise UsageError(f"there is a suppression {rule.id!r} already", where=path)
    lines = ["[[suppress]]"]
    for name, value in rule.model_dump(exclude_none=True).items():
        lines.append(f"{name} = {value.isoformat() if isinstance(value, date) else _quoted(value)}")
    before = path.read_text(encoding="utf-8").rstrip("\n") + "\n\n" if path.exists() else ""
    write_text(path, before + "\n".join(lines) + "\n")


def remove_suppression(path: Path, ident: str) -> None:
    """Take a rule out of the file, if it is there; the others stay as they were written."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    head, *blocks = re.split(r"(?m)^(?=\[\[suppress\]\])", text)
    kept = [block for block in blocks if [rule.id for rule in _parsed(block, path).rules] != [ident]]
    if len(kept) < len(blocks):
        write_text(path, (head + "".join(kept)).rstrip("\n") + "\n")


def rule_from(alert: Alert, by: str, reason: str, until: date | None, who: str) -> Suppression:
    """A rule that expects alerts like this one."""
    values: dict[str, Any] = {
        "src": alert.src,
        "dst": alert.dst,
        "net": network(alert.src),
        "user": next(iter(alert.users), None),
        "port": next(iter(alert.ports), None),
    }
    if by not in FIELDS:
        raise UsageError(f"a suppression cannot go by {by!r}", remedy=f"One of {', '.join(FIELDS)}.")
    shared = {name: values[name] for name in (("src", "dst") if by == "pair" else (by,))}
    if None in shared.values():
        raise UsageError(f"the alert has no {by}", remedy="Choose something else that it must share.")
    try:
        return Suppression(id=f"{alert.id[:8]}-{by}", reason=reason, until=until, by=who, **shared)
    except ValidationError as error:
        raise UsageError("a suppression needs a reason of 1 to 500 characters") from error


def network(host: str) -> str | None:
    """The network that a host with an address is taken to be in: /24, or /64 of IPv6."""
    try:
        found = ip_address(host)
        return str(ip_network((int(found), 24 if found.version == 4 else 64), strict=False))
    except ValueError:
        return None


def _inside(host: str, net: str) -> bool:
    try:
        return ip_address(host) in ip_network(net)
    except (ValueError, TypeError):
        return False


def _quoted(value: object) -> str:
    import json

    # A JSON string is a TOML basic string, but TOML wants DEL escaped and has no pairs of surrogates.
    shown = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return shown.encode("utf-8", "replace").decode()
