"""Turns by `codex exec`: what is said to it, and how it may end."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tomllib
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prsm_codex.provider import build
from prsm_testing.doubles import (
    RecordingHost,
    answers,
    only,
    open_services,
    run_turn,
    session_request,
    until,
)
from prsm_testing.misbehaving_team import RushClock

from prsm_core.domain.tools import McpEndpoint, McpServer
from prsm_core.domain.turns import AssistantMessage, ErrorKind, Notice, StopReason, ToolCallStarted
from prsm_core.errors import ProviderNotAvailableError

SCRIPT = Path(__file__).with_name("exec_script.py")
THREAD = {"type": "thread.started", "thread_id": "t1"}
STARTED = {"type": "turn.started"}
ENDED = {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}
NOISE = (
    "Reading additional input from stdin...\n"
    "2026-11-21 ERROR codex_core::rollout: state db missing rollout path for thread 0a1b\n"
    "2026-11-21 ERROR codex_core::tools::router: error=unsupported call\n"
)
MADE = {"id": "i", "type": "command_execution", "command": "ls", "status": "completed"}


def said(text):
    return {"type": "item.completed", "item": {"id": "m", "type": "agent_message", "text": text}}


def fine(text="all is well"):
    return {"lines": [THREAD, STARTED, said(text), ENDED]}


SERVERS = {
    "local": McpServer(command="serve", env={"TOKEN": "s3cret-1"}),
    "far.away": McpServer(url="http://x.test", headers={"Authorization": "s3cret-2"}),
}


@asynccontextmanager
async def playing(folder, *turns, host=None, clock=None, enforcement="auto", **changes):
    """Yield a session whose turns are played by the script, and its services."""
    (folder / "turns.json").write_text(json.dumps(turns))
    settings = {
        "command": [sys.executable, "-I", "-S", str(SCRIPT), str(folder)],
        "backend": "exec",
        "base_url": "http://127.0.0.1:1/v1",
        "enforcement": enforcement,
    }
    async with open_services(folder / "state", clock=clock) as services:
        provider = build(settings, services)
        request = session_request(folder, **changes)
        try:
            async with provider.open_session(request, host or RecordingHost()) as session:
                yield session, services
        finally:
            await provider.aclose()


def asked(folder, number=0):
    return json.loads((folder / f"run-{number}.json").read_text())


@pytest.mark.requirement("E70")
async def test_the_prompt_goes_to_stdin_and_the_system_prompt_before_it(tmp_path):
    async with playing(tmp_path, fine()) as (session, _):
        events = await run_turn(session, "Do it.")
    assert asked(tmp_path)["prompt"] == "Do it."
    assert 'developer_instructions="You are w1."' in asked(tmp_path)["argv"]
    assert "Do it." not in asked(tmp_path)["argv"]
    assert [message.text for message in only(AssistantMessage, events)] == ["all is well"]
    assert events[-1].stop_reason is StopReason.END_TURN


@pytest.mark.requirement("E74")
async def test_no_turn_leaves_its_thread_behind_and_the_next_goes_on_all_the_same(tmp_path):
    async with playing(tmp_path, fine("one"), fine("two")) as (session, services):
        for prompt in ("First.", "Second."):
            await run_turn(session, prompt)
        home = services.state_dir / "codex-home"
        assert home.is_dir()
        assert list(home.rglob("rollout-*")) == []
    assert session.resume_token is None
    for part in ("First.", "one", "Second."):
        assert part in asked(tmp_path, 1)["prompt"]


async def test_a_long_system_prompt_is_no_argument(tmp_path):
    async with playing(tmp_path, fine(), system_prompt="long " * 60_000) as (session, _):
        events = await run_turn(session, "hi")
    assert events[-1].stop_reason is StopReason.END_TURN
    assert "long long" not in " ".join(asked(tmp_path)["argv"])
    assert tomllib.loads(asked(tmp_path)["layer"])["developer_instructions"] == "long " * 60_000


async def test_what_mcp_servers_are_given_is_in_no_command_line_and_in_no_file_for_long(tmp_path):
    async with playing(tmp_path, fine(), mcp_servers=SERVERS) as (session, services):
        await run_turn(session, "hi")
        home = services.state_dir / "codex-home"
        await until(lambda: not list(home.glob("*.config.toml")))
    assert "s3cret" not in " ".join(asked(tmp_path)["argv"])
    found = tomllib.loads(asked(tmp_path)["layer"])["mcp_servers"]
    assert found["local"]["env"] == {"TOKEN": "s3cret-1"}
    assert found["far.away"]["http_headers"] == {"Authorization": "s3cret-2"}


LOST = (
    "Error: thread/start: thread/start failed: error creating thread: Fatal error: Failed to "
    "initialize session: required MCP servers failed to initialize: local: handshaking with MCP "
    "server failed: connection closed: initialize response; far.away: timed out (code -32603)\n"
)


@pytest.mark.requirement("U35")
async def test_a_server_that_codex_cannot_start_is_named_and_left_out(tmp_path):
    servers = {**SERVERS, "kept": McpServer(command="serve")}
    gone = {"stderr": LOST, "code": 1}
    turns = (gone, fine("one"), fine("two"))
    async with playing(tmp_path, *turns, mcp_servers=servers) as (session, _):
        events = await run_turn(session, "First.")
        await run_turn(session, "Second.")
    assert events[-1].stop_reason is StopReason.END_TURN
    texts = [notice.text for notice in only(Notice, events)]
    assert [text for text in texts if "MCP" in text] == [
        "The MCP server local is not there: Codex could not start it",
        "The MCP server far.away is not there: Codex could not start it",
    ]
    for number in (1, 2):
        assert set(tomllib.loads(asked(tmp_path, number)["layer"])["mcp_servers"]) == {"kept"}


@pytest.mark.requirement("U35")
async def test_a_required_server_that_codex_cannot_start_ends_the_turn(tmp_path):
    servers = {**SERVERS, "local": McpServer(command="serve", required=True)}
    gone = {"stderr": LOST, "code": 1}
    async with playing(tmp_path, gone, mcp_servers=servers) as (session, _):
        events = await run_turn(session, "hi")
    assert events[-1].stop_reason is StopReason.ERROR
    assert "local: handshaking with MCP server failed" in events[-1].error.message


async def test_each_turn_tells_again_what_was_said(tmp_path):
    async with playing(tmp_path, fine("one"), fine("two"), fine("three")) as (session, _):
        await run_turn(session, "First.", ("user", "Earlier."))
        await run_turn(session, "Second.")
        await run_turn(session, None)
        assert session.reusable
    last = asked(tmp_path, 2)["prompt"]
    order = ["Earlier.", "First.", "one", "Second.", "two", "Continue"]
    assert [last.count(text) for text in order] == [1] * 6
    assert [last.index(text) for text in order] == sorted(last.index(text) for text in order)


async def test_a_version_without_the_hook_leaves_it_to_the_sandbox_and_says_so(tmp_path):
    async with playing(tmp_path, fine()) as (session, _):
        events = await run_turn(session, "Do it.")
    assert "no tool hook" in only(Notice, events)[0].text
    assert not any(word.startswith("hooks.") for word in asked(tmp_path)["argv"])


@pytest.mark.parametrize(
    ("turn", "message", "retryable"),
    [
        ({"lines": [THREAD, STARTED, said("partly")], "code": 0}, "without a result", False),
        ({"lines": [THREAD, said("partly"), ENDED], "code": 3}, "exit code 3", False),
        ({"stderr": f"the cause\n{NOISE}", "code": 1}, "exit code 1: the cause", False),
        ({"stderr": "Error: required MCP servers failed", "code": 1}, "required MCP", False),
        ({"lines": [THREAD], "signal": signal.SIGKILL}, "out of memory", True),
        ({"lines": ["nonsense", "[]", THREAD], "code": 1}, "2 of its lines", False),
    ],
)
@pytest.mark.requirement("E75")
async def test_only_a_completed_turn_and_exit_code_0_are_a_success(
    tmp_path, turn, message, retryable
):
    async with playing(tmp_path, turn) as (session, _):
        events = await run_turn(session, "Do it.")
        assert session.reusable
    error = events[-1].error
    assert events[-1].stop_reason is StopReason.ERROR
    assert message in error.message
    assert error.retryable is retryable
    assert "rollout" not in error.message
    assert "router" not in error.message


async def test_the_reason_of_a_failed_turn_is_the_one_it_tells(tmp_path):
    error = {"type": "turn.failed", "error": {"message": "last status: 429 Too Many Requests"}}
    async with playing(tmp_path, {"lines": [THREAD, error], "code": 1}) as (session, _):
        events = await run_turn(session, "Do it.")
    assert (events[-1].error.kind, events[-1].error.retryable) == (ErrorKind.RATE_LIMIT, True)


async def test_a_cause_that_only_stderr_tells_has_its_kind_too(tmp_path):
    turn = {"stderr": "Missing environment variable: `X`.\n" + NOISE, "code": 1}
    async with playing(tmp_path, turn) as (session, _):
        events = await run_turn(session, "Do it.")
    assert events[-1].error.kind is ErrorKind.AUTH_FAILURE


async def test_what_a_broken_turn_had_done_is_lost_so_the_session_is_rebuilt(tmp_path):
    made = {"type": "item.completed", "item": MADE}
    async with playing(tmp_path, {"lines": [THREAD, made], "code": 1}) as (session, _):
        await run_turn(session, "Do it.")
        assert not session.reusable


async def test_after_task_complete_the_session_is_over(tmp_path):
    call = {"id": "i", "type": "mcp_tool_call", "server": "prsm", "tool": "task_complete"}
    done = {"type": "item.completed", "item": {**call, "status": "completed"}}
    async with playing(tmp_path, {"lines": [THREAD, done, ENDED]}) as (session, _):
        events = await run_turn(session, "Do it.")
        assert not session.reusable
    assert events[-1].stop_reason is StopReason.END_TURN
    assert only(ToolCallStarted, events) == []


async def test_an_interrupt_ends_the_process_and_the_turn(tmp_path):
    async with playing(tmp_path, {"lines": [THREAD], "hang": True}, fine()) as (session, services):
        turn = asyncio.ensure_future(run_turn(session, "Do it."))
        await until(lambda: (tmp_path / "run-0.json").exists())
        assert not await session.steer("left")
        await session.interrupt()
        events = await turn
        assert services.live == []
        assert session.reusable
        assert (await run_turn(session, "Again."))[-1].stop_reason is StopReason.END_TURN
    assert events[-1].stop_reason is StopReason.ABORTED


async def test_a_run_whose_tools_never_connect_is_ended_before_it_works_without_them(tmp_path):
    async def never() -> None:
        await asyncio.Event().wait()

    class Unbridged(RecordingHost):
        @asynccontextmanager
        async def mcp_endpoint(self, **_):
            env = {"PRSM_TOKEN": "secret"}
            yield McpEndpoint(argv=("p",), env=env, until_connected=never)

    turn = {"lines": [THREAD, STARTED], "hang": True}
    host = Unbridged(note=answers("noted"))
    clock = RushClock()
    async with playing(tmp_path, turn, host=host, clock=clock) as (session, services):
        clock.rush(20)
        events = await run_turn(session, "Do it.")
        await until(lambda: services.live == [])
    assert "did not start the server of its orchestration tools" in events[-1].error.message
    assert asked(tmp_path)["env"].items() >= {"PRSM_TOKEN": "secret"}.items()
    assert "secret" not in " ".join(asked(tmp_path)["argv"])


@pytest.mark.requirement("N3")
async def test_each_turn_thinks_as_hard_as_its_context_says(tmp_path):
    async with playing(tmp_path, fine(), fine(), fine()) as (session, _):
        for effort in ("low", "high", None):
            config = None if effort is None else {"effort": effort}
            await run_turn(session, "Do it.", thinking_config=config)
    wanted = [[f'model_reasoning_effort="{effort}"'] for effort in ("low", "high")]
    argvs = [asked(tmp_path, number)["argv"] for number in range(3)]
    told = [[one for one in argv if "model_reasoning_effort" in one] for argv in argvs]
    assert told == [*wanted, []]


@pytest.fixture(params=["codex-cli 0.171.0", "codex-cli 0.161.0"])
def without_server(request, tmp_path):
    """A Codex whose app-server does not start, with a hook that it could have trusted, or not."""
    (tmp_path / "version").write_text(f"{request.param}\n")
    (tmp_path / "no-server").touch()
    return request.param


@pytest.mark.requirement("F5")
async def test_without_an_app_server_turns_run_without_the_hook_and_that_is_told(
    without_server, tmp_path
):
    async with playing(tmp_path, fine(), fine()) as (session, _):
        first = await run_turn(session, "Do it.")
        again = await run_turn(session, "And again.")
    for events in (first, again):
        assert [message.text for message in only(AssistantMessage, events)] == ["all is well"]
        (notice,) = only(Notice, events)
        assert ("only Codex's sandbox" in notice.text) or ("nothing is asked" in notice.text)
    argv = asked(tmp_path)["argv"]
    assert not any("hooks.PreToolUse" in word for word in argv)
    assert argv[argv.index("-s") + 1] == "workspace-write"


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("wants", [{"enforcement": "pre_tool"}, {"must_ask": True}], ids=str)
async def test_what_needs_the_hook_is_refused_without_an_app_server(tmp_path, wants):
    (tmp_path / "version").write_text("codex-cli 0.171.0\n")
    (tmp_path / "no-server").touch()
    with pytest.raises(ProviderNotAvailableError, match="hook cannot be trusted") as refused:
        async with playing(tmp_path, fine(), **wants):
            raise AssertionError("it was opened")
    assert "enforcement: auto" in str(refused.value.hint)
    assert not list(tmp_path.glob("run-*"))


async def test_a_hook_that_could_not_be_trusted_is_a_gap_from_then_on(tmp_path):
    (tmp_path / "version").write_text("codex-cli 0.171.0\n")
    (tmp_path / "no-server").touch()
    command = [sys.executable, "-I", "-S", str(SCRIPT), str(tmp_path)]
    settings = {"command": command, "backend": "exec", "base_url": "http://127.0.0.1:1/v1"}
    async with open_services(tmp_path / "state") as services:
        provider = build(settings, services)
        try:
            assert (await provider.probe()).gaps
            assert provider.capabilities.enforcement == "pre_tool"
            async with provider.open_session(session_request(tmp_path), RecordingHost()):
                assert provider.capabilities.enforcement == "sandbox"
            assert "hook cannot be trusted" in (await provider.probe()).gaps[0]
            assert provider.capabilities.enforcement == "sandbox"
        finally:
            await provider.aclose()
