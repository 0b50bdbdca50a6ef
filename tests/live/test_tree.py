"""The main path on the real thing: `prsm run` and a tree of real Codex agents."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sqlite3

import pytest
from prsm_testing.model_server import ModelServer

pytestmark = pytest.mark.live

LEDGER_TABLES = (
    "turns",
    "messages",
    "tool_calls",
    "compactions",
    "threads",
    "sessions",
    "session_history",
)

TREE = {
    "lanes": {
        "master": {
            "marker": "Build the thing",
            "steps": [
                {
                    "think": "Two parts.",
                    "call": {
                        "id": "spawned",
                        "tool": "spawn_children_parallel",
                        "arguments": {
                            "children": [
                                {"prompt": "[[lane:asker]] Count the files."},
                                {"prompt": "[[lane:worker]] Write the report."},
                            ]
                        },
                    },
                },
                {"call": {"id": "got", "tool": "wait_for_message", "arguments": {"all": True}}},
                {
                    "expect": ["How many folders deep?"],
                    "call": {
                        "tool": "respond_to_child",
                        "arguments": {
                            "child_id": "${got.from}",
                            "correlation_id": "${got.correlation_id}",
                            "response": "two",
                        },
                    },
                },
                {"call": {"tool": "wait_for_message", "arguments": {"all": True}}},
                {
                    "say": "Both are done.",
                    "call": {"tool": "task_complete", "arguments": {"summary": "tree built"}},
                },
            ],
        },
        "asker": {
            "steps": [
                {
                    "call": {
                        "id": "reply",
                        "tool": "ask_parent",
                        "arguments": {"question": "How many folders deep?"},
                    }
                },
                {
                    "call": {
                        "tool": "task_complete",
                        "arguments": {"summary": "counted ${reply.answer} deep"},
                    }
                },
            ]
        },
        "worker": {
            "steps": [
                {
                    "call": {
                        "tool": "report_progress",
                        "arguments": {"status": "writing", "percent": 50},
                    }
                },
                {"call": {"tool": "task_complete", "arguments": {"summary": "report written"}}},
            ]
        },
    }
}


def play(scenario: dict) -> ModelServer:
    """Serve a scenario whose lanes bear one request more than they are written for.

    On a busy machine Codex may ask its model once more before the interrupt that follows
    task_complete reaches it; that request gets no answer.
    """
    lanes = {
        name: {**lane, "steps": [*lane["steps"], {"hang": True}]}
        for name, lane in scenario["lanes"].items()
    }
    return ModelServer({"lanes": lanes})


def lines(text: str) -> list[dict]:
    """Return the JSON values of a text, one a line."""
    return [json.loads(line) for line in text.splitlines()]


def of_type(events: list[dict], kind: str) -> list[dict]:
    """Return the events of one type."""
    return [event for event in events if event["type"] == kind]


def lone_agent(*steps: dict, marker: str = "Do it") -> dict:
    """Return a scenario in which a master spawns one child that plays `steps`."""
    return {
        "lanes": {
            "master": {
                "marker": marker,
                "steps": [
                    {
                        "call": {
                            "id": "child",
                            "tool": "spawn_child",
                            "arguments": {"prompt": "[[lane:child]] Go.", "wait": True},
                        }
                    },
                    {
                        "call": {
                            "tool": "task_complete",
                            "arguments": {"summary": "${child.result.summary}"},
                        }
                    },
                ],
            },
            "child": {"steps": list(steps)},
        }
    }


@pytest.mark.requirement("C2", "E8", "E46", "E47", "E48", "E55", "E56", "E70", "D13")
async def test_a_tree_of_codex_agents_runs_on_one_slot_and_can_be_read_afterwards(prsm):
    async with play(TREE) as server:
        prsm.configure(server.base_url, max_concurrent_agents=1)
        code, out, err = await prsm.run_async("run", "--json", "Build the thing")
    assert server.failures == []
    assert (code, err) == (0, "")
    events = lines(out)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "run_finished"
    assert (events[-1]["status"], events[-1]["summary"]) == ("completed", "tree built")
    results = {e["result"] for e in of_type(events, "tool_call_finished") if e["result"]}
    assert any('"summary":"counted two deep"' in text for text in results)

    later = prsm.run("events", "--json")
    assert lines(later.stdout) == events
    tree = json.loads(prsm.run("tree", "--json").stdout)
    master = tree["agents"][0]
    assert [master["name"], master["state"]] == ["master", "completed"]
    assert [(c["name"], c["state"]) for c in master["children"]] == [
        ("w1", "completed"),
        ("w2", "completed"),
    ]
    assert master["usage_subtree"]["total_tokens"] == events[-1]["usage"]["total_tokens"] > 0

    ledger = json.loads(prsm.run("config", "path", "--json").stdout)["ledger"]
    with sqlite3.connect(ledger) as connection:
        rows = {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - constants
            for table in LEDGER_TABLES
        }
    assert rows["turns"] == rows["threads"] == rows["session_history"] == 3
    assert rows["sessions"] == 3
    assert rows["tool_calls"] == 9
    assert rows["messages"] >= 3
    assert rows["compactions"] == 0


@pytest.mark.requirement("E23", "D9")
@pytest.mark.parametrize(("on_ask", "exists"), [("deny", False), ("allow", True)])
async def test_a_command_that_needs_approval_runs_only_when_it_was_allowed(prsm, on_ask, exists):
    scenario = lone_agent(
        {"shell": "touch made-by-codex"},
        {"call": {"tool": "task_complete", "arguments": {"summary": "tried"}}},
    )
    async with play(scenario) as server:
        prsm.configure(server.base_url)
        code, out, _ = await prsm.run_async("run", "--json", "--on-ask", on_ask, "Do it")
    assert server.failures == []
    assert code == (0 if exists else 4)  # nobody allowed anything, and nothing changed
    events = lines(out)
    (asked,) = of_type(events, "permission_requested")
    assert (asked["tool"], asked["command"]) == ("Bash", "touch made-by-codex")
    (resolved,) = of_type(events, "permission_resolved")
    assert resolved["verdict"] == ("once" if exists else "deny")
    assert (prsm.workspace / "made-by-codex").exists() is exists


async def test_a_refusal_is_told_to_the_agent_with_its_reason(prsm):
    scenario = lone_agent(
        {"shell": "touch made-by-codex"},
        {
            "expect": ["no person is attached"],
            "call": {"tool": "task_complete", "arguments": {"summary": "could not"}},
        },
    )
    async with play(scenario) as server:
        prsm.configure(server.base_url)
        code, _, _ = await prsm.run_async("run", "--json", "Do it")
    assert server.failures == []
    assert code == 4


@pytest.mark.requirement("E17", "E57")
async def test_a_person_answers_a_vendors_question_at_the_terminal(prsm):
    scenario = lone_agent(
        {
            "call": {
                "tool": "request_user_input",
                "arguments": {
                    "questions": [
                        {
                            "id": "colour",
                            "header": "Colour",
                            "question": "Which colour shall it be?",
                            "options": [
                                {"label": "red", "description": "warm"},
                                {"label": "blue", "description": "cold"},
                            ],
                        }
                    ]
                },
            }
        },
        {
            "expect": ["blue"],
            "call": {"tool": "task_complete", "arguments": {"summary": "painted"}},
        },
    )
    async with play(scenario) as server:
        prsm.configure(server.base_url)
        ours, theirs = pty.openpty()
        process = await prsm.start("run", "Do it", stdin=theirs, stderr=theirs)
        os.close(theirs)
        # What is typed before the prompt stands there is forgotten.
        screen = await read_until(ours, "number or text: ")
        assert "Which colour shall it be?" in screen
        assert "blue" in screen
        os.write(ours, b"2\n")
        out, _ = await process.communicate()
        os.close(ours)
    assert server.failures == []
    assert process.returncode == 0
    assert "painted" in out.decode()


async def read_until(descriptor: int, text: str) -> str:
    """Return what a terminal shows up to and with `text`."""
    seen = ""
    async with asyncio.timeout(60):
        while text not in seen:
            chunk = await asyncio.to_thread(os.read, descriptor, 4096)
            seen += chunk.decode(errors="replace")
    return seen


async def test_a_429_is_waited_out_and_the_prompt_stands_in_the_thread_once(prsm):
    scenario = lone_agent(
        {
            "error": {"status": 429, "times": 2, "message": "slow down"},
            "call": {"tool": "task_complete", "arguments": {"summary": "patient"}},
        }
    )
    async with play(scenario) as server:
        prsm.configure(server.base_url)
        code, out, _ = await prsm.run_async("run", "--json", "Do it")
    assert server.failures == []
    assert code == 0
    retries = of_type(lines(out), "retry_scheduled")
    assert [retry["attempt"] for retry in retries] == [1, 2]
    assert {retry["error"]["kind"] for retry in retries} == {"rate_limit"}
    last = [r for r in server.requests if r.lane == "child"][-1]
    assert json.dumps(last.body["input"]).count("[[lane:child]] Go.") == 1


async def test_killing_prsm_leaves_no_process_behind(prsm):
    scenario = lone_agent({"hang": True})
    async with play(scenario) as server:
        prsm.configure(server.base_url)
        process = await prsm.start("run", "--json", "Do it")
        await server.wait_for_requests(2)
        assert len(prsm.processes()) > 1
        process.kill()
        await process.wait()
        async with asyncio.timeout(5):
            await prsm.until_gone()
    assert prsm.processes() == []
