"""Listening: the server, its socket, and the link for whoever started it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

import uvicorn

from entente.artifacts import locked
from entente.console.app import create_app
from entente.console.settings import ConsoleSettings
from entente.console.users import NAME, User
from entente.errors import UsageError

FAREWELL = 5
"""Seconds that requests have after Ctrl-C; open streams end by themselves."""


def serve(
    settings: ConsoleSettings,
    me: str,
    tell: Callable[[str], None],
    progress: Callable[[int, int], None],
) -> None:
    """Serve until Ctrl-C; `tell` gets the address and the link. One console works on its folder."""
    with locked(settings.data, "another console shows this already", mode=0o700):
        _serve(settings, me, tell, progress)


def _serve(
    settings: ConsoleSettings,
    me: str,
    tell: Callable[[str], None],
    progress: Callable[[int, int], None],
) -> None:
    listening = _listen(settings)
    settings = replace(settings, port=listening.getsockname()[1])
    app = create_app(settings)
    gate = app.state.gate
    gate.desk.index.catch_up(progress)
    link = gate.sessions.make_link(User(me if NAME.fullmatch(me) else "operator", "operator"))
    tell(f"console: {settings.origin}")
    tell(f"sign in once, within ten minutes: {settings.origin}/enter/{link}")
    tell("stop with Ctrl-C")
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # a link's secret stands in its path
        server_header=False,
        timeout_graceful_shutdown=FAREWELL,
        limit_concurrency=1000,
        h11_max_incomplete_event_size=65_536,
        ssl_certfile=str(settings.certificate) if settings.certificate else None,
        ssl_keyfile=str(settings.key) if settings.key else None,
    )
    server = uvicorn.Server(config)
    app.state.stopping = lambda: server.should_exit
    with listening:
        server.run(sockets=[listening])


def _listen(settings: ConsoleSettings) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
    except OSError as error:
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port} ({error.strerror})",
            remedy="Another console may run; give another --port.",
        ) from error
    return listening
