"""Shutting a silo out. FLARE has no revocation list; it refuses silos by name, and so do we."""

from __future__ import annotations

from entente.artifacts import private_files, read_json, write_json
from entente.deployment.site import Site
from entente.errors import UsageError

FILE = "disabled_clients.json"


def revoke(site: Site, silo: str, *, undo: bool = False) -> list[str]:
    """Refuse (or, with `undo`, admit again) every certificate in `silo`'s name; returns who is shut out.

    A silo whose key was stolen comes back under another name, or after the authority was renewed.
    """
    if not site.kit.is_coordinator:
        raise UsageError("a silo cannot shut out another", where=site.path)
    if silo not in site.kit.federation.silos:
        raise UsageError(f"there is no silo {silo!r}", where=site.path)
    path = site.path / FILE
    out = set(read_json(path)["disabled_clients"]) if path.exists() else set()
    out = out - {silo} if undo else out | {silo}
    with private_files():
        write_json(path, {"disabled_clients": sorted(out)})
    site.audit.append("silo-admitted" if undo else "silo-revoked", silo=silo)
    return sorted(out)
