"""A port on loopback for each agent's feed, for whoever has its token.

A client sends the token as its first line and gets the feed from then on, each message a line of
JSON, from a `snapshot` to the end of the agent's work and of the connection. Whoever reads slowly
gets fewer and newer messages: what is not sent yet is merged, so that it never holds more than the
feed itself.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prsm_regions.extension.messages import write_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable

    from prsm_regions.extension.feeds import Feed

HELLO_SECONDS = 10.0  # within which a client says its token
HELLO_LIMIT = 4096  # bytes
MAX_CLIENTS = 8  # of one feed
LEAVE_SECONDS = 5.0  # for which the last messages may take to be read

Message = dict[str, Any]


class Port:
    """One agent's feed and who reads it; `number` is its TCP port on 127.0.0.1."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.token = secrets.token_urlsafe(24)
        self.number = 0
        self._clients: set[_Client] = set()

    def tell(self, messages: Iterable[Message]) -> None:
        """Have all that read the feed told; nobody is waited for."""
        for message in messages:
            for client in self._clients:
                client.take(message)

    def end(self) -> None:
        """Nothing more comes: each client is told the rest, and left."""
        for client in self._clients:
            client.end()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        try:
            if len(self._clients) >= MAX_CLIENTS:
                writer.write(_refusal(f"{MAX_CLIENTS} clients read this feed already"))
                return
            client = _Client(self.feed.snapshot)
            self._clients.add(client)
            try:
                if not await _has_token(reader, self.token):
                    writer.write(_refusal("the first line must be the feed's token"))
                    return
                await _while_open(reader, client.send(writer))
            finally:
                self._clients.discard(client)
        finally:
            writer.close()


@asynccontextmanager
async def open_port(feed: Feed, leave_s: float = LEAVE_SECONDS) -> AsyncIterator[Port]:
    """Listen for readers of a feed; on leaving each is told the rest, for `leave_s` seconds."""
    port = Port(feed)
    connections: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as group:

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = group.create_task(port.serve(reader, writer), name=f"feed of {feed.agent}")
            connections.add(task)
            task.add_done_callback(connections.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=HELLO_LIMIT)
        try:
            port.number = server.sockets[0].getsockname()[1]
            yield port
        finally:
            server.close()
            port.end()
            if connections:  # who reads nothing keeps nobody
                await asyncio.wait(connections, timeout=leave_s)
            for task in connections:
                task.cancel()


class _Client:
    """What one reader has not been sent yet: merged, so that it is bounded by the feed."""

    def __init__(self, snapshot: Any) -> None:
        self._snapshot = snapshot  # taken when it is sent: it holds all that was before
        self._nodes: dict[str, Message] = {}
        self._usage: Message | None = None
        self._agent = ""
        self._is_over = False
        self._news = asyncio.Event()

    def take(self, message: Message) -> None:
        self._agent = message["agent_id"]
        if message["type"] == "usage":
            self._usage = message
        else:
            self._nodes |= {node["path"]: node for node in message["nodes"]}
        self._news.set()

    def end(self) -> None:
        self._is_over = True
        self._news.set()

    async def send(self, writer: asyncio.StreamWriter) -> None:
        self._forget()
        writer.write(write_message(self._snapshot()))
        while True:
            await writer.drain()
            if not self._has_news() and self._is_over:
                return
            await self._news.wait()
            self._news.clear()
            for message in self._merged():
                writer.write(write_message(message))

    def _has_news(self) -> bool:
        return bool(self._nodes) or self._usage is not None

    def _merged(self) -> list[Message]:
        found: list[Message] = []
        if self._nodes:
            nodes = sorted(self._nodes.values(), key=lambda node: node["seq"])
            seq = nodes[-1]["seq"]
            found.append({"type": "delta", "agent_id": self._agent, "seq": seq, "nodes": nodes})
        if self._usage is not None:
            found.append(self._usage)
        self._forget()
        return found

    def _forget(self) -> None:
        self._nodes, self._usage = {}, None


def _refusal(why: str) -> bytes:
    return write_message({"type": "error", "message": why})


async def _has_token(reader: asyncio.StreamReader, token: str) -> bool:
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            line = await reader.readline()
    except (TimeoutError, ValueError, OSError):  # ValueError: a line that is too long
        return False
    return hmac.compare_digest(line.strip(), token.encode())


async def _while_open(reader: asyncio.StreamReader, sending: Coroutine[Any, Any, None]) -> None:
    """Send until that ends, or until the client has left: what it says more is not read."""
    try:
        async with asyncio.TaskGroup() as group:
            both = group.create_task(sending), group.create_task(_left(reader))
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for one in both:
                one.cancel()
    except* OSError:  # the client has left in the middle
        pass


async def _left(reader: asyncio.StreamReader) -> None:
    while await reader.read(HELLO_LIMIT):
        pass
