"""The provider `program` without a box: its prompts, its watch, its starts, and how it ends."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from prsm_protocols.program.program import FIRST_PAUSE
from prsm_protocols.program.provider import ProgramProvider, build
from prsm_testing import FakeClock, only, open_services, run_turn, session_request, until

from plugins.prsm_protocols.tests.acting import AGENT, ProtocolHost
from prsm_core import (
    AssistantMessage,
    Carried,
    CarriedCall,
    ConfigError,
    ModelNotAvailableError,
    StepEnded,
    StopReason,
    TextDelta,
    ToolOutcome,
    TurnEnded,
    UsageReported,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from prsm_testing.doubles import LocalServices

    from prsm_core import ProviderEvent

# What all programs of these tests begin with: prompts are noted, and told one by one.
HEAD = """
import os, subprocess, sys
notes = open(os.environ["NOTES"], "a")
def prompts():
    lines = []
    for line in sys.stdin:
        line = line.rstrip("\\n")
        if line:
            lines.append(line)
            continue
        print(*lines, sep="\\n", end="\\n--\\n", file=notes, flush=True)
        yield lines
        lines = []
def aism(*words):
    return subprocess.run(["aism", *words]).returncode
"""
TO_INBOX = """
for lines in prompts():
    if "'bootstrap'" in lines[0]:
        aism("state", "transition", "inbox", "--context", '{"bootstrap": "complete"}')
    elif "'inbox'" in lines[0]:
        aism("complete", "all is read")
        break
"""


class Stage:
    """A provider with a program of Python, and what that noted of its prompts."""

    def __init__(
        self, folder: Path, provider: ProgramProvider, host: ProtocolHost, services: LocalServices
    ) -> None:
        self.services = services
        self.folder = folder
        self.provider = provider
        self.host = host

    @property
    def prompts(self) -> list[str]:
        path = self.folder / "notes"
        return path.read_text().split("\n--\n")[:-1] if path.exists() else []

    async def until_prompts(self, count: int) -> None:
        await until(lambda: len(self.prompts) == count)

    @property
    def starts(self) -> list[Any]:
        return self.services.processes

    @property
    def first_lines(self) -> list[str]:
        return [prompt.partition("\n")[0] for prompt in self.prompts]

    def session(self, **changes: Any) -> Any:
        request = session_request(self.folder, name="Alice", model="default", **changes)
        assert request.agent_id == AGENT
        return self.provider.open_session(request, self.host)

    async def run(self, task: str = "Read the mail.") -> list[ProviderEvent]:
        async with self.session() as session:
            return await run_turn(session, task)


class NotedClock(FakeClock):
    """A clock that knows how long was slept."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds)


@asynccontextmanager
async def stage(
    tmp_path: Path,
    code: str,
    host: ProtocolHost | None = None,
    clock: FakeClock | None = None,
    **settings: Any,
) -> AsyncIterator[Stage]:
    script = tmp_path / "program.py"
    script.write_text(HEAD + textwrap.dedent(code))
    given = {
        "command": [sys.executable, "-I", "-S", str(script)],
        "env": {"NOTES": str(tmp_path / "notes")},
        "box": False,
        **settings,
    }
    async with open_services(tmp_path / "state", clock=clock) as services:
        provider = build(given, services)
        try:
            yield Stage(tmp_path, provider, host or ProtocolHost(), services)
        finally:
            await provider.aclose()
        await until(lambda: not services.live)


def end(events: list[ProviderEvent]) -> TurnEnded:
    (ended,) = only(TurnEnded, events)
    assert events[-1] is ended
    return ended


@pytest.mark.requirement("A1", "A11", "A12")
async def test_a_program_is_prompted_in_the_words_of_the_specification_and_ends(tmp_path):
    async with stage(tmp_path, TO_INBOX) as scene:
        events = await scene.run()
    assert scene.first_lines == [
        "You are agent Alice in state 'bootstrap'. Follow the bootstrap protocol.",
        "You are now in state 'inbox'. Follow the inbox protocol.",
    ]
    assert "Your task: Read the mail." in scene.prompts[0]
    assert "/.prism/protocols/bootstrap.md" in scene.prompts[0]
    assert end(events) == TurnEnded(StopReason.END_TURN)
    assert scene.host.moves == [("bootstrap", "inbox")]
    assert scene.host.done == ["all is read"]
    (used,) = only(UsageReported, events)
    assert used.usage.total_tokens == 0
    assert len(only(StepEnded, events)) >= 2
    assert only(AssistantMessage, events)[-1].text == "all is read"


async def test_what_it_writes_in_a_state_is_told_as_one_message(tmp_path):
    code = """
    for lines in prompts():
        print("hello"); print("there", flush=True)
        if "'bootstrap'" in lines[0]:
            aism("state", "transition", "inbox")
        else:
            aism("complete", "done"); break
    """
    async with stage(tmp_path, code) as scene:
        events = await scene.run()
    texts = [message.text for message in only(AssistantMessage, events)]
    assert texts[0].startswith("hello\nthere")
    assert texts[-1] == "done"


