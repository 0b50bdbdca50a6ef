"""Typed lines go to the master, or to the agent that they name."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from prsm_console.person import Prompter, _Line
from prsm_console.screen import Screen

from prsm_core.errors import MessageRoutingError


@pytest.fixture
def lead(app, stream):
    """Run a prompter on the scripted application, which has a master and a worker `w1`."""

    @asynccontextmanager
    async def lead(*, spawned=True):
        prompter = Prompter(app.agents, Screen(stream))
        await app.runs.start("do it")
        app.spawn()
        app.spawn("w", "w1", parent="m")
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            sending = group.create_task(prompter.serve())
            if spawned:
                tell_of_agents(app, prompter)
            yield prompter
            sending.cancel()

    return lead


def tell_of_agents(app, prompter):
    for event in app._log:
        prompter.note(event)


@pytest.mark.requirement("U1")
async def test_a_line_is_for_the_master_and_a_name_says_otherwise(app, stream, lead):
    async with lead() as prompter:
        prompter.take("  hurry up ")
        prompter.take("@w1 and you\ntoo")
        await stream.shows("you: @w1 and you… (it has it now)")
    assert app.prompts == [("m", "hurry up", "inject"), ("w", "and you\ntoo", "inject")]


async def test_what_is_typed_before_the_master_begins_waits_for_it(app, stream, lead):
    async with lead(spawned=False) as prompter:
        prompter.take("early")
        assert "you: early (waits for the master's beginning)" in stream.getvalue()
        assert app.prompts == []
        tell_of_agents(app, prompter)
        await stream.shows("you: early (it has it now)")
    assert app.prompts == [("m", "early", "inject")]


async def test_what_an_agent_does_not_take_is_told_with_the_hint_and_so_is_a_prompt_without_words(
    app, stream, lead, monkeypatch
):
    async def ended(agent, text, delivery):
        raise MessageRoutingError("w1 has ended", hint="a restart gives it a new task")

    monkeypatch.setattr(app.agents, "prompt", ended)
    async with lead() as prompter:
        prompter.take("@w1 go")
        await stream.shows("you: @w1 go (not sent: w1 has ended; a restart gives it a new task)")
        prompter.take("@w1 ")
        await stream.shows("you: @w1 (not sent: what is the prompt?")


@pytest.mark.requirement("U1")
async def test_a_line_for_an_agent_that_is_not_there_yet_is_kept_for_it_alone(app, stream, lead):
    async with lead() as prompter:
        for line in ("@w2 first", "@w2 second", "@w11 typo"):
            prompter.take(line)
        await stream.shows(
            "you: @w11 typo (kept until there is an agent of that name, did you mean @w1?;"
            " now: master, w1)\n"
        )
        prompter.take("and the master")
        await stream.shows("you: and the master (it has it now)")
        assert app.prompts == [("m", "and the master", "inject")], "it waits for nobody"
        app.spawn("x", "w2", parent="m")
        prompter.note(app._log[-1])
        await stream.shows("you: @w2 second (it has it now)")
    assert app.prompts[1:] == [("x", "first", "inject"), ("x", "second", "inject")]
    assert list(prompter.unsent()) == ["@w11 typo"]


async def test_a_name_is_never_taken_for_the_beginning_of_another_agents_id(app, stream, lead):
    agent = "facade" + "0" * 26
    async with lead() as prompter:
        app.spawn(agent, "w2", parent="m")
        prompter.note(app._log[-1])
        prompter.take("@fa for an agent called fa")
        await stream.shows("you: @fa for an agent called fa (kept")
        assert app.prompts == []
        prompter.take(f"@{agent[:8]} as the tree prints it")
        await stream.shows("as the tree prints it (it has it now)")
    assert app.prompts == [(agent, "as the tree prints it", "inject")]


async def test_what_nobody_got_is_known_in_the_end(app, stream, lead):
    async with lead(spawned=False) as prompter:
        for number in range(101):
            prompter.take(f"line {number}")
        assert "line 100 (not sent: 100 lines before it wait already)" in stream.getvalue()
    assert list(prompter.unsent()) == [f"line {number}" for number in range(100)]


async def test_the_way_of_a_line_that_was_typed_here_is_known_and_another_persons_is_not(
    app, stream, lead
):
    def routed(agent):
        return app.say("message_routed", None, **{"from": None, "to": agent, "kind": "user_prompt"})

    async with lead() as prompter:
        prompter.take("@w1 go")
        await stream.shows("you: @w1 go (it has it now)")
        routed("w")
        mine = app._log[-1]
        assert [prompter.note(mine), prompter.note(mine)] == [True, False]


def test_a_line_that_begins_with_a_path_is_for_the_master():
    for typed in ("@src/a.py explain it", '@"two words.md" explain it'):
        line = _Line.read(typed)
        assert (line.name, line.text) == ("", typed)
    assert _Line.read("@w1 see @src/a.py")[1:] == ("w1", "see @src/a.py")
    assert _Line.read("@w1")[1:] == ("w1", "")
