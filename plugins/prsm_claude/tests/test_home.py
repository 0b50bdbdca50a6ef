"""The private home, the user's login in it, and what transcripts say."""

from __future__ import annotations

import json

import pytest
from prsm_claude.config import ClaudeConfig
from prsm_claude.home import (
    Transcript,
    find_transcript,
    held,
    holds,
    is_logged_in,
    prepare_home,
    read_transcript,
)


def transcript(tmp_path, *entries):
    path = tmp_path / "projects" / "-work" / "id-1.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
    path.write_text("\n".join(lines) + "\n")
    return path


def cost(total):
    return {"type": "cost-state", "totalCostUSD": total}


DEFERRED = {
    "type": "attachment",
    "attachment": {"type": "hook_deferred_tool", "toolUseID": "call-1"},
}
ANSWERED = {
    "type": "user",
    "message": {"content": [{"type": "tool_result", "tool_use_id": "call-1"}]},
}


def test_the_users_login_is_linked_only_where_it_is_used(tmp_path):
    login = tmp_path / "user" / ".credentials.json"
    login.parent.mkdir()
    login.write_text("{}")
    environ = {"CLAUDE_CONFIG_DIR": str(login.parent)}
    state = tmp_path / "state"
    link = prepare_home(state, ClaudeConfig(), environ) / ".credentials.json"
    assert link.readlink() == login
    assert link.parent.stat().st_mode & 0o777 == 0o700
    linked = link.lstat()
    prepare_home(state, ClaudeConfig(), environ)
    assert link.lstat().st_mtime_ns == linked.st_mtime_ns  # not even for a moment away
    prepare_home(state, ClaudeConfig(api_key_env="K"), environ)
    assert not link.is_symlink()


def test_a_login_made_in_the_private_home_is_kept(tmp_path):
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path / "nobody")}
    own = prepare_home(tmp_path, ClaudeConfig(), environ) / ".credentials.json"
    own.write_text("{}")
    prepare_home(tmp_path, ClaudeConfig(), environ)
    assert own.read_text() == "{}"


def test_a_home_of_ones_own_is_used_as_it_is(tmp_path):
    home = tmp_path / "mine"
    assert prepare_home(tmp_path, ClaudeConfig(home=str(home)), {}) == home
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "environ", "known"),
    [
        ({"api_key_env": "K"}, {"K": "x"}, True),
        ({"api_key_env": "K"}, {}, False),
        ({"base_url": "http://x"}, {}, None),
        ({}, {"ANTHROPIC_API_KEY": "x"}, True),
        ({}, {"CLAUDE_CODE_OAUTH_TOKEN": "x"}, True),
        ({"env": {"ANTHROPIC_AUTH_TOKEN": "x"}}, {}, True),
        ({}, {"CLAUDE_CONFIG_DIR": "/nowhere"}, False),
        ({"home": "/nowhere"}, {}, False),
        ({"home": "/nowhere"}, {"ANTHROPIC_API_KEY": "x"}, False),
        ({"api_key_env": "K", "env": {"K": "x"}}, {}, True),
    ],
)
def test_a_login_is_known_without_reading_it(settings, environ, known):
    assert is_logged_in(ClaudeConfig.from_settings(settings), environ) is known


async def test_a_transcript_is_found_by_the_id_of_its_conversation(tmp_path):
    path = transcript(tmp_path, {"type": "user", "uuid": "m1"})
    assert find_transcript(tmp_path, "id-1") == path
    assert find_transcript(tmp_path, "id-2") is None
    assert await holds(path, "m1")
    assert not await holds(path, "m2")


@pytest.mark.parametrize(
    ("entries", "known"),
    [
        ([], Transcript()),
        ([cost(0.5), cost(0.75)], Transcript(spent_usd=0.75)),
        ([cost("much")], Transcript()),
        ([cost(0.5), DEFERRED], Transcript(spent_usd=0.5, deferred="call-1")),
        ([DEFERRED, ANSWERED], Transcript()),
        ([DEFERRED, ANSWERED, DEFERRED], Transcript(deferred="call-1")),
        (['{"type": "cost-state", "totalCo', '["hook_deferred_tool"]'], Transcript()),
    ],
)
async def test_a_transcript_tells_the_cost_and_the_call_that_waits(tmp_path, entries, known):
    assert await read_transcript(transcript(tmp_path, *entries)) == known


async def test_a_large_transcript_is_read_to_its_end(tmp_path):
    filler = {"type": "user", "message": "x" * 100_000}
    path = transcript(tmp_path, *[filler] * 50, cost(0.5))
    assert (await read_transcript(path)).spent_usd == 0.5


def result(call_id, content, **fields):
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}
    return {"type": "user", "uuid": f"of-{call_id}", "message": {"content": [block]}}


CUT_OFF = "[Tool call interrupted: the session ended before this call's result was recorded]"
NOT_NOW = "The user doesn't want to take this action right now. STOP what you are doing and wait."
NO_RESULT = "The tool call was interrupted before a result was received."


@pytest.mark.parametrize(
    ("entries", "known"),
    [
        ([], set()),
        ([{"type": "user", "uuid": "m1", "message": {"content": "hi"}}], {"m1"}),
        ([{"type": "queue-operation", "uuid": "m1"}], set()),
        ([result("c1", "yes")], {"c1"}),
        ([result("c1", [{"type": "text", "text": "no such child"}], is_error=True)], {"c1"}),
        ([result("c1", CUT_OFF, is_error=True)], set()),
        ([result("c1", [{"type": "text", "text": CUT_OFF}], is_error=True)], set()),
        ([result("c1", NOT_NOW, is_error=True)], set()),
        ([result("c1", NO_RESULT, is_error=True)], set()),
        ([{**result("c1", "new", is_error=True), "toolDenialKind": "cancelled"}], set()),
        ([{**result("c1", "new", is_error=True), "toolDenialKind": "interrupted"}], set()),
        ([{**result("c1", "no", is_error=True), "toolDenialKind": "permission-rule"}], {"c1"}),
        ([result("c2", "c1")], set()),
        ([{"type": "assistant", "uuid": "c1", "message": {"content": [{"id": "c1"}]}}], set()),
        (['{"type": "user", "uuid": "m1", "mess', result("c1", "yes")], {"c1"}),
        ([{"type": "user", "uuid": "m1", "message": "c1"}], {"m1"}),
    ],
)
async def test_a_transcript_tells_what_it_holds_of_a_turn_that_goes_on(tmp_path, entries, known):
    assert (await held(transcript(tmp_path, *entries), ("m1", "c1"))).ids == known
