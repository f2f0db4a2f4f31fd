"""REST: the same desk for machines. Tokens by role, pages of results, versions against lost updates."""

from __future__ import annotations

import time
from datetime import date
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from entente.console import expecting
from entente.console.access import Analyst, Operator, TheGate, Viewer
from entente.console.analyst import knowledge_of
from entente.console.coordinator import experiments_of
from entente.console.desk import EVERY, Wish
from entente.console.exports import KINDS, export
from entente.console.filters import CaseQuery
from entente.console.health import health_of
from entente.console.people import entity_of
from entente.console.shown_runs import ShownRuns
from entente.console.site import latest, look_at
from entente.errors import UsageError
from entente.service.alerts import Filter, Reason, Status
from entente.service.suppression import By, Suppression, rule_from

MOST = 500
Ident = Annotated[str, Path(min_length=1, max_length=100)]
Text = Annotated[str, Query(max_length=500)]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="the ETag that was read", max_length=40)]


class Problem(BaseModel):
    """What every answer that is no success holds."""

    detail: str
    remedy: str | None = None


ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem} for code in (400, 401, 403, 404, 405, 409, 413, 422, 503)
}
router = APIRouter(prefix="/api/v1", responses=ERRORS)


class Change(BaseModel):
    """What is to become of an incident or an alert; closing needs a reason."""

    model_config = ConfigDict(extra="forbid")

    status: Status | None = None
    reason: Reason | None = None
    assignee: str | None = Field(default=None, max_length=64, description="empty for nobody")

    def wish(self) -> Wish:
        return Wish(self.status, self.reason, self.assignee)


class NoteBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=10_000)


class NewSuppression(BaseModel):
    """A rule made from an alert: what it must share with it, why and until when."""

    model_config = ConfigDict(extra="forbid")

    alert: str = Field(min_length=1, max_length=100)
    by: By = "pair"
    reason: str = Field(min_length=1, max_length=500)
    until: date | None = None


class Start(BaseModel):
    model_config = ConfigDict(extra="forbid")

    action: Literal["start", "resume", "stop"]


@router.get("/incidents")
def list_incidents(
    gate: TheGate,
    who: Viewer,
    query: Annotated[CaseQuery, Query()],
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    size: Annotated[int, Query(ge=1, le=MOST)] = 50,
) -> dict[str, Any]:
    """Incidents, the most severe first; an alert that stands alone is an incident of one."""
    found = gate.desk.find(query, page, size)
    return {
        "incidents": [case.as_dict() for case in found.cases],
        "total": found.total,
        "page": found.page,
        "pages": found.pages,
    }


@router.get("/incidents/{ident}")
def get_incident(gate: TheGate, who: Viewer, ident: Ident, response: Response) -> dict[str, Any]:
    """One incident with its alerts, its further edges and notes; its version is the ETag."""
    case = gate.desk.case(ident)
    alerts = gate.desk.alerts(case)
    response.headers["ETag"] = case.etag
    return {
        **case.as_dict(),
        "alerts": [one.as_dict() for one in alerts],
        "further": [one.as_dict() for one in gate.desk.store.further(case.id)],
        "notes": [{"at": at, "by": by, "text": text} for at, by, text in gate.desk.notes(alerts)],
        "history": gate.desk.history(alerts),
    }


@router.patch("/incidents/{ident}")
def change_incident(
    gate: TheGate, who: Analyst, ident: Ident, change: Change, response: Response, if_match: IfMatch = None
) -> dict[str, Any]:
    """Set status or assignee of all alerts of an incident; 409 if somebody was there since `If-Match`."""
    undo = gate.desk.change(who, [(ident, _version(if_match))], change.wish())
    case = gate.desk.case(ident)
    response.headers["ETag"] = case.etag
    return {**case.as_dict(), "undo": undo}


@router.post("/undo/{ident}")
def undo_change(gate: TheGate, who: Analyst, ident: Ident) -> dict[str, int]:
    """Take a change back, once, within ten minutes."""
    return {"alerts": gate.desk.undo(who, ident)}


@router.post("/incidents/{ident}/notes", status_code=201)
def add_note(gate: TheGate, who: Analyst, ident: Ident, note: NoteBody) -> dict[str, str]:
    gate.desk.note(who, gate.desk.case(ident), note.text)
    return {"said": "added"}


@router.get(
    "/incidents/{ident}/export", responses={200: {"content": {"text/csv": {}, "application/json": {}}}}
)
def export_incident(
    gate: TheGate, who: Viewer, ident: Ident, format: Literal["csv", "stix", "navigator"] = "csv"
) -> Response:
    """The incident as CSV, STIX 2.1 or a layer for the ATT&CK Navigator."""
    case = gate.desk.case(ident)
    gate.desk.audit.append("export", by=who.name, incident=case.id, format=format)
    return Response(export(format, case, gate.desk.alerts(case, EVERY)), media_type=KINDS[format])


@router.get("/alerts")
def list_alerts(
    gate: TheGate,
    who: Viewer,
    status: Status | None = None,
    host: Text | None = None,
    silo: Text | None = None,
    severity: Literal["low", "medium", "high", "critical"] | None = None,
    suppressed: bool | None = False,
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    size: Annotated[int, Query(ge=1, le=MOST)] = 50,
) -> dict[str, Any]:
    """Single alerts, the most severe and newest first."""
    wanted = Filter(status=status, host=host, silo=silo, severity=severity, suppressed=suppressed)
    found = gate.desk.store.find(wanted, size, (page - 1) * size)
    return {"alerts": [one.as_dict() for one in found], "page": page}


