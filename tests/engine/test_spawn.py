"""Spawning children: limits, grants, reuse, waiting."""

from __future__ import annotations

from typing import Any

import pytest

from prsm_core.domain.agents import AgentRole, PermissionMode, SpawnRequest
from prsm_core.domain.tools import NATIVE_TOOLS, READ_TOOLS
from prsm_core.engine.guarded.failing import UNFIT
from prsm_core.errors import AgentSpawnError, MaxDepthExceededError, ProviderNotAvailableError
from prsm_core.interfaces.provider import Provider, ProviderSpec
from tests.engine.harness import NOT_ENDED
from tests.engine.mcp_programs import server_program

CHILD_KEYS = {"agent_id", "name", "state", "reused"}
UNWRITABLE = "w\ud800"  # half a surrogate pair


@pytest.mark.requirement("E6", "N26")
async def test_a_spawned_child_is_described_registered_and_started(as_master):
    answers = []

    async def script(agent, team):
        answers.append(await agent.call("spawn_child", prompt="count", name="counter"))
        assert team.engine.router.is_registered(team["counter"].agent_id)
        assert not team.task("counter").done()
        await agent.collect()

    team = await as_master(script)
    [answer] = answers
    child = team["counter"].descriptor
    assert answer.pop("state") in NOT_ENDED
    assert answer == {"agent_id": child.agent_id, "name": "counter", "reused": False}
    parent = team["master"].descriptor
    assert (child.parent_id, child.depth, child.role) == (parent.agent_id, 1, AgentRole.WORKER)
    assert (child.provider, child.model, child.cwd) == ("script", parent.model, parent.cwd)
    assert child.prompt == "count"
    assert (child.tools, child.mode) == (NATIVE_TOOLS, PermissionMode.DEFAULT)
    [(label, is_subagent, parent_label)] = team.ledger.rows(
        "SELECT label, is_subagent, parent_session_label FROM sessions WHERE agent_id = ?",
        child.agent_id,
    )
    assert (label, is_subagent, parent_label) == ("session/counter", 1, "session/master")
    spawned = "SELECT spawned_session_label FROM tool_calls WHERE tool_name = 'spawn_child'"
    assert team.ledger.one(spawned) == label


async def test_children_spawned_in_parallel_are_named_in_order(as_master):
    async def script(agent, _):
        wanted = [{"prompt": "a"}, {"prompt": "b", "role": "reviewer"}, {"prompt": "c"}]
        answer = await agent.call("spawn_children_parallel", children=wanted)
        assert answer.keys() == {"children"}
        assert [child["name"] for child in answer["children"]] == ["w1", "r1", "w2"]
        assert all(child.keys() == CHILD_KEYS for child in answer["children"])
        await agent.collect(3)

    team = await as_master(script)
    assert team["r1"].descriptor.tools == {"Read", "Glob", "Grep"}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "blank prompt": ({"prompt": "  "}, "spawn_failed"),
    "empty prompt": ({"prompt": ""}, "invalid_arguments"),
    "no prompt": ({}, "invalid_arguments"),
    "misspelt argument": ({"prompt": "x", "tool": ["Read"]}, "invalid_arguments"),
    "unknown restriction": ({"prompt": "x", "read_only": True}, "invalid_arguments"),
    "wrong type": ({"prompt": "x", "tools": "Bash"}, "invalid_arguments"),
    "role of a master": ({"prompt": "x", "role": "master"}, "invalid_arguments"),
    "duplicate name": ({"prompt": "x", "name": "master"}, "spawn_failed"),
    "bad name": ({"prompt": "x", "name": "No Name"}, "spawn_failed"),
    "unknown tool": ({"prompt": "x", "tools": ["Read", "Teleport"]}, "unknown_tool"),
    "unknown MCP server": ({"prompt": "x", "mcp_servers": ["jira"]}, "unknown_mcp_server"),
    "no MCP server to exclude": (
        {"prompt": "x", "exclude_mcp_servers": ["jira"]},
        "unknown_mcp_server",
    ),
    "folder outside": ({"prompt": "x", "cwd": ".."}, "bad_cwd"),
    "absolute folder outside": ({"prompt": "x", "cwd": "/"}, "bad_cwd"),
    "no such folder": ({"prompt": "x", "cwd": "nowhere"}, "bad_cwd"),
    "model of no provider": ({"prompt": "x", "model": "far"}, "model_not_available"),
}


