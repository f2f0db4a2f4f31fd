"""The pages in a real Chromium: from the open queue to a closed, exported incident, and all of them seen."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from entente.console.experiments import Experiments

from .house import House, alert, fill
from .places import make_kit, make_run, write_status

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
uvicorn = pytest.importorskip("uvicorn")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium"
)
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
PICTURES = Path("build") / "pictures"
PATIENCE = 60_000
"""Milliseconds; a busy machine may take its time."""
expect = sync_api.expect
expect.set_options(timeout=PATIENCE)


class Running:
    """A console that listens, and a browser with what it complained about."""

    def __init__(self, house: House, browser: Any) -> None:
        self.house = house
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        config = uvicorn.Config(house.app, port=port, log_level="warning", timeout_graceful_shutdown=5)
        self.server = uvicorn.Server(config)
        house.app.state.stopping = lambda: self.server.should_exit
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        until = time.monotonic() + 60
        while not self.server.started:
            assert time.monotonic() < until
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{port}"
        self.browser = browser
        self.complaints: list[str] = []

    def page(self, name: str = "operator1", **options: Any) -> Any:
        """A page of somebody who is signed in."""
        from entente.console.users import User

        context = self.browser.new_context(base_url=self.url, accept_downloads=True, **options)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        role = "operator" if name.startswith("operator") else "analyst"
        page.goto(f"/enter/{self.house.sessions.make_link(User(name, role))}")  # type: ignore[arg-type]
        return page

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_kit(tmp_path_factory.mktemp("kit"))


@pytest.fixture
def running(build: Callable[..., House], browser: Any, tmp_path: Path, kit: Path) -> Iterator[Running]:
    run = make_run(tmp_path / "runs" / "first", seed=0)
    make_run(tmp_path / "runs" / "second", seed=1)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "monday.toml").write_text('name = "monday"\nseed = 4\n')
    house = build(run=run, kit=kit, experiments=tmp_path / "experiments")
    assert house.settings.service is not None
    write_status(house.settings.service, at=time.time())
    found = Running(house, browser)
    yield found
    found.close()
    assert found.complaints == []


def test_an_incident_goes_from_open_to_closed_and_exported_without_a_terminal(
    running: Running,
) -> None:
    page = running.page("analyst1")
    rows = page.locator("tr[data-case]")
    expect(rows).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("a")  # acknowledge
    page.get_by_text("1 case acknowledged").wait_for()
    expect(page.locator("tr[data-case]")).to_have_count(2)
    page.keyboard.press("u")  # and back
    page.get_by_text("Taken back").wait_for()
    expect(page.locator("tr[data-case]")).to_have_count(3)
    page.locator("tr[data-case]").first.get_by_role("link").first.click()
    expect(page.locator("#graph")).to_have_attribute("data-hops", "4")
    page.locator("[data-evidence]").nth(1).click()
    page.get_by_role("heading", name="Evidence: lyon-fs01 → graz-dc01").wait_for()
    page.get_by_label("Note").fill("isolated lyon-fs01")
    page.get_by_role("button", name="Add note").click()
    page.get_by_text("analyst1: isolated lyon-fs01").wait_for()
    page.get_by_label("Reason for closing").select_option("true")
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_text("1 case closed as true").wait_for()
    for kind, suffix in (("CSV", "csv.csv"), ("STIX", "stix.json"), ("Navigator", "navigator.json")):
        with page.expect_download() as download:
            page.get_by_role("link", name=kind).click()
        assert download.value.suggested_filename.endswith(suffix)
        assert download.value.path().stat().st_size > 200
    page.emulate_media(media="print")  # PDF by the browser: the whole timeline, and no buttons
    hidden = page.evaluate("(l => l.scrollHeight - l.clientHeight)(document.querySelector('.timeline ol'))")
    assert hidden <= 0
    expect(page.locator(".said")).to_be_hidden()
    expect(page.locator(".actions")).to_be_hidden()
    page.emulate_media(media="screen")
    page.goto("/queue?status=closed")
    expect(rows).to_have_count(1)


def test_the_queue_is_worked_through_with_keys_alone(running: Running) -> None:
    page = running.page("analyst1")
    rows, current = page.locator("tr[data-case]"), page.locator("tr.current")
    chosen, reason = page.locator('input[name="chosen"]:checked'), page.get_by_label("Reason for closing")
    page.keyboard.press("/")
    page.keyboard.type("porto")
    expect(rows).to_have_count(2)
    with page.expect_event("requestfinished"):  # the filter asks again when its field is left
        page.keyboard.press("Escape")
    for key in "jjk":
        page.keyboard.press(key)
    expect(current).to_contain_text("10.1.2.3")
    for key, number in (("x", 1), ("x", 0), ("c", 1)):
        page.keyboard.press(key)
        expect(chosen).to_have_count(number)
    expect(reason).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_text("1 case closed as benign").wait_for()
    expect(rows).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Hosts and hops").wait_for()
    page.go_back()
    expect(rows).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("s")
    page.get_by_role("dialog").get_by_text("would have hidden 1").wait_for()


def test_new_alerts_arrive_live_and_the_keyboard_stays_where_it_was(running: Running) -> None:
    page = running.page("analyst1")
    page.wait_for_selector("tr[data-case]")
    for _ in range(2):
        page.keyboard.press("j")
    before = page.locator("tr.current").get_attribute("data-case")
    assert running.house.settings.service is not None
    fill(running.house.settings.service, (alert(70, "new-host", "srv", severity="critical"),))
    page.get_by_text("new-host").first.wait_for()
    expect(page.locator("tr[data-case]")).to_have_count(4)
    assert page.locator("tr.current").get_attribute("data-case") == before


def test_bulk_actions_and_suppressing_with_a_preview_work_by_mouse(running: Running) -> None:
    page = running.page("analyst1")
    page.get_by_label("Search").fill("10.1.2.3")
    expect(page.locator("tr[data-case]")).to_have_count(1)
    page.locator("tr[data-case] a").first.click()
    page.get_by_role("button", name="Suppress…").click()
    page.get_by_text("would have hidden 1 of the last 30 days' 7 alerts, 0 of them confirmed").wait_for()
    page.get_by_label("They share").select_option("src")
    page.get_by_text("would have hidden 2 of the last 30 days' 7 alerts").wait_for()
    page.get_by_label("Why they are expected").fill("the scanner")
    page.get_by_role("button", name="Suppress", exact=True).click()
    page.get_by_text("2 open alerts marked").wait_for()
    page.goto("/queue")
    page.get_by_label("Choose all on this page").check()
    page.get_by_role("button", name="Take").click()
    page.get_by_text("2 cases assigned").wait_for()


def test_what_is_pressed_or_typed_before_the_scripts_are_there_is_not_lost(running: Running) -> None:
    page = running.page("analyst1")
    ident = running.house.machine("viewer").get("/api/v1/incidents").json()["incidents"][0]["id"]
    held: list[Any] = []
    page.route("**/htmx.min.js", lambda route: held.append(route))
    page.goto(f"/incident/{ident}", wait_until="commit")
    page.get_by_role("button", name="Suppress…").click()
    assert not page.get_by_role("dialog").is_visible()
    held.pop().continue_()
    page.get_by_text("would have hidden").wait_for()
    page.goto("/queue", wait_until="commit")
    page.get_by_label("Search").fill("10.1.2.3")
    held.pop().continue_()
    expect(page.locator("tr[data-case]")).to_have_count(1)


def test_what_is_changed_as_soon_as_the_dialogue_is_there_is_not_lost(running: Running) -> None:
    page = running.page("analyst1")
    page.get_by_role("link", name="10.1.2.3").click()
    page.get_by_role("button", name="Suppress…").wait_for()
    page.evaluate(
        """new MutationObserver((_, self) => {
            self.disconnect();
            const select = document.querySelector("#dialog select");
            select.value = "src";
            select.dispatchEvent(new Event("change", {bubbles: true}));
        }).observe(document.getElementById("dialog"), {childList: true})"""
    )
    page.get_by_role("button", name="Suppress…").click()
    page.get_by_text("would have hidden 2 of the last 30 days' 7 alerts").wait_for()


def test_the_second_analyst_is_told_and_overwrites_nothing(running: Running) -> None:
    first, second = running.page("analyst1"), running.page("analyst2")
    for page in (first, second):
        page.locator("tr[data-case]").first.get_by_role("link").first.click()
        page.get_by_role("button", name="Acknowledge").wait_for()
    first.get_by_role("button", name="Acknowledge").click()
    first.get_by_text("1 case acknowledged").wait_for()
    second.get_by_text("This incident has changed since you opened it.").wait_for()
    second.get_by_role("button", name="Close", exact=True).click()
    second.get_by_text("analyst1 was there last").wait_for()
    running.complaints[:] = [said for said in running.complaints if "409" not in said]  # Chromium notes it


PAGES = {
    "queue": "/queue", "incident": "", "host": "/entity/host?name=lyon-fs01", "hosts": "/entity/host",
    "account": "/entity/user?name=CORP%5Ceve", "health": "/health", "federation": "/federation",
    "runs": "/runs",
    "run": "/runs/first", "compare": "/runs/compare?one=first&other=second", "audit": "/audit",
    "empty": "/queue?q=nothing-has-this", "missing": "/incident/none",
}  # fmt: skip


def test_every_page_fits_every_width_light_and_dark_without_a_serious_finding_of_axe(
    running: Running,
) -> None:
    ident = running.house.machine("viewer").get("/api/v1/incidents").json()["incidents"][0]["id"]
    PICTURES.mkdir(parents=True, exist_ok=True)
    findings = []
    for scheme, widths, rules in (("light", (390, 1024, 1400), None), ("dark", (1400,), ["color-contrast"])):
        page = running.page(color_scheme=scheme, bypass_csp=True)  # axe is not one of the console's files
        for name, path in PAGES.items():
            page.goto(path or f"/incident/{ident}")
            for width in widths:
                page.set_viewport_size({"width": width, "height": 900})
                beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                assert beyond <= 0, (name, width)
                if width != 1024:
                    page.wait_for_timeout(300 if name == "incident" else 0)  # the graph is drawn again
                    page.screenshot(path=PICTURES / f"{name}-{width}-{scheme}.png")
            page.evaluate(AXE.read_text(encoding="utf-8"))
            found = page.evaluate("rules => axe.run(rules ? {runOnly: rules} : {})", rules)
            findings += [
                (name, scheme, one["id"], one["nodes"][0]["html"][:200])
                for one in found["violations"]
                if one["impact"] in ("serious", "critical")
            ]
    assert findings == []
    running.complaints[:] = [
        said for said in running.complaints if "404" not in said
    ]  # the page that is missing


def test_signing_in_with_a_password_and_out_again(running: Running) -> None:
    from .house import PASSWORD

    page = running.browser.new_context(base_url=running.url).new_page()
    page.goto("/queue")
    page.get_by_label("Name").fill("analyst1")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Name or password are not right.").wait_for()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Sign in").wait_for()


def test_an_experiment_says_what_it_will_do_before_it_is_started(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Experiments, "_spawn", lambda *_: 4_000_000)
    page = running.page()
    page.goto("/runs")
    page.get_by_text("Asks east, north, west to train on their own logs.").wait_for()
    page.get_by_role("button", name="Start").click()
    page.get_by_text("Started: monday.toml.").wait_for()
    page.get_by_text("Asks east, north, west to train on their own logs.").wait_for()
