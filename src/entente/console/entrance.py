"""Signing in and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from entente.console.access import ForbiddenError, TheGate, Viewer, sign_in, sign_out
from entente.console.templating import render

router = APIRouter(include_in_schema=False)
WRONG = "Name or password are not right."
LOCKED = "Too many wrong passwords: this name has to wait a quarter of an hour."
USED = "This link was used already, or its ten minutes are over. Start the console again, or sign in."


@router.get("/sign-in")
def form(request: Request) -> Response:
    return render(request, "sign_in.html", None, said=None, name="")


@router.post("/sign-in")
def enter(
    request: Request,
    gate: TheGate,
    name: Annotated[str, Form(max_length=200)],
    password: Annotated[str, Form(max_length=2000)],
) -> Response:
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise ForbiddenError("another site sent this form", remedy="Sign in on the console's own page.")
    address = request.client.host if request.client else "unknown"
    user = gate.users.verify(name, password, address)
    if user is None:
        locked = gate.users.locked(name)
        gate.desk.audit.append("sign-in-refused", name=name, address=address, locked=locked)
        return render(
            request,
            "sign_in.html",
            None,
            429 if locked else 401,
            said=LOCKED if locked else WRONG,
            name=name,
        )
    response = RedirectResponse("/", 303)
    sign_in(gate, user, "password", response)
    return response


@router.get("/enter/{secret}")
def enter_by_link(request: Request, gate: TheGate, secret: str) -> Response:
    """The one-time link that `entente console` prints."""
    user = gate.sessions.use_link(secret)
    if user is None:
        return render(request, "sign_in.html", None, 401, said=USED, name="")
    response = RedirectResponse("/", 303)
    sign_in(gate, user, "link", response)
    return response


@router.post("/sign-out")
def leave(request: Request, gate: TheGate, who: Viewer) -> Response:
    response = Response(status_code=204, headers={"HX-Redirect": "/sign-in"})
    sign_out(gate, request, response)
    return response
