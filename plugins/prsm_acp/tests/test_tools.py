"""Tool calls of agents as canonical names, commands, paths and results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_acp import tools

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
KEYS = ("kind", "title", "rawInput", "content", "locations", "_meta", "rawOutput", "toolCallId")


def diff(path, old, new, **fields):
    return {"type": "diff", "path": path, "oldText": old, "newText": new, **fields}


SERVED_INPUT = {"server": "prsm", "tool": "note", "arguments": {"text": "x"}}
SERVED = {"kind": "execute", "title": "mcp.prsm.note", "rawInput": SERVED_INPUT}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ({"kind": "read", "title": "Read a.py"}, "Read"),
        ({"kind": "edit", "content": [diff("a", "x", "y")]}, "Edit"),
        ({"kind": "edit", "content": [diff("a", None, "y")]}, "Write"),
        ({"kind": "edit", "content": [diff("a", "", "y", _meta={"kind": "add"})]}, "Write"),
        ({"kind": "delete"}, "Edit"),
        ({"kind": "move"}, "Edit"),
        ({"kind": "search"}, "Grep"),
        ({"kind": "execute"}, "Bash"),
        ({"kind": "fetch"}, "WebFetch"),
        ({"kind": "other", "title": "find (docs MCP Server)"}, "find (docs MCP Server)"),
        ({"kind": "other", "title": "x", tools.OWN_NAME: "mcp__docs__find"}, "mcp__docs__find"),
        (SERVED, "mcp__prsm__note"),
        ({**SERVED, "title": "mcp.prsm.other"}, "Bash"),
        ({**SERVED, "rawInput": {**SERVED_INPUT, "cmd": "rm x"}}, "Bash"),
        ({"kind": "think"}, "think"),
        ({"kind": ["odd"]}, "['odd']"),
        ({}, "tool"),
    ],
)
def test_a_tool_has_its_canonical_name(call, name):
    assert tools.tool_name(call) == name


@pytest.mark.parametrize(
    ("call", "command"),
    [
        ({"title": "echo hi && ls"}, "echo hi && ls"),
        ({"title": "`echo hi`"}, "echo hi"),
        ({"title": "Shell", "rawInput": {"command": "echo hi"}}, "echo hi"),
        ({"title": "`x`", "rawInput": {"command": ["/bin/bash", "-lc", "a | b"]}}, "a | b"),
        ({"title": "x", "rawInput": {"command": ["rm", "a b"]}}, "rm 'a b'"),
        ({"title": "ls", "rawInput": {"command": "  "}}, "ls"),
        ({}, ""),
    ],
)
def test_a_command_is_the_text_that_the_model_wrote(call, command):
    assert tools.command_of({"kind": "execute", **call}) == command
    assert tools.arguments_of({"kind": "execute", **call}) == {"command": command}


@pytest.mark.parametrize(
    ("call", "known"),
    [
        ({"kind": "execute", "rawInput": {"cwd": "/w"}}, False),
        ({"kind": "execute", "rawInput": {"cwd": "/w", "command": "ls"}}, True),
        ({"kind": "other", "rawInput": {"cwd": "/w"}}, True),
        ({"kind": "read", "rawInput": {}}, False),
        ({}, False),
    ],
)
def test_a_shell_whose_folder_alone_is_told_has_no_arguments_yet(call, known):
    assert tools.knows_arguments(call) is known


def test_only_a_shell_has_a_command():
    assert tools.command_of({"kind": "other", "title": "x", "rawInput": {"command": "x"}}) is None


@pytest.mark.parametrize(
    ("call", "tool"),
    [
        ({"title": "note (prsm MCP Server)", "kind": "other"}, "note"),
        ({"title": "mcp__prsm__note"}, "note"),
        ({"title": "prsm_note"}, "note"),
        ({"title": "Tool: prsm/note"}, "note"),
        ({"title": "echo", tools.OWN_NAME: "mcp_prsm_run_bash"}, "run_bash"),
        (SERVED, "note"),
        ({**SERVED, "title": "mcp.docs.note"}, None),
        ({"title": "note"}, None),
        ({"title": "prsm/note"}, None),  # as a command it would be a file of the workspace
        ({"title": "note (docs MCP Server)"}, None),
        ({"title": "mcp__prsm__note; rm -rf x"}, None),
        ({"title": "mcp__prsm__note", "kind": "execute"}, None),
        ({"title": "mcp__prsm__note", "kind": "edit"}, None),
        ({"title": "mcp__prsm__note", "rawInput": {"command": "mcp__prsm__note"}}, None),
        ({"title": "mcp__prsm__note", tools.OWN_NAME: "mcp_docs_run"}, None),
    ],
)
def test_a_tool_of_prsm_is_known_by_its_server_and_by_no_text_that_a_model_can_choose(call, tool):
    assert tools.server_tool(call) == tool


def test_the_vendors_own_name_is_found_where_a_vendor_tells_it():
    claude = {"_meta": {"claudeCode": {"toolName": "Bash"}}, "toolCallId": "toolu__1"}
    assert tools.own_name(claude, named_ids=False) == "Bash"
    qwen = {"_meta": {"toolName": "mcp__prsm__note"}, "title": "x"}
    assert tools.own_name(qwen, named_ids=False) == "mcp__prsm__note"
    gemini = {"toolCallId": "mcp_prsm_note__call__1"}
    assert tools.own_name(gemini, named_ids=True) == "mcp_prsm_note"
    assert tools.own_name(gemini, named_ids=False) is None
    assert tools.own_name({"toolCallId": "note-1"}, named_ids=True) is None


def test_every_path_counts_once():
    call = {
        "content": [diff("/a", None, "x"), diff("/b", "x", "y")],
        "locations": [{"path": "/b"}, {"path": "/c", "line": 3}, {"path": 5}, "odd"],
        "rawInput": {"file_path": "/d", "path": "/a"},
    }
    assert tools.paths_of(call) == ("/a", "/b", "/c", "/d")


def test_an_edit_tells_its_paths_and_its_diff():
    call = {"kind": "edit", "content": [diff("/a", "one\ntwo\n", "one\nthree")]}
    assert tools.arguments_of(call) == {
        "paths": ["/a"],
        "diff": "--- /a\n+++ /a\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n",
    }
    assert tools.new_texts(call) == {"/a": "one\nthree"}


def test_a_change_too_long_to_show_is_told_by_its_size():
    call = {"kind": "edit", "content": [diff("/a", "x" * 150_000, "y" * 150_000)]}
    assert tools.arguments_of(call)["diff"] == "/a: 150000 characters become 150000\n"


def test_a_result_is_the_text_of_a_call_else_its_raw_output():
    text = {"type": "content", "content": {"type": "text", "text": "done"}}
    assert tools.result_of({"content": [text, text]}) == "done\ndone"
    assert tools.result_of({"rawOutput": {"exit": 0}}) == '{"exit": 0}'
    assert tools.result_of({"rawOutput": "plain"}) == "plain"
    assert tools.result_of({"content": [diff("/a", None, "x")]}) is None


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JSON)))
def test_no_call_is_too_odd_to_be_told(call):
    assert isinstance(tools.tool_name(call), str)
    assert isinstance(tools.arguments_of(call), dict)
    tools.knows_arguments(call)
    tools.paths_of(call)
    tools.result_of(call)
    tools.server_tool(call)
    tools.own_name(call, named_ids=True)
    tools.new_texts(call)
