"""`entente federation`: a real federation over real machines, carried by NVIDIA FLARE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entente.cli.terminal import Json, Quiet, Track, Verbose, print_json, remarks, results

if TYPE_CHECKING:
    from entente.federation.records import RoundRecord

app = typer.Typer(no_args_is_help=True, help="A real federation over real machines.")
KitFolder = Annotated[Path, typer.Argument(metavar="KIT", help="A start-up kit, as `provision` made it.")]


@app.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The federation file to write.")],
    silos: Annotated[str, typer.Option("--silos", help="Names, separated by commas.")],
    name: Annotated[str, typer.Option("--name", help="Name of the federation.")] = "federation",
    host: Annotated[str, typer.Option("--host", help="Where silos reach the coordinator.")] = "localhost",
    port: Annotated[int, typer.Option("--port", help="The coordinator's port for silos.")] = 8102,
    operator_port: Annotated[
        int, typer.Option("--operator-port", help="Its port for `submit`, loopback only.")
    ] = 8103,
) -> None:
    """Write a federation file: who takes part, where, and what is agreed.

    Example: entente federation init federation.toml --silos north,south,west --host coord.example.org
    """
    from entente.artifacts import write_text
    from entente.deployment.settings import template
    from entente.errors import UsageError

    if file.exists():
        raise UsageError("exists already", where=file, remedy="Edit it, or choose another name.")
    names = tuple(part.strip() for part in silos.split(",") if part.strip())
    write_text(file, template(name, names, host, port, operator_port))
    results().print(f"wrote {file}; every site should read it before `entente federation provision {file}`")


@app.command()
def provision(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The federation file.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the authority and the kits.")] = Path(
        "federation"
    ),
    renew: Annotated[
        list[str] | None,
        typer.Option("--renew", metavar="SITE", help="Give this site a new certificate; may be repeated."),
    ] = None,
    requests: Annotated[
        Path | None,
        typer.Option("--requests", metavar="DIR", help="Signing requests of sites that made their own keys."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make one start-up kit per site; run again after adding a silo or to renew a certificate.

    Example: entente federation provision federation.toml --out federation --requests requests
    """
    from entente.deployment.provision import provision as make_kits
    from entente.deployment.provision import read_requests
    from entente.deployment.require import require_flare
    from entente.deployment.settings import load_federation

    console = remarks(quiet, verbose)
    federation = load_federation(file)
    require_flare()
    signed = read_requests(federation, requests) if requests else {}
    if signed and not quiet:
        from entente.deployment.join import fingerprint

        for name, key in signed.items():
            console.print(f"signing the key of {name}: {fingerprint(key)}", markup=False)
    kits = make_kits(federation, out, tuple(renew or ()), signed)
    if as_json:
        print_json({site: str(kit) for site, kit in kits.items()})
        return
    for site, kit in kits.items():
        results().print(f"{site}: {kit}")
    if not quiet:
        remarks(quiet).print(
            f"Hand each site its own kit over a trusted channel. {out / 'authority'} can issue certificates "
            "and holds the silos' secret: keep it off every site, above all off the coordinator's machine."
        )


@app.command()
def join(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The federation file.")],
    site: Annotated[str, typer.Option("--site", metavar="NAME", help="This site: a silo, or coordinator.")],
    out: Annotated[Path, typer.Option("--out", metavar="KIT", help="Folder of this site's kit.")],
    kit: Annotated[
        Path | None, typer.Option("--kit", metavar="DIR", help="The kit that the authority sent back.")
    ] = None,
    new_key: Annotated[bool, typer.Option("--new-key", help="Make a new key although there is one.")] = False,
    as_json: Json = False,
) -> None:
    """Make this site's private key here, and a signing request for the authority; with --kit, finish the kit.

    Example: entente federation join federation.toml --site north --out north
    """
    from entente.deployment.join import complete, request
    from entente.deployment.settings import load_federation

    federation = load_federation(file)
    if kit is not None:
        finished = complete(federation, site, out, kit)
        if as_json:
            print_json({"kit": str(finished)})
        else:
            results().print(f"{finished} is the kit of {site}; try `entente federation check {finished}`")
        return
    made = request(federation, site, out, new_key=new_key)
    if as_json:
        print_json({str(path): mark for path, mark in made.items()})
        return
    for path, mark in made.items():
        results().print(f"{path}: {mark}", markup=False)
    remarks(False).print(
        "Send the request to whoever holds the authority and read the fingerprint out over another channel; "
        "the private key stays here. Then: join again with --kit and what came back."
    )


