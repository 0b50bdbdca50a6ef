"""Two providers, `early` and `other`, which note in the workspace what each has begun.

A frontend, `late`, notes which of them was being prepared as it was made; it shows nothing.

The environment says how `early` begins (EARLY) and which of the two are not there (ABSENT). Where
it says how, a turn ends no sooner than that is noted: a run is not over before it.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from prsm_core import (
    AssistantMessage,
    Frontend,
    FrontendSpec,
    Provider,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
    StopReason,
    TurnEnded,
    hookimpl,
)

LATE = ("mcp", "prsm_core.app", "prsm_core.hub", "prsm_mcp.bridge", "sqlite3")
SLOW_S = "0.5"  # longer than the rest of a run takes


def put(name, text):
    Path(name).write_text(text)


def note(text):
    with Path("began").open("a") as file:
        file.write(text)


class EarlySession(ProviderSession):
    def __init__(self, noted):
        self._noted = noted

    async def run_turn(self, context):
        if "EARLY" in os.environ:
            await self._noted.wait()
        yield AssistantMessage("done")
        yield TurnEnded(StopReason.END_TURN)

    async def interrupt(self):
        """Nothing goes on."""


class EarlyProvider(Provider):
    name = "early"

    def __init__(self, settings, services):
        self._services = services
        self._noted = asyncio.Event()

    async def probe(self):
        there = self.name not in os.environ.get("ABSENT", "").split()
        return ProviderStatus(available=there, reason=None if there else "it is not there")

    async def prepare(self):
        put("prepared", self.name)
        process = await self._services.start_process(["sleep", "1000"], name=self.name)
        note(f"{self.name} {process.pid}\n")
        self._noted.set()
        await getattr(self, os.environ.get("EARLY", "ready"))()

    async def ready(self):
        """All of it has begun."""

    async def hangs(self):
        await asyncio.Event().wait()

    async def clings(self):
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def raises(self):
        raise ValueError("there is no room")

    async def exits(self):
        sys.exit(3)

    async def cancels(self):
        raise asyncio.CancelledError

    async def blocks(self):
        subprocess.run(["sleep", SLOW_S], check=True)  # noqa: ASYNC221 - it blocks the loop

    async def imports(self):
        for name in LATE:
            importlib.import_module(name)

    @asynccontextmanager
    async def open_session(self, request, host):
        yield EarlySession(self._noted)


class OtherProvider(EarlyProvider):
    name = "other"


class LateFrontend(Frontend):
    def __init__(self, settings):
        prepared = Path("prepared")
        put("made", prepared.read_text() if prepared.exists() else "nobody")
        if "SPOILT" in os.environ:
            raise ValueError("there is no screen")

    async def run(self, app):
        run = await app.runs.start(app.options.task)
        return (await run.result()).exit_code


@hookimpl
def prsm_frontends():
    yield FrontendSpec(
        name="late", summary="Shows nothing.", interactive=False, priority=0, factory=LateFrontend
    )


@hookimpl
def prsm_providers():
    yield ProviderSpec(name="early", summary="Begins early.", factory=EarlyProvider)
    yield ProviderSpec(name="other", summary="So does this one.", factory=OtherProvider)
