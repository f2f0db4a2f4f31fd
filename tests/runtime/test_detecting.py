"""Detection goes on where a run stopped, night after night."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow.compute as pc
import pytest

from entente.config import Experiment
from entente.detectors.baselines.pairs import TIE
from entente.errors import GraphError, UsageError
from entente.logs.events import load_events, write_events
from entente.logs.schema import COLUMNS, MICROSECONDS
from entente.runs.folder import RunFolder
from entente.runtime.detecting import detect
from entente.runtime.local import train


@pytest.fixture(scope="module", params=["none", "rare-target"])
def run(
    request: pytest.FixtureRequest, experiment: Experiment, tmp_path_factory: pytest.TempPathFactory
) -> RunFolder:
    """A run over the first three days, with and without a rule beside the model."""
    data = experiment.data.model_copy(update={"end": 3 * 86400.0})
    detection = experiment.detection.model_copy(update={"ensemble": request.param})
    folder = RunFolder(tmp_path_factory.mktemp("detect") / "run")
    train(experiment.model_copy(update={"data": data, "detection": detection}), folder, baselines=())
    return folder


def nights(experiment: Experiment, folder: Path, *cuts: float) -> list[Path]:
    events = load_events(experiment.data.events, list(COLUMNS), None, None)
    paths = []
    for low, high in pairwise(cuts):
        inside = pc.and_(
            pc.greater_equal(events["time"], int(low * 86400 * MICROSECONDS)),
            pc.less(events["time"], int(high * 86400 * MICROSECONDS)),
        )
        paths.append(folder / f"{low}")
        write_events(events.filter(inside), paths[-1])
    return paths


def test_two_nights_one_after_the_other_equal_both_at_once(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    both, first, second = (
        *nights(experiment, tmp_path, 3.0, 4.0),
        *nights(experiment, tmp_path / "halves", 3.0, 3.5, 4.0),
    )
    at_once = detect(run, both)
    memory = RunFolder(tmp_path / "memory")
    in_turn = [*detect(run, first, keep=memory), *detect(run, second, keep=memory)]
    for finding in at_once:
        parts = [f for f in in_turn if f.silo == finding.silo]
        assert sum(f.edges for f in parts) == finding.edges
        found = [a for f in parts for a in f.alerts]
        assert [(a.start, a.src, a.dst) for a in found] == [(a.start, a.src, a.dst) for a in finding.alerts]
        # Products over other numbers of rows may round the last bit the other way, and a rule's ties are
        # broken by hosts' numbers, which newcomers of the second night have others of.
        slack = {"abs": 1e-6} if run.experiment().detection.ensemble == "none" else {"rel": TIE}
        assert [a.score for a in found] == pytest.approx([a.score for a in finding.alerts], **slack)


def test_windows_already_scored_are_left_out_and_said(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    (old,) = nights(experiment, tmp_path, 1.0, 2.0)
    with pytest.raises(GraphError, match="where the run stopped"):
        detect(run, old)


def test_a_silo_that_does_not_exist_is_named(run: RunFolder, experiment: Experiment, tmp_path: Path) -> None:
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    with pytest.raises(UsageError, match="no silo 'mars'"):
        detect(run, night, ["mars"])


def test_hosts_never_seen_before_are_scored_too(
    run: RunFolder, experiment: Experiment, tmp_path: Path
) -> None:
    (night,) = nights(experiment, tmp_path, 3.0, 4.0)
    table = load_events(night, list(COLUMNS), None, None)
    renamed = pc.replace_substring(table["src"], "ws", "brand-new-ws")
    write_events(table.set_column(table.schema.get_field_index("src"), "src", renamed), tmp_path / "new")
    findings = detect(run, tmp_path / "new")
    assert sum(f.new_hosts for f in findings) > 0