@app.command()
def start(
    kit: KitFolder,
    events: Annotated[
        Path | None, typer.Option("--events", metavar="DIR", help="A silo's event directory (`ingest`).")
    ] = None,
    hosts: Annotated[
        Path | None,
        typer.Option("--hosts", metavar="TABLE", help="Table host,silo; without it all hosts are its own."),
    ] = None,
    background: Annotated[bool, typer.Option("--background", help="Return at once.")] = False,
) -> None:
    """Start this site; it runs until stopped. A silo needs its event directory the first time.

    Example: entente federation start kits/north --events /var/lib/entente/events
    """
    from entente.deployment import process
    from entente.deployment.require import require_flare
    from entente.deployment.site import Site
    from entente.errors import UsageError

    require_flare()
    site = Site.load(kit)
    if site.kit.is_coordinator and (events or hosts):
        raise UsageError("the coordinator has no events", where=kit, remedy="Leave out --events and --hosts.")
    if events is not None:
        site.save_settings(events, hosts)
    if not site.kit.is_coordinator:
        site.settings()
    _refuse_errors(site)
    if background:
        results().print(
            f"{site.name} started, process {process.start(site)}; output in {kit / 'console.log'}"
        )
    else:
        process.become(site)


def _refuse_errors(site: Any) -> None:
    from entente.deployment.check import check as look
    from entente.errors import DeploymentError

    wrong = [finding for finding in look(site) if finding.level == "error"]
    if wrong:
        said = "; ".join(f"{finding.what}: {finding.message}" for finding in wrong)
        raise DeploymentError(said, where=site.path)


@app.command()
def submit(
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment file.")],
    kit: Annotated[Path, typer.Option("--kit", metavar="KIT", help="The coordinator's kit.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return as soon as the job is taken.")] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Override one setting; may be repeated."),
    ] = None,
    connect_timeout: Annotated[
        float,
        typer.Option(
            "--connect-timeout", min=1, metavar="SECONDS", help="How long to try to reach the coordinator."
        ),
    ] = 180.0,
    track: Track = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run an experiment on the federation, from the coordinator's machine, and follow it to its end.

    Example: entente federation submit experiment.toml --kit kits/coordinator
    """
    from entente.config import load_experiment
    from entente.deployment import submit as jobs
    from entente.deployment.require import require_flare
    from entente.deployment.site import Site
    from entente.runtime.trackers.base import tracking

    require_flare()
    console = remarks(quiet, verbose)
    site = Site.load(kit)
    settings = jobs.prepare(site, load_experiment(experiment, tuple(changes or ())))
    _refuse_errors(site)
    submission = jobs.submit(
        site,
        settings,
        resume=resume,
        connect_timeout=connect_timeout,
        tell=lambda line: console.print(line, markup=False),
    )
    if not detach:
        with tracking(track or (), submission.run, settings) as tracked:

            def watch(record: RoundRecord) -> None:
                tracked(record)
                console.print(describe(record), markup=False)

            jobs.follow(site, submission, watch)
    if as_json:
        print_json({"job": submission.job, "run": str(submission.run.path), **submission.state.read()})
    else:
        results().print(f"run: {submission.run.path}")


@app.command()
def relay(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The coordinator's kit.")],
    turns: Annotated[int, typer.Option(min=2, help="How often packets are collected and handed out.")] = 2,
    pause: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Between two turns.")] = 5.0,
    detach: Annotated[bool, typer.Option("--detach", help="Return as soon as the job is taken.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Carry packets of the exchange between the silos' mailboxes (KIT/exchange), where the terms have one.

    What one turn collects the next hands out, so that two turns are the least. No other job runs meanwhile.

    Example: entente federation relay kits/coordinator --turns 12 --pause 300
    """
    from entente.deployment import submit as jobs
    from entente.deployment.require import require_flare
    from entente.deployment.site import Site

    require_flare()
    console = remarks(quiet, verbose)
    site = Site.load(kit)
    job = jobs.submit_relay(site, turns, pause, tell=lambda line: console.print(line, markup=False))
    if not detach:
        jobs.follow_relay(site, job)
    if as_json:
        print_json({"job": job})
    else:
        results().print(f"relay: job {job}" + ("" if detach else ", done"))


