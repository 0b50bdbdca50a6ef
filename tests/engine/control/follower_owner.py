"""A process that owns a session whose events never end; it is killed by its test."""

import asyncio
import sys
from pathlib import Path

from prsm_testing import ScriptedApp

from tests.engine.control_peers import serving


async def own(state):
    app = ScriptedApp()
    await app.runs.start("for ever")
    async with serving(state, app):
        sys.stdout.write("owned\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


asyncio.run(own(Path(sys.argv[1])))
