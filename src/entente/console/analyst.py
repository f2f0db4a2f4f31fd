"""The analyst's pages: queue, incident, entity, suppressions and health."""

from __future__ import annotations

import json
import time
from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.responses import RedirectResponse, Response

from entente.console import expecting
from entente.console.access import Analyst, TheGate, Viewer
from entente.console.desk import EVERY, Desk, Wish
from entente.console.drawing import draw
from entente.console.exports import KINDS, SUFFIXES, export
from entente.console.filters import CaseQuery
from entente.console.health import health_of
from entente.console.knowledge import Knowledge
from entente.console.people import entity_of
from entente.console.templating import render
from entente.detection.explanations import SEVERITIES, TECHNIQUES
from entente.errors import UsageError
from entente.service.alerts import REASONS, STATUSES
from entente.service.suppression import FIELDS, network, rule_from
from entente.text import count

router = APIRouter(include_in_schema=False)
PAGE = 50
MOST_CHOSEN = 500
"""Cases that one bulk action may change."""


def knowledge_of(request: Request) -> Knowledge:
    found: Knowledge = request.app.state.knowledge
    return found


def query_of(request: Request) -> CaseQuery:
    try:
        return CaseQuery.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise RequestValidationError([{**e, "loc": ("query", *e["loc"])} for e in error.errors()]) from error


@router.get("/")
def home(request: Request, who: Viewer) -> Response:
    if request.app.state.has["alerts"]:
        return RedirectResponse("/queue", 303)
    return RedirectResponse("/federation", 303)


@router.get("/queue")
def queue(
    request: Request, gate: TheGate, who: Viewer, page: Annotated[int, Query(ge=1, le=1_000_000)] = 1
) -> Response:
    query = query_of(request)
    found = gate.desk.find(query, page, PAGE)
    values: dict[str, Any] = {
        "found": found,
        "query": query,
        "severities": SEVERITIES,
        "silos": gate.desk.index.values("silo", 200),
        "techniques": gate.desk.index.values("technique", 200),
        "names": TECHNIQUES,
        "totals": gate.desk.index.by_status(),
        "reasons": REASONS,
    }
    name = "queue_part.html" if request.headers.get("hx-target") == "cases" else "queue.html"
    return render(request, name, who, **values)


@router.get("/incident/{ident}")
def incident(request: Request, gate: TheGate, who: Viewer, ident: str) -> Response:
    return _incident(request, gate.desk, who, ident)


def _incident(
    request: Request, desk: Desk, who: Any, ident: str, said: str | None = None, undo: str | None = None
) -> Response:
    case = desk.case(ident)
    alerts = desk.alerts(case)
    knowledge = knowledge_of(request)
    hosts = {host: knowledge.host(host) for host in case.story["hosts"]}

    def home(host: str) -> str | None:
        facts = hosts.get(host) or knowledge.host(host)
        return facts.owner if facts is not None else None

    part = "incident_part.html" if request.headers.get("hx-target") == "incident" else "incident.html"
    return render(
        request,
        part,
        who,
        case=case,
        alerts=alerts,
        drawing=draw([one.alert for one in alerts], home),
        hosts=hosts,
        further=desk.store.further(case.id),
        notes=desk.notes(alerts),
        history=desk.history(alerts),
        reasons=REASONS,
        names=TECHNIQUES,
        exports=KINDS,
        said=said,
        undo=undo,
    )


@router.get("/alert/{ident}/evidence")
def evidence(request: Request, gate: TheGate, who: Viewer, ident: str) -> Response:
    """The rows of the log behind one alert."""
    found = gate.desk.alert(ident)
    knowledge = knowledge_of(request)
    return render(
        request,
        "evidence.html",
        who,
        one=found,
        rows=knowledge.rows(found.alert),
        usual=knowledge.nearest_usual(found.alert),
        names=TECHNIQUES,
    )


@router.post("/cases")
def change_cases(
    request: Request,
    gate: TheGate,
    who: Analyst,
    chosen: Annotated[list[str], Form(max_length=MOST_CHOSEN)],
    action: Annotated[str, Form(max_length=20)],
    reason: Annotated[str, Form(max_length=20)] = "",
    assignee: Annotated[str, Form(max_length=64)] = "",
    back: Annotated[str, Form(max_length=100)] = "",
) -> Response:
    """One action on one or many cases; each of `chosen` is id:version as the page showed it."""
    wish = wish_of(action, reason, assignee, who.name)
    undo = gate.desk.change(who, [_chosen(text) for text in chosen], wish)
    words = {"acknowledge": "acknowledged", "close": f"closed as {reason}", "reopen": "opened again"}
    said = f"{count(len(chosen), 'case')} {words.get(action, 'assigned')}."
    if back:
        return _incident(request, gate.desk, who, back, said, undo)
    return render(request, "toast.html", who, said=said, undo=undo, wrong=False, headers=None)


