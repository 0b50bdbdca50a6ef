"""A peer keeps its images itself, and holds them until the owner has answered."""

from __future__ import annotations

import pytest

from prsm_core.engine.control.client import open_control
from prsm_core.engine.control.remote import RemoteApp
from prsm_core.errors import PrsmError
from prsm_core.interfaces.frontend import RunOptions
from tests.engine.control_peers import SESSION, idle_app, serving
from tests.engine.removals import Removal

PNG = b"\x89PNG\r\n\x1a\n" + bytes(9)


class Run:
    run_id, session = "run", SESSION


async def by_client(state, image):
    async with open_control(state, SESSION) as client:
        await client.agents.prompt("w1", "look", images=[image])


async def prompts(state, image):
    await remote(state).agents.prompt("w1", "look", images=[image])


async def starts(state, image):
    await remote(state).runs.start("look", images=(image,))


async def continues(state, image):
    await remote(state).runs.follow_up("look", [image])


def remote(state):
    return RemoteApp(state, SESSION, RunOptions(), via="test")


@pytest.mark.parametrize("say", [by_client, prompts, starts, continues])
async def test_what_a_peer_keeps_is_held_until_the_owner_has_answered(tmp_path, say):
    cited: set[str] = set()
    removal = Removal(tmp_path / "images", lambda: cited)

    async def owner(*_, **__):
        await removal.begin()
        cited.update(path.name for path in (tmp_path / "images").iterdir())  # the owner's commit
        return Run if say in {starts, continues} else "queued"

    image = tmp_path / "screen.png"
    image.write_bytes(PNG)
    app = idle_app(**{"agents.prompt": owner, "runs.start": owner, "runs.follow_up": owner})
    async with serving(tmp_path, app):
        await say(tmp_path, str(image))
        assert await removal.end() == 0
    assert removal.was_held_up


async def test_what_an_owner_refuses_is_held_no_longer(tmp_path):
    async def refuses(**_):
        raise PrsmError("no such agent")

    image = tmp_path / "screen.png"
    image.write_bytes(PNG)
    async with serving(tmp_path, idle_app(**{"agents.prompt": refuses})):
        with pytest.raises(PrsmError, match="no such agent"):
            await prompts(tmp_path, str(image))
    removal = Removal(tmp_path / "images", set)
    await removal.begin()
    assert not removal.was_held_up
    assert await removal.end() == 1
