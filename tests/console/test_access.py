"""Who gets in, who may do what, and what a forged or hostile request meets."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from entente.deployment.audit import verify
from entente.errors import EntenteError, UsageError

from .house import PASSWORD, ConsoleSettings, House, settle

PAGES = ("/queue", "/health", "/runs", "/audit", "/entity/host", "/federation")


@pytest.mark.parametrize("page", PAGES)
def test_nobody_sees_a_page_without_signing_in(house: House, page: str) -> None:
    answer = house.anonymous().get(page)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert house.anonymous().get("/api/v1/incidents").status_code == 401


def test_a_session_cookie_cannot_be_read_by_scripts_and_its_secret_is_not_stored(house: House) -> None:
    answer = house.anonymous().post("/sign-in", data={"name": "analyst1", "password": PASSWORD})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    secret = answer.cookies["entente_session"]
    assert secret.encode() not in (house.settings.data / "console.db").read_bytes()
    assert PASSWORD.encode() not in (house.settings.data / "console.db").read_bytes()


def test_nobody_else_can_read_the_files_of_the_console(house: House) -> None:
    for path in (house.settings.data, house.settings.data / "console.db", house.desk.audit.path):
        house.signed_in()
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path


def test_five_wrong_passwords_lock_the_name_even_for_the_right_one(house: House) -> None:
    client = house.anonymous()
    for _ in range(5):
        answer = client.post("/sign-in", data={"name": "analyst1", "password": "wrong password"})
    assert answer.status_code == 429
    assert client.post("/sign-in", data={"name": "analyst1", "password": PASSWORD}).status_code == 429
    assert client.post("/sign-in", data={"name": "viewer1", "password": PASSWORD}).status_code == 303


def test_a_lock_ends(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    client = house.anonymous()
    for _ in range(5):
        client.post("/sign-in", data={"name": "analyst1", "password": "wrong password"})
    now = time.time()
    monkeypatch.setattr("entente.console.users.time.time", lambda: now + 1000)
    assert client.post("/sign-in", data={"name": "analyst1", "password": PASSWORD}).status_code == 303


def test_an_unknown_name_is_told_nothing_else_than_a_wrong_password(house: House) -> None:
    client = house.anonymous()
    known = client.post("/sign-in", data={"name": "analyst1", "password": "wrong"})
    unknown = client.post("/sign-in", data={"name": "nobody", "password": "wrong"})
    assert known.status_code == unknown.status_code == 401
    assert known.text.replace("analyst1", "nobody") == unknown.text


def test_a_session_ends_when_it_is_idle_or_old(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    client, now = house.signed_in(), time.time()
    assert client.get("/queue").status_code == 200
    monkeypatch.setattr("entente.console.sessions.time.time", lambda: now + 9 * 3600)
    assert client.get("/queue").status_code == 303


def test_signing_out_ends_the_session_at_the_server(house: House) -> None:
    client = house.signed_in()
    secret = client.cookies["entente_session"]
    assert client.post("/sign-out").status_code == 204
    assert house.sessions.find(secret) is None


def test_a_removed_user_is_out_at_once(house: House) -> None:
    client = house.signed_in()
    house.app.state.gate.users.remove("analyst1")
    assert client.get("/queue").status_code == 303


@pytest.mark.parametrize("path", ["/cases", "/undo/x", "/sign-out", "/suppress/x", "/api/v1/undo/x"])
def test_a_request_with_the_cookie_but_without_the_pages_token_is_refused(house: House, path: str) -> None:
    client = house.signed_in()
    del client.headers["X-CSRF-Token"]
    assert client.post(path, data={"chosen": "x:1", "action": "close"}).status_code == 403
    client.headers["X-CSRF-Token"] = "guessed"
    assert client.post(path, data={"chosen": "x:1", "action": "close"}).status_code == 403


def test_a_request_from_another_site_is_refused_even_with_the_token(house: House) -> None:
    client = house.signed_in()
    answer = client.post("/sign-out", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403


def test_another_name_for_this_machine_is_not_answered(house: House) -> None:
    assert house.anonymous().get("/sign-in", headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(
    ("role", "method", "path", "wanted"),
    [
        ("viewer", "post", "/api/v1/undo/x", 403),
        ("analyst", "post", "/api/v1/undo/x", 404),
        ("analyst", "get", "/api/v1/audit", 403),
        ("operator", "get", "/api/v1/audit", 200),
        ("viewer", "get", "/api/v1/incidents", 200),
    ],
)
def test_each_role_may_do_its_own(house: House, role: str, method: str, path: str, wanted: int) -> None:
    assert getattr(house.machine(role), method)(path).status_code == wanted


def test_a_revoked_or_expired_token_is_worthless(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    client = house.machine("viewer")
    other = house.machine("analyst")
    house.sessions.revoke_token("machine-viewer")
    assert client.get("/api/v1/health").status_code == 401
    now = time.time()
    monkeypatch.setattr("entente.console.sessions.time.time", lambda: now + 2 * 86_400)
    assert other.get("/api/v1/health").status_code == 401


def test_a_link_signs_in_once(house: House) -> None:
    from entente.console.users import User

    link = house.sessions.make_link(User("root", "operator"))
    assert house.anonymous().get(f"/enter/{link}").status_code == 303
    assert house.anonymous().get(f"/enter/{link}").status_code == 401


def test_every_page_forbids_scripts_and_files_from_elsewhere(house: House) -> None:
    client = house.signed_in()
    for page in PAGES:
        answer = client.get(page)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "<script>" not in answer.text
        assert " style=" not in answer.text
        assert " onclick=" not in answer.text
        assert answer.headers["cache-control"] == "no-store"


def test_a_large_body_is_refused_before_it_is_read(house: House) -> None:
    answer = house.signed_in().post("/sign-in", content=b"x" * 2_000_000)
    assert answer.status_code == 413


def test_every_action_is_in_the_audit_trail_with_who_did_it(house: House) -> None:
    client = house.signed_in()
    case = house.machine("viewer").get("/api/v1/incidents").json()["incidents"][0]
    client.post("/cases", data={"chosen": f"{case['id']}:{case['version']}", "action": "acknowledge"})
    client.get(f"/incident/{case['id']}/export/csv")
    client.post(f"/incident/{case['id']}/notes", data={"text": "looked"})
    client.post("/sign-out")
    house.anonymous().post("/sign-in", data={"name": "eve", "password": "wrong"})
    events = [(entry["event"], entry.get("by", entry.get("name"))) for entry in house.entries()]
    assert events == [
        ("sign-in", "analyst1"), ("change", "analyst1"), ("export", "analyst1"), ("note", "analyst1"),
        ("sign-out", "analyst1"), ("sign-in-refused", "eve"),
    ]  # fmt: skip
    assert verify(house.desk.audit.path).entries == 6


def test_an_address_beyond_loopback_needs_tls(tmp_path: Path, build: Callable[..., House]) -> None:
    service = build().settings.service
    with pytest.raises(UsageError, match="passwords would cross the network"):
        settle(ConsoleSettings(tmp_path, service=service, host="0.0.0.0"))
    pem = tmp_path / "x.pem"
    pem.write_text("x")
    assert settle(ConsoleSettings(tmp_path, service=service, host="0.0.0.0", certificate=pem, key=pem)).tls


def test_nothing_to_show_and_no_such_service_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to show"):
        settle(ConsoleSettings(tmp_path))
    with pytest.raises(UsageError, match="holds no service"):
        settle(ConsoleSettings(tmp_path, service=tmp_path))
    with pytest.raises(UsageError, match="is not a run folder"):
        settle(ConsoleSettings(tmp_path, run=tmp_path))
    with pytest.raises(EntenteError, match="kit"):
        settle(ConsoleSettings(tmp_path, kit=tmp_path))


def test_a_short_password_or_a_strange_name_is_refused(house: House) -> None:
    users = house.app.state.gate.users
    with pytest.raises(UsageError, match="12 to 1000"):
        users.add("new", "viewer", "short")
    with pytest.raises(UsageError, match="cannot be a user's name"):
        users.add("a b", "viewer", PASSWORD)
    with pytest.raises(UsageError, match="no role"):
        users.add("new", "admin", PASSWORD)
    with pytest.raises(UsageError, match="already"):
        users.add("viewer1", "viewer", PASSWORD)
