"""prsm fork of a session that another process runs: exact as of a commit, which nobody notices."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

from prsm_core.config import ledger_path, resolve_paths
from prsm_core.store import SqliteStore
from prsm_core.workspace.identity import repo_identity
from tests.cli.sessions_scene import problems
from tests.store.rewriting import rewritten

CHILDREN = [f"w{number}" for number in range(12)]
HELD = "w1"  # whose command waits
FORKS = 8  # as fast as they can be made, while the master works
DONE = {"call": {"tool": "task_complete", "arguments": {"summary": "all is painted"}}}


def spawning(name):
    return {
        "call": {
            "tool": "spawn_child",
            "arguments": {"prompt": "paint", "name": name, "wait": True},
        }
    }


@pytest.fixture
def ledger(workspace):
    return ledger_path(resolve_paths(workspace, os.environ), repo_identity(workspace).key)


@pytest.fixture
def gate(workspace):
    """A pipe that holds up a command, also one in a sandbox, until it is opened for writing."""
    os.mkfifo(path := workspace / "gate")
    return path


@pytest.fixture
def scenario(tmp_path, gate):
    """Work on both sides of the gate."""
    steps = [spawning(name) for name in CHILDREN]
    lanes: dict[str, Any] = {name: {"steps": [{"say": f"I am {name}."}]} for name in CHILDREN}
    held = {"call": {"tool": "run_bash", "arguments": {"command": f"cat {gate}"}}}
    lanes[HELD]["steps"].insert(0, held)
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"lanes": {"master": {"steps": [*steps, DONE]}, **lanes}}))
    return f"providers.script.scenario={path}"


def read_until(process, kind, **fields):
    """Read events of a run up to one of this kind; return them all."""
    events = []
    for line in process.stdout:
        events.append(event := json.loads(line))
        if event["type"] == kind and all(event.get(key) == fields[key] for key in fields):
            return events
    raise AssertionError(process.stderr.read())


def fork(prsm, session):
    done = prsm("fork", session, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)["session"]


async def check_exact(ledger, origin, forks):
    """Each fork is what its origin was after the commit that it names."""
    async with await SqliteStore.open(ledger, read_only=True) as store:
        for session in forks:
            state = await store.state(session)
            shared = state.origins[-1]
            was = await store.state(origin, shared.position)
            assert state == rewritten(was, state, state.created_at)


def test_a_fork_of_what_runs_is_exact_and_the_run_goes_on(
    prsm, prsm_process, start_prsm, ledger, gate, scenario
):
    given = ("--provider", "script", "--on-ask", "allow", "--set", scenario)
    process = start_prsm("run", "paint it", "--json", *given)
    events = read_until(process, "tool_call_started", tool="run_bash")
    origin = events[0]["session"]
    forks = [fork(prsm, origin)]
    with gate.open("w"):  # and closed: the command ends
        pass
    forks += [fork(prsm, origin) for _ in range(FORKS)]
    events += [json.loads(line) for line in process.stdout]
    assert process.wait() == 0, process.stderr.read()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["summary"] == "all is painted"
    spawned = [event["name"] for event in events if event["type"] == "agent_spawned"]
    assert spawned == ["master", *CHILDREN]
    asyncio.run(check_exact(ledger, origin, forks))
    assert problems(ledger) == [("ok",)]

    gate.unlink()
    gate.write_text("")
    done = prsm_process("resume", forks[0], "--json", "--on-ask", "allow", "--set", scenario)
    told = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, told[-1]["summary"]) == (0, "all is painted"), done.err
    spawned = [event["name"] for event in told if event["type"] == "agent_spawned"]
    assert spawned == ["master", *CHILDREN]  # two of them before the fork
