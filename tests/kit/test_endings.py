"""How a program has ended, in words."""

from __future__ import annotations

import re
import sys

import pytest
from prsm_testing import RushClock, open_services

from prsm_core.kit import Ending, Exit

NOISE = re.compile("nothing to see")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (128, "exit code 128"),
        (137, "killed by signal 9, SIGKILL (out of memory?)"),
        (139, "killed by signal 11, SIGSEGV"),
        (255, "killed by signal 127, unknown"),
        (None, "it closed its output and went on running"),
    ],
)
def test_an_end_names_its_exit_code_or_signal(code, told):
    assert str(Exit(code)) == told
    assert Exit(code).was_killed == ("signal" in told)


def script(code):
    return [sys.executable, "-I", "-S", "-c", code]


async def test_the_exit_code_of_what_has_ended_is_told(tmp_path):
    async with open_services(tmp_path) as services:
        process = await services.start_process(script("raise SystemExit(7)"), name="p")
        assert await Exit.of(process, services) == Exit(7)


async def test_what_closes_its_output_and_goes_on_is_ended(tmp_path):
    clock = RushClock()
    goes_on = "import os, signal; os.close(1); os.close(2); signal.pause()"
    async with open_services(tmp_path, clock=clock) as services:
        process = await services.start_process(script(goes_on), name="p")
        assert [line async for line in process.lines()] == []
        clock.rush(10)
        assert await Exit.of(process, services) == Exit(None)
        assert Exit(await process.wait()).was_killed


async def test_an_ending_has_the_cause_that_stderr_tells(tmp_path):
    dies = "import sys; sys.stderr.write('one\\ncause\\x1b[31m!\\u200e\\nnothing to see\\n')"
    async with open_services(tmp_path) as services:
        process = await services.start_process(script(dies), name="p")
        assert [line async for line in process.lines()] == []
        await process.wait()
        ending = Ending.of("exit code 0", process, bad_lines=2, noise=NOISE)
    assert ending.why == "exit code 0; 2 of its lines were not understood: cause!"
    assert ending.tail == "one\ncause!"


async def test_an_ending_without_a_cause_is_how_it_ended(tmp_path):
    async with open_services(tmp_path) as services:
        process = await services.start_process(script(""), name="p")
        await process.wait()
        assert Ending.of("it was stopped", process) == Ending(why="it was stopped")
