"""What a session is called, on its own screen: by its task at once, and by who names it later."""

from __future__ import annotations

import asyncio

import pytest

from plugins.prsm_tui.tests.hub_scenes import watching_hub
from plugins.prsm_tui.tests.scenes import engine, watching
from plugins.prsm_tui.tests.test_sessions import begun, scripted

NAMES = {
    "lanes": {
        "namer": {"marker": "You name conversations", "steps": [{"say": "The blue door"}]},
        "master": {"steps": [{"ask_user": {"id": "x", "question": "Which?", "options": ["red"]}}]},
    }
}
BY_MODEL = {"auto_name": "model", "name_model": "script/cheap"}


@pytest.mark.requirement("D2")
async def test_a_session_is_called_by_its_task_at_once_and_by_a_model_once_that_has_named_it(
    tmp_path,
):
    task = "Mend the door that is blue"
    async with (
        asyncio.timeout(120),
        engine(tmp_path, NAMES, task, sessions={"auto_name": "task"}) as app,
        watching(app, size=(160, 30)) as eyes,
    ):
        await eyes.sees("NEEDS YOU: 1", f"# session: run running · {task}")
    async with (
        asyncio.timeout(120),
        engine(tmp_path / "again", NAMES, task, sessions=BY_MODEL) as app,
        watching(app, size=(160, 30)) as eyes,
    ):
        await eyes.sees("NEEDS YOU: 1", "# session: run running · The blue door")
        assert eyes.tui._title_now()[0] == "(1) prsm needs you · The blue door"


async def test_a_name_that_is_given_in_the_session_is_seen_in_it():
    hub = scripted()
    await begun(hub, "the door")
    async with watching_hub(hub, size=(160, 30)) as eyes:
        await eyes.sees("WORKS (1)")
        await eyes.press("enter")
        await eyes.sees("# session: run running · the door")
        await eyes.type("/rename of blue [wood]\n")
        await eyes.sees("it is called of blue [wood]", "run running · of blue [wood]")
        await eyes.type("/rename\n")
        await eyes.sees("run running · the door")
    await hub.aclose()