async def test_exit_0_in_a_state_without_a_way_out_ends_the_agent_with_its_last_words(tmp_path):
    async with stage(tmp_path, "print('idle now')", ProtocolHost("idle")) as scene:
        events = await scene.run()
    assert end(events).stop_reason is StopReason.END_TURN
    assert scene.host.done == ["idle now"]


async def test_without_a_protocol_it_is_run_by_its_task_alone(tmp_path):
    code = "next(prompts()); print('made')"
    async with stage(tmp_path, code, ProtocolHost(has_protocol=False)) as scene:
        events = await scene.run("Make it.")
    assert end(events).stop_reason is StopReason.END_TURN
    assert scene.host.done == ["made"]
    assert scene.first_lines == ["You are agent Alice."]
    assert "Your task: Make it." in scene.prompts[0]


@pytest.mark.requirement("A15")
async def test_one_that_crashes_is_started_again_in_its_state(tmp_path):
    code = """
    for lines in prompts():
        if "'bootstrap'" in lines[0]:
            aism("state", "transition", "inbox")
        elif len(open(os.environ["NOTES"]).read().split("--")) < 5:
            os.kill(os.getpid(), 9)
        else:
            aism("complete", "at last"); break
    """
    async with stage(tmp_path, code) as scene:
        events = await scene.run()
    assert end(events).stop_reason is StopReason.END_TURN
    assert scene.first_lines == [
        "You are agent Alice in state 'bootstrap'. Follow the bootstrap protocol.",
        "You are now in state 'inbox'. Follow the inbox protocol.",
        "You are agent Alice in state 'inbox'. Follow the inbox protocol.",
        "You are agent Alice in state 'inbox'. Follow the inbox protocol.",
    ]
    assert "You were started again: killed by signal 9, SIGKILL" in scene.prompts[2]
    assert scene.host.moves == [("bootstrap", "inbox")]


async def test_one_that_comes_to_nothing_again_and_again_fails_with_what_it_said(tmp_path):
    code = "print('no such thing', file=sys.stderr); sys.exit(3)"
    async with stage(tmp_path, code, restarts=1) as scene:
        ended = end(await scene.run())
    assert ended.stop_reason is StopReason.ERROR
    assert ended.error is not None
    assert not ended.error.retryable
    assert "came to nothing in state 'bootstrap', 2 times: exit code 3" in ended.error.message
    assert "no such thing" in ended.error.message


async def test_one_that_ends_without_a_move_is_told_so(tmp_path):
    async with stage(tmp_path, "next(prompts())", restarts=1) as scene:
        ended = end(await scene.run())
    assert ended.error is not None
    assert "it ended, and made no move" in ended.error.message
    assert "You were started again: it ended, and made no move." in scene.prompts[1]


@pytest.mark.requirement("A7")
async def test_one_that_is_silent_is_started_again_and_a_heartbeat_is_a_sign_of_life(tmp_path):
    code = """
    for lines in prompts():
        if lines[0] == "Beat.":
            aism("heartbeat")
            print("beaten", file=notes, end="\\n--\\n", flush=True)
        elif lines[0] == "End.":
            aism("complete", "alive"); break
    """
    clock = NotedClock(autojump=False)
    async with (
        stage(tmp_path, code, silence=60, restarts=1, clock=clock) as scene,
        scene.session() as session,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "Wait."))
        await until(lambda: len(scene.prompts) == 1)
        await clock.advance(61)
        await until(lambda: FIRST_PAUSE in clock.slept)  # its process is gone by then
        await clock.advance(FIRST_PAUSE)
        await until(lambda: len(scene.prompts) == 2)
        for number in (4, 6):
            await clock.advance(40)
            assert await session.steer("Beat.")
            await scene.until_prompts(number)
        assert await session.steer("End.")
        events = await turn
    assert end(events).stop_reason is StopReason.END_TURN
    assert "it gave no sign of life for 60 s" in scene.prompts[1]
    assert len(scene.starts) == 2
    # The engine counts silence, too. Each heartbeat reaches it though the program says nothing.
    assert [piece.text for piece in only(TextDelta, events)].count("") == 2


async def test_one_that_is_started_anew_in_each_state_reads_its_prompt_to_the_end(tmp_path):
    code = """
    told = sys.stdin.read()
    print(told.strip(), end="\\n--\\n", file=notes, flush=True)
    if "'bootstrap'" in told:
        aism("state", "transition", "inbox")
    else:
        aism("complete", "done")
    """
    async with stage(tmp_path, code, session="restarted") as scene:
        events = await scene.run()
    assert end(events).stop_reason is StopReason.END_TURN
    assert scene.first_lines == [
        "You are agent Alice in state 'bootstrap'. Follow the bootstrap protocol.",
        "You are agent Alice in state 'inbox'. Follow the inbox protocol.",
    ]


