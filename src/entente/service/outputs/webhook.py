"""Alerts as a JSON array, posted to an address of the user's."""

from __future__ import annotations

import json
from collections.abc import Sequence

from entente.detection.alerts import Alert
from entente.service.outputs.base import Delivery, Output, Unreachable
from entente.service.outputs.http import Client, HttpOptions, temporary


class Webhook(Output):
    name = "webhook"
    summary = "POST of a JSON array of alerts; each has its `id`"
    Options = HttpOptions

    def __init__(self, options: HttpOptions, where: str) -> None:
        super().__init__(options, where)
        self._client = Client(options, where)
        self._headers = {"Content-Type": "application/json"}
        if options.token is not None:
            self._headers["Authorization"] = f"Bearer {options.token.read(where)}"

    def deliver(self, alerts: Sequence[Alert], mark: str) -> Delivery:
        body = json.dumps([alert.as_dict() for alert in alerts], allow_nan=False).encode()
        status, _ = self._client.post("", body, self._headers)
        if 200 <= status < 300:
            return Delivery(len(alerts))
        if temporary(status) or len(alerts) > 1:
            if not temporary(status):  # one of them is to blame: ask for each alone
                return self._one_by_one(alerts)
            raise Unreachable(f"answered {status}")
        return Delivery(1, {alerts[0].id: f"answered {status}"})

    def _one_by_one(self, alerts: Sequence[Alert]) -> Delivery:
        refused: dict[str, str] = {}
        for taken, alert in enumerate(alerts):
            try:
                refused |= self.deliver([alert], "").refused
            except Unreachable:
                if not taken:
                    raise
                return Delivery(taken, refused)
        return Delivery(len(alerts), refused)

    def close(self) -> None:
        self._client.close()
