"""Threads of the real Codex: resumed, lost with their process, sharing one."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from prsm_codex.provider import build
from prsm_testing.doubles import (
    RecordingHost,
    answers,
    completes,
    only,
    open_services,
    run_turn,
    until,
)

from plugins.prsm_codex.tests.real_codex import call
from prsm_core.domain.permissions import Allow, Deny
from prsm_core.domain.turns import (
    AssistantMessage,
    ErrorKind,
    Notice,
    StopReason,
    ToolCallFinished,
    UsageReported,
)
from prsm_core.errors import ProviderNotAvailableError

pytestmark = pytest.mark.live


async def test_a_thread_survives_the_death_of_the_process_in_a_turn(codex):
    silent = {"say": "a b c", "hang": True}
    async with (
        codex({"say": "first answer"}, silent, {"say": "done"}) as live,
        live.session() as session,
    ):
        await run_turn(session, "one")
        turn = asyncio.ensure_future(run_turn(session, "two"))
        await live.server.wait_for_requests(2)
        live.services.processes[-1].kill()
        events = await turn
        after = await run_turn(session, None)
    error = events[-1].error
    assert (error.kind, error.retryable) == (ErrorKind.MODEL_ERROR, True)
    assert "ended" in only(Notice, events)[-1].text
    assert after[-1].stop_reason is StopReason.END_TURN
    assert live.prompts() == ["one", "two"]
    assert "first answer" in live.last.conversation.text
    assert only(UsageReported, after)[0].usage.total_tokens == 110


async def test_a_prompt_that_died_with_the_process_is_sent_again(codex):
    async with codex({"say": "done"}) as live, live.session() as session:
        live.services.processes[-1].kill()
        await live.services.processes[-1].wait()
        events = await run_turn(session, "hi")
        if events[-1].stop_reason is StopReason.ERROR:
            events = await run_turn(session, None)
    assert events[-1].stop_reason is StopReason.END_TURN
    assert live.prompts() == ["hi"]


async def test_a_thread_is_resumed_by_its_token_with_its_tools_and_its_settings(codex):
    host = RecordingHost(note=answers("noted"))
    async with codex({"say": "first"}, {"call": call("note", "n")}, {"say": "done"}) as live:
        async with live.session(host, native_tools=frozenset()) as session:
            await run_turn(session, "one")
            token = session.resume_token
        await live.provider.aclose()
        async with live.session(host, resume_token=token, native_tools=frozenset()) as session:
            events = await run_turn(session, "two")
            assert session.resume_token == token
    assert live.outputs("n") == ["noted"]
    assert live.prompts() == ["one", "two"]
    assert live.tools() == {"request_user_input", "update_plan", "note"}
    assert [e.usage.total_tokens for e in only(UsageReported, events)] == [110, 110]


async def test_a_resumed_agent_is_told_that_its_task_complete_was_accepted(codex):
    host = RecordingHost(task_complete=completes)
    done = {"call": call("task_complete", "done")}
    async with codex(done, {"say": "more"}, {"say": "more"}) as live:
        async with live.session(host) as session:
            await run_turn(session, "one")
        await live.provider.aclose()
        async with live.session(host, resume_token=session.resume_token) as session:
            await run_turn(session, "two")
    (note,) = [text for text in live.last.conversation.system if "task_complete was" in text]
    assert note.endswith('{"ok":true}')
    assert live.prompts()[-1] == "two"


async def test_a_resumed_thread_asks_for_its_calls_and_has_no_terminal_either(codex, tmp_path):
    host = RecordingHost(verdict=lambda wanted: Deny("no") if "made" in str(wanted) else Allow())
    calls = [
        call("exec_command", "tty", cmd="python3", tty=True),
        call("exec_command", "make", cmd="echo hi > made.txt"),
    ]
    async with codex({"say": "first"}, {"call": calls}, {"say": "done"}) as live:
        async with live.session(host) as session:
            await run_turn(session, "one")
        await live.provider.aclose()
        async with live.session(host, resume_token=session.resume_token) as session:
            events = await run_turn(session, "two")
    assert not (tmp_path / "made.txt").exists()
    assert "TTY execution is disabled" in live.outputs("tty")[0]
    assert "no" in live.outputs("make")[0]
    ends = [finished.status for finished in only(ToolCallFinished, events)]
    assert sorted(ends) == ["denied", "failed"], "of the first its thread alone tells"


async def test_an_unknown_thread_cannot_be_resumed(codex):
    async with codex() as live:
        with pytest.raises(ProviderNotAvailableError) as caught:
            await live.session(resume_token=str(uuid.uuid4())).__aenter__()
    assert caught.value.code == "resume_failed"


async def test_agents_share_one_process_and_leave_no_command_behind(codex):
    sleeper = call("exec_command", cmd="sleep 300", yield_time_ms=300)
    lanes = {n: {"steps": [{"call": sleeper}, {"say": f"I am {n}"}]} for n in ("w2", "w3")}
    async with codex(**lanes) as live:

        async def run(name):
            async with live.session(name=name) as session:
                return await run_turn(session, f"[[lane:{name}]]")

        both = await asyncio.gather(run("w2"), run("w3"))
        assert [p.name for p in live.services.processes] == [
            "codex --version",
            "codex, first start",
            "codex",
        ]
        await until(lambda: not is_running("sleep 300", live.services.processes[-1].pid))
    assert [only(AssistantMessage, events)[0].text for events in both] == ["I am w2", "I am w3"]


def is_running(command, pid):
    """Whether a process or a descendant of it runs a command."""
    proc = Path(f"/proc/{pid}")
    try:
        line = (proc / "cmdline").read_text().replace("\0", " ")
        children = (proc / "task" / str(pid) / "children").read_text().split()
    except OSError:
        return False
    return command in line or any(is_running(command, child) for child in children)


@pytest.mark.requirement("E92")
async def test_codex_lists_its_models_and_tells_its_version(binary, state_dir):
    async with open_services(state_dir) as services:
        provider = build({"command": [binary]}, services)
        models = await provider.list_models()
        status = await provider.probe()
        await provider.aclose()
    assert len([model for model in models if not model.hidden]) > 3
    assert all(model.reasoning_efforts for model in models)
    assert str(status.version).startswith("0.")
    assert len(status.gaps) == 2


async def test_codex_starts_over_a_database_that_a_kill_has_left_stuck(codex, state_dir):
    """By itself it would not, for a quarter of an hour; its threads are there all the same."""
    async with codex({"say": "first"}, {"say": "second"}) as live:
        async with live.session() as session:
            await run_turn(session, "one")
        await live.provider.aclose()
        home = state_dir / "codex-home"
        with closing(sqlite3.connect(home / "state_5.sqlite")) as database:
            database.execute("UPDATE backfill_state SET status = 'running'")
            database.commit()
        async with live.session(resume_token=session.resume_token) as session:
            events = await run_turn(session, "two")
    assert live.prompts() == ["one", "two"]
    assert ["set aside" in notice.text for notice in only(Notice, events)].count(True) == 1
