"""Shutting a silo, or one of its certificates, out of the federation; the coordinator's port enforces it."""

from __future__ import annotations

from entente.artifacts import private_files, write_json
from entente.deployment.guard import REVOKED, Revoked, read_revoked
from entente.deployment.site import Site
from entente.errors import StorageError, UsageError


def revoke(site: Site, silo: str, serial: str | None = None, *, undo: bool = False) -> Revoked:
    """Refuse (or, with `undo`, admit again) one certificate of `silo`, or all of them without a serial.

    It applies at once, to connections that are open too. Returns everything that is revoked.
    """
    if not site.kit.is_coordinator:
        raise UsageError("a silo cannot shut out another", where=site.path)
    if silo not in site.kit.federation.silos:
        raise UsageError(f"there is no silo {silo!r}", where=site.path)
    if serial is not None and not (serial.isascii() and serial.isdecimal() and len(serial) <= 60):
        raise UsageError(
            f"{serial!r} is not a certificate's serial number",
            remedy="`entente federation check` shows it in a silo's kit.",
        )
    path = site.path / REVOKED
    try:
        before = read_revoked(path)
    except ValueError as error:
        raise StorageError(f"is not a list of revoked certificates ({error})", where=path) from error
    names, serials = set(before.names), dict(before.serials)
    if serial is None:
        names = names - {silo} if undo else names | {silo}
    elif undo:
        serials.pop(serial, None)
    else:
        serials[serial] = silo
    with private_files():
        write_json(path, {"names": sorted(names), "serials": serials})
    site.audit.append("silo-admitted" if undo else "silo-revoked", silo=silo, serial=serial or "all")
    return Revoked(frozenset(names), serials)
