"""The coordinator's pages: the federation, runs, comparing two of them, experiments and the audit trail."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from entente.console.access import Operator, TheGate, Viewer
from entente.console.experiments import Experiments
from entente.console.shown_runs import ShownRuns, compare
from entente.console.site import chain, latest, look_at
from entente.console.templating import render
from entente.errors import UsageError

router = APIRouter(include_in_schema=False)


def experiments_of(request: Request) -> Experiments:
    found: Experiments = request.app.state.experiments
    return found


@router.get("/federation")
def federation(request: Request, gate: TheGate, who: Viewer) -> Response:
    kit = gate.desk.settings.kit
    return render(request, "federation.html", who, view=look_at(kit) if kit is not None else None)


@router.get("/runs")
def runs(request: Request, gate: TheGate, who: Viewer) -> Response:
    found = ShownRuns(gate.desk.settings).all()
    plans = experiments_of(request).plans()
    return render(
        request,
        "runs.html",
        who,
        runs=found,
        plans=plans,
        experiments=gate.desk.settings.experiments is not None,
    )


@router.get("/runs/compare")
def compare_runs(
    request: Request,
    gate: TheGate,
    who: Viewer,
    one: Annotated[str, Query(max_length=300)],
    other: Annotated[str, Query(max_length=300)],
) -> Response:
    shown = ShownRuns(gate.desk.settings)
    a, b = shown.get(one), shown.get(other)
    return render(request, "compare.html", who, one=a, other=b, **compare(a, b))


@router.get("/runs/{name}")
def run(request: Request, gate: TheGate, who: Viewer, name: str) -> Response:
    shown = ShownRuns(gate.desk.settings)
    part = "run_part.html" if request.headers.get("hx-target") == "run" else "run.html"
    return render(request, part, who, run=shown.get(name), others=[n for n in shown.folders() if n != name])


@router.get("/experiments/{file}")
def plan(request: Request, who: Viewer, file: str) -> Response:
    """What starting the file would do."""
    return render(request, "plan.html", who, plan=experiments_of(request).plan(file))


@router.post("/experiments/{file}")
def act(request: Request, who: Operator, file: str, action: Annotated[str, Form(max_length=10)]) -> Response:
    experiments = experiments_of(request)
    if action in ("start", "resume"):
        experiments.start(file, who.name, resume=action == "resume")
    elif action == "stop":
        experiments.stop(file, who.name)
    else:
        raise UsageError(f"there is no action {action!r}", remedy="start, resume or stop.")
    words = {"start": "Started", "resume": "Resumed", "stop": "Told to stop after the step under way"}
    response = render(request, "toast.html", who, said=f"{words[action]}: {file}.", undo=None, wrong=False)
    response.headers["HX-Trigger"] = "experiments"
    return response


@router.get("/audit")
def audit(request: Request, gate: TheGate, who: Viewer) -> Response:
    path = gate.desk.audit.path
    told = chain(path, datetime.now(UTC))
    return render(request, "audit.html", who, chain=told, entries=latest(path))
