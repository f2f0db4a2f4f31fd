"""`entente bench`: the paper's tables and figures, from recorded runs."""

from __future__ import annotations

import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entente.cli.terminal import Json, Quiet, print_json, results

if TYPE_CHECKING:
    from entente_lab.bench.request import Finished, Request

app = typer.Typer(no_args_is_help=True)

Out = Annotated[Path, typer.Option("--out", help="Folder for cells, prepared data and tables.")]
Seeds = Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ...; the same ones for every method.")]
Quick = Annotated[bool, typer.Option("--quick", help="The part that takes minutes.")]
Recorded = Annotated[
    bool, typer.Option("--recorded", help="The companies, K and rows of the pages in docs: small ones.")
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data", metavar="NAME=FOLDER", help="Files of lanl-replay, lanl, optc or pivoting; may be repeated."
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="LABEL=VALUE,...", help="Only cells with these labels; may be repeated."),
]
Workers = Annotated[int, typer.Option(min=1, help="Cells that run side by side.")]
Retry = Annotated[bool, typer.Option("--retry", help="Run cells again that failed before.")]
Limit = Annotated[
    float,
    typer.Option(min=0.001, help="Hours that a cell has; --retry goes on with it from its last round."),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Run cells again that another version of the code computed.")
]


@app.command()
def paper(
    out: Out = Path("bench"),
    seeds: Seeds = 5,
    quick: Quick = False,
    recorded: Recorded = False,
    data: Data = None,
    only: Only = None,
    link_share: Annotated[
        float, typer.Option(min=0.02, max=1.0, help="Share of the events, the first ones, that Jbeil gets.")
    ] = 1.0,
    workers: Workers = 2,
    limit: Limit = 4.0,
    retry: Retry = False,
    fresh: Fresh = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Methods x K x detector x data set: AP and AUC over seeds, beside the paper's numbers.

    Goes on where it stopped. Labels for --only: dataset, detector, k, method, seed.

    Example: entente bench paper --quick --seeds 3 --only detector=euler --out bench
    """
    from dataclasses import replace

    from entente_lab.bench.paper import run

    request = _request(out, seeds, quick, data, only, workers, limit, retry, fresh, quiet, recorded)
    _show(run(replace(request, link_share=link_share)), as_json, quiet)


def _grid(name: str, seeds: int, help_: str) -> None:
    """A command for a grid that takes the common options and nothing else."""

    @app.command(name, help=help_)
    def command(
        out: Out = Path("bench"),
        seeds: Seeds = seeds,
        quick: Quick = False,
        recorded: Recorded = False,
        data: Data = None,
        only: Only = None,
        workers: Workers = 2,
        limit: Limit = 4.0,
        retry: Retry = False,
        fresh: Fresh = False,
        as_json: Json = False,
        quiet: Quiet = False,
    ) -> None:
        run = import_module(f"entente_lab.bench.{name}").run
        request = _request(out, seeds, quick, data, only, workers, limit, retry, fresh, quiet, recorded)
        _show(run(request), as_json, quiet)


_grid(
    "rules",
    5,
    """Every aggregation rule and option of Entente's, K = 3, 5, 10, nobody cheats.

    Labels for --only: dataset, k, rule, seed.

    Example: entente bench rules --quick --seeds 3 --out bench
    """,
)
_grid(
    "ablation",
    5,
    """What each part of Entente is worth: one thing changed at a time.

    Labels for --only: dataset, group, variant, seed.

    Example: entente bench ablation --quick --only group=parts --out bench
    """,
)
_grid(
    "scale",
    3,
    """More silos: time, bytes, memory, AP and AUC for K = 5, 10, 20, 50.

    Labels for --only: dataset, k, method, seed.

    Example: entente bench scale --quick --out bench
    """,
)


def _company_grid(name: str, module: str, seeds: int, first: int, help_: str) -> None:
    """A command for a grid in which every seed is another company or replay."""

    @app.command(name, help=help_)
    def command(
        out: Out = Path("bench"),
        seeds: Annotated[
            int, typer.Option(min=1, help="Companies or replays; each is also a training seed.")
        ] = seeds,
        first_seed: Annotated[int, typer.Option(min=0, help="Begin with this seed.")] = first,
        quick: Quick = False,
        data: Data = None,
        only: Only = None,
        workers: Workers = 2,
        limit: Limit = 4.0,
        retry: Retry = False,
        fresh: Fresh = False,
        as_json: Json = False,
        quiet: Quiet = False,
    ) -> None:
        from dataclasses import replace

        request = _request(out, seeds, quick, data, only, workers, limit, retry, fresh, quiet)
        run = import_module(module).run
        _show(run(replace(request, first_seed=first_seed)), as_json, quiet)


_company_grid(
    "behaviour",
    "entente_lab.bench.behaviour.plan",
    10,
    0,
    """The behaviour detector: rules, cheats, noise and ablations, each seed another company or replay.

    All methods of a cell share its graphs, examples and features. `--data lanl-replay=FOLDER` needs a
    folder per seed in FOLDER, named by the seed. Labels for --only: dataset, k, part (clean, cheats, noise,
    features, injection, similarity), seed.

    Example: entente bench behaviour --seeds 10 --first-seed 41 --only part=clean --out bench
    """,
)
_company_grid(
    "similarity",
    "entente_lab.bench.similarity",
    10,
    300,
    """Does J matter? Forms of J, of r and of the choice of a round that keep the bound, with Euler.

    Each seed is another company, which no other table uses. `--data lanl-replay=FOLDER` needs a folder per
    seed in FOLDER, named by the seed. Labels for --only: dataset, k, form, seed.

    Example: entente bench similarity --seeds 5 --only k=3,5 --out bench
    """,
)


@app.command()
def privacy(
    out: Out = Path("bench"),
    seeds: Seeds = 5,
    first_seed: Annotated[int, typer.Option(min=0, help="Begin with this seed instead of 0.")] = 0,
    quick: Quick = False,
    only: Only = None,
    workers: Workers = 2,
    limit: Limit = 4.0,
    retry: Retry = False,
    fresh: Fresh = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Membership inference and inversion against one update, by detector, identity of hosts and noise.

    Labels for --only: detector, noise, seed.

    Example: entente bench privacy --seeds 3 --only noise=none --out bench
    """
    from dataclasses import replace

    from entente_lab.bench.privacy import run

    request = _request(out, seeds, quick, None, only, workers, limit, retry, fresh, quiet)
    _show(run(replace(request, first_seed=first_seed)), as_json, quiet)


@app.command()
def published(
    data: Annotated[Path, typer.Option(help="Folder with enron10, dblp, fb, uci and enron (.npz).")],
    out: Out = Path("bench/published"),
    seeds: Seeds = 5,
    first_seed: Annotated[int, typer.Option(min=0, help="Begin with this seed instead of 0.")] = 0,
    quick: Quick = False,
    only: Annotated[str | None, typer.Option(help="euler, euler-pairs or streams.")] = None,
    as_json: Json = False,
) -> None:
    """The detectors' own published tables: paper, authors' code run again, ours, difference.

    Goes on where it stopped.

    Example: entente bench published --data temporal_graphs --out bench/published
    """
    from entente.errors import UsageError
    from entente_lab.bench.published.comparison import METHODS, run, to_plain, to_text

    if only is not None and only not in METHODS:
        raise UsageError(f"--only {only!r} is no table", remedy=f"Choose from: {', '.join(METHODS)}.")
    lines = run(data, range(first_seed, first_seed + seeds), out, quick, only)
    if as_json:
        print_json(to_plain(lines))
    else:
        typer.echo(to_text(lines))


@app.command()
def speed(
    folder: Annotated[Path, typer.Option(help="Folder with the benchmark scripts.")] = Path("benchmarks"),
    quick: Quick = False,
    only: Annotated[list[str] | None, typer.Option(help="Only this benchmark; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Run every speed benchmark of a checkout and print its ratios, or its table.

    `--only growth`: how time and memory of every detector grow with windows, edges, hosts and silos.

    Example: entente bench speed --quick --only euler
    """
    from entente_lab.bench.speed import run

    console, told = results(), []
    for measured in run(folder, quick, tuple(only or ())):
        told.append({"benchmark": measured.name, "ratios": measured.ratios, "error": measured.error})
        if not as_json:
            console.print(f"{measured.name}: {measured.error or ''}".rstrip(": "))
            for line in measured.table:
                console.print(line, markup=False, highlight=False, soft_wrap=True)
            for text, value in () if measured.table else measured.ratios.items():
                console.print(f"  {text}: {value:.4g}" if isinstance(value, float) else f"  {text}: {value}")
    if as_json:
        print_json(told)
    if any(one["error"] for one in told):
        raise typer.Exit(1)


@app.command()
def robustness(
    out: Out = Path("bench"),
    seeds: Seeds = 5,
    quick: Quick = False,
    recorded: Recorded = False,
    full: Annotated[bool, typer.Option("--full", help="The whole grid; days.")] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="Only the paper's attack tables, in its own settings.")
    ] = False,
    data: Data = None,
    only: Only = None,
    workers: Workers = 2,
    limit: Limit = 4.0,
    retry: Retry = False,
    fresh: Fresh = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attacks x aggregation rules, who cheats and how hard, beside the clean run and the paper's numbers.

    Labels for --only: dataset, part, rule, attack, silos, p, gamma, seed.

    Example: entente bench robustness --quick --seeds 1 --out bench
    or, with the original data: entente bench robustness --paper --data lanl=lanl --data optc=optc --out bench
    """
    from entente_lab.bench.robustness.plan import run

    _show(
        run(
            _request(out, seeds, quick, data, only, workers, limit, retry, fresh, quiet, recorded),
            full=full,
            paper=paper,
        ),
        as_json,
        quiet,
    )


@app.command("results")
def results_page(
    out: Out = Path("bench"),
    page: Annotated[Path, typer.Option(help="Page to write.")] = Path("docs/results.md"),
    quiet: Quiet = False,
) -> None:
    """Write docs/results.md from the recorded cells.

    Example: entente bench results --out bench --page docs/results.md
    """
    from entente_lab.bench.results import write_results

    write_results(out, page)
    if not quiet:
        results().print(f"written: {page}")


@app.command("page")
def grid_page(
    grid: Annotated[
        str,
        typer.Argument(help="behaviour, privacy, similarity, paper, rules, ablation, scale or robustness."),
    ],
    page: Annotated[Path, typer.Option(help="Page to write; drawings lie in `figures` beside it.")],
    out: Out = Path("bench"),
    quiet: Quiet = False,
) -> None:
    """Write the page of one grid from the cells that are recorded, finished or not.

    Example: entente bench page behaviour --out bench --page docs/results-behaviour.md
    """
    from entente_lab.bench.results import write_page

    write_page(out, grid, page)
    results(quiet).print(f"written: {page}")


def _request(
    out: Path,
    seeds: int,
    quick: bool,
    data: list[str] | None,
    only: list[str] | None,
    workers: int,
    limit: float,
    retry: bool,
    fresh: bool,
    quiet: bool,
    recorded: bool = False,
) -> Request:
    from entente_lab.bench.request import Request, parse_sources

    return Request(
        out=out,
        seeds=seeds,
        quick=quick,
        recorded=recorded,
        sources=parse_sources(data or ()),
        only=tuple(only or ()),
        workers=workers,
        limit=3600.0 * limit,
        retry=retry,
        fresh=fresh,
        quiet=quiet,
        command=shlex.join(["entente", *sys.argv[1:]]),
    )


def _show(finished: Finished, as_json: bool, quiet: bool) -> None:
    files = [str(path) for path in finished.files]
    if as_json:
        from entente_lab.bench.tables import tidy

        print_json({"files": files, "failed": finished.failed, "cells": tidy(finished.rows).to_pylist()})
        return
    console = results(quiet)
    for file in files:
        console.print(file)
    if finished.failed:
        console.print(f"{finished.failed} of {len(finished.rows)} cells failed; the page says why")
