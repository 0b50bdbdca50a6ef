"""A conversation rebuilt from the ledger tells another model all that happened."""

from __future__ import annotations

import itertools

from prsm_core.engine.agents.opening import CALL_LIMIT, rebuilt_history


def history(*entries):
    numbers = itertools.count()
    return rebuilt_history(
        [{"at": 1.5, **entry} for entry in entries], lambda: f"id{next(numbers)}"
    )


def test_what_was_said_keeps_its_roles_and_order():
    said = history(
        {"kind": "user_message", "text": "do it"},
        {"kind": "thinking", "text": "hm"},
        {"kind": "text", "text": "begun"},
    )
    assert [(m.role, m.content, m.sequence) for m in said] == [
        ("user", "do it", 1),
        ("assistant", "begun", 2),
    ]
    assert (said[0].id, said[0].created_at) == ("id0", 1500)


def test_a_call_is_told_with_its_outcome():
    call = {"kind": "tool_call", "call": "c1", "tool": "spawn_child", "arguments": {"prompt": "x"}}
    result = {"kind": "tool_result", "call": "c1", "status": "completed", "text": "w1"}
    [told] = history(call, result)
    assert told.content == '[I called "spawn_child" with {"prompt":"x"}; completed:\n> w1]'


def test_a_call_without_a_result_is_told_as_unknown():
    [told] = history({"kind": "tool_call", "call": "c1", "tool": "Bash", "arguments": {}})
    assert "its effect is unknown" in told.content


def test_long_calls_are_cut():
    call = {"kind": "tool_call", "call": "c", "tool": "Write", "arguments": {"text": "x" * 5000}}
    result = {"kind": "tool_result", "call": "c", "status": "completed", "text": "y" * 5000}
    [told] = history(call, result)
    assert len(told.content) < 2 * CALL_LIMIT + 100
