"""What becomes of a headless turn whose program misbehaves as only Gemini does."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager

import pytest
from prsm_gemini.headless import agent_home
from prsm_gemini.provider import build
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
from prsm_testing.provider_scene import end, error, reason, streaming

from plugins.prsm_gemini.tests.test_contract import FAKE
from prsm_core.domain.turns import AssistantMessage, ErrorKind, StopReason, TurnEnded
from prsm_core.engine.processes.table import is_alive, process_identity
from prsm_core.errors import ProviderNotAvailableError


@asynccontextmanager
async def opened(tmp_path, fault, host=None, *, clock=None):
    """Yield a session whose program has a fault, the home of its agent, and the services."""
    marks = tmp_path / "marks"
    marks.mkdir()
    async with open_services(tmp_path / "state", clock=clock) as services:
        settings = {
            "backend": "headless",
            "command": [*FAKE, f"--fault={fault}", f"--marks={marks}"],
            "api_key_env": "LOOPBACK_KEY",
        }
        provider = build(settings, services)
        request = session_request(tmp_path)
        async with provider.open_session(request, host or RecordingHost()) as session:
            yield session, agent_home(services.state_dir, request.agent_id).root, services
        await provider.aclose()
        assert services.live == []


async def played(tmp_path, fault):
    async with opened(tmp_path, fault) as (session, _, _):
        return await run_turn(session, "Go.")


@pytest.mark.parametrize(
    ("fault", "kind", "said", "kept"),
    [
        ("not_logged_in", ErrorKind.AUTH_FAILURE, "not logged in: Invalid auth method", ""),
        ("error_but_exit_0", ErrorKind.MODEL_ERROR, "without a finish reason", "said before"),
        ("error_then_success", ErrorKind.MODEL_ERROR, "it went wrong", "all is well"),
        ("exit_0_without_result", ErrorKind.UNKNOWN, "without a result", "said before"),
        ("runs_a_tool_unasked", ErrorKind.UNKNOWN, "ran run_shell_command without asking", ""),
    ],
)
async def test_a_run_that_went_wrong_is_an_error_with_its_cause(tmp_path, fault, kind, said, kept):
    events = await played(tmp_path, fault)
    assert reason(events) is StopReason.ERROR
    assert error(events).kind is kind
    assert re.search(said, error(events).message), error(events).message
    assert "".join(message.text for message in only(AssistantMessage, events)) == kept


@pytest.mark.parametrize(
    "fault",
    [
        "warning_then_success",
        "success_but_exit_3",
        "reads_no_prompt",
    ],
)
async def test_a_nuisance_does_not_spoil_a_turn(tmp_path, fault):
    events = await played(tmp_path, fault)
    assert end(events) == TurnEnded(StopReason.END_TURN)
    assert [message.text for message in only(AssistantMessage, events)] == ["all is well"]


@pytest.mark.parametrize(
    ("fault", "expected", "said"),
    [
        ("never_begins", ErrorKind.TIMEOUT, "did not begin within 60 seconds"),
        ("lingers_after_its_result", None, ""),
    ],
)
async def test_a_run_that_hangs_is_ended(tmp_path, fault, expected, said):
    clock = RushClock()
    async with (
        opened(tmp_path, fault, clock=clock) as (session, home, _),
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "Go."))
        await until((home / "begun").exists)
        clock.rush(100)
        events = await turn
    if expected is None:
        assert end(events) == TurnEnded(StopReason.END_TURN)
    else:
        assert error(events).kind is expected
        assert said in error(events).message


async def test_a_term_that_is_ignored_is_followed_by_a_kill(tmp_path):
    async with (
        opened(tmp_path, "heeds_no_term") as (session, _, services),
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(run_turn(session, "Go."))
        await until(lambda: any(p.name == "gemini" for p in services.live))
        home = agent_home(services.state_dir, "a" * 32).root
        await until((home / "begun").exists)
        async with asyncio.timeout(5):
            await session.interrupt()
            events = await turn
    assert end(events) == TurnEnded(StopReason.ABORTED)


@pytest.mark.requirement("F11")
async def test_children_of_the_program_end_with_it(tmp_path):
    async with opened(tmp_path, "dies_with_its_family") as (session, home, _):
        events = await run_turn(session, "Go.")
        family = json.loads((home / "family").read_text())
        await until(lambda: not any(map(is_running, family)))
    assert reason(events) is StopReason.END_TURN


def is_running(pid):
    found = process_identity(pid)
    return found is not None and is_alive(found)


@pytest.mark.requirement("F5")
async def test_a_program_that_runs_no_hooks_is_stopped(tmp_path):
    async with opened(tmp_path, "runs_no_hooks") as (session, _, services):
        with pytest.raises(ProviderNotAvailableError, match="does not run its hooks") as caught:
            await run_turn(session, "Go.")
        assert "hooksConfig" in (caught.value.hint or "")
        await until(lambda: not services.live)


async def test_a_turn_does_not_begin_without_the_proxy(tmp_path):
    """The fault runs the hooks, but starts no MCP server."""
    clock = RushClock()
    host = RecordingHost(note=answers("noted"))
    async with opened(tmp_path, "success_but_exit_3", host, clock=clock) as (
        session,
        home,
        services,
    ):
        async with streaming(session, "Go.") as turn:
            reading = asyncio.ensure_future(anext(turn))
            await until((home / "asking").exists)
            clock.rush(20)
            with pytest.raises(ProviderNotAvailableError, match="did not start the server"):
                await reading
        await until(lambda: not services.live)