@pytest.mark.parametrize("tool", ["spawn_child", "spawn_children_parallel"])
async def test_a_refused_spawn_writes_nothing(as_master, tool):
    async def script(agent, team):
        before = team.ledger.written()
        for case, (arguments, code) in REFUSED.items():
            if tool == "spawn_child":
                assert await agent.refused(tool, **arguments) == code, case
            else:
                good = {"prompt": "fine", "name": "fine"}
                assert await agent.refused(tool, children=[good, arguments]) == code, case
            assert team.ledger.written() == before, case
            assert [r.agent_id for r in team.manager.roster.records()] == [agent.id], case

    await as_master(
        script, settings={"models": {"far": {"provider": "elsewhere", "model_id": "m"}}}
    )


async def test_two_children_of_one_call_cannot_have_the_same_name(as_master):
    async def script(agent, team):
        twins = [{"prompt": "x", "name": "twin"}, {"prompt": "y", "name": "twin"}]
        assert await agent.refused("spawn_children_parallel", children=twins) == "spawn_failed"
        assert [r.agent_id for r in team.manager.roster.records()] == [agent.id]

    await as_master(script)


async def test_children_of_one_call_are_all_born_or_none_of_them(as_master):
    """One of them gets a name that cannot be written: the step of their births is refused."""

    async def script(agent, team):
        taken, both = team.manager.roster.taken_names, [{"prompt": "x"}, {"prompt": "y"}]
        numbered, names = taken.numbered, ["w1", UNWRITABLE]
        taken.numbered = lambda prefix: names.pop(0)
        assert await agent.refused("spawn_children_parallel", children=both) == UNFIT
        taken.numbered = numbered
        assert [r.agent_id for r in team.manager.roster.records()] == [agent.id]
        assert team.ledger.one("SELECT count(*) FROM agents") == 1
        calls = "SELECT status FROM tool_calls WHERE tool_name = 'spawn_children_parallel'"
        assert team.ledger.one(calls) == "failed"
        answer = await agent.call("spawn_children_parallel", children=both)
        assert [child["name"] for child in answer["children"]] == ["w1", "w2"]
        await agent.collect(2)

    await as_master(script)


async def test_a_child_that_the_ledger_refuses_leaves_the_answer_that_says_so(as_master):
    async def script(agent, team):
        taken = team.manager.roster.taken_names
        numbered, taken.numbered = taken.numbered, lambda prefix: UNWRITABLE
        assert await agent.refused("spawn_child", prompt="x") == UNFIT
        taken.numbered = numbered
        assert [r.agent_id for r in team.manager.roster.records()] == [agent.id]
        calls = "SELECT error FROM tool_calls WHERE tool_name = 'spawn_child'"
        assert f'"code":"{UNFIT}"' in team.ledger.one(calls)

    await as_master(script)


async def test_a_run_has_a_limit_of_agents_that_is_checked_for_all_children_at_once(as_master):
    async def script(agent, team):
        three = [{"prompt": "x"}] * 3
        assert await agent.refused("spawn_children_parallel", children=three) == "too_many_agents"
        assert [r.agent_id for r in team.manager.roster.records()] == [agent.id]
        await agent.call("spawn_children_parallel", children=three[:2])
        assert await agent.refused("spawn_child", prompt="x", name="late") == "too_many_agents"
        await agent.collect(2)

    await as_master(script, engine={"max_agents_per_run": 3})


@pytest.mark.requirement("E7")
async def test_the_tree_grows_to_its_limit_and_no_deeper(as_master):
    seen: dict[str, Any] = {}

    async def script(agent, team):
        await agent.spawn(name="a")
        await agent.collect()

    async def a(agent):
        await agent.spawn(name="b")
        await agent.collect()
        await agent.complete()

    async def b(agent):
        seen["tools"] = {tool.name for tool in agent.host.tools}
        seen["code"] = await agent.refused("spawn_child", prompt="deeper")
        seen["status"] = await agent.refused("get_children_status")
        await agent.complete()

    team = await as_master(script, engine={"max_agent_depth": 2}, team={"a": a, "b": b})
    assert seen["code"] == seen["status"] == "max_depth"
    assert not any(tool.startswith(("spawn", "restart")) for tool in seen["tools"])
    assert "spawn children" not in team.provider.requests["b"][0].system_prompt
    assert "spawn children" in team.provider.requests["a"][0].system_prompt
    assert len(team.manager.roster.records()) == 3


