from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entente.errors import UsageError
from entente.graphs.temporal import TemporalGraph
from entente_lab.bench.published import euler as published_euler
from entente_lab.bench.published.comparison import Line, to_text
from entente_lab.bench.published.euler import cut, read_snapshots
from entente_lab.bench.speed import run as run_speed


def mirrored(graph: TemporalGraph) -> set[tuple[int, int, int]]:
    return set(zip(graph.window_of_edge().tolist(), graph.dst.tolist(), graph.src.tolist(), strict=True))


@pytest.fixture
def snapshots(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    src, dst, t = rng.integers(0, 20, 400), rng.integers(0, 20, 400), rng.integers(0, 6, 400)
    both: dict[str, Any] = {"src": np.append(src, dst), "dst": np.append(dst, src), "t": np.append(t, t)}
    np.savez(tmp_path / "enron10.npz", num_nodes=20, **both)
    return tmp_path


def test_test_windows_are_never_trained_on_and_tests_are_balanced(snapshots: Path) -> None:
    graph = read_snapshots(snapshots / "enron10.npz")
    assert not (graph.src == graph.dst).any()
    for kind in ("detection", "prediction"):
        trial = cut(graph, kind, seed=0)
        assert trial.train.num_windows == graph.num_windows - 3
        for question in (trial.validation, *trial.tests.values()):
            assert question.label.sum() * 2 == len(question.label)
        assert all((question.pairs.window >= 3).all() for question in trial.tests.values())
        assert (trial.validation.pairs.window < 3).all()


def test_what_is_asked_in_detection_is_not_fed(snapshots: Path) -> None:
    graph = read_snapshots(snapshots / "enron10.npz")
    for whole in (False, True):
        trial = cut(graph, "detection", 1, whole_pairs=whole)
        asked = trial.tests["detection"]
        pairs = zip(
            asked.pairs.window.tolist(), asked.pairs.src.tolist(), asked.pairs.dst.tolist(), strict=True
        )
        edges = {pair for pair, is_edge in zip(pairs, asked.label.tolist(), strict=True) if is_edge}
        fed = set(
            zip(
                trial.fed.window_of_edge().tolist(),
                trial.fed.src.tolist(),
                trial.fed.dst.tolist(),
                strict=True,
            )
        )
        assert not edges & fed
        assert bool(edges & mirrored(trial.fed)) is not whole


def test_new_links_are_not_in_the_window_before(snapshots: Path) -> None:
    graph = read_snapshots(snapshots / "enron10.npz")
    question = cut(graph, "prediction", 0).tests["new link"]
    existing = {(t, d, s) for t, s, d in mirrored(graph)}
    asked = zip(question.pairs.window, question.pairs.src, question.pairs.dst, question.label, strict=True)
    for t, src, dst, label in asked:
        if label:
            assert (int(t), int(src), int(dst)) in existing
            assert (int(t) - 1, int(src), int(dst)) not in existing


def test_finished_runs_are_read_again_and_other_settings_run_again(
    snapshots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = read_snapshots(snapshots / "enron10.npz")
    out = tmp_path / "out"
    first = published_euler._recorded(out, graph, "enron10", "detection", 0, 3, False)
    calls: list[int] = []

    def counted(*_: object) -> dict[str, Any]:
        calls.append(1)
        return {"found": {"detection": (0.0, 0.0)}}

    monkeypatch.setattr(published_euler, "run_trial", counted)
    assert published_euler._recorded(out, graph, "enron10", "detection", 0, 3, False)["found"] == {
        task: list(found) for task, found in first["found"].items()
    }
    assert not calls
    monkeypatch.setitem(published_euler.SETTINGS, "lr", 0.005)
    published_euler._recorded(out, graph, "enron10", "detection", 0, 3, False)
    assert calls


def test_the_table_says_what_a_cell_is_short_of() -> None:
    line = Line("Euler", "fb", "detection", "AUC", 92.2, 91.47, 91.8, 0.1, 5)
    assert line.short_of == "paper"
    assert "-0.40" in to_text([line])


def test_a_folder_without_graphs_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--data"):
        read_snapshots(tmp_path / "enron10.npz")


def test_speed_reads_the_last_line_and_reports_failures(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(
        'print("noise")\nprint(\'{"benchmark": "good", "ratios": {"x": 2.5}, "table": ["a b"]}\')'
    )
    (tmp_path / "bad.py").write_text('import sys\nsys.exit("no luck")  # "benchmark"')
    measured = {one.name: one for one in run_speed(tmp_path, quick=False)}
    assert (measured["good"].ratios, measured["good"].table) == ({"x": 2.5}, ("a b",))
    assert "no luck" in (measured["bad"].error or "")
    with pytest.raises(UsageError, match="there is no benchmark"):
        list(run_speed(tmp_path, quick=False, only=("other",)))
