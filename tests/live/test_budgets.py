"""A budget ends real programs whose model would go on for ever: one response may be over.

Each response of the loopback model says that it used 40,000 tokens, so that the third passes a
budget of 100,000. What counts is how many responses the model server gave.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest
from prsm_testing.model_server import ModelServer

pytestmark = [pytest.mark.live, pytest.mark.requirement("U14")]

KEY = {"api_key_env": "LIVE_TEST_KEY"}
USED = {"input_tokens": 39_000, "output_tokens": 1_000}
BUDGET = 100_000
ENDLESS = 60  # responses: far more than any budget lets pass
PASSED = 3  # the response that passes the budget
LATE = "tells its tokens only when a turn ends"

STEPWISE = {
    "codex-hooks": {"kind": "codex", "enforcement": "pre_tool"},
    "codex-approval": {"kind": "codex", "enforcement": "approval"},
    "claude": {"kind": "claude"},
}
TURNWISE = {
    "codex-exec": {"kind": "codex", "backend": "exec"},
    "gemini-acp": {"kind": "gemini", "backend": "acp"},
    "gemini-headless": {"kind": "gemini", "backend": "headless"},
}


def section(settings, server):
    """Return the section of a provider whose program is there; skip where it is missing."""
    kind = settings["kind"]
    if kind == "claude":
        if importlib.util.find_spec("claude_agent_sdk") is None:
            pytest.skip("claude-agent-sdk is not installed")
        return {**settings, "base_url": server.root_url, **KEY}
    variable = f"PRSM_LIVE_{kind.upper()}"
    path = os.environ.get(variable, "")
    if not Path(path).is_file():
        pytest.skip(f"{variable} names no program: npm is missing or cannot reach its registry")
    url = server.base_url if kind == "codex" else server.root_url
    return {**settings, "command": [path], "base_url": url, **KEY}


def shell_steps(count):
    """Return responses that each run a command of their own."""
    return [
        {"shell": f"ls -{'a' * (n + 1)}", "usage": USED, "say": f"part {n}"} for n in range(count)
    ]


def spawned(name, model, lane):
    prompt = f"[[lane:{lane}]] Go on for ever."
    return {"tool": "spawn_child", "arguments": {"name": name, "prompt": prompt, "model": model}}


async def run(prsm, scenario, providers, *, master=None, flags=(), model=None):
    """Run a task in front of a model server; return exit code, events and the server."""
    async with ModelServer(scenario) as server:
        given = {name: section(settings, server) for name, settings in providers.items()}
        defaults = {"provider": "script"}
        if master is not None:
            lanes = {"lanes": {"master": {"steps": master}}}
            given["script"] = {"scenario": lanes}
        else:
            defaults = {"provider": next(iter(providers)), "model": model}
        prsm.write({"defaults": defaults, "providers": given})
        flags = ("--budget-tokens", str(BUDGET), *flags)
        code, out, err = await prsm.run_async("run", "--json", *flags, "Lead them")
        assert server.failures == [], err
    return code, [json.loads(line) for line in out.splitlines()], server


def failed_ones(events):
    """Return why each agent failed, by its name."""
    names = {e["agent"]: e["name"] for e in events if e["type"] == "agent_spawned"}
    return {
        names[e["agent"]]: e["reason"]
        for e in events
        if e["type"] == "agent_state_changed" and e["to"] == "failed"
    }


def asked(server, lane):
    return sum(request.lane == lane for request in server.requests)


def notices(events):
    return [e["text"] for e in events if e["type"] == "notice"]


@pytest.mark.parametrize("name", STEPWISE)
async def test_a_master_that_would_go_on_for_ever_ends_at_its_next_step(bare_prsm, name):
    steps = [
        {"call": {"tool": "get_budget", "arguments": {}}, "usage": USED, "say": f"part {n}"}
        for n in range(ENDLESS)
    ]
    scenario = {"lanes": {"master": {"marker": "Lead them", "steps": steps}}}
    model = "claude-scripted-1" if name == "claude" else "scripted-1"
    code, events, server = await run(bare_prsm, scenario, {"tried": STEPWISE[name]}, model=model)
    # Codex tells what a response used before it asks its model again.
    assert PASSED <= asked(server, "master") <= PASSED + (name == "claude")
    end = events[-1]
    assert (code, end["type"], end["status"]) == (1, "run_finished", "failed")
    assert "the budget of the run is used up" in end["error"]
    assert end["summary"].startswith("part 0\npart 1\npart 2")
    assert end["usage"]["total_tokens"] <= BUDGET + 2 * 40_000
    order = [e["type"] for e in events if e["type"] in {"budget_warned", "turn_finished"}]
    assert order == ["budget_warned", "turn_finished"], "the warning comes while the turn runs"
    assert not any(LATE in text for text in notices(events))


@pytest.mark.parametrize("name", STEPWISE)
async def test_a_budget_in_dollars_holds_by_the_prices_that_a_person_gives(bare_prsm, name):
    """Each response costs a dollar, so that the second passes the budget."""
    steps = [
        {"call": {"tool": "get_budget", "arguments": {}}, "usage": USED, "say": f"part {n}"}
        for n in range(ENDLESS)
    ]
    scenario = {"lanes": {"master": {"marker": "Lead them", "steps": steps}}}
    model = "claude-scripted-1" if name == "claude" else "scripted-1"
    prices = "budgets.prices={tried: {input: 25, output: 25}}"
    code, events, server = await run(
        bare_prsm,
        scenario,
        {"tried": STEPWISE[name]},
        model=model,
        flags=("--budget-usd", "1.5", "--set", prices),
    )
    assert PASSED - 1 <= asked(server, "master") <= PASSED
    assert (code, events[-1]["status"]) == (1, "failed")
    assert "of $1.5 used" in events[-1]["error"]
    assert events[-1]["cost_usd"] is not None
    assert not any("tells its cost" in text for text in notices(events))


@pytest.mark.parametrize("name", STEPWISE)
async def test_a_worker_with_a_shell_ends_at_its_next_step(bare_prsm, name):
    scenario = {"lanes": {"endless": {"steps": shell_steps(ENDLESS)}}}
    master = [
        {"call": spawned("worker", "tried/claude-scripted-1", "endless")},
        {"call": {"tool": "wait_for_message", "arguments": {}}},
        {"call": {"tool": "task_complete", "arguments": {"summary": "never"}}},
    ]
    code, events, server = await run(bare_prsm, scenario, {"tried": STEPWISE[name]}, master=master)
    assert PASSED <= asked(server, "endless") <= PASSED + 1
    assert (code, events[-1]["status"]) == (1, "failed")
    assert failed_ones(events).keys() == {"worker", "master"}
    assert all("is used up" in reason for reason in failed_ones(events).values())


async def test_in_a_tree_of_vendors_each_is_at_most_one_response_over(bare_prsm):
    """Whoever passes the budget of the run ends them all, each at its own next step."""
    lanes = {"one": {"steps": shell_steps(ENDLESS)}, "two": {"steps": shell_steps(ENDLESS)}}
    master = [
        {"call": spawned("codex", "one/scripted-1", "one")},
        {"call": spawned("claude", "two/claude-scripted-1", "two")},
        {"call": {"tool": "wait_for_message", "arguments": {}}},
        {"call": {"tool": "task_complete", "arguments": {"summary": "never"}}},
    ]
    providers = {"one": STEPWISE["codex-hooks"], "two": STEPWISE["claude"]}
    code, events, server = await run(bare_prsm, {"lanes": lanes}, providers, master=master)
    assert (code, events[-1]["status"]) == (1, "failed")
    assert failed_ones(events).keys() == {"codex", "claude", "master"}
    given = asked(server, "one") + asked(server, "two")
    assert given <= PASSED + 2, "one response over for each of the two"
    [exceeded] = [e for e in events if e["type"] == "budget_exceeded"]
    assert BUDGET <= exceeded["used"] <= BUDGET + 40_000


@pytest.mark.parametrize("name", TURNWISE)
async def test_who_tells_usage_at_the_turns_end_is_named_before_its_agent(bare_prsm, name):
    """Its one turn goes on to its end; what comes after that is refused."""
    kind = TURNWISE[name]["kind"]
    rounds = 5
    shell = [{"shell": f"ls -{'a' * (n + 1)}", "usage": USED} for n in range(rounds)]
    scenario = {"lanes": {"late": {"steps": [*shell, {"say": "all of it", "usage": USED}]}}}
    model = "tried/gemini-2.5-pro" if kind == "gemini" else "tried/scripted-1"
    refused = spawned("second", model, "late")
    master = [
        {"call": spawned("late", model, "late")},
        {"call": {"tool": "wait_for_message", "arguments": {}}},
        {"call": refused, "on_error": "continue"},
        {"call": {"tool": "task_complete", "arguments": {"summary": "what there is"}}},
    ]
    flags = ("--set", f"defaults.peer_models=[{model}]")
    code, events, server = await run(
        bare_prsm, scenario, {"tried": TURNWISE[name]}, master=master, flags=flags
    )
    of = next(e["agent"] for e in events if e["type"] == "agent_spawned" and e["name"] == "late")
    told = [n for n, e in enumerate(events) if LATE in str(e.get("text"))]
    begun = [n for n, e in enumerate(events) if (e["type"], e.get("agent")) == ("turn_started", of)]
    assert told, notices(events)
    assert told[0] < begun[0], "said before the first turn of its agent"
    assert asked(server, "late") == rounds + 1
    [exceeded] = [e for e in events if e["type"] == "budget_exceeded"]
    assert exceeded["used"] >= 6 * 40_000
    assert {e["name"] for e in events if e["type"] == "agent_spawned"} == {"master", "late"}
    assert (code, events[-1]["status"]) == (1, "failed")
