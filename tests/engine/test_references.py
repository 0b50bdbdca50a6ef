"""What a person refers to reaches the model, once read; the person sees what they said."""

from __future__ import annotations

import pytest

from prsm_core.engine.door.completion import complete_word
from prsm_core.engine.door.local import LocalApp
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.interfaces.provider import ProviderCapabilities
from prsm_core.kit.quotation import REFERENCED
from prsm_core.permissions import Redactor
from tests.engine.deaths import die, go_on, run_to_death
from tests.engine.harness import SESSION

BLOCK = f'\n\n{REFERENCED}\n"a.py":\n> x = 1'
SEES = ProviderCapabilities(enforcement="pre_tool", images=True)


def write(team, name, content="x = 1\n"):
    path = team.workspace / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def door(team):
    return LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)


async def test_a_task_a_follow_up_and_a_restart_show_what_they_refer_to(opened):
    async with opened() as team:
        write(team, "a.py")
        app = door(team)

        async def master(agent):
            if agent.turn == 1:
                await agent.spawn("look at @a.py", name="w")
                await agent.collect()
                await app.agents.restart("w", "again, @a.py")
                await agent.collect()
            await agent.complete("done")

        result = await team.run("explain @a.py and @gone.py", master=master)
        assert (await (await app.runs.follow_up("more of @a.py")).result()).status == "completed"
        view, [session] = await app.view(), await app.sessions.list()
        texts = [getattr(entry, "text", "") for entry in await app.agents.history("master")]
        of_master = team.provider.contexts["master"]
        first, second = team.provider.contexts["w"]
    assert result.status == "completed"
    assert of_master[0].current_message.content == f"explain @a.py and @gone.py{BLOCK}"
    assert of_master[-1].current_message.content == f"more of @a.py{BLOCK}"
    assert first.current_message.content == "look at @a.py", "an agent's text reads no file"
    assert second.current_message.content == f"again, @a.py{BLOCK}"
    told = [event["text"] for event in team.ledger.events("notice")]
    assert told == ["@gone.py is not shown: there is no such file in the workspace"]
    assert view.run.task == "more of @a.py"
    assert session.task in {"explain @a.py and @gone.py", "more of @a.py"}
    assert "more of @a.py" in texts


@pytest.mark.requirement("D1")
async def test_a_prompt_shows_it_in_a_turn_and_to_a_call_that_waits(opened):
    async with opened(steers=True) as team:
        write(team, "a.py")
        app = door(team)

        async def master(agent):
            assert await app.agents.prompt("master", "see @a.py", "inject") == "injected"
            heard = await agent.steered.get()
            assert heard.endswith(f'> {REFERENCED}\n> "a.py":\n> > x = 1')
            await app.agents.prompt("master", "see @a.py and @gone.py")
            [prompt] = (await app.view()).tree.agents[0].prompts
            assert prompt.text == "see @a.py and @gone.py"
            message = await agent.call("wait_for_message")
            assert message["text"] == f"see @a.py and @gone.py{BLOCK}"
            await agent.complete()

        assert (await team.run("do it", master=master)).status == "completed"
        said = [getattr(entry, "text", "") for entry in await app.agents.history("master")]
    assert "The user writes:\n> see @a.py" in said
    assert [e["text"].split()[0] for e in team.ledger.events("notice", "master")] == ["@gone.py"]


async def test_what_was_read_is_sent_again_after_a_death_as_it_was(opened):
    async with opened(check=False) as team:
        path = write(team, "a.py")

        async def dies(agent):
            await door(team).agents.prompt("master", "see @a.py")
            path.unlink()
            await die(team)

        await run_to_death(team, master=dies)

    async def reads(agent):
        message = await agent.call("wait_for_message")
        await agent.complete(message["text"])

    async with opened() as again:
        assert (await go_on(again, master=reads)).summary == f"see @a.py{BLOCK}"


async def test_an_image_that_is_referred_to_is_shown(opened):
    png = b"\x89PNG\r\n\x1a\n" + bytes(20)
    async with opened(capabilities=SEES) as team:
        write(team, "shot.png", png)
        write(team, "huge.png", png + bytes(6 << 20))
        await team.run("what is on @shot.png and @huge.png?")
        [context] = team.provider.contexts["master"]
    assert [image.name for image in context.images] == ["shot.png"]
    [told] = team.ledger.events("notice")
    assert "huge.png has 6.0 MiB" in told["text"]


async def test_known_secrets_are_taken_out_of_what_is_shown(opened):
    async with opened(redactor=Redactor(["hunter2hunter2"])) as team:
        write(team, "a.py", "key = 'hunter2hunter2'")
        await team.run("see @a.py")
        [context] = team.provider.contexts["master"]
    assert "a.py" in context.current_message.content
    assert "hunter2" not in context.current_message.content


async def test_the_switch_turns_it_off(opened):
    off = {"context": {"references": False}}
    async with opened(settings=off) as team:
        write(team, "a.py")
        await team.run("see @a.py")
        [context] = team.provider.contexts["master"]
    assert context.current_message.content == "see @a.py"


async def test_a_path_is_completed_as_it_is_referred_to(tmp_path):
    (tmp_path / "a b.md").write_text("")
    (tmp_path / "ab.md").write_text("")
    found = await complete_word("see @a", str(tmp_path), ())
    assert [one.text for one in found] == ['@"a b.md"', "@ab.md"]
