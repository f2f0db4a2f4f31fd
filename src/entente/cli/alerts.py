"""`entente alerts`: the queue of the service, for people who work through it."""

from __future__ import annotations

import getpass
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from entente.cli.terminal import Json, Quiet, print_json, results
from entente.text import count

app = typer.Typer(no_args_is_help=True, help="List, show, assign, close, suppress and export alerts.")
Folder = Annotated[
    Path, typer.Option("--service", metavar="DIR", help="The service's folder.", envvar="ENTENTE_SERVICE")
]
Who = Annotated[str | None, typer.Option("--as", metavar="NAME", help="Who does this; you by default.")]
LATEST = 100_000
"""Alerts among which those are looked for that a suppression fits."""
TIMES = ("time", "start", "end", "first", "last")
Ids = Annotated[list[str], typer.Argument(metavar="ALERT...", help="Ids, or how they begin.")]


@contextmanager
def _database(folder: Path) -> Iterator[sqlite3.Connection]:
    from entente.errors import UsageError
    from entente.service.database import connect
    from entente.service.service import DATABASE

    if not (folder / DATABASE).is_file():
        raise UsageError("holds no service", where=folder, remedy="Give the `folder` of the service's file.")
    connection = connect(folder / DATABASE)
    try:
        yield connection
    finally:
        connection.close()


@app.command("list")
def list_alerts(
    service: Folder,
    status: Annotated[str | None, typer.Option("--status", help="open, acknowledged or closed.")] = None,
    host: Annotated[str | None, typer.Option("--host", help="Source or target.")] = None,
    severity: Annotated[str | None, typer.Option("--severity", help="At least this.")] = None,
    silo: Annotated[str | None, typer.Option("--silo", help="Raised by this silo.")] = None,
    incident: Annotated[str | None, typer.Option("--incident", help="Of the incident with this id.")] = None,
    suppressed: Annotated[bool, typer.Option("--suppressed", help="Those that a suppression fits.")] = False,
    most: Annotated[int, typer.Option("--most", min=1, max=100_000, help="At most so many.")] = 50,
    as_json: Json = False,
) -> None:
    """List alerts, the most severe and newest first.

    Example: entente alerts list --service service --status open --severity high
    """
    from entente.service.alerts import STATUSES, AlertStore, Filter
    from entente.service.status import shown
    from entente.text import visible

    if status is not None and status not in STATUSES:
        raise typer.BadParameter(f"one of {', '.join(STATUSES)}", param_hint="--status")
    wanted = Filter(
        status=status,
        host=host,
        silo=silo,
        severity=severity,
        incident=incident,
        suppressed=suppressed,
    )
    with _database(service) as connection:
        store = AlertStore(connection)
        found, total = store.find(wanted, most), store.count(wanted)
    if as_json:
        print_json([one.as_dict() for one in found])
        return
    console = results()
    for one in found:
        a = one.alert
        line = f"{a.id[:8]}  {shown(a.time)}  {a.severity:8}  {one.status:12}  {a.src} → {a.dst}"
        console.print(visible(line + (f"  ({one.assignee})" if one.assignee else "")), markup=False)
    console.print(f"{len(found)} of {total}")


@app.command()
def show(service: Folder, alert: Annotated[str, typer.Argument()], as_json: Json = False) -> None:
    """Show one alert with its reasons, notes and history, and edges of its incident that are no alerts.

    Example: entente alerts show --service service 1f3e5fc4
    """
    from entente.service.alerts import AlertStore
    from entente.service.status import shown
    from entente.text import visible

    with _database(service) as connection:
        store = AlertStore(connection)
        found = store.get(alert)
        notes, history = store.notes(found.alert.id), store.history(found.alert.id)
        further = store.further(found.incident) if found.incident else []
    if as_json:
        rows: list[dict[str, Any]] = [{"at": at, "by": by, "text": text} for at, by, text in notes]
        print_json(found.as_dict() | {"notes": rows, "further": [one.as_dict() for one in further]})
        return
    console = results()

    def say(line: str) -> None:
        console.print(visible(line), markup=False)

    for name, value in found.as_dict().items():
        if name == "explanation":
            for reason in value:
                say(f"  - {reason}")
        elif name == "evidence":
            for row in found.alert.evidence:
                say(f"event: {shown(row.time)} {row.place or 'of an unknown log'}")
        elif name != "raised" and value not in (None, "", [], ()):
            say(f"{name}: {shown(value) if name in TIMES else value}")
    for edge in further:
        say(f"further: {shown(edge.time)} {edge.src} → {edge.dst} ({edge.explanation[0]})")
    for at, by, text in notes:
        say(f"{shown(at)} {by}: {text}")
    for at, by, action, detail in history:
        said = ", ".join(f"{key} {value}" for key, value in detail.items() if value is not None)
        say(f"{shown(at)} {by} {action}: {said}")


@app.command()
def acknowledge(service: Folder, alerts: Ids, actor: Who = None, quiet: Quiet = False) -> None:
    """Say that somebody looks at these alerts.

    Example: entente alerts acknowledge --service service 1f3e5fc4
    """
    _change(service, alerts, actor, quiet, status="acknowledged")


