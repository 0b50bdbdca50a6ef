"""Engines are killed outright, each with three hostile children; nobody is left."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from prsm_core.engine.processes.table import process_identity
from tests.engine.hostile import (
    DAEMON,
    DEADLINE,
    IGNORES_TERM,
    LEAVES,
    STAYS,
    gone,
    state_of,
    until,
)

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


READS = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"


@asynccontextmanager
async def engine_of(*programs):
    """Run an engine with these programs; yields it and the pids of each one's shim and program."""
    engine = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", ENGINE, *programs), stdout=subprocess.PIPE
    )
    try:
        assert engine.stdout is not None
        async with asyncio.timeout(DEADLINE):
            words = [(await engine.stdout.readline()).split() for _ in programs]
        yield engine, [int(word) for pair in words for word in pair]
    finally:
        if engine.returncode is None:
            engine.kill()
        await engine.wait()


def stdin_of(pid):
    return Path(f"/proc/{pid}/fd/0").open("rb", buffering=0)


@pytest.mark.requirement("F2")
async def test_a_program_is_not_told_that_its_engine_is_gone_before_it_is_killed():
    # It would act on that: a vendor's program refuses the call that waits, and asks its model.
    async with engine_of(READS) as (engine, (shim, program)):
        os.kill(shim, signal.SIGSTOP)
        try:
            await until(lambda: state_of(shim) == "T", "the shim has stopped")
            with stdin_of(program) as stdin:
                engine.kill()
                await engine.wait()
                heard = select.poll()
                heard.register(stdin, select.POLLIN)
                assert heard.poll(0) == []
        finally:
            os.kill(shim, signal.SIGCONT)
    await gone(shim, program)


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("rounds", [5, pytest.param(50, marks=pytest.mark.long)])
async def test_kills_of_an_engine_leave_none_of_its_hostile_children(rounds):
    for _ in range(rounds):
        programs = (IGNORES_TERM, DAEMON + STAYS, HOLDS_THE_PIPE)
        async with engine_of(*programs) as (_, pids):
            assert len(pids) == 6
            assert all(process_identity(pid) for pid in pids[:4])  # the last two may be gone
        await gone(*pids)
