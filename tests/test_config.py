"""One experiment file, validated; the settings page is generated from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from entente.config import Attack, Experiment, Jbeil, load_experiment, settings_reference, to_toml
from entente.errors import ConfigError


def test_an_experiment_survives_toml(tmp_path: Path) -> None:
    experiment = Experiment(
        name='od"d\\', detector=Jbeil(lr=0.5), attack=Attack(name="sign-flip", silos=("a", "b"), gamma=1e-9)
    )
    (tmp_path / "x.toml").write_text(to_toml(experiment))
    assert load_experiment(tmp_path / "x.toml").model_dump(exclude={"data"}) == experiment.model_dump(
        exclude={"data"}
    )


def test_relative_paths_start_at_the_experiment_file(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text('[data]\nevents = "e"\nsilos = "/abs/s.csv"\n')
    data = load_experiment(tmp_path / "x.toml").data
    assert data.events == tmp_path / "e"
    assert data.silos == Path("/abs/s.csv")


def test_overrides_reach_nested_settings(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("seed = 1\n")
    changes = (
        "seed=7",
        "federation.aggregation.rule=fedavg",
        "detector.name=jbeil",
        "graph.augmentation=false",
    )
    experiment = load_experiment(tmp_path / "x.toml", changes)
    assert experiment.seed == 7
    assert experiment.federation.aggregation.rule == "fedavg"
    assert experiment.detector.name == "jbeil"
    assert experiment.graph.augmentation is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sed = 1", "sed"),
        ("[federation]\nrounds = 0", "federation.rounds"),
        ("[detector]\nname = 'none'", "detector"),
        ("seed = = 1", "not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        load_experiment(tmp_path / "x.toml")
    assert "x.toml" in str(caught.value)


def test_a_missing_file_and_a_bad_override_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_experiment(tmp_path / "absent.toml")
    (tmp_path / "x.toml").write_text("seed = 1\n")
    with pytest.raises(ConfigError, match="path=value"):
        load_experiment(tmp_path / "x.toml", ("rounds",))
    with pytest.raises(ConfigError, match="not a section"):
        load_experiment(tmp_path / "x.toml", ("seed.x=1",))


def test_the_settings_page_is_up_to_date() -> None:
    page = Path(__file__).parents[1] / "docs" / "configuration.md"
    assert page.read_text() == settings_reference() + "\n", (
        "run: entente train --settings > docs/configuration.md"
    )


def test_every_setting_has_a_sentence() -> None:
    empty = [line for line in settings_reference().splitlines() if line.endswith("|  |")]
    assert [line for line in empty if "`name`" not in line] == []


def test_the_copy_in_a_run_folder_names_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.toml").write_text('[data]\nevents = "events"\nsilos = "silos.csv"\n')
    monkeypatch.chdir(tmp_path)
    experiment = load_experiment(Path("x.toml"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "experiment.toml").write_text(to_toml(experiment))
    assert load_experiment(Path("run/experiment.toml")) == experiment
