"""The operator's session with the coordinator's FLARE server."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from entente.deployment.process import pid_of
from entente.deployment.site import Site
from entente.errors import DeploymentError

Tell = Callable[[str], None]
"""Told, in one line, what is being waited for."""

CONNECT_TIMEOUT = 180.0
"""Seconds to keep trying to connect. A busy machine answers late: FLARE itself gives up after five."""
ATTEMPT = 30.0
COMMAND = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0


def silent(line: str) -> None:
    """Tells nobody."""


@contextmanager
def session(site: Site, timeout: float = CONNECT_TIMEOUT, tell: Tell = silent) -> Iterator[Any]:
    """A FLARE session with the operator's certificate; connecting is tried again until `timeout` is over."""
    flare = _connect(site, timeout, tell)
    try:
        yield flare
    finally:
        flare.close()


def _connect(site: Site, timeout: float, tell: Tell) -> Any:
    from nvflare.fuel.flare_api.api_spec import AuthenticationError, AuthorizationError

    until, pause = time.monotonic() + timeout, FIRST_PAUSE
    while True:
        try:
            return _open(site)
        except (AuthenticationError, AuthorizationError) as error:
            raise DeploymentError(
                f"the coordinator does not accept the operator ({error})",
                where=site.path,
                remedy="Use the kit of this coordinator; `entente federation check` tells more.",
            ) from error
        except Exception as error:  # FLARE raises many kinds; all others may go away with time
            left = until - time.monotonic()
            if pid_of(site) is None:
                raise DeploymentError(
                    "the coordinator is not running",
                    where=site.path,
                    remedy="Start it with `entente federation start`.",
                ) from error
            if left < pause:
                raise DeploymentError(
                    f"the coordinator cannot be reached: tried for {timeout:g} s ({error})",
                    where=site.path,
                    remedy="`entente federation check` tells more; --connect-timeout sets how long to try.",
                ) from error
            tell(f"waiting for the coordinator to answer ({error}); giving up in {left:.0f} s")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _open(site: Site) -> Any:
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    with redirect_stdout(io.StringIO()):  # FLARE prints what it is about to do
        return new_secure_session(
            site.kit.operator, str(site.path / "operator"), timeout=ATTEMPT, command_timeout=COMMAND
        )
