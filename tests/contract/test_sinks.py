"""One set of checks over every sink."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.contracts.base import Check
from entente.contracts.sinks import CHECKS, HOSTILE
from entente.detection.alerts import Alert, EvidenceRow
from entente.detection.sinks import available, create
from entente.detection.sinks.base import Sink, timestamp
from entente.errors import StorageError, UsageError
from entente.text import visible

from .readers import PARSERS, check_ecs, json_rows, parse

BASE = Alert(
    start=1_700_000_000_000_000,
    end=1_700_001_800_000_000,
    src="a",
    dst="b",
    score=0.987654321,
    threshold=0.5,
    severity="high",
    silo="north",
    explanation=("first contact from a to b", "rank 1 of 7 edges"),
)
ALERTS = [
    replace(
        BASE,
        src=text,
        dst=f"{text}2",
        users=(text,),
        kinds=(text,),
        silo=text,
        incident=text,
        explanation=(text, "why"),
        evidence=(EvidenceRow(BASE.start, text, 1, text, text),),
        elsewhere=(text,),
        link=text,
    )
    for text in HOSTILE
] + [replace(BASE, technique="T1021.002"), BASE]
FULL = replace(
    BASE,
    src="10.0.0.1",
    direction="outbound",
    also=("south",),
    first=BASE.start + 60_000_000,
    last=BASE.start + 90_000_000,
    events=3,
    failures=1,
    users=("frodo", "sam"),
    kinds=("4624",),
    logons=("RemoteInteractive",),
    ports=(3389,),
    technique="T1021.001",
    technique_reason="port 3389",
    rarity=1000,
    incident="7d0f4f6c-8b1e-5a0e-9a3b-0e6d6f1c2b3a",
    service="rdp",
    source_role="workstation",
    target_role="server",
    evidence=(
        EvidenceRow(BASE.start + 60_000_000, "/var/log/security.json", 12_345, "frodo", "4624", 3389),
        EvidenceRow(BASE.start + 70_000_000, "topic windows", 7),
    ),
    model="a1b2c3d4e5f60718",
    model_before="18076f5e4d3c2b1a",
    elsewhere=("porto: suspicious since yesterday",),
    link="5f2d9c3e1b7a",
)


def carried(name: str, text: str) -> str:
    """What a format can carry of a text: all of it, but for CEF."""
    return text if name != "cef" else visible(text, keep="\r\n")


@pytest.fixture(params=sorted(available()))
def sink(request: pytest.FixtureRequest) -> Sink:
    return create(request.param)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.claim)
def test_every_claim_of_the_contract_holds(sink: Sink, check: Check) -> None:
    check.run(sink)


def test_every_sink_is_checked_here() -> None:
    assert set(available()) == set(PARSERS)


def test_hostile_names_come_back_as_they_were(sink: Sink) -> None:
    rows = parse(sink.name, sink.render(ALERTS))
    expected = [(carried(sink.name, alert.src), carried(sink.name, alert.dst)) for alert in ALERTS]
    unique = list(dict.fromkeys(expected)) if sink.name in ("stix", "misp") else expected
    assert [(row["src"], row["dst"]) for row in rows] == unique
    assert {row["score"] for row in rows} == {BASE.score}


def test_times_are_the_windows(sink: Sink) -> None:
    (row,) = parse(sink.name, sink.render([BASE]))
    forms = (
        (BASE.start, BASE.end),
        (BASE.start // 1000, BASE.end // 1000),
        (timestamp(BASE.start), timestamp(BASE.end)),
    )
    assert (row["start"], row["end"]) in forms


def test_no_alerts_give_a_valid_file(sink: Sink, tmp_path: Path) -> None:
    sink.write(tmp_path / "alerts", [])
    assert parse(sink.name, (tmp_path / "alerts").read_text()) == []


def test_a_failed_write_leaves_the_former_file(
    sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "alerts"
    sink.write(path, [BASE])
    before = path.read_bytes()

    def full(self: Path, *args: object, **kwargs: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageError, match="No space left"):
        sink.write(path, ALERTS)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_at_all_comes_back(src: str, dst: str) -> None:
    for name in available():
        sink = create(name)
        (row,) = parse(name, sink.render([replace(BASE, src=src, dst=dst, explanation=(dst,))]))
        expected: Sequence[str] = (carried(name, src), carried(name, dst))
        if name == "cef":  # a value may not begin or end with spaces that a reader would keep
            assert (row["src"].strip(), row["dst"].strip()) == tuple(text.strip() for text in expected)
        else:
            assert (row["src"], row["dst"]) == tuple(expected)


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="cef, ecs, jsonl, misp, ocsf, stix, timesketch"):
        create("syslog")


def test_jsonl_loses_nothing() -> None:
    rows = json_rows(create("jsonl").render([FULL, *ALERTS]))
    assert [Alert.from_dict(row) for row in rows] == [FULL, *ALERTS]


def test_an_ocsf_finding_has_what_the_class_requires() -> None:
    (row,) = json_rows(create("ocsf").render([BASE]))
    required = {
        "activity_id",
        "category_uid",
        "class_uid",
        "type_uid",
        "time",
        "severity_id",
        "metadata",
        "finding_info",
    }
    assert required <= set(row)
    assert (row["class_uid"], row["category_uid"], row["type_uid"]) == (2004, 2, 200401)
    assert row["metadata"]["version"]
    assert row["metadata"]["product"]["vendor_name"]
    assert row["finding_info"]["uid"]
    assert row["finding_info"]["title"]
    assert 0 <= row["severity_id"] <= 6
    assert isinstance(row["time"], int)


def test_an_ecs_document_has_what_elastic_security_reads() -> None:
    (row,) = json_rows(create("ecs").render([replace(BASE, src="10.0.0.1", technique="T1021")]))
    assert row["event"]["kind"] == "alert"
    assert row["source"]["ip"] == "10.0.0.1"
    assert row["destination"]["domain"] == "b"
    assert row["threat"]["technique"]["id"] == ["T1021"]
    assert row["@timestamp"] == "2023-11-14T22:13:20.000Z"


def test_the_time_of_an_alert_is_that_of_its_first_event(sink: Sink) -> None:
    assert FULL.first is not None
    assert FULL.last is not None
    (row,) = parse(sink.name, sink.render([FULL]))
    forms = (
        (FULL.first, FULL.last),
        (FULL.first // 1000, FULL.last // 1000),
        (timestamp(FULL.first), timestamp(FULL.last)),
    )
    if sink.name == "jsonl":  # has the window and the events
        (whole,) = json_rows(sink.render([FULL]))
        row = {"start": whole["first"], "end": whole["last"]}
    assert (row["start"], row["end"]) in forms
    if sink.name == "ecs":
        assert json_rows(sink.render([FULL]))[0]["@timestamp"] == timestamp(FULL.first)
    if sink.name == "ocsf":
        assert json_rows(sink.render([FULL]))[0]["time"] == FULL.first // 1000


def test_every_format_names_the_account_the_port_the_technique_and_the_incident(sink: Sink) -> None:
    text = sink.render([FULL])
    told = (
        "rdp",
        "port 3389",
        "workstation",
        "server",
        "a1b2c3d4e5f60718",
        "18076f5e4d3c2b1a",
        "porto",
        "5f2d9c3e1b7a",
    )
    for value in ("frodo", "3389", "T1021.001", str(FULL.incident), *told, "security.json", "12345"):
        assert value in text


# ---- validators that know nothing of this project --------------------------------------------


@pytest.mark.parametrize("alert", [FULL, *ALERTS])
def test_an_ecs_document_has_only_fields_of_the_schema_and_its_own_namespace(alert: Alert) -> None:
    (row,) = json_rows(create("ecs").render([alert]))
    assert row["entente"]["silo"] == alert.silo
    check_ecs(row)


@pytest.mark.parametrize("alert", [FULL, *ALERTS])
def test_py_ocsf_models_takes_every_finding(alert: Alert) -> None:
    models = pytest.importorskip("py_ocsf_models.events.findings.detection_finding")
    (row,) = json_rows(create("ocsf").render([alert]))
    finding = models.DetectionFinding.model_validate(row)
    assert finding.finding_info.analytic.uid
    assert finding.metadata.correlation_uid == (alert.incident or None)
    if alert.technique:
        assert finding.finding_info.attacks[0].technique.name


def test_stix2_takes_the_bundle_without_custom_content() -> None:
    stix2 = pytest.importorskip("stix2")
    plain = [alert for alert in ALERTS if "\ud800" not in alert.src]
    named = [alert for alert in plain if alert.src]  # the library wants identities to have a name
    bundle = stix2.parse(create("stix").render([FULL, *named]), allow_custom=False)
    kinds = [thing.type for thing in bundle.objects]
    assert kinds.count("sighting") == len({alert.id for alert in (FULL, *named)})
    assert "grouping" in kinds


def test_every_stix_reference_resolves_and_every_object_has_the_common_properties() -> None:
    bundle = json.loads(create("stix").render(ALERTS))
    ids = {thing["id"] for thing in bundle["objects"]}
    assert len(ids) == len(bundle["objects"])
    for thing in bundle["objects"]:
        assert thing["spec_version"] == "2.1"
        assert thing["id"].startswith(thing["type"] + "--")
        UUID(thing["id"].split("--")[1])
        assert {"created", "modified"} <= set(thing)
        references = [value for key, value in thing.items() if key.endswith("_ref")]
        references += [ref for key, value in thing.items() if key.endswith("_refs") for ref in value]
        assert set(references) <= ids
        assert set(thing.get("extensions", {})) <= ids
        if thing["type"] == "relationship":
            assert thing["stop_time"] > thing["start_time"]
        if thing["type"] in ("identity", "attack-pattern"):
            assert "name" in thing


MISP_TYPES = {
    "ip-src": ("Network activity", {"ip-src"}),
    "ip-dst": ("Network activity", {"ip-dst"}),
    "hostname": ("Network activity", {"hostname-src", "hostname-dst"}),
    "text": ("Other", {"hostname-src", "hostname-dst"}),
    "port": ("Network activity", {"dst-port"}),
    "datetime": ("Other", {"first-packet-seen"}),
}
"""Attribute types with a category that MISP allows for them, and their places in `network-connection`."""


def test_a_misp_event_has_the_fields_of_the_core_format_and_of_the_template() -> None:
    event = json.loads(create("misp").render([FULL, *ALERTS]))["Event"]
    assert {"uuid", "info", "date", "timestamp", "analysis", "threat_level_id"} <= set(event)
    assert (event["published"], event["distribution"], event["sharing_group_id"]) == (False, "0", "0")
    assert event["threat_level_id"] in "1234"
    assert datetime.fromisoformat(event["date"])
    ids = [event["uuid"]]
    for thing in event["Object"]:
        assert (thing["name"], thing["meta-category"]) == ("network-connection", "network")
        ids.append(thing["uuid"])
        for one in thing["Attribute"]:
            category, places = MISP_TYPES[one["type"]]
            assert one["category"] == category
            assert one["object_relation"] in places
            assert isinstance(one["value"], str)
            assert one["to_ids"] is False
            ids.append(one["uuid"])
    assert len({UUID(one) for one in ids}) == len(ids)


def test_a_short_host_name_goes_to_misp_as_text() -> None:
    alert = replace(BASE, src="ws-1", dst="srv-1.corp.example")
    (thing,) = json.loads(create("misp").render([alert]))["Event"]["Object"]
    assert [one["type"] for one in thing["Attribute"]] == ["text", "hostname", "datetime"]


def test_cef_escapes_header_and_values_by_their_own_rules() -> None:
    from entente.detection.sinks.cef import escape_header, escape_value

    assert escape_header("a|b\\c=d\ne") == "a\\|b\\\\c=d e"
    assert escape_value("a\x1b[2J\u202eb") == "a\\\\u001b[2J\\\\u202eb"
    assert escape_header("a\x1b[2J\u202eb") == "a\\\\u001b[2J\\\\u202eb"
    assert escape_value("a|b\\c=d\ne\r") == "a|b\\\\c\\=d\\ne\\r"
