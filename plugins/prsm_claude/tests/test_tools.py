"""The orchestration tools as an MCP server, called as the CLI does."""

from __future__ import annotations

from dataclasses import replace

import mcp
import pytest
from mcp.types import TextContent
from prsm_claude.tools import ToolServer

from prsm_core.domain.tools import ToolOutcome
from prsm_core.testing.doubles import tool_spec

SPECS = [
    tool_spec("note", text="string"),
    replace(tool_spec("alone"), parallel=False),
    replace(tool_spec("bare"), input_schema={"type": "object"}),
]


@pytest.fixture
async def server():
    return ToolServer(SPECS)


async def call(server, name, **arguments):
    async with mcp.Client(server.config["instance"]) as client:
        result = await client.call_tool(name, arguments)
    (part,) = result.content
    assert isinstance(part, TextContent)
    return part.text, result.is_error


@pytest.mark.requirement("E45")
async def test_every_tool_is_listed_with_its_schema(server):
    async with mcp.Client(server.config["instance"]) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(listed) == {"note", "alone", "bare"}
    assert listed["note"].input_schema == SPECS[0].input_schema
    assert listed["bare"].input_schema == {"type": "object", "properties": {}}
    assert listed["note"].annotations is not None
    assert listed["note"].annotations.read_only_hint is True
    assert listed["alone"].annotations is None


async def test_a_call_is_given_the_answer_that_was_prepared_for_it(server):
    server.prepare("note", {"text": "a"}, ToolOutcome(text="one"))
    server.prepare("note", {"text": "b"}, ToolOutcome(text="two", is_error=True))
    assert await call(server, "note", text="b") == ("two", True)
    assert await call(server, "note", text="a") == ("one", False)


async def test_equal_calls_are_answered_in_their_order(server):
    for text in ("one", "two"):
        server.prepare("note", {"text": "a"}, ToolOutcome(text=text))
    answers = [await call(server, "note", text="a") for _ in range(2)]
    assert answers == [("one", False), ("two", False)]


async def test_a_call_that_nobody_let_through_is_not_made(server):
    text, is_error = await call(server, "note", text="a")
    assert is_error
    assert "not authorized" in text


async def test_an_answer_of_a_turn_that_is_over_is_forgotten(server):
    server.prepare("note", {"text": "a"}, ToolOutcome(text="one"))
    server.forget()
    assert (await call(server, "note", text="a"))[1]
