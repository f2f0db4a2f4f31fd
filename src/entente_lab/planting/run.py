"""Planting: a log and a kind in, the log with its labels out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from entente.errors import UsageError
from entente.logs.schema import DAY, MICROSECONDS
from entente_lab.planting.base import Contact, Generator, Planted, Traffic
from entente_lab.planting.benign import AdminBursts, BenignPivots, NoisyAccounts
from entente_lab.planting.malicious import Sessions, SlowChains, SlowOperator

KINDS: Final[dict[str, type[Generator]]] = {
    kind.name: kind for kind in (SlowChains, SlowOperator, Sessions, AdminBursts, BenignPivots, NoisyAccounts)
}
PORTS = (445, 135, 3389, 5985)
LOGONS = ("Network", "RemoteInteractive")


def planted(
    events: pa.Table,
    kind: str | Generator,
    seed: int,
    *,
    since: int | None = None,
    until: int | None = None,
    **parameters: Any,
) -> Planted:
    """`events` with what a generator adds to them between `since` and `until` (microseconds).

    `kind` is a name of KINDS, whose parameters may be given, or a generator. Without `since` and `until`
    the whole span of the log is used; give `since` for malicious kinds, so that training stays clean.
    Labels that were null become 0. The same arguments give the same table, bit for bit.
    """
    generator = _generator(kind, parameters)
    log = pl.from_arrow(events)
    assert isinstance(log, pl.DataFrame)
    if not len(log):
        raise UsageError("nothing can be planted into an empty log")
    if "label" not in log.columns:
        log = log.with_columns(label=pl.lit(0, pl.Int8))
    traffic = _traffic(log)
    begin = traffic.first if since is None else since / MICROSECONDS
    end = traffic.last if until is None else until / MICROSECONDS
    if end <= begin:
        raise UsageError("the span to plant into is empty", remedy="`since` has to lie before `until`.")
    rng = np.random.default_rng([seed, list(KINDS).index(generator.name)])
    found = generator.contacts(traffic, begin, end, rng)
    if _whole_seconds(log):
        found = [replace(contact, time=float(int(contact.time))) for contact in found]
    contacts = sorted(found, key=lambda c: (c.time, c.src, c.dst))
    accounts = _accounts(log, traffic) if "user" in log.columns else None
    added = _rows(contacts, generator.label, traffic, accounts, log, rng)
    whole = pl.concat([log.with_columns(pl.col("label").fill_null(0)), added]).sort(
        "time", maintain_order=True
    )
    return Planted(whole.to_arrow().cast(_schema(events)), _table(contacts, generator, traffic, accounts))


def _generator(kind: str | Generator, parameters: dict[str, Any]) -> Generator:
    if isinstance(kind, Generator):
        if parameters:
            raise UsageError("a generator has its parameters already")
        return kind
    if kind not in KINDS:
        raise UsageError(f"nothing called {kind!r} can be planted", remedy=f"Choose from {', '.join(KINDS)}.")
    try:
        return KINDS[kind](**parameters)
    except TypeError as error:
        known = ", ".join(KINDS[kind].__dataclass_fields__)
        raise UsageError(f"{kind}: {error}", remedy=f"Parameters: {known}.") from error


def _traffic(log: pl.DataFrame) -> Traffic:
    names = pl.concat([log["src"], log["dst"]]).unique().sort()
    numbers = pl.Enum(names)
    coded = log.filter(pl.col("src") != pl.col("dst")).select(
        pl.col("src", "dst").cast(numbers).to_physical().cast(pl.Int64),
        hour=pl.col("time") // (3600 * MICROSECONDS) % 24,
        day=pl.col("time") // DAY,
    )
    pairs = coded.select("src", "dst").unique().sort("src", "dst")
    src, dst = pairs["src"].to_numpy(), pairs["dst"].to_numpy()
    awake = np.zeros((len(names), 24), dtype=np.bool_)
    awake[coded["src"].to_numpy(), coded["hour"].to_numpy()] = True
    day = coded["day"].to_numpy()
    day = day - day.min(initial=int(log["time"].min()) // DAY)  # type: ignore[arg-type]
    active = np.zeros((len(names), int(day.max(initial=0)) + 1), dtype=np.bool_)
    active[coded["src"].to_numpy(), day] = True
    return Traffic(
        names=names.to_numpy(),
        src=src,
        dst=dst,
        by_dst=np.lexsort((src, dst)),
        sources=np.bincount(dst, minlength=len(names)),
        targets=np.bincount(src, minlength=len(names)),
        awake=awake,
        active=active,
        first=float(log["time"].min()) / MICROSECONDS,  # type: ignore[arg-type]
        last=float(log["time"].max()) / MICROSECONDS,  # type: ignore[arg-type]
    )


def _accounts(log: pl.DataFrame, traffic: Traffic) -> list[str | None]:
    """The account that acts most often on each host; where none acts, the one most often met there."""
    found: dict[str, str] = {}
    for end in ("dst", "src"):
        counted = (
            log.drop_nulls("user")
            .group_by(end, "user")
            .len()
            .sort(end, "len", "user", descending=[False, True, False])
        )
        found |= dict(counted.group_by(end, maintain_order=True).first().select(end, "user").iter_rows())
    return [found.get(str(name)) for name in traffic.names]


def _rows(
    contacts: list[Contact],
    label: int,
    traffic: Traffic,
    accounts: list[str | None] | None,
    log: pl.DataFrame,
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Each contact as one to a few events within two minutes.

    Package, logon type, port and size are those of an event drawn from the log for each contact.
    """
    successes = np.minimum(rng.geometric(0.5, len(contacts)), 5)
    failures = np.array([contact.failures for contact in contacts], dtype=np.int64)
    if not _says(log, "outcome"):
        failures[:] = 0
    count = failures + successes
    row = np.repeat(np.arange(len(contacts)), count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    outcome = place >= failures[row]
    begin = np.array([contact.time for contact in contacts])[row]
    first = place == failures[row]
    shift = np.where(outcome, rng.uniform(1, 120, len(row)), -rng.uniform(5, 300, len(row)))
    time = ((begin + np.where(first, 0.0, shift)) * MICROSECONDS).astype(np.int64)
    time = np.clip(time, int(traffic.first * MICROSECONDS), int(traffic.last * MICROSECONDS))
    if _whole_seconds(log):
        time = time // MICROSECONDS * MICROSECONDS
    names = [name for name in ("kind", "logon", "port", "bytes") if name in log.columns]
    pattern = _ordinary(log)
    drawn = rng.integers(0, len(pattern), len(contacts))[row]
    columns: dict[str, Any] = {
        "time": time,
        "src": traffic.names[[contact.src for contact in contacts]][row],
        "dst": traffic.names[[contact.dst for contact in contacts]][row],
        "user": [accounts[contacts[i].account] for i in row.tolist()] if accounts else None,
        "outcome": outcome if _says(log, "outcome") else None,
        "label": np.full(len(row), label),
        **{name: pattern[name].gather(drawn) for name in names},
    }
    return pl.DataFrame(
        {
            name: pl.Series(name, [None] * len(row) if columns.get(name) is None else columns[name]).cast(
                kind
            )
            for name, kind in log.schema.items()
        }
    )


def _ordinary(log: pl.DataFrame) -> pl.DataFrame:
    """Events that may serve as a pattern: over the network or a remote desktop, at a port of those two."""
    chosen = pl.lit(True)
    if _says(log, "logon"):
        chosen &= pl.col("logon").is_in(LOGONS)
    if _says(log, "port"):
        chosen &= pl.col("port").is_in(PORTS)
    found = log.filter(chosen)
    return found if len(found) else log


def _says(log: pl.DataFrame, name: str) -> bool:
    return name in log.columns and log[name].null_count() < len(log)


def _whole_seconds(log: pl.DataFrame) -> bool:
    return bool((log["time"] % MICROSECONDS == 0).all())


def _schema(events: pa.Table) -> pa.Schema:
    if "label" in events.column_names:
        return events.schema
    return events.schema.append(pa.field("label", pa.int8()))


def _table(
    contacts: list[Contact], generator: Generator, traffic: Traffic, accounts: list[str | None] | None
) -> pa.Table:
    names = traffic.names
    return pa.table(
        {
            "time": pa.array([int(c.time * MICROSECONDS) for c in contacts], pa.int64()),
            "src": pa.array([str(names[c.src]) for c in contacts], pa.string()),
            "dst": pa.array([str(names[c.dst]) for c in contacts], pa.string()),
            "user": pa.array([accounts[c.account] if accounts else None for c in contacts], pa.string()),
            "campaign": pa.array([c.campaign for c in contacts], pa.int64()),
            "label": pa.array([generator.label] * len(contacts), pa.int8()),
        }
    )