async def test_it_may_not_read_its_prompts_at_all(tmp_path):
    code = "os.close(0); aism('state', 'transition', 'inbox'); aism('complete', 'unread')"
    async with stage(tmp_path, code) as scene:
        events = await scene.run()
    assert end(events).stop_reason is StopReason.END_TURN
    assert scene.host.done == ["unread"]


@pytest.mark.requirement("A20")
async def test_what_is_said_to_it_meanwhile_reaches_its_stdin(tmp_path):
    code = """
    for lines in prompts():
        if lines[0] == "Look left.":
            aism("complete", "looked"); break
    """
    async with (
        stage(tmp_path, code) as scene,
        scene.session() as session,
        asyncio.TaskGroup() as group,
    ):
        assert not await session.steer("Too early.")
        turn = group.create_task(run_turn(session, "Wait."))
        await until(lambda: bool(scene.prompts))
        assert await session.steer("Look left.")
        events = await turn
    assert end(events).stop_reason is StopReason.END_TURN
    assert scene.prompts[1] == "Look left."


@pytest.mark.requirement("A20")
async def test_what_it_reads_at_home_says_how_aism_is_used(tmp_path):
    code = """
    home = os.environ["HOME"]
    for name in (".claude/CLAUDE.md", ".codex/AGENTS.md", "AGENTS.md"):
        assert "aism state transition" in open(os.path.join(home, name)).read()
    assert os.environ["AGENT_NAME"] == "Alice" and len(os.environ["AGENT_ID"]) == 32
    aism("complete", home)
    """
    async with stage(tmp_path, code) as scene:
        events = await scene.run()
    assert end(events).stop_reason is StopReason.END_TURN
    assert scene.host.done == [str(tmp_path / "state" / "agents" / AGENT / "home")]


async def test_an_interrupted_turn_ends_the_program_and_the_session_goes_on(tmp_path):
    code = "import time\nfor lines in prompts(): time.sleep(600)"
    async with stage(tmp_path, code) as scene, scene.session() as session:
        for number in (1, 2):
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(run_turn(session, "Wait."))
                await scene.until_prompts(number)
                await session.interrupt()
                assert end(await turn).stop_reason is StopReason.ABORTED
            assert session.reusable


async def test_a_session_that_goes_on_starts_it_in_its_state_with_its_task_and_what_was_untold(
    tmp_path,
):
    taken = {"message": {"id": "m", "from": "bob", "text": "old mail"}}
    calls = tuple(
        CarriedCall(
            call_id=name,
            tool=tool,
            arguments={},
            orchestration=True,
            outcome=ToolOutcome(text="", data=data),
        )
        for name, tool, data in [
            ("n0", "message_next", {"message": {"id": "0", "from": "bob", "text": "settled"}}),
            ("t1", "state_transition", {"moved": True}),
            ("n1", "message_next", taken),
        ]
    )
    code = "next(prompts()); aism('message', 'next'); aism('complete', 'resumed')"
    async with stage(tmp_path, code, ProtocolHost("inbox")) as scene:
        (tmp_path / "state").mkdir(exist_ok=True)
        first = scene.provider.open_session(session_request(tmp_path, model="default"), scene.host)
        async with first as session:
            session._home.begin("Read the mail.")
        prompts = {"p1": "Read the mail.", "p0": "Look up.", "p2": "Look left."}
        heard = frozenset({"p1", "p0"})
        carried = Carried(turn_id="t", prompts=prompts, calls=calls, heard=heard)
        async with scene.session(resume_token=AGENT, carried=carried) as session:
            assert session.taken == {"n0", "t1", "n1", "p1", "p0"}
            events = await run_turn(session, "You were told: Look left.")
    said = "\n".join(message.text for message in only(AssistantMessage, events))
    assert "bob: old mail" in said
    assert "You are agent Alice in state 'inbox'" in scene.prompts[0]
    assert "Your task: Read the mail." in scene.prompts[0]
    assert "Look left." in scene.prompts[0]


async def test_what_is_wrong_in_the_section_is_told_with_a_cure(tmp_path):
    async with open_services(tmp_path) as services:
        for wrong in ({"memory": "much"}, {"redis": "http://x"}, {"silence": 0}, {"comand": "x"}):
            with pytest.raises(ConfigError, match=r"providers\.program"):
                build(wrong, services)
        provider = build({"programs": {"mailer": "mail --fast"}}, services)
        assert [model.model_id for model in provider.known_models] == ["mailer"]
        assert await provider.knows_model("mailer")
        assert not await provider.knows_model("default")
        assert not (await build({}, services).probe()).available
        (gap,) = (await provider.probe()).gaps
        assert "its box limits it" in gap
        with pytest.raises(ModelNotAvailableError, match="there are: mailer"):
            async with provider.open_session(
                session_request(tmp_path, model="mial"), ProtocolHost()
            ):
                pytest.fail("it was opened")
