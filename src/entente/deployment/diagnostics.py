"""FLARE lets the coordinator's operator ask every cell for its processes, peers and statistics. Not a silo's.

The same channel would move a silo to another coordinator (`change_root`) or stop it. At a silo only its own
processes are answered there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.f3.cellnet import net_agent
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FqcnInfo, same_family
from nvflare.fuel.f3.cellnet.utils import make_reply

PATIENCE = 60.0
TOPICS = tuple(topic for name, topic in vars(net_agent).items() if name.startswith("_TOPIC_"))


class DiagnosticsOff(FLComponent):  # type: ignore[misc]
    """Of a silo's parent process; its job processes do the same when they start."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.SYSTEM_START:
            client = fl_ctx.get_engine().client
            until = time.monotonic() + PATIENCE
            while client.net_agent is None and time.monotonic() < until:
                time.sleep(0.05)  # FLARE opens its diagnostics in another thread
            close_diagnostics(client.cell.core_cell)


def close_diagnostics(cell: Any) -> None:
    """From now on FLARE's diagnostics of this cell answer to the site's own cells alone."""
    for topic in TOPICS:
        known = cell.req_reg.find(net_agent._CHANNEL, topic)
        if known is not None:  # FLARE's simulator has none
            cell.register_request_cb(net_agent._CHANNEL, topic, _own_cells_only(cell, known.cb))


def _own_cells_only(cell: Any, answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    own = FqcnInfo(cell.get_fqcn())

    def guarded(request: Any) -> Any:
        origin = str(request.get_header(MessageHeaderKey.ORIGIN, ""))
        if origin and same_family(FqcnInfo(origin), own):
            return answer(request)
        return make_reply(ReturnCode.AUTHENTICATION_ERROR, "diagnostics are off at this silo")

    return guarded