@pytest.mark.requirement("E7")
async def test_the_manager_refuses_a_spawn_below_the_limit_and_writes_nothing(as_master):
    async def script(agent, team):
        before = team.ledger.written()
        request = SpawnRequest(prompt="x", parent_id=agent.id)
        with pytest.raises(MaxDepthExceededError, match="depth 1 exceeds max_agent_depth 0"):
            await team.manager.spawn_agent(request)
        assert team.ledger.written() == before

    await as_master(script, engine={"max_agent_depth": 0})


@pytest.mark.requirement("E7", "E8")
async def test_the_depth_limit_is_five_by_default(opened):
    async with opened() as team:
        assert team.engine.settings.engine.max_agent_depth == 5
        assert team.engine.settings.engine.max_concurrent_agents == 10


@pytest.mark.requirement("E50")
async def test_a_child_gets_the_tools_it_is_given_and_hands_down_no_more(as_master):
    async def script(agent, _):
        await agent.spawn(name="a", tools=["Read", "Edit"])
        await agent.collect()

    async def a(agent):
        refusal = await agent.refused("spawn_child", prompt="x", tools=["Read", "Bash"])
        assert refusal == "not_granted"
        await agent.spawn(name="b")
        await agent.collect()
        await agent.complete()

    team = await as_master(script, team={"a": a})
    assert team.provider.requests["a"][0].native_tools == {"Read", "Edit"}
    assert team.provider.requests["b"][0].native_tools == {"Read", "Edit"}
    assert team["b"].descriptor.grant.tools == {"Read", "Edit"}


@pytest.mark.parametrize("mode", [PermissionMode.PLAN, PermissionMode.ACCEPT_EDITS])
async def test_a_child_runs_in_the_mode_of_the_run_and_never_above_it(as_master, mode):
    async def script(agent, team):
        request = SpawnRequest(prompt="x", parent_id=agent.id, mode=PermissionMode.BYPASS)
        child = await team.manager.spawn_agent(request)
        assert child.descriptor.mode is mode
        await agent.collect()

    await as_master(script, {"mode": mode})


@pytest.mark.requirement("E36")
async def test_who_works_in_delegate_mode_reads_and_hands_down_the_default_mode(as_master):
    async def script(agent, team):
        master = team["master"].descriptor
        assert (master.mode, master.tools) == (PermissionMode.DELEGATE, READ_TOOLS)
        assert master.grant.mode is PermissionMode.DEFAULT
        child = await team.manager.spawn_agent(SpawnRequest(prompt="x", parent_id=agent.id))
        assert (child.descriptor.mode, child.descriptor.tools) == (
            PermissionMode.DEFAULT,
            NATIVE_TOOLS,
        )
        await agent.collect()

    await as_master(script, {"mode": PermissionMode.DELEGATE})


@pytest.mark.requirement("E36", "U15")
@pytest.mark.parametrize("mode", [PermissionMode.BYPASS, PermissionMode.PLAN])
async def test_a_child_that_is_to_delegate_is_given_no_more_than_that(as_master, mode):
    async def script(agent, team):
        request = SpawnRequest(prompt="x", parent_id=agent.id, mode=PermissionMode.DELEGATE)
        child = (await team.manager.spawn_agent(request)).descriptor
        assert (child.mode, child.tools) == (PermissionMode.DELEGATE, READ_TOOLS)
        assert child.grant.tools == NATIVE_TOOLS
        ceiling = PermissionMode.DEFAULT if mode is PermissionMode.BYPASS else mode
        assert child.grant.mode is ceiling
        await agent.collect()

    await as_master(script, {"mode": mode})


@pytest.mark.requirement("E50")
async def test_a_child_may_work_in_a_folder_below_on_a_model_of_its_own(as_master):
    async def script(agent, team):
        (team.workspace / "sub").mkdir()
        await agent.spawn(name="a", cwd="sub", model="fast")
        await agent.spawn(name="b", model="script/other")
        await agent.spawn(name="c", model="plain")
        await agent.collect(3)

    models = {"fast": {"provider": "script", "model_id": "m-1", "reasoning_effort": "low"}}
    team = await as_master(script, settings={"models": models})
    [a] = team.provider.requests["a"]
    assert (a.cwd, a.model, a.reasoning_effort) == (str(team.workspace / "sub"), "m-1", "low")
    assert team.provider.requests["b"][0].model == "other"
    assert team.provider.requests["c"][0].model == "plain"


