"""One experiment file, validated; the settings page is generated from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from entente.config import Data, Experiment, load_experiment, parse_experiment, settings_reference, to_toml
from entente.detectors.jbeil.options import JbeilOptions
from entente.errors import ConfigError


def test_an_experiment_survives_toml(tmp_path: Path) -> None:
    experiment = Experiment(
        name='od"d\\',
        detector=JbeilOptions(lr=0.5),
        data=Data(train=1e-9),
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


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            {"federation": {"aggregation": {"rule": "fedavg", "trim": 0.4}}},
            "federation.aggregation.trim: unknown",
        ),
        ({"federation": {"aggregation": {"rule": "trimmed-mean", "trm": 0.4}}}, "Did you mean 'trim'"),
        ({"federation": {"aggregation": {"rule": "fedavgg"}}}, "Did you mean 'fedavg'"),
        ({"federation": {"aggregation": {"rule": 3}}}, "federation.aggregation.rule"),
        ({"federation": {"aggregation": "fedavg"}}, "federation.aggregation"),
        ({"detector": {"name": "first-seen", "hidden": 4}}, "detector.hidden: unknown key"),
        ({"detector": {"name": "jbeil", "memori": 4}}, "Did you mean 'memory'"),
        (
            {"detector": {"name": "eular"}},
            "detector.name: there is no detector 'eular'. Did you mean 'euler'",
        ),
        ({"detector": {"hidden": 0}}, "detector.hidden"),
        ({"detection": {"ensemble": "euler"}}, "'euler' is no baseline"),
        ({"detection": {"ensemble": "rare-targets"}}, "Did you mean 'rare-target'"),
        ({"attack": {"name": "replay"}}, "attack: moved to the lab"),
        ({"detector": {"name": "euler", "decoder": "inner"}}, "detector.decoder: moved to the lab"),
        ({"federation": {"aggregation": {"acs": False}}}, "federation.aggregation.acs: moved to the lab"),
        ({"federation": {"m": 3}}, "federation.m: moved to the lab"),
        ({"graph": {"static": True}}, "graph.static: removed"),
        ({"federation": {"round": 3}}, "federation.round: unknown key. Did you mean 'rounds'"),
    ],
)
def test_an_option_that_the_chosen_plug_in_does_not_have_is_an_error(
    table: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said.replace(".", r"\.")):
        parse_experiment(table)


def test_each_plug_in_has_its_own_options_and_defaults() -> None:
    plain = parse_experiment({})
    assert plain.detector.name == "behaviour"
    assert plain.federation.aggregation.rule == "entente"
    chosen = parse_experiment({"federation": {"aggregation": {"rule": "trimmed-mean"}}})
    assert chosen.federation.aggregation.model_dump() == {"rule": "trimmed-mean", "trim": 0.2}
    assert (
        Experiment(detector=JbeilOptions()).detector
        == parse_experiment({"detector": {"name": "jbeil"}}).detector
    )


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
    assert page.read_text() == settings_reference("entente") + "\n", (
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


def test_a_name_with_control_characters_survives_the_file(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text(to_toml(parse_experiment({"name": 'a\nb\x7f"\\\t\x01'})), encoding="utf-8")
    assert load_experiment(file).name == 'a\nb\x7f"\\\t\x01'


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = " + b"[" * 5000])
def test_a_file_that_is_no_text_or_nested_without_end_is_an_error_in_words(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "some.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"not a text file|nested too deeply"):
        load_experiment(tmp_path / "some.toml")
