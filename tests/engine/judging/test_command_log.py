"""Claimed commands against the events of the agent's calls: the last run decides."""

from __future__ import annotations

import pytest

from prsm_core.domain.events import Event
from prsm_core.engine.judging.command_log import MAX_COMMANDS, CommandLog


def event(kind, **data):
    return Event(type=kind, session="S", run="R", ts=1.0, agent="a", data=data)


def ran(command, status="completed", result="ok", call="1", orchestration=False):
    arguments = {"command": command}
    return [
        event(
            "tool_call_started",
            call=call,
            tool="Bash",
            arguments=arguments,
            orchestration=orchestration,
        ),
        event("tool_call_finished", call=call, status=status, result=result),
    ]


def restarted(source="completed"):
    return [event("agent_state_changed", **{"from": source, "to": "starting", "reason": ""})]


def gaps(events, *commands):
    log = CommandLog(commands)
    for each in events:
        log.read(each)
    return log.gaps()


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], ["`make` was not run"]),
        (ran("make"), []),
        (ran(" make\n"), []),
        (ran("make test"), ["`make` was not run"]),
        (ran("make", "failed"), ["`make` did not succeed"]),
        (ran("make", "denied"), ["`make` did not succeed"]),
        (ran("make")[:1], ["`make` did not succeed"]),
        (ran("make", "failed") + ran("make"), []),
        (ran("make") + ran("make", "failed"), ["`make` did not succeed"]),
        (ran("make") + restarted(), ["`make` was not run"]),
        (ran("make") + restarted("waiting_for_parent"), []),
        (
            [event("tool_call_started", call="1", tool="Read", arguments=None)],
            ["`make` was not run"],
        ),
        (
            [event("tool_call_started", call="1", tool="X", arguments={"command": 1})] * 2,
            ["`make` was not run"],
        ),
    ],
)
def test_the_last_run_of_a_command_decides(events, expected):
    assert gaps(events, "make") == expected


@pytest.mark.parametrize(
    ("result", "succeeded"),
    [
        ('{"exit_code":0,"stdout":""}', True),
        ('{"exit_code":0,"stdout":"cut off …', True),
        ('{"exit_code":1,"stdout":"\\"exit_code\\":0"}', False),
        ('{"exit_code":-9,"stdout":""}', False),
        ("", False),
        (None, False),
    ],
)
def test_run_bash_has_succeeded_with_exit_code_0_only(result, succeeded):
    events = ran("make", result=result, orchestration=True)
    assert gaps(events, "make") == ([] if succeeded else ["`make` did not succeed"])


def test_calls_that_overlap_are_told_apart():
    one, other = ran("make", call="1"), ran("make lint", "failed", call="2")
    events = [one[0], other[0], other[1], one[1]]
    assert gaps(events, "make", "make lint") == ["`make lint` did not succeed"]


def test_no_more_commands_are_followed_than_anybody_runs():
    names = [f"c{number}" for number in range(MAX_COMMANDS + 3)]
    assert gaps([], *names)[-1] == "3 more commands were not checked"
    assert len(gaps([], *names)) == MAX_COMMANDS + 1
