"""An image stays from being kept to being cited, whatever is deleted meanwhile."""

from __future__ import annotations

import pytest

from prsm_core.engine.door.local import LocalApp
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.harness import SESSION
from tests.engine.removals import removes_before_commit

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
SEES = ProviderCapabilities(enforcement="pre_tool", images=True)


@pytest.fixture
def seeing(opened, tmp_path):
    """Open a team whose workspace has an image, `one.png`."""

    def make(**fields):
        (tmp_path / "workspace").mkdir(exist_ok=True)
        (tmp_path / "workspace" / "one.png").write_bytes(PNG)
        return opened(capabilities=SEES, **fields)

    return make


def door(team):
    return LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)


def said_with(team, how):
    """Return a text, and the images that it is said with: given, or only referred to."""
    return ("look", [str(team.workspace / "one.png")]) if how == "given" else ("see @one.png", [])


async def kept(removal, tmp_path):
    """Check that a removal came in between, and took nothing."""
    assert await removal.end() == 0
    assert removal.was_held_up
    assert [path.read_bytes() for path in (tmp_path / "state" / "images").iterdir()] == [PNG]


async def completes(agent):
    await agent.complete("done")


@pytest.mark.parametrize("how", ["given", "referred to"])
async def test_the_image_of_a_task_is_held_until_the_run_is_in_the_ledger(seeing, tmp_path, how):
    async with seeing() as team:
        text, images = said_with(team, how)
        removal = removes_before_commit(team, tmp_path / "state")
        result = await team.run(text, {"images": images}, master=completes)
        await kept(removal, tmp_path)
    assert result.status == "completed"


@pytest.mark.parametrize("how", ["given", "referred to"])
async def test_the_image_of_a_follow_up_is_held_until_its_run_is_in_the_ledger(
    seeing, tmp_path, how
):
    async with seeing() as team:
        text, images = said_with(team, how)
        await team.run("begin", master=completes)
        removal = removes_before_commit(team, tmp_path / "state")
        run = await door(team).runs.follow_up(text, images)
        assert (await run.result()).status == "completed"
        await kept(removal, tmp_path)


@pytest.mark.parametrize("how", ["given", "referred to"])
@pytest.mark.parametrize("delivery", ["inject", "queue"])
async def test_the_image_of_a_prompt_is_held_until_the_message_is_in_the_ledger(
    seeing, tmp_path, delivery, how
):
    async with seeing(steers=True) as team:
        text, images = said_with(team, how)
        removal = removes_before_commit(team, tmp_path / "state")

        async def master(agent):
            if agent.turn == 1:
                told = await door(team).agents.prompt("master", text, delivery, images)
                assert told == ("injected" if delivery == "inject" else "queued")
                if delivery == "queue":
                    await agent.call("wait_for_message")
                else:
                    await agent.step_ended()  # its next response knows it
            await agent.complete("done")

        assert (await team.run(master=master)).status == "completed"
        await kept(removal, tmp_path)


async def test_the_image_of_a_restart_is_held_until_the_new_task_is_in_the_ledger(seeing, tmp_path):
    async with seeing() as team:
        removal = removes_before_commit(team, tmp_path / "state")

        async def master(agent):
            await agent.spawn("work", name="w")
            await agent.collect()
            await door(team).agents.restart("w", "again, @one.png")
            await agent.collect()
            await agent.complete("done")

        assert (await team.run(master=master, w=completes)).status == "completed"
        await kept(removal, tmp_path)
