"""A small engine: runs one agent in front of a model that never answers, until it is killed.

    python small_engine.py CLAUDE FOLDER

It prints the pids of all its descendants on one line once the model has been asked.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from prsm_claude.provider import build
from prsm_testing.doubles import RecordingHost, open_services, run_turn, session_request
from prsm_testing.model_server import ModelServer

SILENT = {"lanes": {"w1": {"marker": "", "steps": [{"say": "a b c", "hang": True}]}}}


def descendants(pid: int | str) -> list[str]:
    """Return the pids of the children, and theirs."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    children = [child for path in files for child in path.read_text().split()]
    return children + [deeper for child in children for deeper in descendants(child)]


async def main(program: str, folder: Path) -> None:
    async with ModelServer(SILENT) as server, open_services(folder / "state") as services:
        settings = {
            "command": [program],
            "base_url": server.root_url,
            "env": {"HOME": str(folder)},
        }
        provider = build(settings, services)
        async with (
            provider.open_session(session_request(folder), RecordingHost()) as session,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(run_turn(session, "hi"))
            await server.wait_for_requests(1)
            sys.stdout.write(" ".join(descendants("self")) + "\n")
            sys.stdout.flush()
            await asyncio.Event().wait()


asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
