"""A provider that swallows every cancellation, at the places that CLINGS names.

The task says what its agents do: `hang`, or `tree` for a master with a child that has a child.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager

from prsm_core import (
    Provider,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
    StopReason,
    TurnEnded,
    hookimpl,
)

CLINGS = frozenset(os.environ.get("CLINGS", "turn,exit,close").split(","))


async def hold_on(place):
    """Never end, whoever cancels the wait, where the test wants it so."""
    while place in CLINGS:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


class ClingingSession(ProviderSession):
    def __init__(self, request, host):
        self.request = request
        self.host = host

    async def interrupt(self):
        await hold_on("interrupt")

    async def run_turn(self, context):
        task = context.current_message.content
        depth = int(task.rpartition(" ")[2] or 0) if "tree" in task else 0
        try:
            if depth:
                arguments = {"prompt": f"tree {depth - 1}", "name": f"w{depth}"}
                await self.host.call_tool("spawn_child", arguments)
            await asyncio.Event().wait()
        finally:
            await hold_on("turn")
        yield TurnEnded(StopReason.END_TURN)


class Clinging(Provider):
    def __init__(self, settings, services):
        self.services = services

    async def probe(self):
        await hold_on("probe")
        return ProviderStatus(available=True)

    @asynccontextmanager
    async def open_session(self, request, host):
        try:
            yield ClingingSession(request, host)
        finally:
            await hold_on("exit")

    async def aclose(self):
        await hold_on("close")


@hookimpl
def prsm_providers():
    """Contribute the provider `clinging`."""
    yield ProviderSpec(name="clinging", summary="holds on", factory=Clinging)
