"""`entente attacks`: the attacks of the attack lab."""

from __future__ import annotations

from entente.cli.terminal import Json


def attacks(as_json: Json = False) -> None:
    """List the attacks that an attack file can name.

    Example: entente attacks --json
    """
    from entente.cli.listing import list_plugins
    from entente_lab.attacks import ATTACKS

    list_plugins(ATTACKS, as_json)
