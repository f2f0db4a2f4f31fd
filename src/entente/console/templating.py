"""Templates. Every name in a log is an attacker's to choose: all text is escaped and made visible."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from entente import __version__
from entente.console.sessions import Principal
from entente.logs.schema import DAY
from entente.report.markup import amount, moment, number, size, span
from entente.text import count, visible

LONGEST = 400
"""Characters of a name or sentence that a page shows."""
LONGEST_PART = 500
"""Characters of a part of an address."""


def shown(value: object) -> object:
    """What stands in a page for a value: nothing in it acts, and it has a length that can be read."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return ""
    return visible(value, LONGEST)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("entente.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    environment.filters |= {
        "moment": moment,
        "clock": clock,
        "day": day,
        "span": span,
        "number": number,
        "amount": amount,
        "size": size,
        "address": address,
        "whole": whole,
        "embedded": embedded,
    }
    environment.globals |= {"count": count, "version": __version__, "urlencode": urlencode}
    return environment


def clock(text: str) -> str:
    """A time as the audit trails write it, to the second."""
    return text[:19].replace("T", " ")


def day(number: int) -> str:
    """A day since 1970; logs with a clock of their own count from 1."""
    return moment(number * DAY).removesuffix("00:00").rstrip(", ")


def address(value: object) -> Markup:
    """A value as one part of a path or query."""
    return Markup(quote(str(value)[:LONGEST_PART], safe="", errors="replace"))  # noqa: S704 - nothing but %XX and letters # nosec B704


def whole(value: object) -> Markup:
    """A value that a form sends back: escaped, not shortened."""
    return Markup.escape(str(value).encode("utf-8", "replace").decode())


def embedded(value: object) -> Markup:
    """Data for a script, as an attribute's value."""
    return Markup.escape(json.dumps(value, allow_nan=False))


ENVIRONMENT = _environment()


def render(
    request: Request, template: str, principal: Principal | None, status: int = 200, /, **values: Any
) -> HTMLResponse:
    """A page, or the part of one that htmx asked for."""
    text = ENVIRONMENT.get_template(template).render(
        principal=principal,
        path=request.url.path,
        has=request.app.state.has,
        seen="-".join(map(str, getattr(request.state, "seen", ()))),
        **values,
    )
    return HTMLResponse(text, status)