@router.get("/alerts/{ident}")
def get_alert(gate: TheGate, who: Viewer, ident: Ident, response: Response) -> dict[str, Any]:
    found = gate.desk.alert(ident)
    response.headers["ETag"] = f'"{found.version}"'
    return found.as_dict()


@router.get("/alerts/{ident}/events")
def get_events(request: Request, gate: TheGate, who: Viewer, ident: Ident) -> dict[str, Any]:
    """The log's own rows behind an alert, as far as the log is at hand."""
    return {"events": knowledge_of(request).rows(gate.desk.alert(ident).alert)}


@router.patch("/alerts/{ident}")
def change_alert(
    gate: TheGate, who: Analyst, ident: Ident, change: Change, response: Response, if_match: IfMatch = None
) -> dict[str, Any]:
    """Set status or assignee of one alert; 409 if somebody was there since `If-Match`."""
    found = gate.desk.change_alert(who, ident, change.wish(), _version(if_match))
    response.headers["ETag"] = f'"{found.version}"'
    return found.as_dict()


@router.get("/entities/{kind}")
def get_entity(
    request: Request,
    gate: TheGate,
    who: Viewer,
    kind: Literal["host", "user"],
    name: Annotated[str, Query(min_length=1, max_length=2000)],
) -> dict[str, Any]:
    """What is known of a host or an account."""
    return entity_of(gate.desk, knowledge_of(request), kind, name).as_dict()


@router.get("/suppressions")
def list_suppressions(gate: TheGate, who: Viewer) -> dict[str, Any]:
    return {"suppressions": [rule.model_dump(mode="json") for rule in expecting.rules(gate.desk)]}


@router.post("/suppressions/preview")
def preview_suppression(gate: TheGate, who: Analyst, new: NewSuppression) -> dict[str, Any]:
    """What a suppression would have hidden; nothing is changed."""
    told = expecting.preview(gate.desk, _rule(gate, who.name, new))
    return {"said": told.sentence, "hidden": told.hidden, "confirmed": told.confirmed, "open": told.open}


@router.post("/suppressions", status_code=201)
def add_suppression(gate: TheGate, who: Analyst, new: NewSuppression) -> dict[str, Any]:
    """Make a suppression, and mark the open alerts that it fits."""
    rule = _rule(gate, who.name, new)
    marked, undo = expecting.suppress(gate.desk, who, rule)
    return {"id": rule.id, "marked": marked, "undo": undo}


@router.get("/health")
def get_health(gate: TheGate, who: Viewer) -> dict[str, Any]:
    gate.desk.index.catch_up()
    return health_of(gate.desk, time.time()).as_dict()


@router.get("/federation")
def get_federation(gate: TheGate, who: Viewer) -> dict[str, Any]:
    """Who is in, certificates and the audit chain; null without --kit."""
    kit = gate.desk.settings.kit
    if kit is None:
        return {"site": None}
    view = look_at(kit)
    names = ("site", "file", "subject", "days", "revoked")
    certificates = [{name: getattr(one, name) for name in names} for one in view.certificates]
    return {"site": view.status, "silos": list(view.silos), "certificates": certificates, "audit": view.audit}


@router.get("/runs")
def list_runs(gate: TheGate, who: Viewer) -> dict[str, Any]:
    runs = ShownRuns(gate.desk.settings).all()
    return {
        "runs": [
            {"name": r.name, "phase": r.phase, "method": r.method, "rounds": len(r.trained)} for r in runs
        ]
    }


@router.get("/runs/{name}")
def get_run(gate: TheGate, who: Viewer, name: Annotated[str, Path(max_length=300)]) -> dict[str, Any]:
    """A run with its rounds: validation, contributions with their parts, norms, refusals, bytes, seconds."""
    run = ShownRuns(gate.desk.settings).get(name)
    return {
        "name": run.name,
        "phase": run.phase,
        "method": run.method,
        "warnings": list(run.warnings),
        "metrics": run.metrics.to_json() if run.metrics is not None else None,
        "rounds": [record.to_json() for record in run.rounds],
    }


@router.get("/experiments")
def list_experiments(request: Request, who: Viewer) -> dict[str, Any]:
    """Experiment files, each with what starting it would do."""
    plans = experiments_of(request).plans()
    return {
        "experiments": [
            {
                "file": p.file,
                "does": list(p.does),
                "begun": p.begun,
                "running": p.running,
                "problem": p.problem,
                "ended": p.ended,
            }
            for p in plans
        ]
    }


@router.post("/experiments/{file}")
def act_on_experiment(
    request: Request, who: Operator, file: Annotated[str, Path(max_length=300)], start: Start
) -> dict[str, Any]:
    """Start, resume or stop an experiment."""
    experiments = experiments_of(request)
    if start.action == "stop":
        experiments.stop(file, who.name)
    else:
        experiments.start(file, who.name, resume=start.action == "resume")
    return {"file": file, "action": start.action}


@router.get("/audit")
def get_audit(
    gate: TheGate, who: Operator, most: Annotated[int, Query(ge=1, le=1000)] = 100
) -> dict[str, Any]:
    """The last actions of everybody, newest first."""
    return {"entries": latest(gate.desk.audit.path, most)}


def _version(tag: str | None) -> int | None:
    if tag is None or tag == "*":
        return None
    text = tag.strip().removeprefix("W/").strip('"')
    if not text.isdigit() or len(text) > 18 or not text.isascii():
        raise UsageError("If-Match is not an ETag of this console", remedy="Send the ETag as it was given.")
    return int(text)


def _rule(gate: TheGate, who: str, new: NewSuppression) -> Suppression:
    return rule_from(gate.desk.alert(new.alert).alert, new.by, new.reason, new.until, who)
