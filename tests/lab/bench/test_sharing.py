from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entente.artifacts import Bundle
from entente.federation.messages import Reply
from entente.federation.silo import Silo
from entente_lab.bench import sharing
from entente_lab.bench.events import Prepared
from entente_lab.bench.measure import measure
from entente_lab.bench.methods import METHODS, change
from entente_lab.bench.paper import EULER, TRANSDUCTIVE, Setting
from entente_lab.bench.sharing import Answer, Memory

ROUNDS = {"federation.rounds": 2}
TINY = {"detector.memory": 8, "detector.time": 8, "detector.embedding": 8}


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rounds that silos really train, while a memory of their own is in place."""
    rounds: list[int] = []
    plain = Silo._train

    def watched(silo: Silo, task: Any) -> Any:
        rounds.append(task.round)
        return plain(silo, task)

    monkeypatch.setattr(Silo, "_train", watched)
    monkeypatch.setattr(sharing, "MEMORY", Memory())
    monkeypatch.setattr("entente_lab.bench.measure.MEMORY", sharing.MEMORY)
    return rounds


def same(outcome: dict[str, Any]) -> dict[str, Any]:
    """What an outcome says, times apart."""
    values = {name: value for name, value in outcome["values"].items() if not name.endswith("seconds")}
    rounds = [
        {**r, "silos": {name: {**silo, "seconds": 0} for name, silo in r["silos"].items()}}
        for r in outcome["rounds"]
    ]
    return {**outcome, "values": values, "rounds": rounds}


@pytest.mark.parametrize("setting", [EULER, TRANSDUCTIVE], ids=lambda setting: setting.name)
def test_cells_that_share_trainings_have_the_bits_of_cells_alone(
    small_company: Prepared, tmp_path: Path, trained: list[int], setting: Setting
) -> None:
    small = {**ROUNDS, **(TINY if setting.links else {})}
    base = change(setting.experiment(small_company, 0, 0.3 if setting.links else 1.0), small)
    methods = ("fedavg", "fedavg-n", "entente-ub", "entente")
    together = {}
    for name in methods:
        together[name] = measure(METHODS[name].apply(base), setting.options, tmp_path / name)
    silos = len(small_company.sizes)
    # Round 1 once for all, round 2 once per rule; what Entente-UB did is Entente's where nothing was cut.
    cut = any(
        s["clipped"] for r in together["entente"]["rounds"] for s in r["silos"].values() if "clipped" in s
    )
    assert len(trained) == silos * (1 + 3 + cut)
    for name in methods:
        alone = {**setting.options, "sharing": False}
        found = measure(METHODS[name].apply(base), alone, tmp_path / f"{name} alone")
        assert same(found) == same(together[name])


def test_an_ensemble_costs_no_training_and_a_cell_run_again_neither(
    small_company: Prepared, tmp_path: Path, trained: list[int]
) -> None:
    base = change(EULER.experiment(small_company, 0), ROUNDS)
    for name in ("entente", "entente-ensemble", "entente"):
        measure(METHODS[name].apply(base), EULER.options, tmp_path / str(len(list(tmp_path.iterdir()))))
    assert len(trained) == 2 * len(small_company.sizes)
    other = change(METHODS["entente"].apply(base), {"seed": 1})
    measure(other, EULER.options, tmp_path / "other seed")
    assert len(trained) == 4 * len(small_company.sizes)


def test_the_last_round_within_five_percent_is_that_rounds_own_model(
    small_company: Prepared, tmp_path: Path, trained: list[int]
) -> None:
    base = change(METHODS["entente"].apply(EULER.experiment(small_company, 0)), {"federation.rounds": 3})
    within = measure(base, {**EULER.options, "model": "within"}, tmp_path / "within")
    scores = [
        sum(r["validation"][name] for name in ("ap", "auc")) for r in within["rounds"] if r["validation"]
    ]
    last = max(done for done, score in enumerate(scores) if score >= 0.95 * max(scores))
    shorter = change(base, {"federation.rounds": max(1, last)})
    own = measure(shorter, {**EULER.options, "model": "last", "sharing": False}, tmp_path / "own")
    assert within["model"] == own["model"]


def test_memory_forgets_the_oldest_answers_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(name: str) -> Answer:
        return Answer(Reply(0, name), Bundle({}, {"weights": np.zeros(10, dtype=np.float32)}), 0.0)

    monkeypatch.setattr(sharing, "CAPACITY", 100)
    memory = Memory()
    for name in ("a", "b"):
        memory.put(name, answer(name))
    assert memory.get("a") is not None
    memory.put("c", answer("c"))
    assert [name for name in "abc" if memory.get(name) is not None] == ["a", "c"]
