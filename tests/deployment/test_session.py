"""Connecting to a coordinator that is slow to answer, without a coordinator."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entente.artifacts import write_json
from entente.deployment import session as module
from entente.deployment.session import session
from entente.deployment.settings import parse_federation
from entente.deployment.site import Site
from entente.errors import DeploymentError

pytest.importorskip("nvflare")


class Clock:
    """Time that passes only by sleeping, and a FLARE that answers from a certain moment on."""

    def __init__(self, answers_at: float, error: Exception | None = None) -> None:
        self.now, self.answers_at, self.attempts = 0.0, answers_at, 0
        self.error = error or OSError("failed to challenge server: timeout")
        self.closed = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def connect(self, *_: object, **__: object) -> Any:
        self.attempts += 1
        self.now += 5.0
        if self.now < self.answers_at:
            raise self.error
        return SimpleNamespace(close=self.close)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def site(tmp_path: Path) -> Site:
    federation = parse_federation({"silos": ["east", "west"]})
    table = {"site": "coordinator", "role": "coordinator", "version": "0"}
    write_json(tmp_path / "kit.json", {**table, "federation": federation.model_dump(mode="json")})
    return Site.load(tmp_path)


def put(monkeypatch: pytest.MonkeyPatch, clock: Clock, pid: int | None = 1) -> None:
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "pid_of", lambda _: pid)
    monkeypatch.setattr("nvflare.fuel.flare_api.flare_api.new_secure_session", clock.connect)


def test_a_challenge_that_times_out_is_tried_again_and_it_says_what_it_waits_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, said = Clock(answers_at=60.0), list[str]()
    put(monkeypatch, clock)
    with session(site, 180.0, said.append):
        assert clock.attempts == len(said) + 1 > 3
    assert clock.closed == 1
    assert all("waiting for the coordinator to answer (failed to challenge server" in line for line in said)


def test_trying_ends_at_the_deadline_that_the_user_set(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for timeout in (20.0, 200.0):
        clock = Clock(answers_at=1e9)
        put(monkeypatch, clock)
        with (
            pytest.raises(DeploymentError, match=f"tried for {timeout:g} s .*challenge.*"),
            session(site, timeout),
        ):
            pass
        assert timeout - module.LONGEST_PAUSE <= clock.now <= timeout + 5


def test_a_coordinator_that_is_not_running_is_not_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(answers_at=1e9)
    put(monkeypatch, clock, pid=None)
    with pytest.raises(DeploymentError, match="is not running"), session(site):
        pass
    assert clock.attempts == 1


def test_a_refused_operator_is_not_tried_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from nvflare.fuel.flare_api.api_spec import AuthenticationError

    clock = Clock(1e9, AuthenticationError("bad certificate"))
    put(monkeypatch, clock)
    with pytest.raises(DeploymentError, match="does not accept the operator"), session(site):
        pass
    assert clock.attempts == 1
