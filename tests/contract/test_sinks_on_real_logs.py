"""Every output of alerts from real logs, as tools wrote them; skipped where the public data are absent."""

from __future__ import annotations

import json
from ipaddress import ip_address
from pathlib import Path

import pytest

from entente.config import parse_experiment
from entente.detection.alerts import Alert
from entente.detection.sinks import available, create
from entente.detection.table import read_table
from entente.logs.events import load_events
from entente.logs.ingest import Request, ingest
from entente.runs.folder import RunFolder
from entente.runtime.local import train

from .readers import check_ecs, json_rows, parse

LOGS = {
    "windows": "windows_json/*.zip",
    "suricata": "suricata/eve.json.gz",
    "netflow": "netflow/argus.binetflow.gz",
    "zeek": "zeek_json/conn.log.gz",
    "zeek-tsv": "zeek_tsv/conn_labeled.log.gz",
    "lanl": "lanl/auth_head.txt.gz",
}


@pytest.fixture(scope="module", params=sorted(LOGS))
def alerts(
    request: pytest.FixtureRequest, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Alert]:
    """Alerts of the second half of a log: whatever pair the first half does not have."""
    folder = tmp_path_factory.mktemp(request.param)
    ingest(Request([str(shared_data / "logs" / LOGS[request.param])], folder / "events"))
    times = load_events(folder / "events", ["time"])["time"].to_numpy()
    middle, end = ((int(time) - int(times[0])) / 1e6 for time in (times[len(times) // 2], times[-1]))
    window = max(end / 20, 0.001)
    data = {"events": str(folder / "events"), "window": window, "train": max(middle // window, 4) * window}
    settings = {"data": data, "detector": {"name": "rare-target"}, "detection": {"alerts_per_day": 1e6}}
    train(parse_experiment(settings), RunFolder(folder / "run"), baselines=())
    found = list(read_table(folder / "run" / "alerts.parquet").alerts)
    assert found
    return found


def test_every_format_gives_every_alert_back(alerts: list[Alert]) -> None:
    expected = sorted((alert.src, alert.dst) for alert in alerts)
    for name in available():
        rows = parse(name, create(name).render(alerts))
        assert sorted((row["src"], row["dst"]) for row in rows) == expected, name


def test_evidence_names_the_row_of_the_log(alerts: list[Alert]) -> None:
    for alert in alerts:
        assert alert.evidence
        assert alert.first is not None
        assert alert.start <= alert.first < alert.end


def test_ecs_has_only_fields_of_the_schema(alerts: list[Alert]) -> None:
    for row in json_rows(create("ecs").render(alerts)):
        check_ecs(row)


def test_py_ocsf_models_takes_every_finding(alerts: list[Alert]) -> None:
    models = pytest.importorskip("py_ocsf_models.events.findings.detection_finding")
    for row in json_rows(create("ocsf").render(alerts)):
        models.DetectionFinding.model_validate(row)


def test_stix2_takes_the_bundle_without_custom_content(alerts: list[Alert]) -> None:
    stix2 = pytest.importorskip("stix2")
    bundle = stix2.parse(create("stix").render(alerts), allow_custom=False)
    kinds = [thing.type for thing in bundle.objects]
    assert kinds.count("sighting") == len({alert.id for alert in alerts})


def test_addresses_are_addresses_in_misp(alerts: list[Alert]) -> None:
    for thing in json.loads(create("misp").render(alerts))["Event"]["Object"]:
        for one in thing["Attribute"]:
            if one["type"] in ("ip-src", "ip-dst"):
                assert ip_address(one["value"])
