"""The real Codex, whose engine is killed at many moments of its very first start."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from contextlib import closing, suppress

import pytest
from prsm_codex.app_server import HOME
from prsm_testing.doubles import only, run_turn

from plugins.prsm_codex.tests.first_start import engine
from prsm_core.domain.turns import Notice

pytestmark = pytest.mark.live

KILLS = 24


async def killed_after(seconds, state_dir, binary):
    """Run an engine and kill it with all that it has started; return whether it had a session."""
    async with engine(state_dir, binary) as process:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await process.stdout.readline() == b"open\n"
    return False


def statuses(home):
    """What Codex's database says of itself; nothing where there is none or half of one."""
    (file,) = home.glob("state_*.sqlite")
    with closing(sqlite3.connect(file)) as database:
        return [row[0] for row in database.execute("SELECT status FROM backfill_state")]


async def test_a_kill_at_any_moment_of_the_first_start_leaves_a_whole_home_or_none(
    codex, binary, state_dir
):
    begun = time.monotonic()
    assert await killed_after(60, state_dir, binary)
    whole = time.monotonic() - begun
    homes = 0
    for n in range(KILLS):
        shutil.rmtree(state_dir / HOME, ignore_errors=True)
        await killed_after(1.5 * whole * n / KILLS, state_dir, binary)
        if (state_dir / HOME).exists():
            homes += 1
            assert statuses(state_dir / HOME) == ["complete"]
    assert homes < KILLS  # the first came at once; how many are late is the machine's affair
    shutil.rmtree(state_dir / HOME, ignore_errors=True)
    await killed_after(whole / 2, state_dir, binary)
    async with codex({"say": "here"}) as live, live.session() as session:
        events = await run_turn(session, "one")
    assert not [notice for notice in only(Notice, events) if "set aside" in notice.text]
    assert {path.name for path in state_dir.iterdir() if path.name.startswith(HOME)} == {HOME}
    assert not list((state_dir / HOME).glob("stuck-*"))
