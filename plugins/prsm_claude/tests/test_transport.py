"""What is heard of a CLI: all that it says that makes sense, in its order."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from prsm_claude.transport import CliEndedError, CliTransport
from prsm_testing.doubles import open_services

GREETED = {"type": "control_response", "response": {"request_id": "g", "subtype": "success"}}
SAID = {"type": "assistant", "message": {"content": []}}


@asynccontextmanager
async def opened(folder, *messages):
    """Yield the transport of a CLI that says this."""
    said = folder / "said"
    said.write_text("".join(json.dumps(message) + "\n" for message in messages))
    async with open_services(folder / "state") as services:
        transport = await CliTransport.start(services, ["cat", str(said)], cwd=str(folder), env={})
        yield transport


async def heard(transport):
    """Return what is heard until the end, and how it ended."""
    messages, found = transport.messages(), []
    async with asyncio.timeout(20):
        while True:
            try:
                found.append(await anext(messages))
            except CliEndedError as error:
                return found, error


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
        found, end = await heard(transport)
    assert found == [GREETED]
    assert f"{len(wrong)} of its lines were not understood" in end.message
    assert transport.ended is end


async def test_a_message_whose_type_is_no_text_ends_nothing(tmp_path):
    odd = [{"type": [], "message": {}}, {"type": {"a": 1}}, {"type": ["control_request"]}]
    async with opened(tmp_path, GREETED, *odd, SAID) as transport:
        found, _ = await heard(transport)
    assert (found[0], found[-1]) == (GREETED, SAID)
