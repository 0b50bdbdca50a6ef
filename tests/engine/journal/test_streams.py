"""Live text that cannot be misread: streams are rebuilt of their pieces alone."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.engine.control.remote import open_remote
from prsm_core.engine.door.local import LocalApp
from prsm_core.interfaces.frontend import RunOptions
from tests.engine.control_peers import serving
from tests.engine.harness import DEADLINE, SESSION, open_team
from tests.engine.journal.streams import (
    NAMES,
    REDACTOR,
    Reader,
    SlowStore,
    behaviour,
    follow,
    write_script,
)

READERS = 3  # of each stream


async def joined(app, reader, store, dice, pause):
    """Follow from the beginning or from a picture, sooner or later."""
    await pause(dice.choice((0.0, dice.random(), dice.random() * 3)))
    log = store.ledger.events[SESSION]
    await follow(app, reader, lambda: len(log), by_view=dice.random() < 0.6)


@asynccontextmanager
async def in_process(app):
    """Follow from where the engine is."""
    yield app


async def play(folder, seed, pause, clock, *, door=in_process):
    """Run the streams of a seed; return their readers."""
    dice = Random(seed)
    folder.mkdir()
    scripts = {name: write_script(dice, name) for name in NAMES}
    store = SlowStore(dice, pause)
    fields: dict[str, Any] = {"clock": clock, "store": store, "redactor": REDACTOR, "check": False}
    async with open_team(folder, **fields) as team:
        for name, script in scripts.items():
            team.provider.behaviours[name] = behaviour(script, dice, pause)
        app = LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)
        readers = [Reader(scripts) for _ in range(READERS)]
        async with asyncio.timeout(DEADLINE), door(app) as seen:
            run = await app.runs.start("do it")
            async with asyncio.TaskGroup() as group:
                for reader in readers:
                    group.create_task(joined(seen, reader, store, dice, pause))
            result = await run.result()
            assert result.status == "completed", result.error
        await app.aclose()
    return readers


@pytest.mark.requirement("E14")
@pytest.mark.parametrize(
    "block", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 10))]
)
async def test_twenty_streams_are_rebuilt_of_their_pieces(tmp_path, block):
    rebuilt = placed = outputs = 0
    for seed in range(block * 20, block * 20 + 20):
        clock = FakeClock()
        readers = await play(tmp_path / f"{seed}", seed, clock.sleep, clock)
        rebuilt += sum(reader.rebuilt for reader in readers)
        placed += sum(reader.placed for reader in readers)
        outputs += sum(reader.outputs for reader in readers)
    assert rebuilt > 100
    assert placed > 25
    assert outputs > 10


async def yields(seconds):
    """Let others run for as many rounds as there are milliseconds."""
    for _ in range(int(seconds * 1000)):
        await asyncio.sleep(0)


async def test_streams_are_rebuilt_over_the_socket_too(tmp_path):
    rebuilt = 0
    for seed in range(5):
        state = tmp_path / f"state-{seed}"

        @asynccontextmanager
        async def over_the_socket(app, state=state):
            async with serving(state, app, session=SESSION), open_remote(state, SESSION) as remote:
                yield remote

        readers = await play(tmp_path / f"{seed}", seed, yields, None, door=over_the_socket)
        rebuilt += sum(reader.rebuilt for reader in readers)
    assert rebuilt > 20
