from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entente_lab.bench.cells import Label, Record
from entente_lab.bench.events import Prepared
from entente_lab.bench.inference import measure_inference, victim
from entente_lab.bench.methods import change
from entente_lab.bench.privacy import ATTACKS, DETECTORS, NOISE, NOISY, RULE, draw, plan
from entente_lab.bench.request import Request

SMALL = {
    "behaviour": {"detector.replicas": 2},
    "euler, trained rows": {"detector.hidden": 4, "detector.embedding": 4},
}


@pytest.mark.parametrize("name", SMALL)
def test_every_attack_gives_an_auc_or_has_nothing_to_read(
    name: str, small_company: Prepared, tmp_path: Path
) -> None:
    plain = small_company.experiment(seed=3, federation={"rounds": 1})
    experiment = change(change(plain, DETECTORS[name][0]), {**RULE, **SMALL[name]})
    values = measure_inference(experiment, {"round": 1}, tmp_path)["values"]
    known = {attack for attack in ATTACKS if values.get(f"update_{attack}") is not None}
    rows = {"pair_by_rows", "host_by_rows", "edge_by_rows"}
    assert known == (
        {"pair_by_score", "example_by_gradient"} if name == "behaviour" else {"pair_by_score"} | rows
    )
    assert all(0 <= value <= 1 for key, value in values.items() if key != "epsilon" and value is not None)
    if rows <= known:
        assert values["update_host_by_rows"] > 0.8


def test_the_smallest_silo_with_edges_enough_is_attacked_or_the_largest() -> None:
    def silo(edges: int) -> Any:
        return SimpleNamespace(train=SimpleNamespace(num_edges=edges))

    dataset: Any = SimpleNamespace(silos={"a": silo(900), "b": silo(20), "c": silo(400)})
    assert victim(dataset) == "c"
    assert victim(dataset, largest=True) == "a"


def test_the_plan_has_every_detector_and_noise_where_it_is_tried(out: Path) -> None:
    cells, _ = plan(Request(out, seeds=1, first_seed=3))
    assert len(cells) == len(DETECTORS) + len(NOISY) * (len(NOISE) - 1)
    assert len({cell.key for cell in cells}) == len(cells)


def test_the_page_says_where_there_are_no_rows() -> None:
    record = Record(
        *("key", "done", {}, 1, "data", {}, "runner", "command", {}),
        outcome={"values": {"update_pair_by_score": 0.5, "released_pair_by_score": 0.5}},
        seconds=1.0,
        peak_memory_mb=1.0,
        finished="now",
    )
    labels: dict[str, Label] = {
        "dataset": "simulated-lab",
        "k": 4,
        "detector": "behaviour",
        "noise": "none",
        "seed": 1,
    }
    page = draw([(labels, record)], {"command": "entente bench privacy"})
    tables = [block for block in page.blocks if hasattr(block, "rows")]
    assert [entry.text for entry in tables[0].rows[0]][:3] == ["behaviour", "0.50", "no rows"]
