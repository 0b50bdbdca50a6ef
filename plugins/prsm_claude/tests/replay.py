"""What the real CLI once said, read again by the SDK."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from claude_agent_sdk import Message

DATA = Path(__file__).with_name("data")


class Replay(Transport):
    """A transport that greets, says some messages, and ends."""

    def __init__(self, said: list[dict[str, Any]]) -> None:
        self._said = said
        self._greeting: asyncio.Queue[str] = asyncio.Queue(1)

    async def connect(self) -> None:
        return

    async def write(self, data: str) -> None:
        self._greeting.put_nowait(json.loads(data)["request_id"])

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        response = {"subtype": "success", "request_id": await self._greeting.get()}
        yield {"type": "control_response", "response": response}
        for message in self._said:
            yield message

    async def close(self) -> None:
        return

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        return


async def parsed(*said: dict[str, Any]) -> list[Message]:
    """Return messages as the SDK hands them out."""
    client = ClaudeSDKClient(ClaudeAgentOptions(), transport=Replay(list(said)))
    await client.connect()
    messages = [message async for message in client.receive_messages()]
    await client.disconnect()
    return messages


async def recorded(name: str) -> list[Message]:
    """Return the messages of a recording."""
    lines = (DATA / f"{name}.jsonl").read_text().splitlines()
    return await parsed(*map(json.loads, lines))
