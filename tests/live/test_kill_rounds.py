"""An engine is killed outright while real agents are at work; none of its processes is left.

`pytest -m live` plays two rounds of each provider, `pytest -m long tests/live` twenty.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest
from prsm_testing.doubles import until

from tests.live.family import Family, command_line, family_of, runs
from tests.live.real_clis import PRESETS, PROVIDERS, Clis, configuration, find_clis
from tests.live.test_tree import lone_agent, play

if TYPE_CHECKING:
    from prsm_testing.model_server import ModelServer

BUSY_S = (
    600  # the last way out: two CLIs start in seconds, and in minutes on a machine full of work
)
GONE_S = 10
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one kill did.

    killed: Processes that the engine had by then, itself included.
    left: Those of its family that outlived it.
    seconds: From the kill until nobody was left.
    """

    killed: int
    left: int
    seconds: float


CASES = [
    *(pytest.param(name, 2, marks=pytest.mark.live, id=f"{name}-2") for name in PROVIDERS),
    # Two CLIs at once, each of which has its own rounds above.
    *(pytest.param(name, 1, marks=pytest.mark.live, id=f"{name}-1") for name in PRESETS),
    *(
        pytest.param(name, 20, marks=pytest.mark.long, id=f"{name}-20")
        for name in (*PROVIDERS, *PRESETS)
    ),
]


@pytest.mark.requirement("F11")
@pytest.mark.parametrize(("name", "rounds"), CASES)
async def test_no_process_outlives_an_engine_that_is_killed(bare_prsm, report, name, rounds):
    clis = find_clis(name)
    played = []
    for number in range(rounds):
        # By turns the agent runs a command, and is in the middle of an answer.
        command = f"sleep 1000.{os.getpid()}{next(_numbers)}" if number % 2 == 0 else None
        busy = {"shell": command} if command else {"say": "This will never end.", "hang": True}
        async with play(lone_agent(busy)) as server:
            bare_prsm.write(configuration(name, clis, bare_prsm.home, server))
            played.append(await kill_round(bare_prsm, server, command, clis))
    left = sum(one.left for one in played)
    times = [one.seconds for one in played]
    report(
        f"kills: {name}: {rounds} rounds, {sum(one.killed for one in played)} processes, "
        f"{left} left; gone after {median(times):.2f} s, at most {max(times):.2f} s"
    )
    assert left == 0


def names_of(path: str) -> tuple[bytes, ...]:
    """Return what a CLI's command line may hold: its path, or that of Codex behind its launcher."""
    return os.fsencode(path), os.fsencode(Path(path).parents[1] / "@openai" / "codex-")


async def kill_round(prsm, server: ModelServer, command: str | None, clis: Clis) -> Round:
    """Start a run, kill its engine once the agent is busy, and count who outlives it.

    Without a command the agent is busy as soon as its model has been asked.
    """
    log = prsm.home / "run.log"
    with log.open("wb") as output:
        task = ("run", "--json", "--on-ask", "allow", "Do it")
        engine = await prsm.start(*task, stdout=output, stderr=output)

    def is_busy() -> bool:
        assert engine.returncode is None, f"prsm ended first: {log.read_text()[-3000:]}"
        asked = any(request.lane == "child" for request in server.requests)
        return asked and (command is None or runs(engine.pid, command))

    try:
        try:
            await until(is_busy, timeout_s=BUSY_S)
        except TimeoutError:
            asked = [request.lane for request in server.requests]
            pytest.fail(f"nobody works; asked: {asked}; prsm: {log.read_text()[-3000:]}")
        assert server.failures == []
        family = family_of(engine.pid, prsm.home)
        told = [command_line(member.pid) for member in family.members]
        for path in clis.values():
            programs = names_of(path)
            assert any(name in argv for argv in told for name in programs), f"{path} does not run"
    finally:
        with contextlib.suppress(ProcessLookupError):
            engine.kill()
        await engine.wait()
    return await outlived(family)


async def outlived(family: Family, *, patience_s: float = GONE_S) -> Round:
    """Wait for the end of a family whose engine was killed; end whoever does not go."""
    begin = time.monotonic()
    with contextlib.suppress(TimeoutError):
        await until(lambda: not family.living(), timeout_s=patience_s)
    seconds = time.monotonic() - begin
    left = family.living()
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return Round(killed=len(family.members), left=len(left), seconds=seconds)


LEAVER = """
import subprocess
child = subprocess.Popen(["sleep", "1000"], stdout=-3, start_new_session=True, env={})
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize("is_known", [True, False])
async def test_who_stays_is_counted_and_ended_known_or_not(tmp_path, is_known):
    """Without a shim the child of a killed engine stays: it is found by its folder, too."""
    engine = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LEAVER), stdout=subprocess.PIPE, cwd=tmp_path
    )
    assert engine.stdout is not None
    child = int(await engine.stdout.readline())
    family = family_of(engine.pid, tmp_path)
    assert len(family.members) == 2
    if not is_known:
        family = replace(family, members=frozenset(), sessions=frozenset())
    engine.kill()
    await engine.wait()
    assert (await outlived(family, patience_s=0.1)).left == 1
    await until(lambda: not command_line(child))
