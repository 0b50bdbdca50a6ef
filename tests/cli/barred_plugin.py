"""A provider whose sessions cannot be opened as often as the file `barred` in their folder says.

Its first one works until it is killed, those behind it are done at once.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

from prsm_core import (
    AssistantMessage,
    Provider,
    ProviderNotAvailableError,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
    StopReason,
    TurnEnded,
    hookimpl,
)


class BarredSession(ProviderSession):
    def __init__(self, works):
        self.works = works

    async def interrupt(self):
        pass

    async def run_turn(self, context):
        yield AssistantMessage("I begin.")
        if self.works:
            await self.works
        yield TurnEnded(StopReason.END_TURN)


class BarredProvider(Provider):
    def __init__(self, settings, services):
        self.services = services

    async def probe(self):
        return ProviderStatus(available=True)

    @asynccontextmanager
    async def open_session(self, request, host):
        barred = Path(request.cwd) / "barred"
        if not barred.exists():
            yield BarredSession(self.services.clock.sleep(600))
            return
        left = int(barred.read_text())
        barred.write_text(str(left - 1))
        if left > 0:
            raise ProviderNotAvailableError("its home is locked", hint="wait")
        yield BarredSession(None)


@hookimpl
def prsm_providers():
    yield ProviderSpec(name="barred", summary="Is locked.", factory=BarredProvider)
