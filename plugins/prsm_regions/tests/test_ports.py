"""Ports of feeds: who has the token reads all of it, who reads slowly gets it merged."""

from __future__ import annotations

import asyncio
import json

import pytest
from prsm_regions.extension.frontend import MAX_CLIENTS, open_port

from plugins.prsm_regions.tests.merged_feeds import Graph
from plugins.prsm_regions.tests.test_feeds import call, event, feed

DEADLINE = 20.0  # seconds; a test that needs them has failed


async def connect(port, token=None):
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number, limit=1 << 24)
    writer.write((port.token if token is None else token).encode() + b"\n")
    return reader, writer


async def read(reader):
    async with asyncio.timeout(DEADLINE):
        line = await reader.readline()
    return json.loads(line) if line else None


def act(port, seq, path):
    port.tell(port.feed.fold(call(seq, "ann", "Edit", file_path=path)))


@pytest.mark.requirement("R23", "R25")
async def test_a_client_gets_a_snapshot_then_what_is_new_then_the_end():
    async with open_port(feed()) as port:
        act(port, 1, "a.py")
        reader, writer = await connect(port)
        snapshot = await read(reader)
        assert (snapshot["type"], snapshot["seq"], snapshot["region"]) == ("snapshot", 1, "src/ui")
        act(port, 2, "b.py")
        assert [node["path"] for node in (await read(reader))["nodes"]] == ["b.py"]
        usage = {"input_tokens": 5, "output_tokens": 1}
        port.tell(port.feed.fold(event(3, "turn_finished", "ann", turn="t", usage=usage)))
        assert (await read(reader))["usage"]["total_tokens"] == 6
        act(port, 4, "c.py")
    assert (await read(reader))["seq"] == 4
    assert await read(reader) is None
    writer.close()


@pytest.mark.parametrize("said", ["", "wrong", "ü", "x" * 100_000])
async def test_who_has_not_the_token_is_refused(said):
    async with open_port(feed()) as port:
        act(port, 1, "secret.py")
        reader, writer = await connect(port, said)
        refusal = await read(reader)
        assert refusal == {"type": "error", "message": "the first line must be the feed's token"}
        writer.close()


async def test_a_feed_has_so_many_clients_and_room_again_when_one_has_left():
    async with open_port(feed()) as port:
        clients = [await connect(port) for _ in range(MAX_CLIENTS)]
        for reader, _ in clients:
            assert (await read(reader))["type"] == "snapshot"
        reader, late = await connect(port)
        assert "clients read this feed already" in (await read(reader))["message"]
        clients[0][1].close()
        async with asyncio.timeout(DEADLINE):
            while True:
                reader, again = await connect(port)
                if (await read(reader))["type"] == "snapshot":
                    break
                again.close()
        for writer in (late, again, *(writer for _, writer in clients)):
            writer.close()


async def test_who_reads_late_gets_it_merged_and_keeps_nobody():
    graph = Graph()
    async with open_port(feed()) as port:
        reader, writer = await connect(port)
        graph.merge(await read(reader))
        for seq in range(1, 20_001):
            act(port, seq, f"{'long' * 20}/{seq % 50}.py")
    lines = 0
    while (message := await read(reader)) is not None:
        graph.merge(message)
        lines += 1
    assert graph.to_dict()["nodes"] == {
        node["path"]: {key: node[key] for key in ("seq", "agent_id", "action")}
        for node in port.feed.snapshot()["nodes"]
    }
    assert lines < 200
    writer.close()


async def test_a_client_that_says_nothing_and_one_that_never_reads_keep_no_port():
    async with asyncio.timeout(DEADLINE), open_port(feed(), 0.01) as port:
        _, silent = await asyncio.open_connection("127.0.0.1", port.number)
        _, stuck = await connect(port)
        for seq in range(1, 15_001):
            act(port, seq, f"{'long' * 200}/{seq}.py")
    for writer in (silent, stuck):
        writer.close()