def wish_of(action: str, reason: str, assignee: str, me: str) -> Wish:
    match action:
        case "acknowledge":
            return Wish("acknowledged", assignee=me)
        case "close":
            for known in REASONS:
                if reason == known:
                    return Wish("closed", known)
            raise UsageError("a case is closed with a reason", remedy=f"Reasons: {', '.join(REASONS)}.")
        case "reopen":
            return Wish("open")
        case "assign":
            return Wish(assignee=assignee)
        case "mine":
            return Wish(assignee=me)
    raise UsageError(f"there is no action {action!r}", remedy="acknowledge, close, reopen, assign or mine.")


def _chosen(text: str) -> tuple[str, int | None]:
    ident, _, version = text.rpartition(":")
    if not ident or not (version.isascii() and version.isdigit()) or len(version) > 18:
        raise UsageError("a case is chosen by its id and version", remedy="Reload the page and try again.")
    return ident, int(version)


@router.post("/undo/{ident}")
def undo(
    request: Request, gate: TheGate, who: Analyst, ident: str, back: Annotated[str, Form(max_length=100)] = ""
) -> Response:
    number = gate.desk.undo(who, ident)
    said = f"Taken back: {count(number, 'alert')} as before."
    if back:
        return _incident(request, gate.desk, who, back, said)
    return render(request, "toast.html", who, said=said, undo=None, wrong=False)


@router.post("/incident/{ident}/notes")
def add_note(
    request: Request, gate: TheGate, who: Analyst, ident: str, text: Annotated[str, Form(max_length=10_000)]
) -> Response:
    gate.desk.note(who, gate.desk.case(ident), text)
    return _incident(request, gate.desk, who, ident, "Note added.")


@router.get("/incident/{ident}/export/{kind}")
def export_incident(gate: TheGate, who: Viewer, ident: str, kind: str) -> Response:
    case = gate.desk.case(ident)
    text = export(kind, case, gate.desk.alerts(case, EVERY))
    gate.desk.audit.append("export", by=who.name, incident=case.id, format=kind)
    name = f"incident-{case.id[:8]}-{kind}.{SUFFIXES[kind]}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=KINDS[kind], headers=headers)


@router.get("/entity/{kind}")
def entity(
    request: Request, gate: TheGate, who: Viewer, kind: str, name: Annotated[str, Query(max_length=2000)] = ""
) -> Response:
    """A host or an account; without a name, a search."""
    if kind not in ("host", "user"):
        raise UsageError(f"there is no page for a {kind[:40]!r}", remedy="host or user.")
    found = entity_of(gate.desk, knowledge_of(request), kind, name) if name else None
    listed = [] if name else gate.desk.index.values(kind, 200)
    return render(request, "entity.html", who, kind=kind, name=name, found=found, listed=listed)


@router.get("/suppress/{ident}")
def suppress_form(
    request: Request,
    gate: TheGate,
    who: Analyst,
    ident: str,
    by: Annotated[str, Query(max_length=10)] = "pair",
    reason: Annotated[str, Query(max_length=500)] = "",
    until: Annotated[str, Query(max_length=10)] = "",
) -> Response:
    """The dialogue that suppresses what is like an alert, with what it would have hidden."""
    alert = gate.desk.alert(ident).alert
    rule = rule_from(alert, by, reason or "?", _day(until), who.name)
    told = expecting.preview(gate.desk, rule)
    return render(
        request, "suppress.html", who, alert=alert, by=by, reason=reason, until=until, told=told,
        fields=[field for field in FIELDS if _possible(alert, field)],
    )  # fmt: skip


def _possible(alert: Any, field: str) -> bool:
    needed = {"user": alert.users, "port": alert.ports, "net": network(alert.src)}
    return bool(needed.get(field, True))


@router.post("/suppress/{ident}")
def suppress(
    request: Request,
    gate: TheGate,
    who: Analyst,
    ident: str,
    by: Annotated[str, Form(max_length=10)],
    reason: Annotated[str, Form(max_length=500)],
    until: Annotated[str, Form(max_length=10)] = "",
) -> Response:
    rule = rule_from(gate.desk.alert(ident).alert, by, reason.strip(), _day(until), who.name)
    number, undo_id = expecting.suppress(gate.desk, who, rule)
    said = f"Suppression {rule.id} added; {count(number, 'open alert')} marked."
    response = render(request, "toast.html", who, said=said, undo=undo_id, wrong=False)
    response.headers["HX-Trigger"] = json.dumps({"suppressed": rule.id})
    return response


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise UsageError("until is a day as 2026-12-31") from error


@router.get("/health")
def health(request: Request, gate: TheGate, who: Viewer) -> Response:
    gate.desk.index.catch_up()
    told = health_of(gate.desk, time.time())
    return render(request, "health.html", who, told=told, rules=expecting.rules(gate.desk), statuses=STATUSES)
