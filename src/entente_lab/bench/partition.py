"""K silos out of a data set: by site where the company has sites, else by the block model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from entente.partition.base import Assignment
from entente.partition.column import from_host_table
from entente.partition.pairs import cover, host_pairs
from entente.partition.views import build_view, fit_silos

PICTURE = 48
"""Parts of the host list along a side of the block picture."""


def partition(
    events: Path, k: int, *, sites: Path | None, view: str, internal: Sequence[str] = ()
) -> tuple[Assignment, str]:
    """Every host in one of K silos, and how that came about.

    More silos than sites, and companies without sites, are split by the multilayer block model; where
    it leaves blocks empty there are fewer silos than asked for, as in the paper.
    """
    if sites is not None:
        site_of = from_host_table(sites, "site")
        count = len(set(site_of.values()))
        if k == count:
            return Assignment.from_mapping(site_of), "one silo per site"
        if k < count:
            return Assignment.from_mapping(merge(site_of, k)), f"{count} sites, the smallest put together"
    seen = build_view(events, view, internal)
    known, model = fit_silos(seen, k)
    assignment = cover(known, host_pairs(events))
    empty = k - len(assignment.silos)
    how = f"block model of {seen.name}, {model.asked[0]} × {model.asked[1]} blocks"
    return assignment, how + (f", {empty} empty ones dropped" if empty else "")


def block_picture(events: Path, assignment: Assignment) -> dict[str, Any]:
    """Shares of the silos among the hosts, and how many host pairs lie between parts of the host list.

    Hosts stand in order of their silos, in each the busiest first; numbers are logarithms over the largest.
    """
    silo_of, pairs = assignment.as_dict(), host_pairs(events)
    degree = np.bincount(np.concatenate((pairs.src, pairs.dst)), minlength=len(pairs.hosts))
    known = np.array([number for number, host in enumerate(pairs.hosts.tolist()) if host in silo_of])
    silo = np.array([silo_of[host] for host in pairs.hosts[known].tolist()])
    order = known[np.lexsort((-degree[known], silo))]
    place = np.full(len(pairs.hosts), -1)
    place[order] = np.arange(len(order)) * PICTURE // max(1, len(order))
    both = (place[pairs.src] >= 0) & (place[pairs.dst] >= 0)
    counts = np.zeros((PICTURE, PICTURE))
    np.add.at(counts, (place[pairs.src[both]], place[pairs.dst[both]]), 1)
    shade = np.log1p(counts) / max(1.0, float(np.log1p(counts.max())))
    names, sizes = np.unique(silo, return_counts=True)
    return {
        "groups": dict(zip(names.tolist(), (sizes / len(order)).tolist(), strict=True)),
        "cells": np.round(shade, 2).tolist(),
    }


def merge(site_of: Mapping[str, str], k: int) -> dict[str, str]:
    """K silos out of more sites: the two smallest are put together until K are left."""
    members: dict[str, list[str]] = {}
    for host, site in site_of.items():
        members.setdefault(site, []).append(host)
    while len(members) > k:
        small, next_small = sorted(members, key=lambda name: (len(members[name]), name))[:2]
        members[f"{next_small}+{small}"] = members.pop(next_small) + members.pop(small)
    # Fifty sites in one name help nobody.
    places = sorted(members, key=lambda name: (-len(members[name]), name))
    return {
        host: name if "+" not in name else f"merged{places.index(name) + 1:02d}"
        for name, hosts in members.items()
        for host in hosts
    }
