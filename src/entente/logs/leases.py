"""Which machine had an address when: tables, DHCP leases, Zeek's dhcp.log."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.errors import LogError
from entente.logs.addresses import address_of
from entente.logs.schema import MICROSECONDS
from entente.logs.sources import text_beside

ALWAYS = -(2**62)
NEVER = 2**62
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = {
    "address": ("address", "ip", "ip_address", "ipaddress", "addr"),
    "name": ("name", "host", "hostname", "host_name", "machine"),
    "from": ("from", "start", "starts", "first", "valid_from", "begin"),
    "until": ("until", "end", "ends", "last", "valid_until", "to", "expire", "expires"),
    "length": ("valid_lifetime",),
}
"""What a column holds -> names it may have; `expire` and `valid_lifetime` are those of Kea's lease file."""
LEASE = re.compile(r"^\s*lease\s+(\S+)\s*\{([^}]*)\}", re.MULTILINE)
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lease:
    """An address was a machine's from `start` until before `end`, in microseconds."""

    address: str
    name: str
    start: int = ALWAYS
    end: int = NEVER


class AddressBook:
    """Looks machines up by address and time. Where leases overlap, the one that began last counts."""

    def __init__(self, leases: Iterable[Lease]) -> None:
        # An entry that is written again for the same address and start replaces the former.
        last = {(address_of(lease.address) or lease.address.lower(), lease.start): lease for lease in leases}
        ordered = sorted(last)
        self.names = [last[key].name for key in ordered]
        self._starts = np.array([start for _, start in ordered], dtype=np.int64)
        self._ends = np.array([last[key].end for key in ordered], dtype=np.int64)
        self._span: dict[str, tuple[int, int]] = {}
        for place, (address, _) in enumerate(ordered):
            first, _ = self._span.get(address, (place, place))
            self._span[address] = (first, place + 1)
        self._latest = self._ends.copy()
        """The end of this or any earlier lease of the same address, whichever is later."""
        for first, after in self._span.values():
            np.maximum.accumulate(self._ends[first:after], out=self._latest[first:after])

    def __contains__(self, address: str) -> bool:
        return address.lower() in self._span

    def __len__(self) -> int:
        return len(self.names)

    def machines(self, address: str, times: IntArray) -> IntArray:
        """The entry in `names` that `address` was at each time, -1 where nobody had it."""
        first, after = self._span[address.lower()]
        found = first - 1 + np.searchsorted(self._starts[first:after], times, side="right")
        while True:
            place = np.maximum(found, first)
            # A lease for good below a short one counts again when that is over.
            earlier = (found >= first) & (self._ends[place] <= times) & (self._latest[place] > times)
            if not earlier.any():
                break
            found = found - earlier
        place = np.maximum(found, first)
        return np.where((found >= first) & (self._ends[place] > times), found, -1).astype(np.int64)


def read_hosts(path: Path) -> AddressBook:
    """A JSON object, a CSV table with or without times, leases of ISC dhcpd or Kea, or Zeek's dhcp.log."""
    text = text_beside(path)
    start = text.lstrip()
    if start.startswith("{"):
        first = _json(start.split("\n", 1)[0])
        if isinstance(first, dict) and "ts" in first:
            leases = _zeek_json(start, path)
        else:
            leases = _mapping(start, path)
    elif start.startswith("#separator"):
        leases = _zeek_tabs(start, path)
    elif LEASE.search(text):
        leases = _isc(text, path)
    else:
        leases = _table(text, path)
    found = list(leases)
    if not found:
        raise LogError(
            "holds no address with a name", where=path, remedy="See `--hosts` in the documentation."
        )
    return AddressBook(found)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(text: str, path: Path) -> Iterator[Lease]:
    pairs = _json(text)
    if not isinstance(pairs, dict):
        raise LogError("is not a JSON object of addresses and names", where=path)
    for address, name in pairs.items():
        if not isinstance(name, str):
            raise LogError(f"{address!r} stands for {str(name)[:40]!r}, which is no name", where=path)
        yield Lease(address, name)


