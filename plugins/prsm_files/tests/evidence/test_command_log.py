"""Claimed commands against the events of calls: the last run decides, whoever ran it."""

from __future__ import annotations

from itertools import count

import pytest
from prsm_files.session.evidence.command_log import MAX_COMMANDS, CommandLog

from prsm_core.domain.events import Event
from tests.command_policies import POLICY

UNKNOWN = "`make` ended, but its exit code is not known"


def event(kind, **data):
    return Event(type=kind, session="S", run="R", ts=1.0, agent="a", data=data)


def ran(command, status="completed", exit_code=0, call="1", orchestration=False):
    arguments = {"command": command}
    return [
        event(
            "tool_call_started",
            call=call,
            tool="run_bash" if orchestration else "Bash",
            arguments=arguments,
            orchestration=orchestration,
        ),
        event("tool_call_finished", call=call, status=status, exit_code=exit_code),
    ]


def restarted(source="completed"):
    return [event("agent_state_changed", **{"from": source, "to": "starting", "reason": ""})]


def numbered(*streams):
    """Return streams of events, one an agent, numbered as if one came after the other."""
    numbers = count(1)
    return [[each.at(next(numbers)) for each in stream] for stream in streams]


def log_of(commands, own, **others):
    log = CommandLog(commands, POLICY)
    for each in own:
        log.read(each)
    for who, events in others.items():
        for each in events:
            log.read(each, who)
    return log


def gaps(events, *commands):
    return log_of(commands, *numbered(events)).gaps()


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], ["`make` was not run"]),
        (ran("make"), []),
        (ran(" make\n"), []),
        (ran("make test"), ["`make` was not run"]),
        (ran("make", exit_code=None), [UNKNOWN]),
        (ran("make", exit_code=1), ["`make` did not succeed"]),
        (ran("make", "failed"), ["`make` did not succeed"]),
        (ran("make", "failed", None), ["`make` did not succeed"]),
        (ran("make", "denied", None), ["`make` did not succeed"]),
        (ran("make")[:1], ["`make` did not succeed"]),
        (ran("make", "failed") + ran("make"), []),
        (ran("make") + ran("make", "failed"), ["`make` did not succeed"]),
        (ran("make") + ran("make", exit_code=None), [UNKNOWN]),
        (ran("make") + restarted(), ["`make` was not run"]),
        (ran("make") + restarted("waiting_for_parent"), []),
        (ran("make", orchestration=True), []),
        (ran("make", exit_code=None, orchestration=True), [UNKNOWN]),
        (ran("make", exit_code=-9, orchestration=True), ["`make` did not succeed"]),
        (
            [event("tool_call_started", call="1", tool="Read", arguments=None)],
            ["`make` was not run"],
        ),
        (
            [event("tool_call_started", call="1", tool="Bash", arguments={"command": 1})] * 2,
            ["`make` was not run"],
        ),
        (
            [event("tool_call_started", call="1", tool="mcp__x__y", arguments={"command": "make"})],
            ["`make` was not run"],
        ),
    ],
)
def test_the_last_run_of_a_command_decides(events, expected):
    assert gaps(events, "make") == expected


def test_calls_that_overlap_are_told_apart():
    one, other = ran("make", call="1"), ran("make lint", "failed", call="2")
    events = [one[0], other[0], other[1], one[1]]
    assert gaps(events, "make", "make lint") == ["`make lint` did not succeed"]


@pytest.mark.parametrize(
    ("streams", "expected", "by"),
    [
        (([], ran("make"), []), [], ["`make` was run by w1"]),
        (([], ran("make"), ran("make")), [], ["`make` was run by w1/w2"]),
        (([], ran("make"), ran("make", "failed")), ["`make` did not succeed, run by w1/w2"], []),
        (([], ran("make", exit_code=None), []), [f"{UNKNOWN}, run by w1"], []),
        ((ran("make"), ran("make", "failed"), []), ["`make` did not succeed, run by w1"], []),
        ((ran("make", "failed"), ran("make"), []), [], ["`make` was run by w1"]),
        (([], ran("make") + restarted(), []), [], ["`make` was run by w1"]),
    ],
)
def test_runs_of_agents_below_count_and_are_told_by_whom(streams, expected, by):
    own, child, grandchild = numbered(*streams)
    log = log_of(["make"], own, **{"w1": child, "w1/w2": grandchild})
    assert (log.gaps(), log.others()) == (expected, by)


def test_equal_calls_of_two_agents_are_told_apart():
    begun, ended = ran("make")
    one, other = [begun.at(1), ended.at(4)], [begun.at(2)]
    other.append(event("tool_call_finished", call="1", status="failed", exit_code=2).at(3))
    log = log_of(["make"], [], w1=one, w2=other)
    assert (log.gaps(), log.others()) == ([], ["`make` was run by w1"])


def test_what_agents_below_ran_in_an_earlier_life_does_not_count():
    child, own = numbered(ran("make"), restarted())
    assert log_of(["make"], own, w1=child).gaps() == ["`make` was not run"]


def test_an_own_run_is_told_of_by_nobody():
    own, child = numbered(ran("make"), [])
    assert log_of(["make"], own, w1=child).others() == []


def test_no_more_commands_are_followed_than_anybody_runs():
    names = [f"c{number}" for number in range(MAX_COMMANDS + 3)]
    assert gaps([], *names)[-1] == "3 more commands were not checked"
    assert len(gaps([], *names)) == MAX_COMMANDS + 1
