"""What the SDK is told of what the CLI says, and what is answered before."""

from __future__ import annotations

import json
from contextlib import suppress

from prsm_claude.transport import CliEndedError, CliTransport

from prsm_core.testing.doubles import open_services


def stream(kind, **fields):
    return {"type": "stream_event", "event": {"type": kind, **fields}}


def delta(kind):
    return stream("content_block_delta", delta={"type": kind})


def asked(server, request_id="r1"):
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    request = {"subtype": "mcp_message", "server_name": server, "message": message}
    return {"type": "control_request", "request_id": request_id, "request": request}


async def until_the_end(messages):
    with suppress(CliEndedError):
        async for message in messages:
            yield message


async def heard(tmp_path, *messages, script='cat "$0"'):
    """Return what a CLI that says this is heard to say, and what it was answered."""
    said, answers = tmp_path / "said", tmp_path / "answers"
    said.write_text("".join(json.dumps(message) + "\n" for message in messages))
    async with open_services(tmp_path / "state") as services:
        transport = CliTransport(
            services,
            ["sh", "-c", script, str(said), str(answers)],
            cwd=str(tmp_path),
            env={},
            serve=lambda message: {"id": message["id"], "result": {}},
        )
        await transport.connect()
        reading = transport.read_messages()
        found = [message async for message in until_the_end(reading)]
    return found, answers.read_text() if answers.exists() else ""


async def test_pieces_of_arguments_and_marks_between_blocks_are_not_passed_on(tmp_path):
    useful = [stream("message_start"), delta("text_delta"), delta("thinking_delta")]
    useful += [stream("message_delta"), stream("message_stop"), stream("of_tomorrow")]
    useless = [delta("input_json_delta"), stream("content_block_start"), stream("ping")]
    found, _ = await heard(tmp_path, *useless, *useful, *useless)
    assert found == useful


async def test_what_is_asked_of_our_tools_is_answered_and_the_rest_left_to_the_sdk(tmp_path):
    other = asked("another", "r2")
    script = 'cat "$0"; head -n 1 > "$1"'
    found, answered = await heard(tmp_path, asked("prsm"), other, script=script)
    assert found == [other]
    response = json.loads(answered)["response"]
    assert (response["subtype"], response["request_id"]) == ("success", "r1")
    assert response["response"] == {"mcp_response": {"id": 1, "result": {}}}
