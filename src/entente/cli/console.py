"""`entente console`: web pages for analyst and coordinator."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entente.cli.terminal import Json, print_json, remarks, results

if TYPE_CHECKING:
    from entente.console.access import Gate
    from entente.console.settings import ConsoleSettings

app = typer.Typer(invoke_without_command=True)
user_app = typer.Typer(no_args_is_help=True, help="Who may sign in.")
token_app = typer.Typer(no_args_is_help=True, help="Tokens with which machines use the REST interface.")
app.add_typer(user_app, name="user")
app.add_typer(token_app, name="token")

Service = Annotated[
    Path | None,
    typer.Option("--service", metavar="DIR", help="The service's folder.", envvar="ENTENTE_SERVICE"),
]
Kit = Annotated[Path | None, typer.Option("--kit", metavar="KIT", help="A site's start-up kit.")]
Run = Annotated[
    Path | None, typer.Option("--run", metavar="RUN", help="A run folder: its alerts are the queue.")
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="The console's own folder; `console` in what it shows."),
]
ROLE = typer.Option("--role", help="viewer, analyst or operator.")


@app.callback()
def console(
    context: typer.Context,
    service: Service = None,
    kit: Kit = None,
    run: Run = None,
    experiments: Annotated[
        Path | None,
        typer.Option("--experiments", metavar="DIR", help="Folder of experiment files that may be started."),
    ] = None,
    data: Data = None,
    host: Annotated[
        str, typer.Option("--host", help="Address; beyond loopback only with TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 9467,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="PEM", help="TLS certificate.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="PEM", help="Its private key.")] = None,
    oidc: Annotated[
        Path | None, typer.Option("--oidc", metavar="TOML", help="Sign in with an OpenID Connect provider.")
    ] = None,
) -> None:
    """Serve web pages about a service, a run or a site, until Ctrl-C. Nothing leaves the machine.

    It prints a link that signs you in once, as operator; others get a user with `entente console user add`.

    Example: entente console --run demo/runs/entente
    """
    from entente.console.settings import ConsoleSettings, own_folder

    _require()
    settings = ConsoleSettings(
        data or own_folder(service, kit, run),
        service,
        kit,
        run,
        experiments,
        oidc,
        host,
        port,
        certificate,
        key,
    )
    context.obj = settings
    if context.invoked_subcommand is None:
        _serve(settings)


def _require() -> None:
    from importlib.util import find_spec

    from entente.errors import MissingExtraError

    missing = [name for name in ("fastapi", "uvicorn", "argon2", "authlib") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"the console needs {missing[0]}", remedy="pip install 'entente[console]'")


def _serve(settings: ConsoleSettings) -> None:
    from entente.console.serving import serve
    from entente.console.settings import settle

    said = remarks()
    serve(
        settle(settings),
        _me(),
        tell=lambda line: typer.echo(line),
        progress=lambda done, of: said.print(f"indexing alerts: {done:,} of {of:,}"),
    )


@contextmanager
def _gate(context: typer.Context) -> Iterator[Gate]:
    """Users, sessions and tokens of the console; `--data`, `--service` ... come before the command."""
    from entente.console.access import Gate
    from entente.console.desk import Desk
    from entente.console.sessions import Sessions
    from entente.console.settings import settle
    from entente.console.users import Users

    desk = Desk(settle(context.obj))
    try:
        yield Gate(desk, Users(desk.own), Sessions(desk.own))
    finally:
        desk.close()


@user_app.command("add")
def add_user(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    role: Annotated[str, ROLE] = "analyst",
) -> None:
    """Add a user; the password is asked for, or read from standard input.

    Example: entente console --service service user add maria --role analyst
    """
    typed = sys.stdin.isatty()
    password = getpass.getpass("password: ") if typed else sys.stdin.readline().rstrip("\n")
    if typed and getpass.getpass("again: ") != password:
        raise typer.BadParameter("the two passwords differ", param_hint="password")
    with _gate(context) as gate:
        gate.users.add(name, role, password)
        gate.desk.audit.append("user-added", by=_me(), name=name, role=role)
    results().print(f"{name} may sign in as {role}")


@user_app.command("list")
def list_users(context: typer.Context, as_json: Json = False) -> None:
    """List users and their roles.

    Example: entente console --service service user list
    """
    with _gate(context) as gate:
        users = gate.users.all()
    if as_json:
        print_json([{"name": user.name, "role": user.role} for user in users])
        return
    for user in users:
        results().print(f"{user.role:9} {user.name}", markup=False)


@user_app.command("remove")
def remove_user(context: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Remove a user and end their sessions.

    Example: entente console --service service user remove maria
    """
    with _gate(context) as gate:
        gate.users.remove(name)
        gate.desk.audit.append("user-removed", by=_me(), name=name)
    results().print(f"{name} is out")


@token_app.command("add")
def add_token(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    role: Annotated[str, ROLE] = "viewer",
    days: Annotated[float, typer.Option("--days", min=0.01, max=3660, help="How long it is valid.")] = 90.0,
) -> None:
    """Make a token and print it, this once.

    Example: entente console --service service token add siem --role viewer
    """
    with _gate(context) as gate:
        secret = gate.sessions.add_token(name, role, days)
        gate.desk.audit.append("token-added", by=_me(), name=name, role=role)
    typer.echo(secret)


@token_app.command("list")
def list_tokens(context: typer.Context, as_json: Json = False) -> None:
    """List tokens, without their secrets.

    Example: entente console --service service token list
    """
    from datetime import UTC, datetime

    with _gate(context) as gate:
        tokens = gate.sessions.tokens()
    ends = {name: f"{datetime.fromtimestamp(until, UTC):%Y-%m-%d}" for name, _, until in tokens}
    if as_json:
        print_json([{"name": name, "role": role, "until": ends[name]} for name, role, _ in tokens])
        return
    for name, role, _ in tokens:
        results().print(f"{role:9} {name} until {ends[name]}", markup=False)


@token_app.command("revoke")
def revoke_token(context: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Make a token worthless.

    Example: entente console --service service token revoke siem
    """
    with _gate(context) as gate:
        gate.sessions.revoke_token(name)
        gate.desk.audit.append("token-revoked", by=_me(), name=name)
    results().print(f"token {name} is worthless now")


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
