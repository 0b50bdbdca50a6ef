"""A tree of three vendors and a script goes on after its engine was killed, or interrupted.

Nothing is asked, told or done twice, and nothing is lost: `pytest -m live` plays two cases, one
with four kills, `pytest -m long tests/live` all others.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from prsm_testing.model_server import ModelServer
from prsm_testing.playback import Call

from prsm_core.engine.turns.going_on import CUT_OFF
from tests.live.following import Moment, Seen, call, detached, follow
from tests.live.minds import Minds, answers_in

if TYPE_CHECKING:
    from tests.live.minds import Known

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

TASK = "Paint the house"
MODELS = {
    "runner": "claude/claude-scripted-1",
    "looker": "claude/claude-scripted-1",
    "writer": "gemini/gemini-2.5-pro",
    "clerk": "script/scripted",
}
ASKERS = ("looker", "writer", "clerk")
FILE = "read-by-a-command"
REPEATABLE = {"report_progress"}  # answered before it is durable: a kill may make it be made again
MARKS_OF_CLAUDE = ("[Tool call interrupted", "The user doesn't want to proceed")  # of a lost output
UNSEEN = "nobody saw its end"  # told of a command that was cut off
EVENTS = 90  # a tree that is not killed tells some more
SUMMARIES = {"runner": "runner ran", **{name: f"{name} heard {name}-7431" for name in ASKERS}}
SCRIPT = {
    "lanes": {
        "clerk": {
            "steps": [
                {"call": {"tool": "report_progress", "arguments": {"status": "begun"}}},
                {
                    "call": {
                        "id": "reply",
                        "tool": "ask_parent",
                        "arguments": {"question": "clerk?"},
                    }
                },
                {
                    "call": {
                        "tool": "task_complete",
                        "arguments": {"summary": "clerk heard ${reply.answer}"},
                    }
                },
            ]
        }
    }
}


def master(known: Known):
    """Spawn all; ask the person what a child asks, and tell it; end with what all have said."""
    got = known.of("wait_for_message")
    results = [message for message in got if message["type"] == "task_result"]
    questions = [message for message in got if message["type"] == "question"]
    spawned = {child["name"] for child in known.of("spawn_child")}
    asked, told = known.of("ask_user"), known.of("respond_to_child")
    if missing := [name for name in MODELS if name not in spawned]:
        return [
            call("spawn_child", name=name, model=MODELS[name], prompt=f"[[lane:{name}]] Work.")
            for name in missing
        ]
    if len(asked) < len(questions):
        name = questions[len(asked)]["name"]
        return [
            call("ask_user", question=f"What is {name} to hear?", options=[f"{name}-7431", "no"])
        ]
    if len(told) < len(asked):
        question = questions[len(told)]
        return [
            call(
                "respond_to_child",
                child_id=question["from"],
                correlation_id=question["correlation_id"],
                response=f"{question['name']}-7431",
            )
        ]
    if len(results) < len(MODELS):
        return [call("wait_for_message")]
    return [call("task_complete", summary=", ".join(sorted(one["summary"] for one in results)))]


def runner(known: Known):
    """Be done at once."""
    return [call("task_complete", summary=SUMMARIES["runner"])]


def looker(known: Known):
    """Run a command, then ask: it is told of one that was cut off, and need not make it again."""
    if not known.heard_of("Bash"):
        return [Call(id="shell", kind="shell", arguments={"cmd": f"cat {FILE}"})]
    return asking("looker", known)


def writer(known: Known):
    """Report, then ask."""
    if not known.of("report_progress"):
        return [call("report_progress", status="begun")]
    return asking("writer", known)


def asking(name: str, known: Known):
    """Ask, and say what the answer was."""
    for reply in known.of("ask_parent"):
        return [call("task_complete", summary=f"{name} heard {reply['answer']}")]
    return [call("ask_parent", question=f"{name}?")]


CALLS = {
    "master": {
        "spawn_child": 4,
        "wait_for_message": 7,
        "ask_user": 3,
        "respond_to_child": 3,
        "task_complete": 1,
    },
    "runner": {"task_complete": 1},
    "looker": {"ask_parent": 1, "task_complete": 1},
    "writer": {"report_progress": 1, "ask_parent": 1, "task_complete": 1},
}
MINDS = {
    "master": (TASK, master),
    **{mind.__name__: (f"[[lane:{mind.__name__}]]", mind) for mind in (runner, looker, writer)},
}


def all_at_work(seen: Seen):
    """One child has ended, one is within a command, two wait for an answer, a person is asked."""
    states = [seen.states.get(name) for name in ("runner", "writer", "clerk")]
    waits = "waiting_for_parent"
    is_so = states == ["completed", waits, waits]
    return is_so and seen.begun["looker", "Bash"] == 1 and len(seen.asked) == 1


MOMENTS = (
    Moment(0, all_at_work),
    Moment(0, lambda seen: seen.states.get("looker") == "waiting_for_parent"),
    Moment(1, lambda seen: seen.begun["master", "respond_to_child"] == 1),
    Moment(3, lambda seen: len(seen.asked) == len(seen.in_state("completed")) == 3),
)
LAST = Moment(3, lambda seen: len(seen.asked) == 3)


def configured(prsm, gemini, server):
    """Write a configuration with a master of Codex, and all others that its children are of."""
    key = {"api_key_env": "LIVE_TEST_KEY"}
    prsm.write(
        {
            "defaults": {"provider": "codex", "model": "scripted-1"},
            "providers": {
                "claude": {"base_url": server.root_url, **key},
                "codex": {"command": [prsm.codex], "base_url": server.base_url, **key},
                "gemini": {"command": [gemini], "base_url": server.root_url, **key},
                "script": {"scenario": SCRIPT},
            },
        }
    )


def case(number, kills, mark):
    """Return a case that is played with a mark."""
    return pytest.param(number, kills, marks=mark, id=f"{number.name}-{kills}")


CASES = [
    case(signal.SIGKILL, 4, pytest.mark.live),
    case(signal.SIGINT, 1, pytest.mark.live),
    *(case(signal.SIGKILL, kills, pytest.mark.long) for kills in (1, 2, 3)),
    *(case(signal.SIGINT, kills, pytest.mark.long) for kills in (2, 3, 4)),
]


@pytest.mark.requirement("F2")
@pytest.mark.parametrize(("number", "kills"), CASES)
async def test_a_tree_of_all_vendors_goes_on(prsm, gemini, number, kills):
    os.mkfifo(prsm.workspace / FILE)  # the command that reads it is cut off by the first kill
    asked_when_ended = await play(prsm, gemini, number, MOMENTS[:kills])
    assert "runner" in asked_when_ended


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["SIGKILL", "SIGINT"])
@pytest.mark.parametrize("seed", range(1, 7))
async def test_a_tree_of_all_vendors_goes_on_from_any_event(prsm, gemini, number, seed):
    (prsm.workspace / FILE).touch()
    events = sorted(random.Random(seed).sample(range(6, EVENTS), 4))
    await play(prsm, gemini, number, [Moment(3, Seen.has(count)) for count in events])


@pytest.mark.long
@pytest.mark.requirement("F2")
async def test_what_claude_had_acted_on_and_not_written_down_is_told_again(prsm, gemini):
    """It writes a little later than it goes on: a kill may take what the turn had gone on with.

    By itself one does so now and then; here, what it has left of that is cut off.
    """
    os.mkfifo(prsm.workspace / FILE)

    def forget():
        for path in prsm.home.rglob("claude-home/projects/*/*.jsonl"):
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            told = (n for n, line in enumerate(lines) if UNSEEN in line)
            path.write_text("".join(lines[: next(told, None)]), encoding="utf-8")

    await play(prsm, gemini, signal.SIGKILL, MOMENTS[:2], forget=forget)


async def play(prsm, gemini, number, moments, *, forget=lambda: None):
    """Run the tree, kill its engine at these moments, go on each time, and look at the end.

    After a kill, `forget` leaves less of the vendors' threads. Return what the models of those had
    been asked who had ended before a kill.
    """
    async with ModelServer(Minds(MINDS)) as server:
        configured(prsm, gemini, server)
        session, pid = await detached(prsm, "run", TASK)
        answered: list[str] = []
        asked_when_ended: dict[str, int] = {}
        for moment in moments:
            seen = await follow(prsm, session, moment, answered)
            os.kill(pid, number)
            await prsm.until_gone()
            forget()
            for name in seen.in_state("completed"):
                asked_when_ended.setdefault(name, len(requests_of(server, name)))
            again, pid = await detached(prsm, "resume")
            assert again == session
        await follow(prsm, session, LAST, answered)
        await prsm.until_gone()
    assert prsm.processes() == []
    told = [json.loads(line) for line in prsm.run("events", session, "--json").stdout.splitlines()]
    check_end(told, len(moments), interrupts=number == signal.SIGINT)
    check_ledger(prsm)
    assert server.failures == []
    for name, count in asked_when_ended.items():
        assert len(requests_of(server, name)) == count, "it had ended"
    names = {event["name"]: event["agent"] for event in told if event["type"] == "agent_spawned"}
    for name in MINDS:
        own = [event for event in told if event.get("agent") == names[name]]
        check_requests(name, requests_of(server, name), own)
    return asked_when_ended


def requests_of(server, name):
    """Return what the model of an agent was asked."""
    return [request for request in server.requests if request.lane == name]


def check_end(told, kills, *, interrupts):
    """The run has its result; each agent was spawned once, had one turn, and has ended once."""
    last = told[-1]
    assert (last["type"], last["status"]) == ("run_finished", "completed")
    assert last["summary"] == ", ".join(sorted(SUMMARIES.values()))
    kinds = Counter(event["type"] for event in told)
    assert kinds["agent_spawned"] == kinds["turn_started"] == kinds["turn_finished"] == 5
    assert kinds["question_asked"] == kinds["question_answered"] == 3
    assert (kinds["run_resumed"], kinds["run_finished"]) == (kills, 1 + kills * interrupts)
    ended = Counter(event["agent"] for event in told if event.get("to") == "completed")
    assert [*ended.values()] == [1] * 5


def check_ledger(prsm):
    """No turn and no call is open; each question, answer and result was sent once."""
    path = json.loads(prsm.run("config", "path", "--json").stdout)["ledger"]
    with sqlite3.connect(path) as ledger:
        turns, calls, messages = (
            ledger.execute(query).fetchall()
            for query in (
                "SELECT count(*) FROM turns WHERE closed_by IS NULL",
                "SELECT count(*) FROM tool_calls WHERE completed_at IS NULL",
                "SELECT type, count(*) FROM inbox GROUP BY type ORDER BY type",
            )
        )
    assert (turns, calls) == ([(0,)], [(0,)])
    assert messages == [("answer", 3), ("question", 3), ("task_result", 4)]


def check_requests(name, requests, told):
    """Each request holds the prompt, and each answer that there was by then, exactly once."""
    begun = {e["call"]: e["tool"] for e in told if e["type"] == "tool_call_started"}
    results = {e["call"]: e["result"] for e in told if e["type"] == "tool_call_finished"}
    own = [[tool, json.loads(results[one])] for one, tool in begun.items() if tool != "Bash"]
    # Messages are counted, not the answers that hold them.
    counts = [(tool, 1 + len(answer.get("others", ()))) for tool, answer in own]
    assert Counter(tool for tool, count in counts for _ in range(count)) == CALLS[name]
    commands = sum(tool == "Bash" for tool in begun.values())
    assert commands <= (name == "looker")
    cut_off = any(event.get("error") == CUT_OFF for event in told)
    marker, known = MINDS[name][0], 0
    for request in requests:
        asked = request.conversation
        assert sum(text.count(marker) for text in asked.user) == 1
        held = [[one.tool, one.data] for one in answers_in(asked) if one.data is not None]
        assert sorted(held, key=str) == sorted(own[: len(held)], key=str)
        lasting = sum(tool not in REPEATABLE for tool, _ in held)
        assert lasting >= known, "an answer that it had heard is gone"
        known = lasting
        check_commands(asked, told=commands, cut_off=cut_off)
    assert known >= sum(tool not in REPEATABLE for tool, _ in own) - 1, (
        "all but the answer of task_complete was heard"
    )


def check_commands(asked, *, told, cut_off):
    """Whoever has heard of any call has heard of its one command, and one account of its end.

    That is its output in its place; or what a prompt tells of it, where the vendor's thread was
    killed before it had the output, and has only its own mark of that, or was rebuilt. That mark
    is all where the engine was killed before it had `told` of the command.
    """
    heard = [one.text for one in answers_in(asked) if one.tool == "Bash"]
    in_place = [text for _, tool, text in asked.outputs if tool == "Bash"]
    marks = sum(text.startswith(MARKS_OF_CLAUDE) for text in in_place)
    unseen = "\n".join(asked.user).count(UNSEEN)
    assert len(in_place) <= 1
    assert len(heard) - marks + unseen == (told and any(True for _ in answers_in(asked)))
    if unseen or any(CUT_OFF in text for text in heard):
        assert cut_off, "its end is in the ledger"
