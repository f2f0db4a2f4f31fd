"""Server-sent events: pages hear that alerts came or changed, and ask for what they show.

A page carries the state that it shows, and its stream begins there: what changes before the stream is open,
or while it is broken off, is heard all the same.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from entente.console.access import TheGate, Viewer
from entente.console.desk import Desk, State

router = APIRouter(include_in_schema=False)
LOOK = 1.0
"""Seconds between two looks at the store."""
SIGN_OF_LIFE = 15.0
MOST = 200
"""Browsers that may listen at once."""


class Listeners:
    """Counts streams, so that they are bounded."""

    def __init__(self) -> None:
        self.count = 0


@router.get("/events")
async def events(request: Request, gate: TheGate, who: Viewer, since: str = "") -> Response:
    listeners: Listeners = request.app.state.listeners
    if listeners.count >= MOST:
        return Response(status_code=503, headers={"Retry-After": "60"})
    begin = read_state(request.headers.get("last-event-id") or since)
    stream = _stream(request, gate.desk, listeners, begin)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _stream(
    request: Request, desk: Desk, listeners: Listeners, begin: State | None
) -> AsyncIterator[bytes]:
    listeners.count += 1
    try:
        before = begin if begin is not None else await run_in_threadpool(desk.state)
        said = time.monotonic()
        yield f"retry: 2000\nid: {write_state(before)}\n\n".encode()
        while not request.app.state.stopping() and not await request.is_disconnected():
            now = await run_in_threadpool(desk.state)
            if now != before:
                told = {"new": max(0, now[0] - before[0]), "changed": now[1] - before[1]}
                yield f"event: changed\nid: {write_state(now)}\ndata: {json.dumps(told)}\n\n".encode()
                before, said = now, time.monotonic()
            elif time.monotonic() - said > SIGN_OF_LIFE:
                yield b": here\n\n"
                said = time.monotonic()
            await asyncio.sleep(LOOK)
    finally:
        listeners.count -= 1


def write_state(state: State) -> str:
    return "-".join(str(part) for part in state)


def read_state(text: str) -> State | None:
    """The state that a browser says it has; None for anything else."""
    found = re.fullmatch(r"([0-9]{1,18})-([0-9]{1,18})-([0-9]{1,18})", text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
