"""The table of orchestration tools: who has which, what they cost, how arguments are checked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.tools import ORCHESTRATION_TOOLS, READ_TOOLS
from prsm_core.engine.providers.model_choice import TEAM_BYTES
from prsm_core.engine.tools.table import TOOLS, ToolTable
from prsm_core.engine.turns.context import build_role_prompt
from prsm_core.errors import ToolInputError

MASTER = {
    "ask_user",
    "check_child_status",
    "consult_expert",
    "consult_peer",
    "get_budget",
    "get_child_history",
    "get_children_status",
    "recommend_model",
    "respond_to_child",
    "restart_child",
    "send_child_prompt",
    "spawn_child",
    "spawn_children_parallel",
    "task_complete",
    "wait_for_message",
}
NEEDS_CHILDREN = MASTER - {"ask_user", "get_budget", "task_complete", "wait_for_message"}
OF_A_CHILD = {"ask_parent", "report_progress", "run_bash"}
READER = OF_A_CHILD | {"ask_user", "task_complete"}
LARGEST_TEAM = "x" * TEAM_BYTES
BUDGET = 6000  # bytes that role prompt and tools may add to a model request


@pytest.mark.parametrize(
    ("role", "may_spawn", "names"),
    [
        (AgentRole.MASTER, True, MASTER),
        (AgentRole.MASTER, False, MASTER - NEEDS_CHILDREN),
        (AgentRole.WORKER, True, MASTER | OF_A_CHILD),
        (AgentRole.WORKER, False, (MASTER | OF_A_CHILD) - NEEDS_CHILDREN),
        (AgentRole.EXPERT, True, READER),
        (AgentRole.REVIEWER, True, READER),
    ],
)
def test_every_role_has_its_tools(role, may_spawn, names):
    assert ToolTable().for_role(role, may_spawn=may_spawn).names == names


@pytest.mark.requirement("N2")
async def test_a_provider_sees_the_tools_that_its_agent_may_have_and_no_other(opened):
    """By role, by depth and by grant: what an agent may not have is offered to no model."""
    given: dict[str, tuple[set[str], frozenset[str]]] = {}

    def note(agent):
        names = {tool.name for tool in agent.host.tools}
        assert names == {tool.name for tool in agent.context.tools}
        given[agent.name] = names, agent.session.request.native_tools
        return names

    async def finish(agent):
        for name in (MASTER | OF_A_CHILD) - note(agent):
            assert await agent.refused(name) in {"unknown_tool", "max_depth"}
        await agent.complete()

    async def master(agent):
        note(agent)
        await agent.spawn(name="a", tools=["Read", "Edit"])
        await agent.spawn(name="r", role="reviewer")
        await agent.collect(2)
        await agent.call("consult_expert", expert_id="sql", question="how?")
        await agent.complete()

    async def a(agent):
        await agent.spawn(name="b")
        await agent.collect()
        await finish(agent)

    sql = {"description": "Knows the schema.", "system_prompt": "You know SQL.", "tools": ["Read"]}
    team = {"master": master, "a": a, "b": finish, "r": finish, "e1": finish}
    fields = {"engine": {"max_agent_depth": 2}, "settings": {"experts": {"sql": sql}}}
    async with opened(**fields) as opened_team:
        assert (await opened_team.run("do it", **team)).status == "completed"
    assert given == {
        "master": (MASTER, READ_TOOLS),
        "a": (MASTER | OF_A_CHILD, {"Read", "Edit"}),
        "b": ((MASTER | OF_A_CHILD) - NEEDS_CHILDREN, {"Read", "Edit"}),
        "r": (READER, READ_TOOLS),
        "e1": (READER, {"Read"}),
    }
    rows = opened_team.ledger.rows(
        "SELECT a.name, t.tools_available FROM turns t JOIN agents a USING (agent_id)"
    )
    assert {name: set(json.loads(tools)) for name, tools in rows} == {
        name: tools | native for name, (tools, native) in given.items()
    }


def test_the_tables_tools_have_valid_schemas():
    assert ToolTable().names == MASTER | OF_A_CHILD
    for tool in TOOLS:
        Draft202012Validator.check_schema(tool.schema)
        assert tool.schema["additionalProperties"] is False
        assert tool.spec.description


def keys_of(schema):
    """Yield every key of a schema, at any depth."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield key
            yield from keys_of(value)


def test_a_model_sees_every_argument_and_no_rule_that_is_only_checked():
    for tool in TOOLS:
        seen = tool.spec.input_schema
        Draft202012Validator.check_schema(seen)
        assert seen["properties"].keys() == tool.schema["properties"].keys() - {"timeout_seconds"}
        assert seen.get("required", []) == tool.schema["required"]
        assert not {"$ref", "$defs", "title"} & set(keys_of(seen)) - seen["properties"].keys()
        assert "minLength" not in str(seen)


