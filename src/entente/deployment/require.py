"""NVIDIA FLARE is an optional dependency."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from entente.errors import MissingExtraError

WANTED = "2.9"


def require_flare() -> str:
    """The installed FLARE version; MissingExtraError if there is none that fits."""
    try:
        found = version("nvflare")
    except PackageNotFoundError as error:
        raise MissingExtraError(
            "a real federation needs NVIDIA FLARE, which is not installed",
            remedy='pip install "entente[flare]"',
        ) from error
    if not found.startswith(f"{WANTED}."):
        raise MissingExtraError(
            f"NVIDIA FLARE {found} is installed, this version of entente needs {WANTED}",
            remedy='pip install "entente[flare]"',
        )
    return found
