"""Signing in with an OpenID Connect provider that the test starts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from entente.errors import ConfigError

from .house import House

joserfc = pytest.importorskip("joserfc")


class Provider:
    """One user, one client; `identity` is what it says of whoever comes."""

    def __init__(self) -> None:
        from joserfc.jwk import RSAKey

        self.key = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig", "alg": "RS256"})
        self.identity: dict[str, Any] = {"preferred_username": "maria", "groups": ["soc"]}
        self.audience, self.nonce = "entente", ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith("openid-configuration"):
                    self._answer(outer.metadata())
                else:
                    self._answer({"keys": [outer.key.as_dict(private=False)]})

            def do_POST(self) -> None:
                asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                assert asked["code_verifier"]
                self._answer({"access_token": "a", "token_type": "Bearer", "id_token": outer.token()})

            def _answer(self, value: Any) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize",
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint": f"{self.url}/token", "id_token_signing_alg_values_supported": ["RS256"],
        }  # fmt: skip

    def token(self) -> str:
        from joserfc import jwt

        now = int(time.time())
        claims = {
            "iss": self.url, "sub": "1", "aud": self.audience, "iat": now, "exp": now + 60,
            "nonce": self.nonce, **self.identity,
        }  # fmt: skip
        return jwt.encode({"alg": "RS256", "kid": "k1"}, claims, self.key)


@pytest.fixture
def provider() -> Iterator[Provider]:
    running = Provider()
    yield running
    running.http.shutdown()
    running.http.server_close()


@pytest.fixture
def house(
    build: Callable[..., House], provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> House:
    file = tmp_path / "oidc.toml"
    file.write_text(
        f'issuer = "{provider.url}"\nclient_id = "entente"\nsecret = {{ env = "OIDC_SECRET" }}\n'
        'roles = { soc = "analyst", leads = "operator" }\n'
    )
    monkeypatch.setenv("OIDC_SECRET", "s3cret")
    return build(oidc=file)


def come_back(house: House, provider: Provider) -> Any:
    """Go to the provider and back as a browser does."""
    client = house.anonymous()
    asked = client.get("/oidc/leave")
    assert asked.status_code == 302
    query = parse_qs(urlsplit(asked.headers["location"]).query)
    assert query["code_challenge_method"] == ["S256"]
    provider.nonce = provider.nonce or query["nonce"][0]
    return client, client.get("/oidc/back", params={"code": "c", "state": query["state"][0]})


def test_a_group_of_the_provider_gives_the_role(house: House, provider: Provider) -> None:
    client, answer = come_back(house, provider)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    principal = house.sessions.find(client.cookies["entente_session"])
    assert principal is not None
    assert (principal.name, principal.role) == ("maria", "analyst")
    assert house.entries()[-1]["how"] == "oidc"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"identity": {"preferred_username": "eve", "groups": ["sales"]}}, 403),
        ({"identity": {"preferred_username": "<script>", "groups": ["soc"]}}, 403),
        ({"identity": {"groups": "soc"}}, 403),
        ({"audience": "another"}, 401),
        ({"nonce": "of another sign-in"}, 401),
    ],
)
def test_somebody_else_does_not_get_in(
    house: House, provider: Provider, change: dict[str, Any], status: int
) -> None:
    for name, value in change.items():
        setattr(provider, name, value)
    client, answer = come_back(house, provider)
    assert answer.status_code == status
    assert "entente_session" not in client.cookies
    assert house.entries()[-1]["event"] == "sign-in-refused"


def test_a_state_that_was_not_given_out_is_refused(house: House) -> None:
    assert house.anonymous().get("/oidc/back", params={"code": "c", "state": "guessed"}).status_code == 401


def test_a_provider_that_is_down_is_said(house: House, provider: Provider) -> None:
    provider.http.shutdown()
    provider.http.server_close()
    answer = house.anonymous().get("/oidc/leave")
    assert answer.status_code == 502
    assert "cannot be reached" in answer.text


def test_a_provider_without_tls_is_refused(build: Callable[..., House], tmp_path: Path) -> None:
    file = tmp_path / "oidc.toml"
    file.write_text(
        'issuer = "http://login.example.org"\nclient_id = "x"\nsecret = { env = "S" }\n'
        'roles = { a = "viewer" }\n'
    )
    with pytest.raises(ConfigError, match="https"):
        build(oidc=file)
