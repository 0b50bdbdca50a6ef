"""A frontend of many sessions: one task in several folders at once.

    frontends: {across: {task: "Mend the typos.", folders: [../one, ../two]}}

in the configuration, then `prsm --ui across`.

Each folder has a session of its own, with the settings and the policy that hold there. Where one
cannot be opened, or breaks, the others go on.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from prsm_core import FrontendSpec, Hub, HubFrontend, PrsmError, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Across(Struct, frozen=True):
    """The section `frontends.across`."""

    task: str = "Say in one sentence what this project is about."
    folders: tuple[str, ...] = (".",)


class AcrossFrontend(HubFrontend):
    """Runs the task in all folders and prints how each run ends."""

    def __init__(self, settings: Mapping[str, Any], own: Across) -> None:
        """Take what `prsm` tells every frontend, and the frontend's own section."""
        self._own = own

    async def run(self, hub: Hub) -> int:
        """Return the exit code of the worst of the runs."""
        async with asyncio.TaskGroup() as group:
            runs = [group.create_task(self._run_in(hub, folder)) for folder in self._own.folders]
        return max((run.result() for run in runs), default=0)

    async def _run_in(self, hub: Hub, folder: str) -> int:
        workspace = str(Path(hub.options.workspace, folder))
        try:
            async with hub.open(replace(hub.options, workspace=workspace, session=None)) as app:
                run = await app.runs.start(self._own.task)
                show(f"{folder}: runs in session {run.session}")
                result = await run.result()
        except PrsmError as error:
            show(f"{folder}: {error.message}")
            return error.exit_code
        show(f"{folder}: {result.status}: {result.error or result.summary}")
        return result.exit_code


def show(text: str) -> None:
    """Print text without the characters by which an agent could steer the terminal."""
    safe = "".join(char if char.isprintable() else " " for char in text)
    sys.stdout.write(safe + "\n")
    sys.stdout.flush()


@hookimpl
def prsm_frontends() -> Iterable[FrontendSpec]:
    """Contribute `across`, for `prsm --ui across`."""
    yield FrontendSpec(
        name="across",
        summary="One task in several folders at once.",
        interactive=False,
        priority=0,
        factory="prsm_across:AcrossFrontend",
        settings="prsm_across:Across",
        scope="hub",
    )
