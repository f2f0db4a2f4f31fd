"""What the outputs that speak HTTP have in common: TLS, time limits, and errors as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from entente.config import Section
from entente.detection.alerts import Alert
from entente.errors import ConfigError, MissingExtraError
from entente.service.config import LOOPBACK
from entente.service.outputs.base import Delivery, Unreachable
from entente.service.secrets import Secret

LARGEST_ANSWER = 16 << 20


class HttpOptions(Section):
    """How to reach a server over HTTP."""

    url: str
    """Address of the server; https, or http on loopback."""
    token: Secret | None = None
    """Token or API key."""
    user: str | None = None
    """User name, where the server wants one with `password`."""
    password: Secret | None = None
    """Password of `user`."""
    ca: Path | None = None
    """File with the certificates that are trusted; the system's by default."""
    certificate: Path | None = None
    """Client certificate (PEM), where the server wants one."""
    key: Path | None = None
    """Private key of the client certificate."""
    timeout: float = Field(default=30.0, gt=0, le=600)
    """Seconds after which a server that does not answer counts as unreachable."""

    @field_validator("url")
    @classmethod
    def _https(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("is not an http or https address")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ValueError("must be https: alerts name hosts and accounts")
        return url.rstrip("/")


class Client:
    """Posts to one server."""

    def __init__(self, options: HttpOptions, where: str) -> None:
        try:
            import urllib3
        except ImportError as error:
            raise MissingExtraError(
                "outputs over HTTP need urllib3", remedy="pip install 'entente[service]'"
            ) from error
        for file in (options.ca, options.certificate, options.key):
            if file is not None and not file.is_file():
                raise ConfigError(f"{file} does not exist", where=where)
        self._errors: type[Exception] = urllib3.exceptions.HTTPError
        self._headers = _credentials(options, where)
        self._url = options.url
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(total=options.timeout),
            retries=False,
            ca_certs=str(options.ca) if options.ca else None,
            cert_file=str(options.certificate) if options.certificate else None,
            key_file=str(options.key) if options.key else None,
        )

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str], method: str = "POST"
    ) -> tuple[int, bytes]:
        """Status and answer; Unreachable for anything that is not an answer."""
        try:
            response = self._pool.request(
                method,
                self._url + path,
                body=body,
                headers={**self._headers, **headers},
                redirect=False,
                preload_content=False,
            )
            answer = response.read(LARGEST_ANSWER)
            response.release_conn()
        except (self._errors, OSError) as error:
            raise Unreachable(f"cannot be reached ({type(error).__name__})") from error
        return int(response.status), bytes(answer)

    def close(self) -> None:
        self._pool.clear()


def temporary(status: int) -> bool:
    """Whether a status asks for another attempt later."""
    return status in (408, 425, 429) or status >= 500 or status in (401, 403)


def parsed(answer: bytes) -> Any:
    """The answer as JSON; Unreachable when it is cut short or something else."""
    try:
        return json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise Unreachable("the answer is not JSON") from error


def one_by_one(deliver: Callable[[Sequence[Alert]], Delivery], alerts: Sequence[Alert]) -> Delivery:
    """The alerts of a batch that was refused, each alone: one of them is to blame, the others are taken."""
    refused: dict[str, str] = {}
    for taken, alert in enumerate(alerts):
        try:
            refused |= deliver([alert]).refused
        except Unreachable:
            if not taken:
                raise
            return Delivery(taken, refused)
    return Delivery(len(alerts), refused)


def _credentials(options: HttpOptions, where: str) -> dict[str, str]:
    import base64

    if options.user is not None:
        if options.password is None:
            raise ConfigError("user needs password", where=where)
        pair = f"{options.user}:{options.password.read(where)}".encode()
        return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
    return {}
