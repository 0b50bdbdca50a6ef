"""A frontend: what agents say, one after the other; nobody is asked."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from prsm_core import Frontend, FrontendSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core import AppHandle

DRAIN_SECONDS = 10.0  # for what was committed before the result came


class PlainFrontend(Frontend):
    """Prints to stdout."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        pass

    async def run(self, app: AppHandle) -> int:
        """Run the task of the command line and return its exit code."""
        run = await app.runs.start(app.options.task or "")
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._read(app, run.run_id))
            result = await run.result()  # which also ends, by an error, if the engine breaks
            await asyncio.wait({reading}, timeout=DRAIN_SECONDS)
            reading.cancel()
        show(result.summary or result.error or result.status)
        return result.exit_code

    async def _read(self, app: AppHandle, run: str) -> None:
        names: dict[str | None, str] = {}
        async for event in app.events():
            if event.type == "agent_spawned":
                names[event.agent] = event.data["name"]
            elif event.type == "message_completed" and event.data["role"] == "assistant":
                show(f"{names.get(event.agent)}: {event.data['text']}")
            elif event.type == "run_finished" and event.run == run:
                return


def show(text: str) -> None:
    """Print text without the characters by which an agent could steer the terminal."""
    safe = "".join(char if char.isprintable() or char == "\n" else "?" for char in text)
    sys.stdout.write(safe + "\n")
    sys.stdout.flush()


@hookimpl
def prsm_frontends() -> Iterable[FrontendSpec]:
    """Contribute `plain`, for `prsm run --ui plain`."""
    yield FrontendSpec(
        name="plain",
        summary="What agents say, one after the other.",
        interactive=False,
        priority=0,
        factory="prsm_plain:PlainFrontend",
    )