def test_what_a_model_is_not_shown_is_checked_all_the_same():
    spawn = next(tool for tool in TOOLS if tool.spec.name == "spawn_children_parallel")
    spawn.check({"children": [{"prompt": "a", "role": "reviewer"}]})
    for wrong in ([], [{"prompt": ""}], [{"prompt": "a", "wait": True}], [{"role": "worker"}]):
        with pytest.raises(ToolInputError, match=r"^spawn_children_parallel: children"):
            spawn.check({"children": wrong})


def test_the_tools_that_wait_say_so():
    waiting = {tool.spec.name for tool in TOOLS if tool.spec.waits}
    assert waiting == {
        "ask_parent",
        "ask_user",
        "consult_expert",
        "consult_peer",
        "restart_child",
        "spawn_child",
        "wait_for_message",
    }


@pytest.mark.parametrize("role", list(AgentRole))
def test_prompt_and_tools_add_at_most_6_kb_to_a_request(role, report):
    tools = ToolTable().for_role(role, may_spawn=True)
    specs = [
        {
            "name": spec.name,
            "description": spec.description,
            "parameters": dict(spec.input_schema),
        }
        for spec in tools.specs
    ]
    leads = role in {AgentRole.MASTER, AgentRole.WORKER}
    prompt = build_role_prompt(role, "w" * 32, may_spawn=True, team=LARGEST_TEAM if leads else "")
    size = len(json.dumps(specs, separators=(",", ":")).encode()) + len(prompt.encode())
    report(f"tools: role {role.value} adds {size} bytes to a request, {BUDGET} are allowed")
    assert size <= BUDGET


VALID: dict[str, dict[str, Any]] = {
    "ask_parent": {"question": "x"},
    "respond_to_child": {"child_id": "x", "correlation_id": "y", "response": "z"},
    "wait_for_message": {"timeout": 0, "token": "t"},
    "send_child_prompt": {"child_id": "x", "prompt": "y"},
    "spawn_child": {
        "prompt": "x",
        "tools": ["Read"],
        "model": "m",
        "models": ["m"],
        "mode": "plan",
        "depth": 0,
        "cwd": "d",
        "mcp_servers": [],
        "exclude_mcp_servers": [],
        "role": "reviewer",
        "profile": "tester",
        "name": "n",
        "wait": True,
    },
    "spawn_children_parallel": {"children": [{"prompt": "x", "role": "worker"}]},
    "consult_peer": {"question": "is it safe?", "peer": "codex/default"},
    "consult_expert": {"expert_id": "security", "question": "is it safe?"},
    "restart_child": {"child_id": "x", "prompt": "y", "wait": False},
    "recommend_model": {"task_description": "x", "complexity": "simple"},
    "report_progress": {"status": "x", "percent": 99.5},
    "task_complete": {"summary": "", "artifacts": ["a"]},
    "ask_user": {"question": "x", "options": ["a"], "multiple": True},
    "get_child_history": {"child_id": "x", "detail_level": "full"},
    "check_child_status": {"child_id": "x"},
    "get_budget": {},
    "get_children_status": {},
    "run_bash": {"command": "x", "timeout": 0.5, "cwd": "d"},
}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.spec.name)
def test_arguments_are_checked_against_the_schema(tool):
    name, arguments = tool.spec.name, VALID[tool.spec.name]
    tool.check(arguments)
    for required in tool.schema["required"]:
        without = {key: value for key, value in arguments.items() if key != required}
        with pytest.raises(ToolInputError, match=f"{name}: .*{required}"):
            tool.check(without)
    with pytest.raises(ToolInputError, match="bogus"):
        tool.check({**arguments, "bogus": 1})
    for key in arguments:
        with pytest.raises(ToolInputError, match=f"{name}: {key}: "):
            tool.check({**arguments, key: None})


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("wait_for_message", {"timeout": -1}),
        ("wait_for_message", {"timeout": "5"}),
        ("run_bash", {"command": "x", "timeout": 0}),
        ("get_child_history", {"child_id": "x", "detail_level": "some"}),
        ("recommend_model", {"task_description": "x", "complexity": "enormous"}),
        ("spawn_children_parallel", {"children": []}),
        ("spawn_children_parallel", {"children": [{"prompt": "x", "wait": True}]}),
        ("spawn_child", {"prompt": "x", "role": "expert"}),
        ("spawn_child", {"prompt": "x", "mode": "delegate"}),
        ("spawn_child", {"prompt": "x", "models": []}),
        ("spawn_child", {"prompt": "x", "depth": -1}),
        ("spawn_child", {"prompt": "x", "depth": 1.5}),
        ("spawn_child", {"prompt": "x", "depth": True}),
    ],
)
def test_values_out_of_range_are_refused(tool, arguments):
    [found] = [candidate for candidate in TOOLS if candidate.spec.name == tool]
    with pytest.raises(ToolInputError) as caught:
        found.check(arguments)
    assert caught.value.code == "invalid_arguments"
    assert "arguments: " in str(caught.value.hint)


def test_the_tools_that_providers_know_for_the_engines_are_those_of_the_table():
    assert {tool.spec.name for tool in TOOLS} == ORCHESTRATION_TOOLS == MASTER | OF_A_CHILD
