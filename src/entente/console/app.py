"""The application: routes, guards and what a page says when something goes wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse, RedirectResponse, Response

from entente import __version__
from entente.console import analyst, api, coordinator, entrance, live
from entente.console.access import COOKIE, ForbiddenError, Gate, SignInError
from entente.console.database import Connections
from entente.console.desk import Desk, Missing
from entente.console.experiments import Experiments
from entente.console.knowledge import Knowledge
from entente.console.sessions import Sessions
from entente.console.settings import ConsoleSettings
from entente.console.templating import render
from entente.console.users import Users
from entente.errors import EntenteError, UsageError
from entente.service.alerts import ChangedError
from entente.service.config import LOOPBACK

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
LARGEST_BODY = 1_000_000
THREADS = 8
"""Requests that are worked on at once: each thread has connections with caches of their own."""


def create_app(settings: ConsoleSettings) -> FastAPI:
    """The console for these settings; nothing listens yet."""
    desk = Desk(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = THREADS
        yield
        desk.close()

    app = FastAPI(
        title="Entente console",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.gate = gate_for(desk)
    app.state.listeners = live.Listeners()
    app.state.stopping = lambda: False  # whoever serves says when streams have to end
    app.state.knowledge = Knowledge(settings)
    app.state.experiments = Experiments(settings, desk.audit)
    app.state.has = {
        "alerts": settings.service is not None or settings.run is not None,
        "service": settings.service is not None,
        "kit": settings.kit is not None,
        "runs": settings.run is not None or settings.kit is not None,
        "oidc": settings.oidc is not None,
    }
    static = files("entente.console").joinpath("static")
    app.mount("/static", StaticFiles(directory=str(static)), name="static")
    for router in (entrance.router, analyst.router, coordinator.router, live.router, api.router):
        app.include_router(router)
    if settings.oidc is not None:
        from entente.console.oidc import add_provider  # pulls in a client for HTTP

        add_provider(app, settings.oidc)
    app.middleware("http")(_guarded)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, "[::1]", settings.host])
    for kind in (EntenteError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _problem)
    return app


def gate_for(desk: Desk) -> Gate:
    own: Connections = desk.own
    return Gate(desk, Users(own), Sessions(own))


async def _guarded(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Bounded bodies, and headers that let the browser run and load nothing but our own files."""
    length = request.headers.get("content-length", "0")
    if (
        not (length.isascii() and length.isdigit())
        or int(length) > LARGEST_BODY
        or "transfer-encoding" in request.headers
    ):
        return _answer(request, 413, f"a request has at most {LARGEST_BODY:,} bytes", None)
    response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers[name] = value
    if not request.url.path.startswith("/static/"):
        response.headers["Cache-Control"] = "no-store"
    if request.app.state.gate.desk.settings.tls:
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
    return response


def _problem(request: Request, error: Exception) -> Response:
    status, said, remedy = _told(error)
    return _answer(request, status, said, remedy)


def _told(error: Exception) -> tuple[int, str, str | None]:
    """Status, sentence and remedy of an error."""
    match error:
        case SignInError():
            return 401, error.what, error.remedy
        case ForbiddenError():
            return 403, error.what, error.remedy
        case Missing():
            return 404, error.what, error.remedy
        case ChangedError():
            return 409, error.what, error.remedy
        case UsageError():
            return 400, error.what, error.remedy
        case EntenteError():
            return 503, str(error).split("\n", maxsplit=1)[0], error.remedy
        case RequestValidationError():
            parts = [f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors()[:5]]
            return 422, "; ".join(parts), None
        case HTTPException():
            words = {404: "there is no such page", 405: "this cannot be done here"}
            return error.status_code, words.get(error.status_code, str(error.detail)), None
    return 500, "something went wrong in the console; its log has the details", None


def _answer(request: Request, status: int, said: str, remedy: str | None) -> Response:
    path = request.url.path
    if path.startswith("/api/"):
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        body: dict[str, Any] = {"detail": said, "remedy": remedy}
        return JSONResponse(body, status, headers)
    if status == 401:
        if request.headers.get("hx-request"):
            return Response(status_code=401, headers={"HX-Redirect": "/sign-in"})
        return RedirectResponse("/sign-in", 303)
    name = "problem_part.html" if request.headers.get("hx-request") else "problem.html"
    who = request.app.state.gate.sessions.find(request.cookies.get(COOKIE, ""))
    return render(request, name, who, status, said=said, remedy=remedy, code=status)
