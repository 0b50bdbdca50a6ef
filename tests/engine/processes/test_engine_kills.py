"""Engines are killed outright, each with three hostile children; nobody is left."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from prsm_core.engine.processes.launcher import process_identity
from tests.engine.hostile import DAEMON, DEADLINE, IGNORES_TERM, LEAVES, STAYS, gone

# A grandchild in a session of its own that ignores TERM, drops its environment and holds the pipe
# of a program that has ended.
HOLDS_THE_PIPE = DAEMON + "import sys; sys.stdout.flush()\n" + LEAVES

ENGINE = """
import asyncio, sys
from prsm_core.kit.clocks import SystemClock
from prsm_core.engine.processes.launcher import ProcessLauncher, install_child_watcher

async def main():
    async with ProcessLauncher(SystemClock()) as launcher:
        processes = []
        for number, program in enumerate(sys.argv[1:]):
            process = await launcher.start([sys.executable, "-c", program], name=str(number))
            processes.append(process)
        for process in processes:
            async for line in process.lines():
                print(process.pid, int(line), flush=True)
                break
        await asyncio.Event().wait()

install_child_watcher()
asyncio.run(main())
"""


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("rounds", [10, pytest.param(50, marks=pytest.mark.long)])
async def test_kills_of_an_engine_leave_none_of_its_hostile_children(rounds):
    for _ in range(rounds):
        engine = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ENGINE, IGNORES_TERM, DAEMON + STAYS, HOLDS_THE_PIPE),
            stdout=subprocess.PIPE,
        )
        try:
            assert engine.stdout is not None
            async with asyncio.timeout(DEADLINE):
                words = [(await engine.stdout.readline()).split() for _ in range(3)]
            pids = [int(word) for pair in words for word in pair]
            assert len(pids) == 6
            assert all(process_identity(pid) for pid in pids[:4])  # the last two may be gone
        finally:
            engine.kill()
            await engine.wait()
        await gone(*pids)
