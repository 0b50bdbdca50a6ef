"""A session that is opened at any moment is the one that was watched from its beginning."""

from __future__ import annotations

import asyncio
from typing import Any

from prsm_tui.model.blocks import Call, Prompt, Said, Thought
from prsm_tui.model.session import Session

from plugins.prsm_tui.tests.scenes import EMPTY, engine, texts

DEADLINE = 30.0
LANES = {
    "master": {
        "steps": [
            {"think": "I look. " * 5, "say": "First one thing. " * 5, "shell": "echo one"},
            {
                "say": "Then a child.",
                "call": {
                    "id": "w",
                    "tool": "spawn_child",
                    "arguments": {"name": "w", "prompt": "[[lane:w]] count", "wait": True},
                },
            },
            {"say": "It said so. " * 4},
            {"call": {"tool": "task_complete", "arguments": {"summary": "counted"}}},
        ]
    },
    "w": {
        "steps": [
            {"delay": 0.02, "say": "I count. " * 10, "shell": "echo two"},
            {"delay": 0.02, "think": "hm " * 10, "ask_user": {"question": "?", "options": ["a"]}},
            {"call": {"tool": "task_complete", "arguments": {"summary": "3"}}},
        ]
    },
}


async def watch(app, views):
    """Run the lanes, answer, and take a view at every event; return all events."""
    run = await app.runs.start(app.options.task)
    seen = []
    async for event in app.events():
        seen.append(event)
        if event.type == "question_asked":
            request = (await app.requests.open())[0].request
            await app.requests.answer(request, _first())
        if event.type == "run_finished":
            break
        views.append((len(seen), await app.view()))
    await run.result()
    return seen


def _first():
    from prsm_core.domain.permissions import Answer

    return Answer(choices=("a",))


def talk(transcript):
    """Return what a history tells, without what it does not: times, exit codes, numbers."""
    return [
        (type(b).__name__, b.tool, b.subject, b.status, b.result)
        if isinstance(b, Call)
        else (type(b).__name__, b.text)
        for b in transcript.blocks
        if isinstance(b, Prompt | Said | Thought | Call)
    ]


async def test_a_view_at_any_event_and_what_follows_is_the_whole_session(tmp_path):
    async with asyncio.timeout(DEADLINE), engine(tmp_path, {"lanes": LANES}) as app:
        views: list[Any] = []
        seen = await watch(app, views)
        whole = Session.of_view(EMPTY)
        for event in seen:
            whole.apply(event)
        assert len(views) > 30
        for _, view in views:
            session = Session.of_view(view)
            for event in seen:
                if event.seq is not None:
                    session.apply(event)
            assert list(session.agents) == list(whole.agents)
            for agent_id, agent in session.agents.items():
                assert agent == whole.agents[agent_id]
                if not agent.transcript.is_whole:
                    before = agent.transcript.since
                    session.take_page(agent_id, await app.agents.history(agent_id, before=before))
                assert talk(agent.transcript) == talk(whole.agents[agent_id].transcript)
                assert agent.transcript.saying() == []
            assert session.requests == whole.requests == {}
            assert session.run is not None
            assert session.run == whole.run
            assert session.seq == whole.seq


async def test_a_view_in_the_middle_of_a_message_has_what_was_said_of_it(tmp_path):
    """Also where its pieces are told again to whoever follows from there."""
    said = "half of what it has to say, and then it is silent for long " * 4
    lanes = {"master": {"steps": [{"think": "hm", "say": said, "hang": True}]}}
    async with asyncio.timeout(DEADLINE), engine(tmp_path, {"lanes": lanes}) as app:
        await app.runs.start(app.options.task)
        whole = Session.of_view(EMPTY)
        async for event in app.events():
            whole.apply(event)
            if event.type == "text_delta":
                break
        view = await app.view()
        session = Session.of_view(view)
        [agent] = session.agents
        before = texts(session.agents[agent].transcript.saying())
        assert said.startswith(dict(before)["Said"])
        assert dict(before)["Said"].startswith(dict(texts(_saying(whole, event)))["Said"])
        async for event in app.events(after=view.seq):
            session.apply(event)
            if event.type == "text_delta":
                break
        now = dict(texts(session.agents[agent].transcript.saying()))["Said"]
        assert now.startswith(dict(before)["Said"])
        assert said.startswith(now)
        await app.runs.interrupt()


async def test_the_deltas_behind_a_view_add_up_to_what_the_agent_says(tmp_path):
    """Whoever follows from a view has, before each message is committed, exactly its text."""
    async with asyncio.timeout(DEADLINE), engine(tmp_path, {"lanes": LANES}) as app:
        views: list[Any] = []
        seen = await watch(app, views)
        checked = 0
        model = Session.of_view(EMPTY)
        for event in seen:
            if event.type == "message_completed" and event.data["role"] == "assistant":
                said = {type(b).__name__: b.text for b in _saying(model, event)}
                for kind, field in (("Said", "text"), ("Thought", "thinking")):
                    if event.data.get(field):
                        assert said.get(kind) == event.data[field]
                        checked += 1
            model.apply(event)
        assert checked >= 6


def _saying(model, event):
    return model.agents[event.agent].transcript.saying()
