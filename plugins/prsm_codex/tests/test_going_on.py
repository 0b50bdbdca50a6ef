"""A session that goes on with a turn: what it puts into the thread, and what it cannot."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from prsm_codex.rpc import RpcError
from prsm_testing.doubles import RecordingHost, answers, only, run_turn, session_request, until

from plugins.prsm_codex.tests.puppet import THREAD, open_fake
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import AssistantMessage, Notice, StopReason
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.interfaces.provider import Carried, CarriedCall

CALL = CarriedCall(
    call_id="c1", tool="ask", arguments={}, orchestration=True, outcome=ToolOutcome(text="yes")
)
MADE = {"type": "response_item", "payload": {"type": "function_call", "call_id": "c1"}}
ENDED = {"type": "event_msg", "payload": {"type": "task_complete", "last_agent_message": "done"}}


def keep(state_dir, *records):
    folder = state_dir / "codex-home" / "sessions"
    folder.mkdir(parents=True)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / f"rollout-now-{THREAD}.jsonl").write_text(lines)


def wanted(state_dir, *calls):
    carried = Carried(turn_id="t", calls=calls)
    return session_request(state_dir, resume_token=THREAD, carried=carried)


async def test_what_codex_does_not_take_the_engine_has_to_tell(tmp_path):
    """An older one knows no injection: that is told, and nothing is taken."""
    keep(tmp_path, MADE)
    old: dict[str, Any] = {"thread/inject_items": RpcError("unknown method")}
    host = RecordingHost(ask=answers("never asked"))
    async with open_fake(tmp_path, **old) as (provider, services):
        async with provider.open_session(wanted(tmp_path, CALL), host) as session:
            assert session.taken == frozenset()
        (asked,) = [one for one in services.codex[0].received if "inject" in str(one.get("method"))]
    assert asked["params"]["items"][0]["output"] == "yes"


@pytest.mark.parametrize(("calls", "said"), [((CALL,), ["done"]), ((), [])])
async def test_a_turn_whose_last_word_is_there_is_ended_without_a_request(tmp_path, calls, said):
    """The word is told, unless the ledger has heard it: then what it answers is not carried."""
    keep(tmp_path, MADE, ENDED)
    async with (
        open_fake(tmp_path) as (provider, services),
        provider.open_session(wanted(tmp_path, *calls), RecordingHost()) as session,
    ):
        events = await run_turn(session, None)
        sent = [one.get("method") for one in services.codex[0].received]
    assert [message.text for message in only(AssistantMessage, events)] == said
    assert events[-1].stop_reason is StopReason.END_TURN
    assert "turn/start" not in sent
    assert only(Notice, events) == []


async def test_a_thread_without_its_file_is_lost(tmp_path):
    async with open_fake(tmp_path) as (provider, _):
        with pytest.raises(ProviderNotAvailableError, match="no rollout") as caught:
            async with provider.open_session(wanted(tmp_path, CALL), RecordingHost()):
                pass
    assert caught.value.code == "resume_failed"


async def test_a_server_that_dies_meanwhile_has_not_lost_the_thread(tmp_path):
    """Another process can go on with it: its token is kept."""
    keep(tmp_path, MADE)
    async with open_fake(tmp_path, **{"thread/resume": None}) as (provider, services):

        async def open_it():
            async with provider.open_session(wanted(tmp_path, CALL), RecordingHost()):
                pass

        async with asyncio.TaskGroup() as group:
            opening = group.create_task(outcome(open_it()))
            await until(lambda: services.codex)
            await services.codex[0].sent("thread/resume")
            services.codex[0].kill()
        error = opening.result()
    assert error.code != "resume_failed"


async def outcome(work):
    try:
        await work
    except ProviderNotAvailableError as error:
        return error
    raise AssertionError("it opened")
