"""The orchestration tools as an MCP server, called as the CLI does."""

from __future__ import annotations

import base64

import pytest
from mcp.types import CallToolResult, ImageContent, InitializeResult, ListToolsResult, TextContent
from msgspec.structs import replace
from prsm_claude.tools import ToolServer
from prsm_testing.doubles import tool_spec

from prsm_core.domain.images import Image
from prsm_core.domain.tools import ToolOutcome

SPECS = [
    tool_spec("note", text="string"),
    replace(tool_spec("alone"), parallel=False),
    replace(tool_spec("bare"), input_schema={"type": "object"}),
]


@pytest.fixture
def server():
    return ToolServer(SPECS)


def ask(server, method, **params):
    answer = server.answer({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
    return answer


def call(server, name, **arguments):
    result = CallToolResult.model_validate(
        ask(server, "tools/call", name=name, arguments=arguments)["result"]
    )
    (part,) = result.content
    assert isinstance(part, TextContent)
    return part.text, result.is_error


@pytest.mark.requirement("E45")
def test_every_tool_is_listed_with_its_schema(server):
    result = ListToolsResult.model_validate(ask(server, "tools/list")["result"])
    listed = {tool.name: tool for tool in result.tools}
    assert set(listed) == {"note", "alone", "bare"}
    assert listed["note"].input_schema == SPECS[0].input_schema
    assert listed["bare"].input_schema == {"type": "object", "properties": {}}
    assert listed["note"].annotations is not None
    assert listed["note"].annotations.read_only_hint is True
    assert listed["alone"].annotations is None


async def test_a_call_is_given_the_answer_that_was_prepared_for_it(server):
    await server.prepare("note", {"text": "a"}, ToolOutcome(text="one"))
    await server.prepare("note", {"text": "b"}, ToolOutcome(text="two", is_error=True))
    assert call(server, "note", text="b") == ("two", True)
    assert call(server, "note", text="a") == ("one", False)


async def test_an_answer_shows_its_images(server, tmp_path):
    file = tmp_path / "a.png"
    file.write_bytes(b"the pixels")
    image = Image(mark="![a](x)", name="a", media_type="image/png", path=str(file))
    await server.prepare("note", {}, ToolOutcome(text="look", images=(image,)))
    result = CallToolResult.model_validate(
        ask(server, "tools/call", name="note", arguments={})["result"]
    )
    text, shown = result.content
    assert isinstance(text, TextContent)
    assert isinstance(shown, ImageContent)
    assert (text.text, shown.mime_type) == ("look", "image/png")
    assert base64.b64decode(shown.data) == b"the pixels"


async def test_equal_calls_are_answered_in_their_order(server):
    for text in ("one", "two"):
        await server.prepare("note", {"text": "a"}, ToolOutcome(text=text))
    answers = [call(server, "note", text="a") for _ in range(2)]
    assert answers == [("one", False), ("two", False)]


def test_a_call_that_nobody_let_through_is_not_made(server):
    text, is_error = call(server, "note", text="a")
    assert is_error
    assert "not authorized" in text


async def test_an_answer_of_a_turn_that_is_over_is_forgotten(server):
    await server.prepare("note", {"text": "a"}, ToolOutcome(text="one"))
    server.forget()
    assert (call(server, "note", text="a"))[1]


def test_it_greets_in_the_version_of_whoever_asks(server):
    hello = ask(server, "initialize", protocolVersion="2025-06-18", capabilities={})
    greeting = InitializeResult.model_validate(hello["result"])
    assert greeting.protocol_version == "2025-06-18"
    assert greeting.capabilities.tools is not None
    assert ask(server, "ping")["result"] == {}


def test_what_needs_no_answer_gets_an_empty_one(server):
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert server.answer(told) == {"jsonrpc": "2.0", "result": {}}


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("resources/list", {}, -32601),
        ("tools/call", {"name": "nope", "arguments": {}}, -32602),
        ("tools/call", {"name": "note", "arguments": ["a"]}, -32602),
        ("tools/call", {}, -32602),
    ],
)
def test_what_it_does_not_have_is_an_error(server, method, params, code):
    assert ask(server, method, **params)["error"]["code"] == code


@pytest.mark.parametrize("message", [{}, {"id": 1}, {"id": 1, "method": 3, "params": "x"}])
def test_a_message_of_a_wrong_shape_is_answered(server, message):
    answer = server.answer(message)
    assert "result" in answer or "error" in answer