@app.command()
def close(
    service: Folder,
    alerts: Ids,
    reason: Annotated[str, typer.Option("--reason", help="true, benign or duplicate.")],
    note: Annotated[str | None, typer.Option("--note", help="What was found.")] = None,
    actor: Who = None,
    quiet: Quiet = False,
) -> None:
    """Close alerts with a reason.

    Example: entente alerts close --service service 1f3e5fc4 --reason benign --note "patch night"
    """
    from entente.service.alerts import REASONS

    if reason not in REASONS:
        raise typer.BadParameter(f"one of {', '.join(REASONS)}", param_hint="--reason")
    _change(service, alerts, actor, quiet, note, status="closed", reason=reason)


@app.command()
def reopen(service: Folder, alerts: Ids, actor: Who = None, quiet: Quiet = False) -> None:
    """Open closed alerts again.

    Example: entente alerts reopen --service service 1f3e5fc4
    """
    _change(service, alerts, actor, quiet, status="open")


@app.command()
def lessons(service: Folder, as_json: Json = False) -> None:
    """Show what closed alerts have taught: which sources are raised only above which score.

    Take a lesson back with `entente alerts reopen`, all with `feedback = false` in the service's file.

    Example: entente alerts lessons --service service
    """
    from entente.service.alerts import AlertStore
    from entente.service.loop import scored_until
    from entente.text import visible

    with _database(service) as connection:
        learnt = AlertStore(connection).lessons(scored_until(connection) or 0).of
    if as_json:
        print_json(
            [
                {"silo": silo, "src": src, "closed": o.closed, "bar": o.bar}
                for (silo, src), o in learnt.items()
            ]
        )
        return
    for (silo, src), one in learnt.items():
        closed = count(one.closed, "alert")
        said = f"{src} ({silo}): {closed} closed as benign; raised above threshold + {one.bar:.4g}"
        results().print(visible(said), markup=False)
    results().print(count(len(learnt), "source"))


@app.command()
def assign(
    service: Folder,
    alerts: Ids,
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="Who works on them; empty for nobody.")],
    actor: Who = None,
    quiet: Quiet = False,
) -> None:
    """Give alerts to somebody.

    Example: entente alerts assign --service service 1f3e5fc4 --to maria
    """
    _change(service, alerts, actor, quiet, assignee=to)


@app.command()
def suppress(
    service: Folder,
    alert: Annotated[str, typer.Argument(help="An alert of the kind that is expected.")],
    reason: Annotated[str, typer.Option("--reason", help="Why such alerts are expected.")],
    by: Annotated[
        str,
        typer.Option(
            "--by", help="What it must share: src, dst, pair, net (/24 or /64 of the source), user or port."
        ),
    ] = "pair",
    until: Annotated[str | None, typer.Option("--until", metavar="DATE", help="Last day: 2026-12-31")] = None,
    actor: Who = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would hide.")] = False,
    quiet: Quiet = False,
) -> None:
    """Make a suppression from an alert, and mark the open alerts that it fits.

    Suppressed alerts are kept, and not sent.

    Example: entente alerts suppress --service service 1f3e5fc4 --by src --reason "vulnerability scanner"
    """
    from entente.service.alerts import AlertStore, Filter
    from entente.service.suppression import FIELDS, FILE, rule_from

    if by not in FIELDS:
        raise typer.BadParameter(f"one of {', '.join(FIELDS)}", param_hint="--by")
    try:
        last = date.fromisoformat(until) if until else None
    except ValueError as error:
        raise typer.BadParameter("a date as 2026-12-31", param_hint="--until") from error
    who = actor or _me()
    with _database(service) as connection:
        store = AlertStore(connection)
        rule = rule_from(store.get(alert).alert, by, reason, last, who)
        latest = store.find(Filter(suppressed=None), LATEST)
        fitting = [one.alert.id for one in latest if rule.fits(one.alert)]
        results(quiet).print(f"fits {len(fitting)} of the latest {count(len(latest), 'alert')}")
        if not dry_run:
            marked = store.suppress(rule, service / FILE, fitting, who)
            said = f"added {rule.id} to {service / FILE}; {count(len(marked), 'open alert')} marked"
            results(quiet).print(said, markup=False)


@app.command()
def export(
    service: Folder,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File that gets the alerts.")],
    sink: Annotated[
        str, typer.Option("--format", help="jsonl, ecs, ocsf, stix, cef, timesketch or misp.")
    ] = "jsonl",
    status: Annotated[str | None, typer.Option("--status", help="open, acknowledged or closed.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write alerts to a file.

    Example: entente alerts export --service service --out alerts.json --format stix
    """
    from entente.detection.sinks import write_alerts
    from entente.service.alerts import STATUSES, AlertStore, Filter

    if status is not None and status not in STATUSES:
        raise typer.BadParameter(f"one of {', '.join(STATUSES)}", param_hint="--status")
    with _database(service) as connection:
        wanted = Filter(status=status)
        found = AlertStore(connection).find(wanted, 1_000_000)
    write_alerts(sink, [one.alert for one in found], out)
    results(quiet).print(f"{count(len(found), 'alert')}: {out}", markup=False)


def _change(
    service: Path, alerts: list[str], actor: str | None, quiet: bool, note: str | None = None, **what: Any
) -> None:
    from entente.service.alerts import AlertStore

    with _database(service) as connection:
        store = AlertStore(connection)
        names = [store.get(name).alert.id for name in alerts]  # all of them exist, or nothing is changed
        for name in names:
            store.change(name, actor or _me(), **what)
            if note:
                store.note(name, actor or _me(), note)
    results(quiet).print(f"{count(len(names), 'alert')} changed")


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
