"""The page: whole, self-contained, safe against names that attack it, and honest."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entente.detection.alerts import Alert
from entente.detection.incidents import list_incidents
from entente.detection.metrics import Metrics
from entente.federation.records import RoundRecord, RoundScore, SiloRecord
from entente.report import AttackEdge, Points, ReportData, build, render
from entente.report.markup import amount, moment, number, size, text

VOID = {"meta", "input", "path", "rect", "circle", "line"}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'--></style></script><svg onload=alert(1)>",
    "javascript:alert(1)",
    "line\nbreak\u2028\u202egnp.exe\x00\ud800",
    "&amp;&lt;",
]


class Reader(HTMLParser):
    """Checks nesting and collects elements."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.said.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def metrics(**known: Any) -> Metrics:
    """Figures of which only some are known."""
    unknown: dict[str, Any] = dict.fromkeys((field.name for field in fields(Metrics)), None)
    return Metrics(**(unknown | {"edges": 0, "recall_at": {}} | known))


def hostile_report(name: str) -> ReportData:
    alert = Alert(0, 1_800_000_000, name, f"{name}2", 0.9, 0.5, "high", name, (name,), users=(name,))
    alert = replace(alert, kinds=(name,), technique=name, technique_reason=name, incident=name)
    other = replace(alert, src=alert.dst, dst=f"{name}3", start=3_600_000_000, end=5_400_000_000)
    figures = metrics(ap=0.5, recall_at={"10": 0.5}, positives=2, recall=0.5, alerts_per_day=3.0)
    edges = (AttackEdge(0, name, f"{name}2", True, 0.9, name), AttackEdge(1, f"{name}2", f"{name}3", False))
    silos = {name: SiloRecord(r=0.5), f"{name}b": SiloRecord(refused=name)}
    score = RoundScore(ap=0.5, auc=0.5)
    record = RoundRecord(kind="train", id=1, round=1, attempt=1, loss=1.0, validation=score, silos=silos)
    return ReportData(
        title=name, method=name, overall=figures, facts=((name, name),), command=name, simulated=True,
        methods={f"{name}m": figures}, baselines={f"{name}r": figures}, note=name, per_silo={name: figures},
        rounds=(record,), other_rounds={f"{name}m": (record.model_copy(update={"silos": {}}),)},
        curves={name: Points((0.0, 1.0), (1.0, 0.1))}, alerts=(alert, other),
        incidents=list_incidents((alert, other)), attack=edges, homes={name: name}, silo_hosts={name: 3},
        warnings=(name,), privacy=(name,), versions={name: name},
    )  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_becomes_an_element_or_an_attribute(name: str) -> None:
    harmless, page = read(render(hostile_report("x"))), read(render(hostile_report(name)))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in harmless.elements]
    for _, attributes in page.elements:
        assert not any(key.startswith("on") for key in attributes)
        assert "style" not in attributes
        assert not (attributes.get("href") or "#").startswith("javascript")


def test_a_page_can_be_written_as_utf8_whatever_the_names(tmp_path: Path) -> None:
    for name in HOSTILE:
        render(hostile_report(name)).encode("utf-8")


@given(st.text(max_size=30))
def test_any_text_reads_back_as_text(value: str) -> None:
    reader = Reader()
    reader.feed(f'<p title="{text(value)}">{text(value)}</p>')
    reader.close()
    assert len(reader.elements) == 1
    assert "".join(reader.said) == reader.elements[0][1]["title"] or not value


def test_the_page_asks_for_nothing_from_outside(run_folder: Path) -> None:
    page = render(build(run_folder))
    reader = read(page)
    assert not {"link", "img", "iframe", "object", "embed", "audio", "video"} & {
        tag for tag, _ in reader.elements
    }
    for _, attributes in reader.elements:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert "url(" not in page.replace("url(#head-", "")


def test_the_policy_names_the_very_script_and_style_of_the_page(run_folder: Path) -> None:
    import base64
    import hashlib

    page = render(build(run_folder))
    for element in ("script", "style"):
        (content,) = re.findall(f"<{element}>(.*?)</{element}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    assert "unsafe" not in page.split("</head>")[0].split("<style>")[0]


def test_every_drawing_is_well_formed_and_has_a_name(run_folder: Path) -> None:
    page = render(build(run_folder))
    drawings = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(drawings) >= 6
    for drawing in drawings:
        root = ET.fromstring(drawing)
        assert root.get("aria-label") or root.get("aria-hidden") == "true"


def test_every_link_within_the_page_leads_somewhere(run_folder: Path) -> None:
    reader = read(render(build(run_folder)))
    names = {attributes["id"] for _, attributes in reader.elements if "id" in attributes}
    links = {(attributes["href"] or "")[1:] for tag, attributes in reader.elements if tag == "a"}
    assert links <= names
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_same_run_gives_the_same_page(run_folder: Path) -> None:
    assert render(build(run_folder)) == render(build(run_folder))


def test_the_smallest_report_still_renders() -> None:
    said = " ".join(read(render(ReportData(title="t", method="m", overall=metrics()))).said)
    assert "Nothing was scored." in said
    assert "No alert was raised." in said


@pytest.mark.parametrize(("ap", "claim"), [(0.5, "beats"), (0.2, "does not beat"), (0.3, "does not beat")])
def test_a_model_that_does_not_beat_the_rules_is_told_so(ap: float, claim: str) -> None:
    overall = metrics(ap=ap, positives=4, recall=0.5, alerts_per_day=2.0)
    rules = {"first-seen": metrics(ap=0.3)}
    page = render(ReportData(title="t", method="m", overall=overall, baselines=rules))
    said = " ".join(read(page).said)
    assert (
        f"m found 2 of 4 malicious edges, with 2 alerts a day. Its average precision, {ap:.3f}, {claim}"
        in said
    )


def test_the_trivial_rules_stand_beside_the_model(run_folder: Path) -> None:
    said = " ".join(read(render(build(run_folder))).said)
    for rule in ("first-seen", "pair-frequency", "rare-target", "novelty-burst"):
        assert rule in said
    assert "the best baseline" in said


def test_many_alerts_are_cut_and_counted() -> None:
    alerts = tuple(Alert(i, i + 1, f"h{i}", "t", i / 1000, 0.0, "low", "s", ("why",)) for i in range(700))
    page = render(ReportData(title="t", method="m", overall=metrics(), alerts=alerts))
    assert page.count('class="sev low"') == 300
    assert "700 alerts raised. The 300 with the highest scores are listed." in " ".join(read(page).said)


def test_refused_and_clipped_updates_are_marked(run_folder: Path) -> None:
    page = render(build(run_folder))
    assert "refused: an update that is not finite" in page
    assert "osaka was refused in 1 round, last in round 7" in page
    assert "▾" in page.split("</style>")[1]


@pytest.mark.parametrize(
    ("function", "value", "shown"),
    [
        (number, None, "–"),
        (number, 0.12345, "0.123"),
        (number, 0.00004, "4e-5"),
        (number, 0.0, "0.000"),
        (amount, 12.34, "12.3"),
        (amount, 7.0, "7"),
        (amount, 12345.6, "12,346"),
        (size, 999, "999 B"),
        (size, 4_900_000, "4.9 MB"),
        (size, 7.2e9, "7.2 GB"),
        (moment, 0, "day 1, 00:00"),
        (moment, 90_000_000_000, "day 2, 01:00"),
        (moment, 1_700_000_000_000_000, "2023-11-14 22:13"),
    ],
)
def test_figures_are_shown_as_people_write_them(
    function: Callable[[Any], str], value: Any, shown: str
) -> None:
    assert function(value) == shown
