"""The ways of splitting hosts into silos, by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entente.errors import UsageError
from entente.partition.base import Assignment
from entente.partition.column import from_event_column, from_host_table
from entente.partition.pairs import Pairs, cover, host_pairs
from entente.partition.subnet import from_subnets, read_subnets
from entente.partition.views import build_view, fit_silos

METHODS = ("block-model", "column", "subnet")


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """What a method of splitting is told; the command line's options have the same names."""

    k: int | None = None
    hosts: Path | None = None
    column: str | None = None
    subnets: Path | None = None
    view: str = "auto"
    internal: Sequence[str] = ()
    starts: int = 12
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Hosts with their silos, and how they came there."""

    assignment: Assignment
    pairs: Pairs
    placed: int
    """Hosts that the method does not know: they went where most of their events go, or to `other`."""
    model: dict[str, Any] | None = None
    """Facts about the block model."""


def partition(
    events: str | os.PathLike[str],
    method: str = "column",
    *,
    k: int | None = None,
    hosts: str | os.PathLike[str] | None = None,
    column: str | None = None,
    subnets: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> Assignment:
    """Decide which host of an event directory belongs to which silo.

    `method` is `column` (a host list, or a column of the events), `subnet` (a table silo,cidr) or `block-
    model` (`k` silos found in the events themselves).

    >>> company = entente.datasets.simulated("company", hosts=40, sites=2, days=2)
    >>> silos = entente.partition(company.events, "column", hosts=company.hosts, column="site")
    >>> silos.sizes()
    {'headquarters': 25, 'lyon': 15}
    """
    options = SplitOptions(
        k,
        None if hosts is None else Path(hosts),
        column,
        None if subnets is None else Path(subnets),
        seed=seed,
    )
    return split_hosts(Path(events), method, options).assignment


def split_hosts(events: Path, method: str, options: SplitOptions) -> Split:
    """Every host of the events with its silo, by one of METHODS."""
    _check(method, options)
    pairs, model = host_pairs(events), None
    if method == "block-model":
        known, model = _block_model(events, options)
    elif method == "subnet":
        assert options.subnets is not None
        known = from_subnets(read_subnets(options.subnets), pairs.hosts.tolist())
    elif options.hosts is not None:
        known = from_host_table(options.hosts, options.column or "site")
    else:
        known = from_event_column(events, options.column or "")
    placed = sum(host not in known for host in pairs.hosts.tolist())
    return Split(cover(known, pairs), pairs, placed, model)


def _check(method: str, options: SplitOptions) -> None:
    if method not in METHODS:
        raise UsageError(f"unknown method {method!r}", remedy=f"Choose one of {', '.join(METHODS)}.")
    if method == "column" and options.hosts is None and options.column is None:
        raise UsageError(
            "method column needs to know what to split by",
            remedy="Give --hosts hosts.csv --column site, or --column kind for a column of the events.",
        )
    if method == "subnet" and options.subnets is None:
        raise UsageError("method subnet needs --subnets", remedy="Give a table with columns silo,cidr.")
    if options.internal and method != "block-model":
        raise UsageError(f"--internal does nothing with method {method}", remedy="Leave it out.")


def _block_model(events: Path, options: SplitOptions) -> tuple[dict[str, str], dict[str, Any]]:
    chosen = build_view(events, options.view, options.internal)
    known, model = fit_silos(chosen, options.k, starts=options.starts, seed=options.seed)
    return known, {
        "view": chosen.name,
        "blocks": model.sizes,
        "empty_blocks": model.empty,
        "log_likelihood": model.log_likelihood,
        "icl": model.icl,
    }