async def test_a_child_gets_the_configured_mcp_servers(as_master, tmp_path):
    async def script(agent, _):
        await agent.spawn(name="a", mcp_servers=["jira"])
        await agent.collect()

    command = server_program(tmp_path, "jira-mcp")
    team = await as_master(script, settings={"mcp_servers": {"jira": {"command": command}}})
    assert team.provider.requests["a"][0].mcp_servers["jira"].command == command


@pytest.mark.requirement("E11")
async def test_a_child_does_not_get_the_mcp_servers_that_its_parent_excludes(as_master, tmp_path):
    async def script(agent, _):
        await agent.spawn(name="a", exclude_mcp_servers=["jira"])
        await agent.collect()

    servers = {name: {"command": server_program(tmp_path, name)} for name in ("jira", "wiki")}
    team = await as_master(script, settings={"mcp_servers": servers})
    assert team.provider.requests["a"][0].mcp_servers.keys() == {"wiki"}


async def test_a_finished_child_without_the_mcp_servers_of_a_task_is_not_used_again(
    as_master, tmp_path
):
    async def script(agent, _):
        await agent.spawn("read the code")
        await agent.collect()
        answer = await agent.call("spawn_child", prompt="close the ticket")
        assert (answer["name"], answer["reused"]) == ("w2", False)
        await agent.collect()

    command = server_program(tmp_path, "jira-mcp")
    servers = {"jira": {"command": command, "tags": ["ticket"]}}
    team = await as_master(script, settings={"mcp_servers": servers})
    assert team.provider.requests["w2"][0].mcp_servers.keys() == {"jira"}


async def test_a_child_of_another_provider_that_cannot_start_fails_and_its_parent_hears_why(
    as_master,
):
    class Gone(Provider):
        def open_session(self, request, host):
            raise ProviderNotAvailableError("gone", hint="install it")

    async def script(agent, _):
        await agent.spawn(model="gone/any")
        [result] = await agent.collect()
        assert (result["success"], result["error"]) == (False, "gone")

    spec = ProviderSpec(name="gone", summary="", factory=lambda *_: Gone())
    await as_master(script, {"provider": "script"}, others=[spec])


@pytest.mark.requirement("E50")
@pytest.mark.parametrize("gives_tokens", [True, False])
async def test_a_finished_child_that_fits_is_used_again(as_master, gives_tokens):
    async def script(agent, team):
        first = await agent.call("spawn_child", prompt="one")
        await agent.collect()
        second = await agent.call("spawn_child", prompt="two")
        assert second == {**first, "state": second["state"], "reused": True}
        assert second["state"] in NOT_ENDED
        await agent.collect()
        both = [{"prompt": "three"}, {"prompt": "four"}]
        answer = await agent.call("spawn_children_parallel", children=both)
        names = [(child["name"], child["reused"]) for child in answer["children"]]
        assert names == [("w1", True), ("w2", False)]
        await agent.collect(2)

    team = await as_master(script, gives_tokens=gives_tokens)
    assert team["w1"].descriptor.incarnation == 3
    contexts = team.provider.contexts["w1"]
    assert [one.current_message.content for one in contexts] == ["one", "two", "three"]
    assert [one.history for one in contexts] == [(), (), ()], "each sees its own task alone"
    assert [one.resume_token for one in team.provider.requests["w1"]] == [None] * 3


DIFFERENT: dict[str, dict[str, Any]] = {
    "role": {"role": "reviewer"},
    "tools": {"tools": ["Read"]},
    "model": {"model": "other"},
    "folder": {"cwd": "sub"},
    "a name": {"name": "fresh"},
    "MCP servers": {"mcp_servers": []},
}


@pytest.mark.requirement("E50")
@pytest.mark.parametrize("what", DIFFERENT)
async def test_a_finished_child_that_differs_is_not_used_again(as_master, what):
    async def script(agent, team):
        (team.workspace / "sub").mkdir()
        await agent.spawn()
        await agent.collect()
        answer = await agent.call("spawn_child", prompt="two", **DIFFERENT[what])
        assert (answer["reused"], answer["name"] != "w1") == (False, True)
        await agent.collect()

    await as_master(script)


