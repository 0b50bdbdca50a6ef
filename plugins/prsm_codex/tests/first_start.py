"""An engine that is killed: opens a session in a private folder, says so, and stays.

python -m plugins.prsm_codex.tests.first_start PRIVATE-FOLDER PROGRAM …
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from prsm_codex.provider import build
from prsm_testing.doubles import RecordingHost, open_services, session_request

NOWHERE = "http://127.0.0.1:9/v1"  # no model is asked for anything


@asynccontextmanager
async def engine(state_dir, *command):
    """Run such an engine, which is killed at the latest when this is left; yield its process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "plugins.prsm_codex.tests.first_start", str(state_dir), *command),
        cwd=Path(__file__).parents[3],
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def main(state_dir: Path, *command: str) -> None:
    """Open a session, and stay until killed."""
    async with open_services(state_dir) as services:
        provider = build({"command": list(command), "base_url": NOWHERE}, services)
        try:
            async with provider.open_session(session_request(state_dir.parent), RecordingHost()):
                sys.stdout.write("open\n")
                sys.stdout.flush()
                await asyncio.Event().wait()
        finally:
            await provider.aclose()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
