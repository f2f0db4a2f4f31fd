"""Alerts as a JSON array, posted to an address of the user's."""

from __future__ import annotations

import json
from collections.abc import Sequence

from entente.detection.alerts import Alert
from entente.service.outputs.base import Delivery, Output, Unreachable
from entente.service.outputs.http import Client, HttpOptions, one_by_one, temporary


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
        if temporary(status):
            raise Unreachable(f"answered {status}")
        if len(alerts) > 1:
            return one_by_one(lambda one: self.deliver(one, mark), alerts)
        return Delivery(1, {alerts[0].id: f"answered {status}"})

    def close(self) -> None:
        self._client.close()