def describe(record: RoundRecord) -> str:
    """One round in one line."""
    words = [f"{len(record.accepted)} of {len(record.silos)} silos"]
    words += [f"loss {record.loss:.4g}"] if record.loss is not None else []
    if record.validation is not None:
        words += [f"ap {record.validation.ap:.4g}", f"auc {record.validation.auc:.4g}"]
    words += [f"without {name}: {reason}" for name, reason in record.refused.items()]
    what = f"round {record.round}" if record.trained else "last validation"
    return f"{what}: {', '.join(words)}"


@app.command()
def status(kit: KitFolder, as_json: Json = False) -> None:
    """Where the federation stands, as this site knows it: rounds, who is in, contributions, warnings.

    Example: entente federation status kits/coordinator --json
    """
    from entente.deployment.site import Site
    from entente.deployment.status import status as look

    told = look(Site.load(kit))
    if as_json:
        print_json(told)
        return
    console = results()
    console.print(f"{told['site']} ({told['role']}): {'running' if told['running'] else 'not running'}")
    for silo, state in told.get("silos", {}).items():
        console.print(f"  {silo}: {state}")
    for run in told.get("runs", []):
        console.print(f"{run['run']}: {run['phase']}, round {run['round']} of {run['rounds']}")
        if run["reason"]:
            console.print(f"  {run['reason']}", markup=False)
        for silo, facts in run["contributions"].items():
            said = facts.get("refused") or f"contribution {facts.get('r', 0.0):.3g}"
            console.print(f"  {silo}: {said}", markup=False)
        for warning in run["warnings"][-5:]:
            console.print(f"  warning: {warning}", markup=False)
    for task in told.get("tasks", []):
        line = ", ".join(f"{key} {value}" for key, value in task.items() if key != "number")
        console.print(f"  {line}", markup=False)


@app.command()
def stop(kit: KitFolder) -> None:
    """Stop this site. The coordinator's checkpoints and a silo's state are kept.

    Example: entente federation stop kits/north
    """
    from entente.deployment import process
    from entente.deployment.site import Site

    site = Site.load(kit)
    results().print(f"{site.name} " + ("stopped" if process.stop(site) else "was not running"))


@app.command()
def revoke(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The coordinator's kit.")],
    silo: Annotated[str, typer.Argument(metavar="SILO")],
    serial: Annotated[
        str | None,
        typer.Option("--serial", metavar="NUMBER", help="Only the certificate with this serial number."),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Let it in again.")] = False,
) -> None:
    """Shut a silo out, whatever certificate it shows, or one of its certificates; it applies at once.

    Example: entente federation revoke kits/coordinator north --serial 81985529216486895
    """
    from entente.deployment.revoke import revoke as shut_out
    from entente.deployment.site import Site

    out = shut_out(Site.load(kit), silo, serial, undo=undo)
    said = [*sorted(out.names), *(f"{name} (certificate {one})" for one, name in out.serials.items())]
    results().print(f"shut out: {', '.join(said) or 'nobody'}")


@app.command()
def check(kit: KitFolder, as_json: Json = False) -> None:
    """Pre-flight: clock, port, certificate, version, configuration, disk. Exit code 10 if one is wrong.

    Example: entente federation check kits/north
    """
    from entente.deployment.check import check as look
    from entente.deployment.site import Site
    from entente.errors import DeploymentError

    findings = look(Site.load(kit))
    wrong = [finding for finding in findings if finding.level == "error"]
    if as_json:
        print_json([finding.as_dict() for finding in findings])
    else:
        for finding in findings:
            results().print(f"{finding.level:8} {finding.what}: {finding.message}")
    if wrong:
        raise DeploymentError(f"{len(wrong)} of {len(findings)} checks failed: {wrong[0].message}", where=kit)


@app.command()
def audit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A site's audit.jsonl.")],
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="FILE", help="Another site's record that saw this one's heads."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify a site's audit: no entry changed, moved or removed since it was written.

    Example: entente federation audit kits/coordinator/audit.jsonl
    """
    from dataclasses import asdict

    from entente.deployment.audit import verify, witness

    summary = verify(file)
    told = asdict(summary) | ({"witnessed": witness(file, against)} if against else {})
    if as_json:
        print_json(told)
        return
    console = results()
    console.print(f"{summary.entries} entries, whole, from {summary.first} to {summary.last}")
    for event, count in sorted(summary.events.items()):
        console.print(f"  {event}: {count}")
    if against:
        console.print(f"{told['witnessed']} entries were also seen by {against}")
