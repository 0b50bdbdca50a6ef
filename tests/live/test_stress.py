"""A tree of real Codex agents under stress: knots, kills, deaths of what it hangs on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest
import yaml

from tests.live.family import command_line
from tests.live.test_tree import lines, lone_agent, of_type, play

pytestmark = pytest.mark.live


def waiting_for_each_other(*answers: dict) -> dict:
    """Return a master that is asked by its child and, after `answers`, waits again."""
    wait = {"call": {"id": "got", "tool": "wait_for_message", "arguments": {}}}
    return {
        "lanes": {
            "master": {
                "marker": "Build the thing",
                "steps": [
                    {
                        "call": {
                            "tool": "spawn_child",
                            "arguments": {"prompt": "[[lane:asker]] Go."},
                        }
                    },
                    wait,
                    wait,
                    *answers,
                ],
            },
            "asker": {
                "steps": [
                    {
                        "call": {
                            "id": "reply",
                            "tool": "ask_parent",
                            "arguments": {"question": "Which way?"},
                        }
                    },
                    {
                        "call": {
                            "tool": "task_complete",
                            "arguments": {"summary": "went ${reply.answer}"},
                        }
                    },
                ]
            },
        }
    }


DONE = {"call": {"tool": "task_complete", "arguments": {"summary": "done"}}}


@pytest.mark.requirement("E31", "E79")
async def test_a_forgotten_question_is_shown_again_and_the_tree_goes_on(prsm):
    answer = {
        "expect": ['"reminder":true'],
        "call": {
            "tool": "respond_to_child",
            "arguments": {
                "child_id": "${got.from}",
                "correlation_id": "${got.correlation_id}",
                "response": "left",
            },
        },
    }
    last = {"call": {"tool": "wait_for_message", "arguments": {}}}
    scenario = waiting_for_each_other(answer, last, DONE)
    async with play(scenario) as server:
        prsm.configure(server.base_url)
        code, out, _ = await prsm.run_async("run", "--json", "Build the thing")
    assert server.failures == []
    assert code == 0
    (knot,) = of_type(lines(out), "deadlock_detected")
    assert (knot["action"], knot["victim"]) == ("reminder", None)
    assert {wait["name"] for wait in knot["waits"]} == {"master", "w1"}


@pytest.mark.requirement("E31", "E79")
async def test_an_ignored_reminder_costs_the_deepest_agent_its_life(prsm):
    again = {"call": {"tool": "wait_for_message", "arguments": {}}}
    scenario = waiting_for_each_other(
        again, {"expect": ["deadlock: master waits for a message"], **DONE}
    )
    async with play(scenario) as server:
        prsm.configure(server.base_url)
        code, out, _ = await prsm.run_async("run", "--json", "Build the thing")
    assert server.failures == []
    assert code == 0
    events = lines(out)
    reminder, victim = of_type(events, "deadlock_detected")
    assert [reminder["action"], victim["action"]] == ["reminder", "victim"]
    spawned = {e["agent"]: e["name"] for e in of_type(events, "agent_spawned")}
    assert spawned[victim["victim"]] == "w1"
    ends = [(e["agent"], e["to"]) for e in of_type(events, "agent_state_changed")]
    assert (victim["victim"], "failed") in ends


async def events_until(process, event_type: str, /, **fields) -> list[dict]:
    """Read the events of a running `prsm run --json` up to one that fits."""
    seen = []
    async with asyncio.timeout(60):
        while True:
            line = await process.stdout.readline()
            assert line, "prsm ended first"
            event = json.loads(line)
            seen.append(event)
            if event["type"] == event_type and all(event[k] == v for k, v in fields.items()):
                return seen


@pytest.mark.requirement("E9")
async def test_an_agent_killed_from_a_second_terminal_keeps_its_partial_output(prsm):
    scenario = lone_agent({"say": "I have begun and will never finish.", "hang": True})
    scenario["lanes"]["master"]["steps"][1]["expect"] = ["I have begun"]
    scenario["lanes"]["master"]["steps"][1]["call"]["arguments"]["summary"] = "saw the kill"
    async with play(scenario) as server:
        prsm.configure(server.base_url)
        process = await prsm.start("run", "--json", "Do it")
        await events_until(process, "turn_started", n=1)
        await server.wait_for_requests(2)
        code, _, err = await prsm.run_async("kill", "w1")
        rest, _ = await process.communicate()
    assert (code, err) == (0, "")
    events = lines(rest.decode())
    assert ("killed") in {e["to"] for e in of_type(events, "agent_state_changed")}
    assert process.returncode == 0
    assert server.failures == []


async def test_an_allowed_command_dies_with_its_agent(prsm):
    command = f"sleep 1000.{os.getpid()}"  # no other process of the machine runs just this
    scenario = lone_agent({"shell": command})
    scenario["lanes"]["master"]["steps"][1]["call"]["arguments"]["summary"] = "killed it"
    async with play(scenario) as server:
        prsm.configure(server.base_url)
        process = await prsm.start("run", "--json", "--on-ask", "allow", "Do it")
        await events_until(process, "permission_resolved", verdict="once")
        async with asyncio.timeout(30):
            pids: set[int] = set()
            while not pids:
                pids = await asyncio.to_thread(running, command)
        code, _, err = await prsm.run_async("kill", "w1")
        async with asyncio.timeout(2):
            while pids & await asyncio.to_thread(running, command):
                pass
        await process.communicate()
    assert (code, err) == (0, "")


def running(command: str) -> set[int]:
    """Return the processes that run exactly this command."""
    argv = b"\0".join(word.encode() for word in command.split()) + b"\0"
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if (entry / "cmdline").read_bytes() == argv:
                    found.add(int(entry.name))
    return found


async def test_the_death_of_the_model_server_fails_the_run_as_a_model_error(prsm, tmp_path):
    script = tmp_path / "scenario.yaml"
    lane = {"marker": "Do it", "steps": [{"say": "half a sentence", "hang": True}]}
    script.write_text(yaml.safe_dump({"lanes": {"master": lane}}))
    models = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "prsm_testing.model_server",
        str(script),
        stdout=asyncio.subprocess.PIPE,
    )
    assert models.stdout is not None
    address = json.loads(await models.stdout.readline())["base_url"]
    prsm.configure(address, retry_attempts=1)
    process = await prsm.start("run", "--json", "Do it")
    seen = await events_until(process, "turn_started", n=1)
    models.send_signal(signal.SIGKILL)
    await models.wait()
    rest, _ = await process.communicate()
    events = seen + lines(rest.decode())
    assert process.returncode == 1
    assert events[-1]["type"] == "run_finished"
    assert events[-1]["status"] == "failed"
    errors = [e["error"] for e in of_type(events, "turn_finished") if e["error"]]
    assert errors[-1]["kind"] == "model_error"
    assert errors[-1]["retryable"] is True
    assert len(of_type(events, "retry_scheduled")) == 1, "two tries in all"


async def test_a_tree_goes_on_after_the_death_of_its_app_server_while_two_agents_wait(prsm):
    wait = {"call": {"id": "got", "tool": "wait_for_message", "arguments": {"all": True}}}
    respond = {
        "call": {
            "tool": "respond_to_child",
            "arguments": {
                "child_id": "${got.from}",
                "correlation_id": "${got.correlation_id}",
                "response": "left",
            },
        }
    }
    ask = {"call": {"id": "reply", "tool": "ask_parent", "arguments": {"question": "Which way?"}}}
    went = {"call": {"tool": "task_complete", "arguments": {"summary": "went ${reply.answer}"}}}
    children = [{"prompt": "[[lane:a]] Go."}, {"prompt": "[[lane:b]] Go."}]
    spawn = {"call": {"tool": "spawn_children_parallel", "arguments": {"children": children}}}
    thinking = {"hang": True}  # the children wait meanwhile, and then the server dies
    after = [wait, respond, wait, DONE]
    master = {"marker": "Build the thing", "steps": [spawn, wait, thinking, *after]}
    again, alone = {"steps": [ask, ask, went]}, {"steps": [ask, DONE]}
    async with play({"lanes": {"master": master, "a": again, "b": alone}}) as server:
        prsm.configure(server.base_url)
        process = await prsm.start("run", "--json", "Build the thing")
        seen = await events_until(process, "agent_state_changed", to="waiting_for_parent")
        seen += await events_until(process, "agent_state_changed", to="waiting_for_parent")
        await server.wait_for_requests(5)
        for pid in app_servers(prsm):
            os.kill(pid, signal.SIGKILL)
        rest, _ = await process.communicate()
    assert server.failures == []
    events = seen + lines(rest.decode())
    assert (events[-1]["type"], events[-1]["status"]) == ("run_finished", "completed")
    assert process.returncode == 0
    dead = [t["error"] for t in of_type(events, "turn_finished") if t["error"]]
    assert {(error["kind"], error["retryable"]) for error in dead} == {("model_error", True)}
    assert len(dead) == 3


def app_servers(prsm) -> list[int]:
    """Return the native Codex processes of this home."""
    found = []
    for pid in prsm.processes():
        argv = command_line(pid).split(b"\0")
        if b"app-server" in argv and b"codex" in argv[0].rpartition(b"/")[2]:
            found.append(pid)
    return found


async def test_twenty_kills_of_the_engine_leave_no_process(prsm):
    scenario = lone_agent({"shell": "sleep 1000"})
    for _ in range(20):
        async with play(scenario) as server:
            prsm.configure(server.base_url)
            process = await prsm.start("run", "--json", "--on-ask", "allow", "Do it")
            await events_until(process, "permission_resolved", verdict="once")
            process.kill()
            await process.wait()
            async with asyncio.timeout(5):
                await prsm.until_gone()
        assert prsm.processes() == []
