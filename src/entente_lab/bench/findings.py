"""Why the figures are what they are, as far as recorded cells can tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from entente.federation.aggregators.entente import EntenteSettings
from entente_lab.bench.cells import Row
from entente_lab.bench.document import Block, Entry, Heading, Paragraph, Table
from entente_lab.bench.methods import METHODS, title
from entente_lab.bench.tables import distinct, figure, interval, summary, versus, where

K = 4
SKETCH = EntenteSettings().c1
ABLATED = "euler-mlp"
"""The detector that `bench ablation` changes."""


def euler_parts(rows: Sequence[Row]) -> list[tuple[str, Sequence[Row]]]:
    """Name and rows of every data set and Euler setting that has a finished cell of Entente at K = 4."""
    parts: list[tuple[str, Sequence[Row]]] = []
    for dataset in distinct(rows, "dataset"):
        for detector in distinct(where(rows, dataset=dataset), "detector"):
            part = where(rows, dataset=dataset, detector=detector, k=K)
            done = any(record.status == "done" for _, record in where(part, method="entente"))
            if done and str(detector).startswith("euler"):
                parts.append((f"{dataset}, {detector}", part))
    return parts


def findings(rows: Sequence[Row], ablation: Sequence[Row]) -> list[Block]:
    """What the cells say about step size, model selection, the sketch and the bound."""
    blocks: list[Block] = []
    for name, part in euler_parts(rows):
        dataset = str(distinct(part, "dataset")[0])
        blocks += [Heading(f"Why, on {name}", 3), *_about(part)]
        if distinct(part, "detector") == [ABLATED]:
            blocks += _steps(ablation, dataset)
    return blocks


def _about(rows: Sequence[Row]) -> list[Block]:
    blocks: list[Block] = [_progress(rows)]
    said = [_contributions(rows)]
    said += [
        _identical(rows, "fedprox", "fedavg", EQUAL_FEDPROX),
        _identical(rows, "entente", "entente-ub", ""),
    ]
    return [*blocks, *(Paragraph(text) for text in said if text)]


EQUAL_FEDPROX = (
    " With one local epoch Euler makes one step from the global model, where FedProx's proximal term has "
    "no gradient."
)


def _progress(rows: Sequence[Row]) -> Table:
    """How far each method has come when its model is chosen: round, step and validation."""
    body = []
    for method in distinct(rows, "method"):
        if METHODS[method].kind == "rule":
            continue
        done = [record for _, record in where(rows, method=method) if record.status == "done"]
        if not done:
            continue
        best = [value for r in done if (value := figure(r, "best_round")) is not None]
        last = [float(r.outcome["values"]["rounds"]) for r in done]
        scores = [s for r in done if (s := _best_validation(r.outcome["rounds"])) is not None]
        steps = [s for r in done for s in _steps_of(r.outcome["rounds"])]
        ap = summary(where(rows, method=method), "ap").mean
        body.append(
            [
                Entry(title(method)),
                Entry(f"{np.mean(best):.1f} of {np.mean(last):.1f}" if best else "–"),
                Entry(f"{np.mean(steps):.2f}" if steps else "–"),
                Entry(f"{100 * float(np.mean(scores)):.1f}" if scores else "–"),
                Entry("–" if ap is None else f"{100 * ap:.2f}"),
            ]
        )
    columns = ("method", "chosen round of", "mean r‖Δ‖", "best validation (AP + AUC)/2", "test AP")
    return Table(columns, body, caption="Progress when the model is chosen (means over seeds, percent)")


def _best_validation(rounds: Sequence[dict[str, Any]]) -> float | None:
    found = [(r["validation"]["ap"] + r["validation"]["auc"]) / 2 for r in rounds if r.get("validation")]
    return max(found, default=None)


def _steps_of(rounds: Sequence[dict[str, Any]]) -> list[float]:
    """r times the norm of every accepted update."""
    return [
        credit["r"] * min(credit["norm"], 1e9)
        for record in rounds
        for credit in record["silos"].values()
        if "r" in credit and "norm" in credit
    ]


def _contributions(rows: Sequence[Row]) -> str:
    """The size of J, S, D and r in Entente's rounds."""
    credits_ = [
        credit
        for _, record in where(rows, method="entente")
        if record.status == "done"
        for r in record.outcome["rounds"]
        for credit in r["silos"].values()
        if "r" in credit
    ]
    if not credits_:
        return ""
    sketch = float(np.mean([SKETCH * c["j"] / c["r"] for c in credits_ if c["r"] > 0]))
    mean = {name: float(np.mean([c[name] for c in credits_])) for name in ("j", "s", "d", "r", "norm")}
    clipped = float(np.mean([bool(c["clipped"]) for c in credits_]))
    return (
        f"In Entente's rounds J is {mean['j']:.3f} on average, S {mean['s']:.3f}, D {mean['d']:.2f} and "
        f"r {mean['r']:.2f}: the global model moves {mean['r']:.2f} times as far as FedAVG's would for the "
        f"same updates (mean norm {mean['norm']:.2f}). The sketch's part c1·J makes up {100 * sketch:.0f} % "
        f"of r, the rest is the update's own length. The norm bound cut {100 * clipped:.0f} % of the updates."
    )


def _identical(rows: Sequence[Row], one: str, other: str, why: str) -> str:
    """Two methods whose figures agree in every seed."""
    pairs = [
        (figure(a, "ap"), figure(b, "ap"))
        for _, a in where(rows, method=one)
        for _, b in where(rows, method=other)
        if a.seed == b.seed
    ]
    if not pairs or any(a is None or a != b for a, b in pairs):
        return ""
    same = f"{title(one)} and {title(other)} give the same model, bit for bit, in all {len(pairs)} seeds."
    if one == "entente":
        why = " No update was long enough for the norm bound to matter."
    return same + why


def _steps(rows: Sequence[Row], dataset: str) -> list[Block]:
    """FedAVG's own figures with the step shortened, where the ablation has them."""
    part = where(rows, dataset=dataset, group="step size")
    if not part:
        return []
    body = []
    for variant in distinct(part, "variant"):
        chosen = where(part, variant=variant)
        found = versus(
            [*part, *where(rows, dataset=dataset)], {"variant": variant}, {"variant": "default"}, "ap"
        )
        body.append(
            [
                Entry(variant),
                Entry(f"{100 * (summary(chosen, 'ap').mean or 0):.2f}"),
                Entry(interval(found)),
                Entry(found.verdict),
            ]
        )
    columns = ("variant", "AP", "difference to Entente [95 %]", "is")
    return [
        Table(columns, body, caption="The same step length without contributions, and the other way round")
    ]
