"""One machine, one name: how the hosts of a log are spelt, and which machine an address was at the time.

The rules are in docs/ingest.md. They work on the distinct names of a block, after the engine, so that they
cost little and give the same on every engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entente.errors import UsageError
from entente.logs.addresses import address_of
from entente.logs.leases import AddressBook

UNSET = frozenset(("", "-", "?", "null", "(null)", "none", "nan", "(empty)", "n/a", "\\n"))
"""Words, in lower case, that programs write where there is no host."""
CASES = ("auto", "lower", "keep")
ALL, NONE = "all", "none"
MOST_KNOWN = 1_000_000
"""Names whose spelling is remembered: a service meets new addresses for months."""
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spelling:
    """Rules for the names of one format: what the user said, else what suits the format."""

    lower: bool
    domains: tuple[str, ...]
    """Suffixes that are cut off, or `all` for everything after the first dot."""

    def of(self, name: str) -> str | None:
        """The one spelling of a host; None where the text names none."""
        bare = name.strip().lstrip("\\")
        if bare.lower() in UNSET:
            return None
        address = address_of(bare)
        if address is not None:
            return address
        bare = bare.rstrip(".") or bare
        if self.lower:
            bare = bare.lower()
        if self.domains == (ALL,):
            return bare.split(".", 1)[0] or bare
        for domain in self.domains:
            if bare.lower().endswith(f".{domain}"):
                return bare[: -len(domain) - 1]
        return bare


@dataclass
class NameCounts:
    """Ends of events (two per event), by what became of their name."""

    respelt: int = 0
    mapped: int = 0
    outside: int = 0
    """The table knows the address, but not at that time."""
    unmapped: int = 0
    """Addresses that a table of addresses does not know."""

    def as_dict(self) -> dict[str, int]:
        found = {
            "respelt": self.respelt,
            "mapped": self.mapped,
            "outside": self.outside,
            "unmapped": self.unmapped,
        }
        return {name: count for name, count in found.items() if count}


@dataclass(frozen=True, slots=True)
class HostNames:
    """What is done to the hosts of all events of a run."""

    case: str = "auto"
    """lower, keep, or auto: lower except for data sets with names of their own (`Format.exact_names`)."""
    domains: tuple[str, ...] = ()
    """Suffixes to cut off, `all` or `none`; empty: all for formats that mix long and short names."""
    book: AddressBook | None = None
    _known: dict[Spelling, dict[str, str | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.case not in CASES:
            raise UsageError(f"--host-case is {', '.join(CASES)}, not {self.case!r}")
        if len(self.domains) > 1 and {ALL, NONE} & set(self.domains):
            raise UsageError("--strip-domain all or none stands alone")

    def spelling(self, exact: bool, short: bool) -> Spelling:
        lower = self.case == "lower" or (self.case == "auto" and not exact)
        domains = tuple(domain.lower().strip(".") for domain in self.domains)
        return Spelling(lower, () if domains == (NONE,) else domains or ((ALL,) if short else ()))

    def apply(
        self, column: pa.ChunkedArray, times: IntArray, spelling: Spelling, counts: NameCounts
    ) -> tuple[pa.ChunkedArray, IntArray]:
        """The column respelt and mapped, and the rows that turn out to name no host."""
        values, codes = _encoded(column)
        names = self._spelt(values, spelling)
        per_value = np.bincount(codes, minlength=len(values))
        changed = [i for i, (old, new) in enumerate(zip(values, names, strict=True)) if old != new]
        missing = np.flatnonzero(np.isin(codes, [i for i in changed if names[i] is None]))
        counts.respelt += int(per_value[[i for i in changed if names[i] is not None]].sum())
        if self.book is None and not changed:
            return column, missing
        places: dict[str, int] = {}
        target = np.array([places.setdefault(name or "", len(places)) for name in names], dtype=np.int64)
        rows = target[codes]
        if self.book is not None:
            self._map(list(places), rows, times, spelling, places, counts)
        renamed = pa.DictionaryArray.from_arrays(
            pa.array(rows, pa.int32()), pa.array(list(places), pa.string())
        )
        return pa.chunked_array([renamed]), missing

    def _spelt(self, values: list[str], spelling: Spelling) -> list[str | None]:
        """Each name in its one spelling; what was worked out before is remembered, within bounds."""
        known = self._known.setdefault(spelling, {})
        if len(known) > MOST_KNOWN:
            known = self._known[spelling] = {}
        fresh = {value: spelling.of(value) for value in values if value not in known}
        known.update(fresh)
        return [known[value] for value in values]

    def _map(
        self,
        names: list[str],
        rows: IntArray,
        times: IntArray,
        spelling: Spelling,
        places: dict[str, int],
        counts: NameCounts,
    ) -> None:
        """Addresses -> machines, in place; `rows` are codes into `places`, which grows."""
        assert self.book is not None
        order = np.argsort(rows, kind="stable")
        bounds = np.searchsorted(rows[order], np.arange(len(names) + 1))
        for code, name in enumerate(names):
            mine = order[bounds[code] : bounds[code + 1]]
            if name in self.book:
                found = self.book.machines(name, times[mine])
                machines = {-1: code}
                for entry in np.unique(found[found >= 0]).tolist():
                    machine = spelling.of(self.book.names[entry]) or name
                    machines[entry] = places.setdefault(machine, len(places))
                rows[mine] = [machines[entry] for entry in found.tolist()]
                counts.mapped += int((found >= 0).sum())
                counts.outside += int((found < 0).sum())
            elif address_of(name) is not None:
                counts.unmapped += len(mine)


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], IntArray]:
    """(distinct names, the number of each row's name)."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    if not isinstance(array, pa.DictionaryArray):
        array = array.dictionary_encode()
    return array.dictionary.to_pylist(), array.indices.to_numpy(zero_copy_only=False).astype(np.int64)