def _table(text: str, path: Path) -> Iterator[Lease]:
    lines = text.splitlines()
    try:
        rows = [(number, row) for number, row in enumerate(csv.reader(lines), 1) if row]
    except csv.Error as error:
        raise LogError(f"is not a readable CSV table ({error})", where=path) from error
    header = [name.strip().lower() for name in rows[0][1]] if rows else []
    place = {
        what: next(header.index(name) for name in names if name in header)
        for what, names in COLUMNS.items()
        if set(names) & set(header)
    }
    if {"address", "name"} <= place.keys():
        rows = rows[1:]
    else:
        place = {"address": 0, "name": 1}
    for number, row in rows:
        if len(row) < 2:
            raise LogError("needs two columns, address and name", where=path, line=number)
        cell = {what: row[i].strip() if i < len(row) else "" for what, i in place.items()}
        if not cell["address"] or not cell["name"]:
            continue  # a lease that nobody took
        end = _moment(cell.get("until", ""), NEVER, path, number)
        start = _moment(cell.get("from", ""), ALWAYS, path, number)
        if "from" not in cell and cell.get("length", "").isdigit() and end != NEVER:
            start = end - int(cell["length"][:12]) * MICROSECONDS
        yield Lease(cell["address"], cell["name"], start, end)


def _moment(text: str, default: int, path: Path, line: int) -> int:
    """A time in a table: ISO 8601 (UTC without a zone) or seconds since 1970; empty is without bound."""
    if text.lower() in ("", "-", "never", "null"):
        return default
    if re.fullmatch(r"-?[0-9]{1,11}([.][0-9]{1,9})?", text):
        return round(float(text) * MICROSECONDS)
    try:
        moment = datetime.fromisoformat(text.replace("/", "-"))
    except ValueError as error:
        raise LogError(
            f"{text[:40]!r} is not a time", where=path, line=line, remedy="Write 2024-03-01T08:00:00Z."
        ) from error
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (zoned - EPOCH) // timedelta(microseconds=1)


def _isc(text: str, path: Path) -> Iterator[Lease]:
    """dhcpd.leases, in which a lease that has ended still says whose it was."""
    line, counted = 1, 0
    for found in LEASE.finditer(text):
        line, counted = line + text.count("\n", counted, found.start()), found.start()
        address, body = found.groups()
        entry = dict(re.findall(r"^\s*(starts|ends|hardware ethernet)\s+([^;]+);", body, re.MULTILINE))
        name = re.search(r'client-hostname\s+"([^"]+)"', body)
        machine = name.group(1) if name else entry.get("hardware ethernet", "")
        if machine:
            start, end = (_isc_moment(entry.get(key, ""), path, line) for key in ("starts", "ends"))
            yield Lease(address, machine, ALWAYS if start is None else start, NEVER if end is None else end)


def _isc_moment(text: str, path: Path, line: int) -> int | None:
    """`4 2020/08/06 12:00:00` (UTC, after the day of the week), `epoch 1596715200`, `never` or nothing."""
    words = text.split("#")[0].split()
    if not words or words[0] == "never":
        return None
    return _moment(
        words[1] if words[0] == "epoch" and len(words) > 1 else " ".join(words[1:3]), 0, path, line
    )


def _zeek_json(text: str, path: Path) -> Iterator[Lease]:
    rows = (_json(line) for line in text.splitlines() if line.strip())
    return _zeek((row for row in rows if isinstance(row, dict)), path)


def _zeek_tabs(text: str, path: Path) -> Iterator[Lease]:
    names: list[str] = []
    rows = []
    for line in text.splitlines():
        if line.startswith("#fields"):
            names = line.split("\t")[1:]
        elif line and not line.startswith("#"):
            rows.append(dict(zip(names, line.split("\t"), strict=False)))
    return _zeek(rows, path)


def _zeek(rows: Iterable[dict[str, Any]], path: Path) -> Iterator[Lease]:
    """dhcp.log: an address is given at `ts` for `lease_time` seconds."""

    def value(row: dict[str, Any], *keys: str) -> str:
        found = (str(row[key]) for key in keys if row.get(key) not in (None, "", "-", "(empty)"))
        return next(found, "")

    kept = list(rows)
    named = {value(row, "mac"): name for row in kept if (name := value(row, "host_name", "client_fqdn"))}
    for number, row in enumerate(kept, 1):
        address, mac = value(row, "assigned_addr", "assigned_ip"), value(row, "mac")
        name = value(row, "host_name", "client_fqdn") or (named.get(mac, mac) if mac else "")
        if not address or not name:
            continue  # a request without an answer
        start = _moment(value(row, "ts"), ALWAYS, path, number)
        length = value(row, "lease_time")
        seconds = float(length) if re.fullmatch(r"[0-9]{1,10}([.][0-9]+)?", length) else None
        end = NEVER if seconds is None or start == ALWAYS else start + round(seconds * MICROSECONDS)
        yield Lease(address, name, start, end)
