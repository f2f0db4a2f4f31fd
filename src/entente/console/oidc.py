"""Signing in with an OpenID Connect provider: an option, described by a TOML file."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from authlib.integrations.base_client import OAuthError
from authlib.integrations.starlette_client import OAuth
from fastapi import FastAPI, Request
from httpx2 import HTTPError
from joserfc.errors import JoseError
from pydantic import Field, ValidationError, field_validator
from starlette.concurrency import run_in_threadpool
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import RedirectResponse, Response

from entente.config import Section, read_toml
from entente.console.access import gate_of, sign_in
from entente.console.templating import render
from entente.console.users import NAME, Role, User
from entente.errors import ConfigError
from entente.service.config import LOOPBACK
from entente.service.secrets import Secret

REFUSED = "The provider did not confirm who you are."


class Provider(Section):
    """The file of `--oidc`."""

    issuer: str
    """Address of the provider; https unless it is on loopback."""
    client_id: str
    secret: Secret
    """{ env = "NAME" } or { file = "path" }"""
    claim: str = "preferred_username"
    """What of the identity is the user's name."""
    role_claim: str = "groups"
    """What of the identity lists the user's groups."""
    roles: dict[str, Role] = Field(min_length=1)
    """Group -> role; somebody in none of them is not let in."""

    @field_validator("issuer")
    @classmethod
    def _https(cls, issuer: str) -> str:
        parts = urlsplit(issuer)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
            raise ValueError("has to begin with https://")
        return issuer.rstrip("/")

    def user(self, identity: dict[str, Any]) -> User | None:
        """Who this is to us; None for somebody without a role."""
        name, groups = identity.get(self.claim), identity.get(self.role_claim) or []
        listed = [groups] if isinstance(groups, str) else list(groups) if isinstance(groups, list) else []
        held = [self.roles[group] for group in listed if isinstance(group, str) and group in self.roles]
        if not isinstance(name, str) or not NAME.fullmatch(name) or not held:
            return None
        for role in ("operator", "analyst"):
            if role in held:
                return User(name, role)
        return User(name, "viewer")


def load_provider(path: Path) -> Provider:
    try:
        return Provider.model_validate(read_toml(path))
    except ValidationError as error:
        raise ConfigError(
            f"is not a description of a provider ({error})", where=path, remedy="docs/console.md has one."
        ) from error


def add_provider(app: FastAPI, path: Path) -> None:
    """Routes that send a browser to the provider and take it back."""
    provider = load_provider(path)
    oauth = OAuth()
    oauth.register(
        name="provider",
        client_id=provider.client_id,
        client_secret=provider.secret.read(str(path)),
        server_metadata_url=f"{provider.issuer}/.well-known/openid-configuration",
        client_kwargs={"scope": "openid profile groups", "code_challenge_method": "S256", "timeout": 20.0},
    )
    tls = app.state.gate.desk.settings.tls
    # Holds state and nonce between the two redirects; a new key at every start ends what is under way.
    app.add_middleware(
        SessionMiddleware,
        secret_key=secrets.token_urlsafe(32),
        session_cookie="entente_oidc",
        max_age=600,
        same_site="lax",
        https_only=tls,
    )

    async def leave(request: Request) -> Response:
        back = str(request.url_for("oidc_back"))
        try:
            answer: Response = await oauth.provider.authorize_redirect(request, back)
        except (OAuthError, HTTPError) as error:
            said = f"The provider cannot be reached ({type(error).__name__})."
            return render(request, "sign_in.html", None, 502, said=said, name="")
        return answer

    async def back(request: Request) -> Response:
        gate = gate_of(request)
        try:
            token = await oauth.provider.authorize_access_token(request)
        except (OAuthError, HTTPError, JoseError, ValueError) as error:
            await run_in_threadpool(gate.desk.audit.append, "sign-in-refused", how="oidc", reason=str(error))
            return render(request, "sign_in.html", None, 401, said=REFUSED, name="")
        identity = dict(token.get("userinfo") or {})
        user = provider.user(identity)
        if user is None:
            subject = str(identity.get("sub"))
            await run_in_threadpool(gate.desk.audit.append, "sign-in-refused", how="oidc", subject=subject)
            said = "You are known to the provider, but no group of yours has a role here."
            return render(request, "sign_in.html", None, 403, said=said, name="")
        response = RedirectResponse("/", 303)
        await run_in_threadpool(sign_in, gate, user, "oidc", response)
        return response

    app.add_api_route("/oidc/leave", leave, name="oidc_leave", include_in_schema=False)
    app.add_api_route("/oidc/back", back, name="oidc_back", include_in_schema=False)
