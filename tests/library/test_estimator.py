"""A detector with scikit-learn's manners, trained on a data frame."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.metrics import average_precision_score

import entente
from entente.errors import ConfigError, UsageError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Events before the attack, and from it on; the company is simulated."""
    company = entente.datasets.simulated(
        tmp_path_factory.mktemp("company"), hosts=60, sites=2, days=3, seed=1
    )
    frame = company.table().to_pandas()
    quiet = frame.time < company.train * 1e6
    return frame[quiet], frame[~quiet]


@pytest.fixture(scope="module")
def fitted(frames: tuple[pd.DataFrame, pd.DataFrame]) -> entente.AnomalyDetector:
    return entente.AnomalyDetector(rounds=2).fit(frames[0])


def code_of(page: str) -> list[str]:
    blocks: list[str] = re.findall(
        r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.S
    )
    return blocks


def test_a_stranger_trains_on_a_data_frame_in_ten_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = code_of("README.md")
    assert len([line for line in block.splitlines() if line.strip()]) <= 10
    names: dict[str, object] = {}
    exec(block, names)
    worst = names["worst"]
    assert isinstance(worst, pd.DataFrame)
    assert worst.label.sum() >= 5


def test_the_code_of_the_librarys_page_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec("\n".join(code_of("docs/library.md")), {})
    assert (tmp_path / "run" / "metrics.json").is_file()


def test_attacks_score_lower_than_the_rest(
    fitted: entente.AnomalyDetector, frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    _, later = frames
    scores = fitted.score_samples(later)
    assert scores.dtype == np.float64
    assert scores.shape == (len(later),)
    assert average_precision_score(later.label, -scores) > 2 * later.label.mean()


def test_all_frames_and_orders_of_rows_give_the_same_scores_and_scoring_changes_nothing(
    fitted: entente.AnomalyDetector, frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    _, later = frames
    scores = fitted.score_samples(later)
    for frame in (later, pl.from_pandas(later), pa.Table.from_pandas(later, preserve_index=False)):
        assert (fitted.score_samples(frame) == scores).all()
    assert (fitted.score_samples(later.iloc[::-1])[::-1] == scores).all()


def test_events_of_the_fit_are_scored_by_what_was_known_before_them(
    fitted: entente.AnomalyDetector, frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    before, later = frames
    whole = fitted.score_samples(pd.concat([before, later]))
    assert (whole[len(before) :] == fitted.score_samples(later)).all()
    unknown = before.iloc[:1].assign(dst="never-seen")
    with pytest.raises(UsageError, match="before the end of `fit`"):
        fitted.score_samples(unknown)


def test_predict_is_minus_one_above_a_threshold_and_an_event_with_itself_is_nothing(
    fitted: entente.AnomalyDetector, frames: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    _, later = frames
    itself = later.iloc[:1].assign(dst=later.src.iloc[0])
    assert fitted.score_samples(itself).tolist() == [0.0]
    assert fitted.predict(itself).tolist() == [1]
    assert fitted.score_samples(later.iloc[:0]).shape == (0,)
    assert set(fitted.predict(later)) <= {1, -1}
    raised = fitted.predict(later) == -1
    assert (fitted.score_samples(later)[raised] < fitted.offset_).all()


def test_silos_train_together_and_the_run_is_kept_in_a_folder(
    frames: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    before, later = frames
    hosts = sorted({*before.src, *before.dst})
    silos = {host: "ab"[i % 2] for i, host in enumerate(hosts)}
    model = entente.AnomalyDetector(
        "rare-target", silos=silos, folder=tmp_path / "run", settings={"detection": {"false_alarms": 0.05}}
    ).fit(before)
    assert sorted(entente.load_run(tmp_path / "run").card.thresholds) == ["a", "b"]
    assert (model.predict(later) == -1).any()
    with pytest.raises(UsageError, match="holds a run already"):
        model.fit(before)


def test_parameters_can_be_read_set_and_cloned() -> None:
    model = entente.AnomalyDetector("euler", rounds=3)
    assert repr(clone(model)) == "AnomalyDetector(detector='euler', rounds=3)"
    assert model.set_params(rounds=4).get_params()["rounds"] == 4
    with pytest.raises(UsageError, match="no parameter 'round'"):
        model.set_params(round=4)
    with pytest.raises(UsageError, match="not fitted"):
        model.predict({"time": [1], "src": ["a"], "dst": ["b"]})
    with pytest.raises(UsageError, match="fit needs events"):
        model.fit({"time": [], "src": [], "dst": []})


def test_a_wrong_setting_is_named_with_the_nearest_one() -> None:
    model = entente.AnomalyDetector(settings={"detection": {"false_alarm": 0.1}})
    with pytest.raises(ConfigError, match="Did you mean 'false_alarms'"):
        model.fit({"time": [0.0, 9000.0], "src": ["a", "b"], "dst": ["b", "a"]})
