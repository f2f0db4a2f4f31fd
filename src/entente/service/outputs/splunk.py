"""Splunk's HTTP event collector."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import Field

from entente.detection.alerts import Alert
from entente.errors import ConfigError
from entente.service.outputs.base import Delivery, Output, Unreachable
from entente.service.outputs.http import Client, HttpOptions, temporary

PATH = "/services/collector/event"


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
        if temporary(status) or len(alerts) > 1:
            raise Unreachable(f"answered {status}: {answer[:200].decode('utf-8', 'replace')}")
        return Delivery(1, {alerts[0].id: f"answered {status}"})

    def close(self) -> None:
        self._client.close()
