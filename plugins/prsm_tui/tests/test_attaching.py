"""Images that are shown with what a person says next."""

from __future__ import annotations

import pytest
from prsm_testing import ScriptedApp

from plugins.prsm_tui.tests.hub_scenes import watching_hub
from plugins.prsm_tui.tests.scenes import watching
from plugins.prsm_tui.tests.test_sessions import begun, ended, scripted
from prsm_core import RunOptions

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "door.png"
    path.write_bytes(PNG)
    return str(path)


async def test_an_image_goes_with_what_is_said_next_and_with_nothing_after_it(picture):
    app = ScriptedApp(RunOptions(task=None))
    async with watching(app, size=(160, 30)) as eyes:
        await eyes.type(f"/attach {picture}\n")
        await eyes.sees("1 image with what you say next", "images: 1 (/attach)")
        await eyes.type("mend the door\n")
        await eyes.until(lambda: app.run is not None, "the run")
        assert app.overrides == {"images": (picture,)}
        app.spawn()
        await eyes.sees("to master")
        assert "images:" not in eyes.text
        await eyes.type(f"/attach {picture}\n")
        await eyes.sees("images: 1 (/attach)")
        await eyes.type("like this\n")
        await eyes.until(lambda: app.shown == [(picture,)], "the image")
        await eyes.type("and on\n")
        await eyes.until(lambda: len(app.prompts) == 2, "the prompt")
        assert app.shown == [(picture,)]


async def test_what_an_agent_cannot_see_is_said_and_stays_to_be_sent(picture):
    app = ScriptedApp()
    async with watching(app, size=(160, 30)) as eyes:
        app.spawn()
        app.takes_images = False
        await eyes.type(f"/attach {picture}\n")
        await eyes.sees("images: 1 (/attach)")
        await eyes.type("like this\n")
        await eyes.sees("error: not sent:", "images: 1 (/attach)")
        assert eyes.tui.panes.prompt.text == "like this"
        await eyes.press("ctrl+u")
        await eyes.type("/attach\n")
        await eyes.sees("no image is shown with what you say next")
        await eyes.until(lambda: "images: 1" not in eyes.text)


async def test_an_image_goes_with_a_task_of_a_session_among_many(picture):
    hub = scripted()
    app = await begun(hub, "the door")
    ended(app)
    async with watching_hub(hub, size=(160, 30)) as eyes:
        await eyes.sees("DONE (1)")
        await eyes.press("enter")
        await eyes.sees("as a further task")
        await eyes.type(f"/attach {picture}\n")
        await eyes.sees("images: 1 (/attach)")
        await eyes.type("and the window\n")
        await eyes.until(lambda: app.continued == ["and the window"], "the further task")
        assert app.shown == [(picture,)]
    await hub.aclose()
