"""Who hears what the CLI says: the SDK, PRSM's own tools, or the conversation."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, asynccontextmanager

from prsm_claude.transport import CliEndedError, CliTransport

from prsm_core.testing.doubles import open_services

GREETED = {"type": "control_response", "response": {"request_id": "g", "subtype": "success"}}
SAID = {"type": "assistant", "message": {"content": []}}


def asked(server, request_id="r1"):
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    request = {"subtype": "mcp_message", "server_name": server, "message": message}
    return {"type": "control_request", "request_id": request_id, "request": request}


@asynccontextmanager
async def opened(folder, *messages, script='cat "$0"', role=""):
    """Yield the transport of a CLI that says this."""
    said, answers = folder / "said", folder / "answers"
    said.write_text("".join(json.dumps(message) + "\n" for message in messages))
    async with open_services(folder / "state") as services:
        transport = CliTransport(
            services,
            ["sh", "-c", script, str(said), str(answers)],
            cwd=str(folder),
            env={},
            serve=lambda message: {"id": message["id"], "result": {}},
            role=role,
        )
        await transport.connect()
        yield transport


async def all_of(messages):
    """Return what is heard until the end, and how it ended."""
    found, ended = [], None
    while ended is None:
        try:
            found.append(await anext(messages))
        except CliEndedError as error:
            ended = error
    return found, ended


async def heard(transport):
    """Return what the SDK hears, what the conversation does, and how both ended."""
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        sdk = group.create_task(all_of(transport.read_messages()))
        conversation = group.create_task(all_of(transport.messages()))
    return *sdk.result(), *conversation.result()


async def test_the_sdk_has_the_control_channel_and_nothing_else(tmp_path):
    cancelled = {"type": "control_cancel_request", "request_id": "r2"}
    said = [GREETED, SAID, asked("another", "r2"), {"type": "of_tomorrow"}, cancelled]
    async with opened(tmp_path, *said) as transport:
        control, its_end, conversation, end = await heard(transport)
    assert control == [GREETED, asked("another", "r2"), cancelled]
    assert conversation == [SAID, {"type": "of_tomorrow"}]
    assert its_end is end


async def test_what_our_tools_are_asked_is_answered_and_heard_by_nobody(tmp_path):
    script = 'cat "$0"; head -n 1 > "$1"'
    async with opened(tmp_path, GREETED, asked("prsm"), script=script) as transport:
        control, _, conversation, _ = await heard(transport)
    assert (control, conversation) == ([GREETED], [])
    response = json.loads((tmp_path / "answers").read_text())["response"]
    assert (response["subtype"], response["request_id"]) == ("success", "r1")
    assert response["response"] == {"mcp_response": {"id": 1, "result": {}}}


async def test_what_is_said_before_the_greeting_is_answered_belongs_to_no_turn(tmp_path):
    async with opened(tmp_path, SAID, GREETED) as transport:
        assert (await heard(transport))[2] == []


async def test_messages_of_a_wrong_shape_are_counted(tmp_path):
    wrong = [
        5,
        {"type": "assistant", "message": "text"},
        {"type": "user", "message": {"content": 5}},
        {"type": "stream_event", "event": []},
        {"type": "result", "subtype": "success"},
        {"type": "control_request", "request_id": 1},
        {"type": "control_response", "response": {}},
    ]
    async with opened(tmp_path, GREETED, *wrong) as transport:
        control, _, conversation, end = await heard(transport)
    assert (control, conversation) == ([GREETED], [])
    assert f"{len(wrong)} of its lines were not understood" in end.message


async def test_the_sdk_is_told_when_nobody_hears_the_cli_any_more(tmp_path):
    said = [GREETED, SAID] + [asked("another", f"r{n}") for n in range(300)]
    async with opened(tmp_path, *said, script='cat "$0"; sleep 100') as transport:
        async with asyncio.timeout(20), aclosing(transport.messages()) as messages:
            assert await anext(messages) == SAID
        async with asyncio.timeout(20):
            control, end = await all_of(transport.read_messages())
        assert control == [GREETED]
        assert end.why == "nobody hears it any more"


async def test_the_greeting_tells_the_agents_role_and_nothing_else_does(tmp_path):
    request = {"subtype": "initialize", "hooks": None}
    greeting = {"request_id": "g", "request": request}
    script = 'cat "$0"; head -n 3 > "$1"'
    async with opened(tmp_path, GREETED, script=script, role="You are \u2603.") as transport:
        for line in ({"type": "user"}, greeting, greeting):
            await transport.write(json.dumps(line) + "\n")
        await heard(transport)
    before, told, again = map(json.loads, (tmp_path / "answers").read_text().splitlines())
    assert (before, again) == ({"type": "user"}, greeting)
    request["appendSystemPrompt"] = "You are \u2603."
    assert told == greeting


async def test_a_message_whose_type_is_no_text_ends_nothing(tmp_path):
    odd = [{"type": [], "message": {}}, {"type": {"a": 1}}, {"type": ["control_request"]}]
    async with opened(tmp_path, GREETED, *odd, SAID) as transport:
        control, _, conversation, _ = await heard(transport)
    assert (control, conversation[-1]) == ([GREETED], SAID)
