"""`ingest`, `train`, `detect` and `load_run` from a program, over files and frames."""

from __future__ import annotations

from pathlib import Path

import pytest

import entente
from entente.errors import UsageError
from entente.federation.records import RoundRecord


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> entente.datasets.LogData:
    return entente.datasets.simulated(tmp_path_factory.mktemp("company"), hosts=40, sites=2, days=3)


def test_logs_are_read_with_the_options_of_the_command(
    company: entente.datasets.LogData, tmp_path: Path
) -> None:
    log = company.events.parent / "events.csv"
    manifest = entente.ingest([log], tmp_path / "events", format="csv", on_bad="fail")
    assert manifest.rows == company.table().num_rows
    with pytest.raises(UsageError, match="nonsense"):
        entente.ingest(log, tmp_path / "other", nonsense=3)
    with pytest.raises(UsageError, match="takes no options of log files"):
        entente.ingest(company.table(), tmp_path / "other", on_bad="fail")


def test_a_frame_and_its_event_directory_train_the_same_model(
    company: entente.datasets.LogData, tmp_path: Path
) -> None:
    settings = {"data": {"train": company.train}, "federation": {"rounds": 2}}
    seen: list[RoundRecord] = []
    of_files = entente.train(
        settings, tmp_path / "files", events=company.events, silos=company.silos, watch=seen.append
    )
    silos = entente.partition(company.events, "column", hosts=company.hosts)
    of_frame = entente.train(
        settings, tmp_path / "frame", events=company.table().to_pandas(), silos=silos.as_dict()
    )
    assert of_files.card.weights_sha256 == of_frame.card.weights_sha256
    assert [record.round for record in of_files.rounds] == [record.round for record in seen]
    assert of_frame.scores().num_rows == of_files.scores().num_rows
    with pytest.raises(UsageError, match="holds a run already"):
        entente.train(settings, tmp_path / "frame", events=company.table())


def test_new_events_in_a_frame_raise_alerts_and_state_goes_on_only_when_committed(
    company: entente.datasets.LogData, tmp_path: Path
) -> None:
    table = company.table().to_pandas()
    settings = {
        "data": {"train": company.train},
        "detector": {"name": "rare-target"},
        "detection": {"false_alarms": 0.2},
    }
    quiet = table[table.time < company.train * 1e6 + 1e9]
    run = entente.train(settings, tmp_path / "run", events=quiet, silos=company.silos)
    later = table[table.time >= company.train * 1e6 + 1e9]
    night = entente.detect(run, later, state=tmp_path / "memory")
    assert night.alerts
    again = run.detect(later, state=tmp_path / "memory")
    assert [alert.id for alert in again.alerts] == [alert.id for alert in night.alerts]
    night.commit(entente.RunFolder(tmp_path / "memory"))
    assert entente.detect(tmp_path / "run", later, state=tmp_path / "memory").alerts == ()


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no finished run"):
        entente.load_run(tmp_path)


def test_public_data_sets_are_read_from_a_folder_and_cut_as_the_paper_cuts_them(tmp_path: Path) -> None:
    rows = [
        f"{second},U{second % 7}@D,U{second % 7}@D,C{second % 5},C{second % 11},NTLM,Network,LogOn,Success"
        for second in range(1, 2000, 3)
    ]
    (tmp_path / "auth.txt").write_text("\n".join(rows) + "\n")
    (tmp_path / "redteam.txt").write_text("1000,U6@D,C0,C10\n")
    data = entente.datasets.lanl(tmp_path, tmp_path / "prepared", k=2)
    assert (data.window, data.train) == (1800.0, 149_400.0)
    assert data.experiment().data.silos == data.silos
    with pytest.raises(UsageError, match=r"holds none of auth.txt.gz"):
        entente.datasets.lanl(tmp_path / "prepared", tmp_path / "other")
