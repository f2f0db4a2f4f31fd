"""Who may ask for what: sessions for pages, tokens for machines, and the guard against forged requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.responses import Response

from entente.console.desk import Desk
from entente.console.sessions import LONGEST, Principal, Sessions, same
from entente.console.users import Role, User, Users
from entente.errors import EntenteError

COOKIE = "entente_session"
SAFE = ("GET", "HEAD", "OPTIONS")


class SignInError(EntenteError):
    """Raised when nobody is signed in; pages show the sign-in form, REST answers 401."""


class ForbiddenError(EntenteError):
    """Raised when whoever asks may not do this."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Everything that the pages share, put on the application."""

    desk: Desk
    users: Users
    sessions: Sessions


def gate_of(request: Request) -> Gate:
    found: Gate = request.app.state.gate
    return found


def principal_of(request: Request) -> Principal:
    """Who asks; SignInError for nobody, ForbiddenError for a request that another site forged."""
    gate = gate_of(request)
    header = request.headers.get("authorization", "")
    if header.lower().startswith("bearer "):
        found = gate.sessions.of_token(header[7:].strip())
        if found is None:
            raise SignInError("this token is not known, or its time is over")
        return found
    found = gate.sessions.find(request.cookies.get(COOKIE, ""))
    if found is None:
        raise SignInError("nobody is signed in", remedy="Sign in, or send a token.")
    if request.method not in SAFE:
        _check_origin(request, found)
    return found


def _check_origin(request: Request, principal: Principal) -> None:
    """A page of another site can make a browser send our cookie, but it cannot know the session's token."""
    given = request.headers.get("x-csrf-token", "")
    crossing = request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
    if crossing or principal.csrf is None or not same(given, principal.csrf):
        raise ForbiddenError(
            "this request does not come from a page of the console", remedy="Reload the page and try again."
        )


def needs(role: Role) -> Callable[[Request], Principal]:
    """A dependency: whoever asks has at least this role."""

    def check(request: Request) -> Principal:
        principal = principal_of(request)
        request.state.seen = gate_of(request).desk.state()  # before anything that the page shows is read
        if not principal.may(role):
            raise ForbiddenError(
                f"{principal.name} is a {principal.role}; this needs the role {role}",
                remedy="Ask an operator of the console.",
            )
        return principal

    return check


Viewer = Annotated[Principal, Depends(needs("viewer"))]
Analyst = Annotated[Principal, Depends(needs("analyst"))]
Operator = Annotated[Principal, Depends(needs("operator"))]
TheGate = Annotated[Gate, Depends(gate_of)]


def sign_in(gate: Gate, user: User, how: str, response: Response) -> None:
    """Begin a session and give the browser its cookie."""
    secret = gate.sessions.start(user, how)
    gate.desk.audit.append("sign-in", by=user.name, role=user.role, how=how)
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(LONGEST),
        httponly=True,
        samesite="lax",
        secure=gate.desk.settings.tls,
        path="/",
    )


def sign_out(gate: Gate, request: Request, response: Response) -> None:
    principal: Any = gate.sessions.find(request.cookies.get(COOKIE, ""))
    gate.sessions.end(request.cookies.get(COOKIE, ""))
    if principal is not None:
        gate.desk.audit.append("sign-out", by=principal.name)
    response.delete_cookie(COOKIE, path="/")
