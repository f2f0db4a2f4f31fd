"""`entente train`: an experiment file -> a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from entente.cli.terminal import Json, Quiet, Track, Verbose, print_json, remarks, results

if TYPE_CHECKING:
    from rich.console import Console

    from entente.config import Experiment
    from entente.federation.records import RoundRecord
    from entente.runs.folder import RunFolder
    from entente.runs.records import RunMetrics
    from entente.runtime.local import Run
    from entente.runtime.participants import Participants
    from entente.runtime.sufficiency import Shortage


def _settings(wanted: bool) -> None:
    if wanted:
        from entente.config import settings_reference

        typer.echo(settings_reference())
        raise typer.Exit


def train(
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment file.")],
    settings_page: Annotated[
        bool,
        typer.Option("--settings", callback=_settings, is_eager=True, help="List every setting and exit."),
    ] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Override one setting; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="RUN", help="Run folder; runs/NAME-SEED by default.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
    attack: Annotated[
        Path | None,
        typer.Option("--attack", metavar="ATTACK.toml", help="Attack lab: which silos cheat, and how."),
    ] = None,
    track: Track = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    r"""Train a detector over silos.

    Sections of the file: \[data] where events come from and how time is cut, \[graph] how events become
    graphs, \[detector] what is trained, \[federation] rounds, quorum and deadlines, \[federation.aggregation]
    how updates become the next model, \[privacy] noise, \[detection] scores to alerts. --settings lists every
    key with its default; a key can also be given as --set federation.rounds=10.

    Ctrl-C stops after the last complete round, which is kept: go on with --resume. Started by torchrun, its
    processes share the batches of euler's `batch_edges` (docs/scale.md); the first writes the run folder.

    Example: entente train experiment.toml --set federation.rounds=10 --set seed=3 --out runs/three
    """
    from entente.config import load_experiment
    from entente.detectors.peers import joined
    from entente.errors import UsageError
    from entente.runs.folder import RunFolder

    del settings_page  # handled before anything else
    settings = load_experiment(experiment, tuple(changes or ()))
    folder = RunFolder(out or Path("runs") / f"{settings.name}-{settings.seed}")
    with joined() as peers:
        if peers.size > 1 and resume:
            raise UsageError("--resume does not go with torchrun", remedy="Begin anew, or use one process.")
        if peers.rank:
            _assist(settings, _participants(attack))
            return
        console = remarks(quiet, verbose)
        run, shortages = _watched(settings, folder, console, quiet, track or [], resume, attack)
    if as_json:
        short = {one.of: one.text for one in shortages}
        print_json({"run": str(folder.path), **run.metrics.to_json(), "shortages": short})
        return
    show(run.metrics, folder.path, results(quiet))
    if settings.graph.identity == "keyed-hash":
        for name, found in run.card.collisions.items():
            pairs = f"{found.identical} pairs share both rows ({found.identical_expected:.3g} expected)"
            hosts = f"{found.sharing} hosts share one ({found.sharing_expected:.0f} expected)"
            results(quiet).print(f"{name}: {found.hosts} hosts in {found.table_size} rows; {pairs}, {hosts}")


def _watched(
    settings: Experiment,
    folder: RunFolder,
    console: Console,
    quiet: bool,
    track: list[str],
    resume: bool,
    attack: Path | None,
) -> tuple[Run, list[Shortage]]:
    """The run, shown round by round, and what it lacked."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from entente.runtime.local import train as run_training
    from entente.runtime.trackers.base import tracking

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}", markup=False),
        TimeRemainingColumn(),
    )
    shortages: list[Shortage] = []

    def lacking(found: tuple[Shortage, ...]) -> None:
        shortages.extend(found)
        for shortage in found:
            console.print(shortage.text, markup=False)

    with (
        tracking(track, folder, settings) as tracked,
        Progress(*columns, console=console, disable=quiet or not console.is_terminal) as progress,
    ):
        bar = progress.add_task("reading events", total=settings.federation.rounds, said="")

        def watch(record: RoundRecord) -> None:
            tracked(record)
            said = describe(record, validated=not any(one.of == "validation" for one in shortages))
            progress.update(bar, description="training", completed=record.round, said=said)
            if not console.is_terminal:
                console.print(f"round {record.round}: {said}", markup=False)

        run = run_training(
            settings,
            folder,
            resume=resume,
            watch=watch,
            participants=_participants(attack),
            lacking=lacking,
        )
    return run, shortages


def _assist(settings: Experiment, participants: Participants) -> None:
    """Walk through the same run beside the first of torchrun's processes; what it writes is thrown away."""
    from tempfile import TemporaryDirectory

    from entente.runs.folder import RunFolder
    from entente.runtime.local import train as run_training

    with TemporaryDirectory(prefix="entente-peer-") as scratch:
        run_training(settings, RunFolder(Path(scratch) / "run"), participants=participants)


def _participants(attack: Path | None) -> Participants:
    """Who plays the silos: the attack lab plays those that are to cheat."""
    from entente.runtime.participants import HONEST

    if attack is None:
        return HONEST
    from entente_lab.attacks import attackers
    from entente_lab.attacks.options import load_attack

    return attackers(load_attack(attack))


def describe(record: RoundRecord, *, validated: bool = True) -> str:
    """One round in half a line; figures of a validation that is too small are not shown."""
    parts = [f"loss {record.loss:.4f}" if record.loss is not None else ""]
    if record.validation is not None and validated:
        parts += [f"ap {record.validation.ap:.3f}", f"auc {record.validation.auc:.3f}"]
    parts += [f"refused: {', '.join(record.refused)}"] if record.refused else []
    return "  ".join(parts)


def show(metrics: RunMetrics, path: Path, console: Console) -> None:
    """The metrics as a table, baselines included; without the columns that nothing is known of."""
    names = ("AP", "AUC", "recall", "precision", "alerts/day", "recall@10")
    rows = [("model", metrics.overall), *((f"  {n}", m) for n, m in metrics.per_silo.items())]
    rows += [(f"baseline {n}", m) for n, m in metrics.baselines.items()]
    cells = [(m.ap, m.auc, m.recall, m.precision, m.alerts_per_day, m.recall_at.get("10")) for _, m in rows]
    known = [i for i in range(len(names)) if any(row[i] is not None for row in cells)]
    table = Table("", *(names[i] for i in known), box=None)
    for (name, _), row in zip(rows, cells, strict=True):
        shown = (row[i] for i in known)
        table.add_row(name, *("–" if v is None else f"{v:.4g}" if v < 1000 else f"{v:.0f}" for v in shown))
    if known:
        console.print(table)
    console.print(f"run: {path}")