async def test_a_child_whose_result_was_not_read_is_not_used_again(as_master):
    async def script(agent, team):
        await agent.spawn("one")
        await team.seen("agent_state_changed", "w1", to="completed")
        answer = await agent.call("spawn_child", prompt="two")
        assert (answer["name"], answer["reused"]) == ("w2", False)
        await agent.collect(2)

    await as_master(script)


@pytest.mark.requirement("E50")
async def test_a_running_child_is_not_used_again(as_master):
    async def script(agent, _):
        await agent.spawn("one")
        assert (await agent.call("spawn_child", prompt="two"))["name"] == "w2"
        asked: list[str] = []
        while len(asked) < 2:
            for question in await agent.hear():
                asked.append(question["from"])
                await agent.call(
                    "respond_to_child",
                    child_id=question["from"],
                    correlation_id=question["correlation_id"],
                    response="go",
                )
        await agent.collect(2)

    async def worker(agent):
        await agent.call("ask_parent", question="may I?")
        await agent.complete()

    await as_master(script, team={"w1": worker, "w2": worker})


@pytest.mark.requirement("E50")
async def test_a_spawn_that_waits_returns_the_result(as_master):
    async def script(agent, _):
        answer = await agent.call("spawn_child", prompt="x", wait=True)
        assert answer.keys() == CHILD_KEYS | {"result"}
        assert answer["state"] == "completed"
        assert answer["result"] == {
            "type": "task_result",
            "from": answer["agent_id"],
            "name": "w1",
            "success": True,
            "evidence": "claimed",
            "summary": "w1 is done",
        }
        # the wait has consumed the result
        assert (await agent.call("wait_for_message"))["type"] == "nothing_left"

    await as_master(script)


async def test_a_spawn_that_waits_returns_the_childs_question_early(as_master):
    async def script(agent, _):
        answer = await agent.call("spawn_child", prompt="x", wait=True)
        question = answer["result"]
        assert answer["state"] in NOT_ENDED
        assert question.keys() == {"type", "from", "name", "correlation_id", "text"}
        assert (question["type"], question["text"]) == ("question", "which?")
        await agent.call(
            "respond_to_child",
            child_id="w1",
            correlation_id=question["correlation_id"],
            response="the red one",
        )
        [result] = await agent.collect()
        assert result["summary"] == "took the red one"

    async def w1(agent):
        answer = await agent.call("ask_parent", question="which?")
        await agent.complete(f"took {answer['answer']}")

    await as_master(script, team={"w1": w1})


async def test_an_agent_that_has_ended_spawns_nothing(team):
    await team.run()
    with pytest.raises(AgentSpawnError, match="has ended"):
        await team.manager.spawn_agent(
            SpawnRequest(prompt="late", parent_id=team["master"].agent_id)
        )
    with pytest.raises(AgentSpawnError, match="needs a parent"):
        await team.manager.spawn_agent(SpawnRequest(prompt="nobody's"))


@pytest.mark.requirement("U19")
async def test_a_name_that_holds_a_secret_is_refused(as_master):
    """Rows refer to agents by name: it cannot be redacted as a text can."""

    async def script(agent, _):
        outcome = await agent.outcome("spawn_child", {"prompt": "x", "name": "sk-" + "a1" * 10})
        assert outcome.is_error
        assert "holds a secret" in outcome.text

    team = await as_master(script)
    assert team.ledger.rows("SELECT name FROM agents") == [("master",)]


@pytest.mark.requirement("E51")
async def test_one_finished_child_is_counted_once_for_several_that_it_fits(opened):
    """So that a batch for which the run has no room is refused before anything is done."""

    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        both = [{"prompt": "again"}, {"prompt": "and again"}]
        assert await agent.refused("spawn_children_parallel", children=both) == "too_many_agents"
        assert (await agent.call("check_child_status", child_id="a"))["state"] == "completed"
        answer = await agent.call("spawn_children_parallel", children=both[:1])
        assert [child["reused"] for child in answer["children"]] == [True]
        await agent.collect()
        await agent.complete()

    async with opened(engine={"max_agents_per_run": 2}) as team:
        assert (await team.run(master=master)).status == "completed"
        assert team["a"].incarnation == 2
