"""The real hub: runs in processes of their own, left and come back to, cut off and gone on with."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

from plugins.prsm_tui.tests.hub_scenes import real_hub, watching_hub
from tests.sources import ROOT

DEADLINE = 240.0
SHOP = ROOT / "plugins" / "prsm_demo" / "prsm_demo" / "sample-shop"
ASKS = {"lanes": {"master": {"steps": [
    {"ask_user": {"id": "x", "question": "Which?", "options": ["red", "blue"]}},
    {"say": "It is ${x.choices}."},
    {"say": "Another one, too."},
]}}}  # fmt: skip


@pytest.mark.requirement("D3")
@pytest.mark.long
async def test_the_team_of_the_demo_goes_on_while_nobody_looks(tmp_path, monkeypatch):
    async with (
        asyncio.timeout(DEADLINE),
        real_hub(tmp_path, monkeypatch, "builtin:demo", SHOP) as hub,
    ):
        async with watching_hub(hub, size=(120, 40)) as eyes:
            await eyes.sees("none yet")
            await eyes.type("nCustomers who order for exactly 50.00 pay shipping. Mend it.\n")
            await eyes.sees("? fixer", "NEEDS YOU: 1")
            await eyes.press("f5")
            await eyes.sees("NEEDS YOU (1)", "? Customers who order", "waits for you: fixer")
        [row] = await hub.sessions()
        assert row.status == "running", "the interface was left, and the run goes on"
        async with watching_hub(hub, size=(80, 24)) as eyes:
            await eyes.sees("NEEDS YOU (1)")
            await eyes.press("a")
            await eyes.sees("[o]nce", "master / fixer")
            await eyes.type("o\n")
            await eyes.press("escape")
            await eyes.sees("DONE (1)", "x Customers who order")
            await eyes.press("enter")
            # Who comes later reads the end in the last call; a row of 80 signs has its first words.
            await eyes.sees("run completed", "task_complete  Orders of exactly 50.00 are sent free")


async def test_an_owner_that_is_killed_is_told_and_its_run_goes_on(tmp_path, monkeypatch):
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps(ASKS))
    async with (
        asyncio.timeout(DEADLINE),
        real_hub(tmp_path, monkeypatch, scenario) as hub,
        watching_hub(hub, size=(120, 40)) as eyes,
    ):
        await eyes.sees("none yet")
        await eyes.type("nchoose a colour\n")
        await eyes.sees("> choose a colour", "NEEDS YOU: 1")
        [row] = await hub.sessions()
        os.kill(row.pid, signal.SIGKILL)
        await eyes.sees("the run was cut off", "/resume goes on with the run")
        await eyes.type("/resume\n")
        await eyes.sees("run running", "NEEDS YOU: 1")
        await eyes.press("f2")
        await eyes.sees("2. blue", "a number or a text")
        await eyes.type("2\n")
        await eyes.press("escape")
        await eyes.sees("the run is completed")
        await eyes.type("and now another one\n")
        await eyes.sees("> and now another one", "Another one, too.", "run completed")
