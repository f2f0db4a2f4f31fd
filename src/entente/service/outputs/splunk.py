"""Splunk's HTTP event collector."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import Field

from entente.detection.alerts import Alert
from entente.errors import ConfigError
from entente.service.outputs.base import Delivery, Output, Unreachable
from entente.service.outputs.http import Client, HttpOptions, one_by_one, parsed, temporary

PATH = "/services/collector/event"
SETTINGS = (7, 10, 11, 14, 16)
"""Codes of HEC: index, channel, acknowledgements or the way of signing in are not as it wants them."""


class SplunkOptions(HttpOptions):
    """Splunk HEC."""

    index: str | None = Field(default=None, max_length=255)
    """Index; the token's own by default."""
    sourcetype: str = "entente:alert"
    """Source type of the events."""


class Splunk(Output):
    name = "splunk"
    summary = "Splunk HTTP event collector (HEC)"
    Options = SplunkOptions

    def __init__(self, options: SplunkOptions, where: str) -> None:
        super().__init__(options, where)
        if options.token is None:
            raise ConfigError("splunk needs a token", where=where, remedy='token = { env = "HEC_TOKEN" }')
        self._client = Client(options, where)
        self._headers = {
            "Content-Type": "application/json",
            "Authorization": f"Splunk {options.token.read(where)}",
        }

    def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
        extra = {"index": self.options.index} if self.options.index else {}
        events = (
            {
                "time": alert.start / 1_000_000,
                "source": "entente",
                "sourcetype": self.options.sourcetype,
                **extra,
                "event": alert.as_dict(),
            }
            for alert in alerts
        )
        body = "".join(json.dumps(event, allow_nan=False) for event in events).encode()
        status, answer = self._client.post(PATH, body, self._headers)
        if status == 200:
            return Delivery(len(alerts))
        said = f"answered {status}: {answer[:200].decode('utf-8', 'replace')}"
        if temporary(status) or _settings(answer):
            raise Unreachable(said)
        if len(alerts) > 1:
            return one_by_one(lambda one: self.deliver(one, mark), alerts)
        return Delivery(1, {alerts[0].id: said})

    def close(self) -> None:
        self._client.close()


def _settings(answer: bytes) -> bool:
    """Whether an answer speaks of the collector's settings, which can be put right, and not of an event."""
    try:
        said = parsed(answer)
    except Unreachable:
        return False
    return isinstance(said, dict) and said.get("code") in SETTINGS
