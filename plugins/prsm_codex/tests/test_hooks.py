"""The tool hook: its trust, and what its payload asks for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_codex import hooks

from plugins.prsm_codex.tests.puppet import HOOK, HOOK_LIST

PATCH = "*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch\n"


def asked(tool, cwd="/w", **arguments):
    payload = {"tool_name": tool, "tool_input": arguments, "cwd": cwd}
    return hooks.tool_request(payload, "a1", "/elsewhere")


def test_a_command_is_asked_for_in_the_folder_where_it_would_run():
    wanted = asked("Bash", cwd="/w/sub", command="rm x")
    assert (wanted.agent_id, wanted.tool, wanted.command) == ("a1", "Bash", "rm x")
    assert wanted.cwd == "/w/sub"


@pytest.mark.parametrize(
    ("tool", "command"),
    [("apply_patch", PATCH), ("Bash", f"apply_patch <<'E'\n{PATCH}E\n")],
)
def test_a_patch_is_an_edit_of_its_paths_and_no_command(tool, command):
    wanted = asked(tool, command=command)
    assert (wanted.tool, wanted.command, wanted.paths) == ("Edit", None, ("/w/new.txt",))
    assert wanted.arguments == {"paths": ["/w/new.txt"], "diff": PATCH}


def test_an_image_is_read():
    wanted = asked("view_image", path="a.png")
    assert (wanted.tool, wanted.paths) == ("Read", ("/w/a.png",))


def test_a_tool_of_a_server_keeps_its_name_and_arguments():
    wanted = asked("mcp__docs__find", q=1)
    assert (wanted.tool, wanted.arguments, wanted.command) == ("mcp__docs__find", {"q": 1}, None)


def test_a_call_without_a_shape_is_asked_for_and_never_harmless():
    wanted = hooks.tool_request({"tool_input": "x"}, "a1", "/w")
    assert (wanted.tool, wanted.arguments, wanted.cwd) == ("", {}, "/w")
    assert "" not in hooks.HARMLESS


@given(st.text())
def test_a_refusal_always_has_a_reason(reason):
    told = json.loads(hooks.denial(reason))["hookSpecificOutput"]
    assert told["permissionDecision"] == "deny"
    assert told["permissionDecisionReason"].strip()


def test_our_hook_is_found_among_others_and_trusted_as_it_is():
    others = [{**HOOK, "source": "project"}, {**HOOK, "command": "x"}]
    listed = {"data": [{"hooks": others}, {"hooks": [HOOK]}]}
    assert hooks.find_own(listed) == HOOK
    assert hooks.find_own({"data": [{"hooks": others}]}) is None
    (edit,) = hooks.trust(HOOK)["edits"]
    assert edit["keyPath"] == 'hooks.state."k".trusted_hash'
    assert edit["value"] == HOOK["currentHash"]


@pytest.mark.parametrize(
    ("changes", "runs"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"trustStatus": "untrusted"}, False),
        ({"trustStatus": "modified"}, False),
    ],
)
def test_only_a_trusted_and_enabled_hook_runs(changes, runs):
    assert hooks.runs({**HOOK, **changes}) is runs
    assert hooks.runs(None) is False
    assert hooks.find_own(HOOK_LIST) is not None
