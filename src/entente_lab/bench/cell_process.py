"""Runs the cells of a family: `python -m entente_lab.bench.cell_process`, a JSON list on standard input.

A process of their own costs seconds and buys a lot: a crash or a full memory ends one cell and not the
grid. Cells of a family share their data and equal local trainings (`sharing`); peak memory is that of the
process so far.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from entente.config import Experiment, parse_experiment
from entente.errors import EntenteError
from entente_lab.bench.cells import Record, Store, versions
from entente_lab.variants.on_weights import offer_rules

Runner = Callable[[Experiment, Mapping[str, Any], Path], dict[str, Any]]


def main(source: IO[str]) -> None:
    """Run the cells that `source` describes, one by one; never outlive whoever holds the pipe."""
    requests = json.loads(source.readline())
    threading.Thread(target=_follow, args=(source.fileno(),), daemon=True).start()
    one_thread()
    offer_rules()
    for request in requests:
        run_cell(request)


def run_cell(request: Mapping[str, Any]) -> None:
    """Run one cell and write its record."""
    started = time.perf_counter()
    store = Store(Path(request["store"]))
    work = store.work(request["key"])
    error = None
    outcome: dict[str, Any] = {}
    try:
        runner = find(request["runner"])
        outcome = runner(parse_experiment(request["experiment"]), request["options"], work)
        json.dumps(outcome, allow_nan=False)
    except EntenteError as failure:
        error, outcome = str(failure), {}
    except Exception as failure:  # a defect in one cell must stay one row of the table
        error, outcome = describe(failure), {}
    shutil.rmtree(work, ignore_errors=True)  # it has come to an end: there is nothing to go on with
    store.write(
        Record(
            key=request["key"],
            status="done" if error is None else "failed",
            experiment=request["experiment"],
            seed=int(request["experiment"]["seed"]),
            data=request["data"],
            options=request["options"],
            runner=request["runner"],
            command=request["command"],
            versions=versions(),
            outcome=outcome,
            seconds=round(time.perf_counter() - started, 3),
            peak_memory_mb=peak_memory_mb(),
            finished=now(),
            error=error,
        )
    )


def find(runner: str) -> Runner:
    """The function behind `module:function`."""
    module, _, name = runner.partition(":")
    found: Runner = getattr(import_module(module), name)
    return found


def describe(failure: BaseException) -> str:
    """An exception in one line, with the place that raised it."""
    place = failure.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})"
    return f"{type(failure).__name__}: {failure}{where}"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def peak_memory_mb() -> float | None:
    """Largest resident size of this process so far, in MB; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)


def one_thread() -> None:
    """Cells run side by side, and sums in another order give other bits."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


def _follow(pipe: int) -> None:
    """End with the parent, however it ends: its side of the pipe closes."""
    while os.read(pipe, 1):  # unbuffered: a thread inside a buffered read spoils an orderly exit
        pass
    os._exit(1)


if __name__ == "__main__":
    main(sys.stdin)
