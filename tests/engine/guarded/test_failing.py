"""Failing an agent never fails: whatever a turn raises, or says that cannot be kept, ends it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import asdict
from prsm_testing import FakeClock

from prsm_core.domain.turns import (
    AgentError,
    AssistantMessage,
    ErrorKind,
    Notice,
    StepEnded,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage
from prsm_core.errors import OrchestrationError
from prsm_core.permissions import Redactor
from tests.engine.harness import ScriptedSession

pytestmark = pytest.mark.requirement("U8")


class UnspeakableError(Exception):
    """An error that cannot say what it is."""

    def __str__(self):
        raise RuntimeError("not even this")

    __repr__ = __str__


class Text(str):
    """A text that is none where it is needed."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = encode = strip = __format__ = __str__  # type: ignore[assignment]


class Nothing:
    """Something that is no JSON, and says so loudly."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __eq__ = __hash__ = __str__  # type: ignore[assignment]


WRONG: dict[str, Any] = {
    "number": 5,
    "none": None,
    "bytes": b"\xff",
    "object": Nothing(),
    "list": [1, "x", object()],
    "mapping": {1: {2: object()}, "x": b"y"},
    "text": Text("text"),
    "type": int,
}
GOOD: list[Any] = [
    TextDelta("x"),
    ThinkingDelta("x"),
    AssistantMessage("x", "y"),
    ToolCallStarted("v", "Bash", {"command": "ls"}),
    ToolCallFinished("v", "completed", "ok"),
    UsageReported(TokenUsage(total_tokens=1), 0.1),
    Notice("info", "x"),
    TurnEnded(StopReason.ERROR, AgentError(kind=ErrorKind.MODEL_ERROR, message="m")),
]


def spoiled(event):
    """Return the event with each of its fields of each wrong type, by names of agents."""
    return {
        f"{field}-{word}".replace("_", "-"): type(event)(**{**asdict(event), field: value})
        for field in event.__struct_fields__
        for word, value in WRONG.items()
    }


@pytest.mark.parametrize("event", GOOD, ids=lambda event: type(event).__name__)
async def test_an_event_with_any_field_of_a_wrong_type_ends_nothing_but_its_agent(fast_team, event):
    events = spoiled(event)

    async def master(agent):
        for name in events:
            await agent.spawn(name=name)
            [result] = await agent.collect()
            assert isinstance(result["success"], bool), name
        await agent.complete("the others go on")

    async def odd(agent):
        await agent.tell(AssistantMessage("before"))
        if isinstance(event, ToolCallFinished):
            await agent.start_tool("v", command="ls")
        await agent.tell(events[agent.name])
        await agent.say("after")
        await agent.complete()

    result = await fast_team.run("do it", master=master, **dict.fromkeys(events, odd))
    assert (result.status, result.summary) == ("completed", "the others go on")
    ends = {name: fast_team[name].result for name in events}
    assert [name for name, end in ends.items() if not end.success and not end.error] == []


class Breaking(ScriptedSession):
    """Runs a turn that raises something."""

    raised: BaseException = UnspeakableError()

    async def run_turn(self, context):
        if self.request.name != "odd":
            async for event in super().run_turn(context):
                yield event
            return
        yield AssistantMessage("half of it")
        raise self.raised


RAISED = {
    "unspeakable": UnspeakableError(),
    "exit": SystemExit(3),
    "number": SystemExit("stop"),
    "generator": GeneratorExit(),
    "memory": MemoryError(),
    "group": ExceptionGroup("many", [UnspeakableError(), ValueError("x")]),
    "ours": OrchestrationError(Nothing()),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("error", list(RAISED.values()), ids=list(RAISED))
async def test_whatever_a_turn_raises_is_its_agents_failure(fast_team, monkeypatch, error):
    async def master(agent):
        await agent.spawn(name="odd")
        [result] = await agent.collect()
        assert not result["success"]
        await agent.complete("the others go on")

    @asynccontextmanager
    async def open_session(request, host):
        session = Breaking(fast_team.provider, request, host)
        session.raised = error
        yield session

    monkeypatch.setattr(fast_team.provider, "open_session", open_session)
    result = await fast_team.run("do it", master=master)
    assert (result.status, result.summary) == ("completed", "the others go on")
    end = fast_team["odd"].result
    assert type(error).__name__ in end.error or isinstance(error, OrchestrationError)
    assert end.summary == "half of it"


class Spoiled(Redactor):
    """Redacts as it should until a word comes by."""

    def finds(self, texts):
        return super().finds([self.text(text) for text in texts])

    def text(self, text):
        if "unkeepable" in text:
            raise RecursionError("too deep")
        return super().text(text)


@pytest.fixture
async def spoiled_team(opened):
    async with opened(clock=FakeClock(), redactor=Spoiled(())) as team:
        yield team


async def test_what_cannot_be_redacted_is_not_kept_and_fails_its_agent_alone(spoiled_team):
    async def master(agent):
        await agent.spawn(name="odd")
        [result] = await agent.collect()
        assert not result["success"]
        await agent.complete("the others go on")

    async def odd(agent):
        await agent.say("unkeepable")
        await agent.host.call_tool("task_complete", {"summary": "unkeepable"})

    result = await spoiled_team.run("do it", master=master, odd=odd)
    assert (result.status, result.summary) == ("completed", "the others go on")
    assert spoiled_team["odd"].result.error
    assert "unkeepable" not in str(spoiled_team.ledger.rows("SELECT * FROM events"))


UNKEEPABLE_CALLS = {
    "completing": ("task_complete", {"summary": "unkeepable"}),
    "claiming what is weighed": (
        "task_complete",
        {"summary": "done", "artifacts": ["unkeepable.txt"]},
    ),
    "spawning": ("spawn_child", {"prompt": "unkeepable"}),
    "spawning and waiting": ("spawn_child", {"prompt": "unkeepable", "wait": True}),
    "spawning several": ("spawn_children_parallel", {"children": [{"prompt": "unkeepable"}]}),
    "telling": ("report_progress", {"message": "unkeepable"}),
    "asking": ("ask_parent", {"question": "unkeepable"}),
    "waiting": ("wait_for_message", {"timeout": 0.01, "from": "unkeepable"}),
}


@pytest.mark.parametrize("call", UNKEEPABLE_CALLS.values(), ids=UNKEEPABLE_CALLS)
async def test_a_call_that_cannot_be_redacted_hangs_nobody(spoiled_team, call):
    """Wherever it is written: before it acts, by what it does, or with its answer."""

    async def master(agent):
        await agent.spawn(name="odd")
        await agent.collect()
        await agent.complete("the others go on")

    async def odd(agent):
        await agent.host.call_tool(*call)
        await agent.host.call_tool("task_complete", {"summary": "done all the same"})

    result = await spoiled_team.run("do it", master=master, odd=odd)
    assert (result.status, result.summary) == ("completed", "the others go on")
    assert spoiled_team["odd"].result is not None
    assert "unkeepable" not in str(spoiled_team.ledger.rows("SELECT * FROM events"))


NAMED_UNKEEPABLY = {
    "a tool": lambda agent: agent.host.call_tool("unkeepable", {}),
    "a tool of an id": lambda agent: agent.host.call_tool("unkeepable", {}, call_id="c"),
    "a call": lambda agent: agent.host.call_tool("report_progress", {}, call_id="unkeepable"),
    "a tool of the vendor": lambda agent: agent.tell(ToolCallStarted("v", "unkeepable", {})),
}


@pytest.mark.parametrize("kind", NAMED_UNKEEPABLY)
@pytest.mark.parametrize("completes", [True, False])
async def test_a_turn_with_a_name_that_cannot_be_redacted_is_closed_with_its_error(
    spoiled_team, kind, completes
):
    async def master(agent):
        await agent.spawn(name="odd")
        await agent.collect()
        await agent.complete("the others go on")

    async def odd(agent):
        await NAMED_UNKEEPABLY[kind](agent)
        if completes:
            await agent.host.call_tool("task_complete", {"summary": "done all the same"})

    result = await spoiled_team.run("do it", master=master, odd=odd)
    assert (result.status, result.summary) == ("completed", "the others go on")
    turns = spoiled_team.ledger.rows("SELECT completed_at, error FROM turns")
    assert len(turns) >= 2
    assert all(completed_at for completed_at, _ in turns), turns
    errors = [error for _, error in turns if error]
    assert len(errors) == (kind != "a call")
    assert all("cannot be kept" in error for error in errors)
    assert "unkeepable" not in str(spoiled_team.ledger.rows("SELECT * FROM events"))
    assert "unkeepable" not in str(spoiled_team.ledger.rows("SELECT * FROM tool_calls"))


async def test_a_life_that_cannot_be_written_leaves_its_agent_ended(spoiled_team):
    async def master(agent):
        await agent.spawn(name="odd")
        await agent.collect()
        odd = spoiled_team["odd"]
        was = [getattr(odd, name) for name in odd.__struct_fields__]
        with pytest.raises(RecursionError):
            await spoiled_team.engine.manager.restart_agent(
                odd.agent_id, "unkeepable", is_fresh=True
            )
        assert [getattr(odd, name) for name in odd.__struct_fields__] == was
        await agent.complete("nobody waits for it")

    async def odd(agent):
        await agent.complete("done")

    result = await spoiled_team.run("do it", master=master, odd=odd)
    assert (result.status, result.summary) == ("completed", "nobody waits for it")


@pytest.mark.parametrize("token", list(WRONG.values()), ids=list(WRONG))
async def test_a_resume_token_that_is_no_text_is_none(fast_team, monkeypatch, token):
    async def master(agent):
        agent.session.resume_token = token
        await agent.complete("done")

    result = await fast_team.run("do it", master=master)
    assert result.status == "completed", result
    assert fast_team["master"].resume_token is None or type(fast_team["master"].resume_token) is str


def test_step_ended_has_no_field_to_spoil():
    assert StepEnded.__struct_fields__ == ()
