"""A test that fails in front of a vendor's program tells what the program did."""

from __future__ import annotations

import asyncio
import sys

import pytest
from prsm_testing import open_services, run_turn

from prsm_core import AssistantMessage, ProviderSession

SAYS_AND_STAYS = "import sys; print('no room for it', file=sys.stderr, flush=True); input()"


class StopsHalfway(ProviderSession):
    """Says something, and then nothing any more."""

    async def run_turn(self, context):
        """Give one message and no end."""
        yield AssistantMessage(text=f"one of {context.model}")
        await asyncio.Event().wait()

    async def interrupt(self):
        """End nothing."""


async def test_a_turn_without_an_end_tells_what_came_of_it():
    with pytest.raises(TimeoutError, match=r"no end of a turn in 0\.05 s; so far: .*'one of m'"):
        await run_turn(StopsHalfway(), "Count.", timeout_s=0.05, model="m")


async def fail_beside_two_processes(tmp_path, pids):
    argv = [sys.executable, "-c", SAYS_AND_STAYS]
    async with open_services(tmp_path) as services:
        ended = await services.start_process(argv, name="first")
        ended.close_stdin()
        await ended.wait()
        runs = await services.start_process(argv, name="second")
        pids += [ended.pid, runs.pid]
        raise LookupError("of the test")


async def test_an_error_tells_of_the_processes_and_what_they_said(tmp_path):
    pids: list[int] = []
    with pytest.raises(LookupError) as caught:
        await fail_beside_two_processes(tmp_path, pids)
    first, second = caught.value.__notes__[0].splitlines()
    assert first.startswith(f"process {pids[0]} (first): exit code 1; stderr: 'no room for it")
    assert second.startswith(f"process {pids[1]} (second): running; stderr: ")


async def test_an_error_before_any_process_says_so(tmp_path):
    with pytest.raises(LookupError) as caught:
        async with open_services(tmp_path):
            raise LookupError("of the test")
    assert caught.value.__notes__ == ["no process was started"]
