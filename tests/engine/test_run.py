"""A whole run: from the task to run_finished."""

from __future__ import annotations

import asyncio

import pytest

from prsm_core.domain.agents import AgentRole, PermissionMode
from prsm_core.domain.models import ModelInfo
from prsm_core.domain.turns import TurnResult
from prsm_core.errors import (
    AgentSpawnError,
    ConfigError,
    FencedError,
    ModelNotAvailableError,
    ProviderNotAvailableError,
    StoreError,
)
from prsm_core.interfaces.provider import Provider, ProviderSpec, ProviderStatus
from prsm_core.interfaces.sink import EventSink, EventSinkSpec
from tests.engine.harness import SESSION, Actor, failed


async def lead(agent):
    """A master or worker that hands a part of its depth on and asks on the way."""
    depth = int(agent.context.current_message.content)
    if depth:
        await agent.call("spawn_child", prompt=str(depth - 1))
        question = await agent.call("wait_for_message")
        await agent.call(
            "respond_to_child",
            child_id=question["from"],
            correlation_id=question["correlation_id"],
            response=f"answer {depth}",
        )
        [result] = await agent.collect()
        assert result["success"]
    if agent.name != "master":
        answer = await agent.call("ask_parent", question="how?")
        assert answer == {"answer": f"answer {depth + 1}"}
    await agent.complete(f"depth {depth}")


@pytest.mark.requirement("E1")
async def test_a_run_spawns_a_master_of_the_model_and_tools_it_is_given_and_returns_its_summary(
    team,
):
    """What its prompt is made of, and what it may do without these, have tests of their own."""

    async def master(agent):
        system = agent.context.system_prompt
        assert "You lead a team of coding agents." in system
        assert agent.text == "do it"
        await agent.complete("all done")

    tools = frozenset({"Read"})
    result = await team.run("do it", {"master_model": "big", "master_tools": tools}, master=master)
    assert (result.status, result.summary, result.exit_code) == ("completed", "all done", 0)
    [request] = team.provider.requests["master"]
    assert (request.role, request.model, request.native_tools) == (AgentRole.MASTER, "big", tools)
    assert team["master"].descriptor.provider == "script", "the first that can be used"
    assert team["master"].has_ended


@pytest.mark.requirement("E1")
async def test_a_run_ends_with_its_master_and_returns_its_summary(team):
    async def master(agent):
        await agent.call("spawn_children_parallel", children=[{"prompt": "a"}, {"prompt": "b"}])
        names = {result["name"] for result in await agent.collect(2)}
        assert names == {"w1", "w2"}
        await agent.use(input_tokens=7, total_tokens=7, cost_usd=0.25)
        await agent.complete("all done")

    result = await team.run("do it", master=master)
    assert (result.status, result.summary, result.exit_code) == ("completed", "all done", 0)
    assert result.error is None
    assert result.usage.total_tokens == 7
    [finished] = team.ledger.events("run_finished")
    assert finished["usage"]["total_tokens"] == 7
    assert finished["cost_usd"] == 0.25
    assert finished["summary"] == "all done"


@pytest.mark.requirement("E8", "E46", "E47", "E48", "D13", "D14")
async def test_a_tree_of_depth_five_runs_on_one_slot(opened):
    names = ["master", *(f"w{n}" for n in range(1, 6))]
    async with opened(engine={"max_concurrent_agents": 1}) as team:
        result = await team.run("5", **dict.fromkeys(names, lead))
        assert result.status == "completed"
        assert [team[name].descriptor.depth for name in names] == [0, 1, 2, 3, 4, 5]
    ledger = team.ledger
    running = 0
    for move in ledger.events("agent_state_changed"):
        running += move["to"] in {"starting", "running"}
        running -= move["from"] in {"starting", "running"}
        assert running <= 1 + (move["to"] in {"completed", "waiting_for_parent"})
    assert ledger.states("w5") == [
        "pending",
        "starting",
        "running",
        "waiting_for_parent",
        "running",
        "completed",
    ]


@pytest.mark.requirement("E3")
async def test_the_master_bypasses_permissions_with_read_only_tools(team):
    seen = {}

    async def master(agent):
        seen["tools"] = {tool.name for tool in agent.host.tools}
        await agent.complete()

    await team.run("do it", master=master)
    [request] = team.provider.requests["master"]
    assert request.role is AgentRole.MASTER
    assert request.mode is PermissionMode.BYPASS
    assert request.native_tools == {"Read", "Glob", "Grep"}
    assert not seen["tools"] & {"ask_parent", "report_progress", "run_bash"}


@pytest.mark.requirement("E2")
async def test_the_master_gets_its_template_the_experts_and_the_task(opened):
    experts = {"sql": {"description": "Knows the schema.", "system_prompt": "You know SQL."}}
    prompts = []

    async def master(agent):
        prompts.append((agent.context.system_prompt, agent.text))
        await agent.complete("all read")

    async with opened(settings={"experts": experts}) as team:
        result = await team.run("count the tables", master=master)
    assert (result.status, result.summary) == ("completed", "all read")
    [(system, task)] = prompts
    assert system.startswith("You lead a team")
    shared, own = system.split("\n\nYour name is master.\n")
    assert shared.endswith("- sql: Knows the schema.")
    assert own.startswith("For spawn_child's model, usable now:")
    assert "- sql: Knows the schema." in system
    assert task == "count the tables"


async def test_a_run_in_plan_mode_has_a_master_in_plan_mode(team):
    await team.run("do it", {"mode": PermissionMode.PLAN})
    [request] = team.provider.requests["master"]
    assert request.mode is PermissionMode.PLAN
    assert team["master"].descriptor.grant.mode is PermissionMode.PLAN


@pytest.mark.requirement("N1")
async def test_a_context_has_three_layers_and_a_live_session_needs_no_history(team):
    async def master(agent):
        await agent.spawn("answer briefly")
        if agent.turn == 1:
            return  # with a child alive there is a next turn
        await agent.complete()

    await team.run("the task", master=master)
    first, second = team.provider.contexts["master"]
    assert "lead a team" in first.system_prompt
    assert first.system_prompt == second.system_prompt
    assert first.history == second.history == ()
    assert (first.current_message.role, first.current_message.content) == ("user", "the task")
    assert "w1 has completed its task. It reports:\n> w1 is done" in second.current_message.content
    assert second.parent_turn_id == team.ledger.one(
        "SELECT id FROM turns WHERE turn_no = 1 AND role = 'manager'"
    )
    assert first.role == "manager"
    assert team.provider.contexts["w1"][0].role == "worker"


@pytest.mark.requirement("N7")
async def test_a_turn_leaves_messages_calls_usage_and_its_end_in_the_ledger(team):
    async def master(agent):
        await agent.say("I look around.", thinking="hm")
        await agent.start_tool("v1", "Read", path="x")
        await agent.end_tool("v1", result="content")
        await agent.use(input_tokens=3, output_tokens=2, total_tokens=5)
        await agent.use(input_tokens=1, output_tokens=1, total_tokens=2)
        await agent.complete()

    await team.run("do it", master=master)
    assert {"messages", "tool_calls", "usage", "stop_reason", "duration_ms", "error"} <= {
        *TurnResult.__struct_fields__
    }
    rows = team.ledger.rows("SELECT role, content, thinking FROM messages ORDER BY sequence")
    assert rows == [("user", "do it", None), ("assistant", "I look around.", "hm")]
    calls = team.ledger.rows("SELECT tool_name, status, orchestration FROM tool_calls ORDER BY 1")
    assert calls == [("Read", "completed", 0), ("task_complete", "completed", 1)]
    turn = team.ledger.rows("SELECT status, stop_reason, input_tokens, total_tokens FROM turns")
    assert turn == [("completed", "end_turn", 4, 7)]


async def test_a_failed_master_fails_the_run_and_keeps_what_it_said(team):
    async def master(agent):
        await agent.say("I have half of it.")
        raise failed("the model broke")

    result = await team.run("do it", master=master)
    assert (result.status, result.exit_code) == ("failed", 1)
    assert result.summary == "I have half of it."
    assert result.error == "the model broke"


async def test_live_agents_of_a_failed_master_are_killed_before_the_run_finishes(team):
    async def master(agent):
        await agent.spawn(name="a")
        assert (await agent.call("wait_for_message"))["text"] == "ready?"
        raise failed("enough")

    async def a(agent):
        await agent.spawn(name="b")
        assert (await agent.call("wait_for_message"))["text"] == "here?"
        await agent.call("ask_parent", question="ready?")

    async def b(agent):
        await agent.call("ask_parent", question="here?")

    result = await team.run("do it", master=master, a=a, b=b)
    assert result.status == "failed"
    assert team.ledger.states("a")[-1] == team.ledger.states("b")[-1] == "killed"
    ends = [e["agent"] for e in team.ledger.events("agent_state_changed") if e["to"] == "killed"]
    assert ends == ["b", "a"]


@pytest.mark.parametrize("task", ["", "  \n"])
async def test_a_blank_task_is_refused_and_nothing_is_written(team, task):
    with pytest.raises(ConfigError, match="blank"):
        await team.run(task)
    assert team.ledger.events() == []


async def test_a_provider_that_is_not_usable_says_why_and_nothing_is_written(opened):
    status = ProviderStatus(available=False, reason="no login", hint="log in")
    async with opened(status=status) as team:
        with pytest.raises(ProviderNotAvailableError, match="no login") as caught:
            await team.run()
        assert (caught.value.hint, caught.value.exit_code) == ("log in", 3)
        assert team.ledger.events() == []


async def test_a_model_of_a_provider_that_is_not_installed_is_refused(opened):
    models = {"far": {"provider": "elsewhere", "model_id": "m"}}
    async with opened(settings={"models": models}) as team:
        with pytest.raises(ModelNotAvailableError, match="elsewhere"):
            await team.run("do it", {"master_model": "far"})
        assert team.ledger.events() == []


class BrokenProvider(Provider):
    """A provider whose probe raises."""

    def open_session(self, request, host):
        raise NotImplementedError

    async def probe(self):
        raise OSError("the disk is on fire")


@pytest.mark.requirement("E1")
async def test_a_provider_whose_probe_breaks_does_not_keep_a_working_one_from_being_found(opened):
    broken = ProviderSpec(name="broken", summary="", factory=lambda *_: BrokenProvider())
    async with opened(others=[broken]) as team:
        result = await team.run()
        assert result.status == "completed"
        assert team["master"].descriptor.provider == "script"
        with pytest.raises(ProviderNotAvailableError, match="the disk is on fire"):
            await team.run("again", {"provider": "broken"})


async def test_a_session_that_cannot_be_opened_fails_the_run_before_its_first_turn(opened):
    def refuse(request):
        raise ProviderNotAvailableError("the program is gone", hint="install it")

    async with opened(refuse=refuse) as team:
        result = await team.run()
        assert (result.status, result.exit_code) == ("failed", 3)
        assert result.error == "the program is gone"


async def test_the_time_limit_of_a_run_kills_its_master(fast_team):
    async def master(agent):
        await agent.say("thinking")
        await agent.hang()

    result = await fast_team.run("do it", {"timeout_s": 90.0}, master=master)
    assert (result.status, result.exit_code) == ("killed", 1)
    assert result.summary == "thinking"
    assert result.error == "the run's time limit of 90 s is over"
    assert fast_team.ledger.events("run_finished")[0]["duration_s"] == pytest.approx(90, abs=6)


async def test_one_session_runs_one_task_at_a_time(team):
    release = asyncio.Event()

    async def master(agent):
        await release.wait()
        await agent.complete()

    running = team.start("one", master=master)
    await team.seen("run_started")
    with pytest.raises(ConfigError, match="runs a task already"):
        await team.run("two")
    release.set()
    assert (await running).status == "completed"


async def test_a_second_run_of_a_session_has_agents_with_names_of_their_own(team):
    async def master(agent):
        await agent.spawn()
        await agent.collect()
        await agent.complete(agent.name)

    assert (await team.run("one", master=master)).summary == "master"
    assert (await team.run("two", m1=master)).summary == "m1"
    names = team.ledger.rows("SELECT name FROM agents ORDER BY name")
    assert names == [("m1",), ("master",), ("w1",), ("w2",)]


@pytest.mark.requirement("E5")
async def test_a_continuation_gives_the_ended_master_a_follow_up(team):
    async def master(agent):
        if agent.turn == 1:
            await agent.spawn(name="helper")
            await agent.collect()
        await agent.complete(f"done with {agent.text}")

    options = {"master_model": "script/big", "master_tools": frozenset({"Read"})}
    await team.run("one", options, master=master)
    before = team["master"].descriptor
    result = await team.engine.run_continuation("two", before.agent_id)
    assert result.summary == "done with two"
    after = team["master"].descriptor
    for name in ("agent_id", "name", "role", "parent_id", "depth", "tools", "provider", "model"):
        assert getattr(after, name) == getattr(before, name), name
    assert (after.parent_id, after.depth, after.model) == (None, 0, "big")
    assert team["master"].children == [team["helper"].agent_id], "what stood below it does still"
    requests = team.provider.requests["master"]
    assert [(each.agent_id, each.model, each.native_tools) for each in requests] == [
        (before.agent_id, "big", {"Read"})
    ] * 2
    assert len(team.ledger.rows("SELECT run_id FROM runs WHERE status = 'completed'")) == 2


async def test_only_an_ended_master_is_continued(team):
    refusals = {}

    async def master(agent):
        await agent.spawn()
        await agent.collect()
        for name in ("master", "w1"):
            try:
                await team.engine.run_continuation("more", team[name].agent_id)
            except (AgentSpawnError, ConfigError) as error:
                refusals[name] = error.code
        await agent.complete()

    await team.run("one", master=master)
    assert refusals == {"master": "config", "w1": "config"}  # a run is open
    with pytest.raises(AgentSpawnError, match="no master"):
        await team.engine.run_continuation("more", team["w1"].agent_id)


async def test_leaving_the_engine_leaves_no_task_behind(opened):
    before = asyncio.all_tasks()

    async def master(agent):
        await agent.spawn()
        await agent.hang()

    async with opened() as team:
        team.start("do it", master=master)
        await team.seen("agent_spawned", "w1")
    assert asyncio.all_tasks() == before


async def test_a_run_that_is_cancelled_while_it_closes_is_still_finished_once(opened):
    async def master(agent):
        await agent.complete()

    async with opened() as team:
        running = team.start("do it", master=master)
        await team.seen("agent_state_changed", "master", to="completed")
        await team.engine.shutdown()
        assert (await running).status in {"completed", "interrupted"}
    assert len(team.ledger.events("run_finished")) == 1


async def test_a_broken_ledger_ends_the_run_with_its_error(opened):
    async with opened(check=False) as team:

        async def master(agent):
            await agent.spawn()
            team.store.broken = StoreError("the disk is full")
            await agent.outcome("wait_for_message", {})

        with pytest.raises(StoreError, match="the disk is full"):
            await team.run("do it", master=master, w1=Actor.hang)
    assert team.ledger.events("run_finished") == []


async def test_events_of_a_run_carry_the_session_and_the_run(team):
    await team.run()
    events = [event async for event in team.store.events(SESSION)]
    assert {event.session for event in events} == {SESSION}
    assert len({event.run for event in events}) == 1


async def test_a_step_that_came_too_late_for_its_agent_does_not_end_the_run(team):
    async def late():
        raise FencedError("the agent has ended")

    async def master(agent):
        team.engine.start_soon(late(), name="late step")
        await agent.call("get_children_status")
        await agent.complete("went on")

    result = await team.run("do it", master=master)
    assert (result.status, result.summary) == ("completed", "went on")


async def test_a_run_that_needs_a_sandbox_and_has_none_never_begins(opened, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    async with opened(settings={"sandbox": "require"}, check=False) as team:
        with pytest.raises(ConfigError, match=r"sandbox\.mode is require"):
            await team.run()
        assert not team.engine.is_running
    assert team.ledger.events() == []


async def test_a_run_that_could_not_begin_closes_its_sinks_and_keeps_no_other_from_it(opened):
    sinks = []

    class Sink(EventSink):
        def __init__(self):
            self.kinds, self.closed = [], False
            sinks.append(self)

        async def write(self, batch):
            self.kinds += [event.type for event in batch]

        async def aclose(self):
            self.closed = True

    spec = EventSinkSpec(name="list", summary="", factory=lambda _run, _settings: Sink())
    async with opened(sinks=[spec]) as team:
        team.store.broken = OSError("no space left")
        with pytest.raises(OSError, match="no space left"):
            await team.run()
        team.store.broken = None
        assert (await team.run()).status == "completed"
    first, second = sinks
    assert (first.kinds, first.closed) == ([], True)
    assert second.kinds[0] == "run_started"


async def test_a_context_tells_the_window_that_the_provider_knows_of_its_model(team):
    team.provider.known_models = (ModelInfo(model_id="big", context_window=512_000),)
    await team.run("do it", {"master_model": "script/big"})
    [context] = team.provider.contexts["master"]
    assert context.token_budget.context_window == 512_000


@pytest.mark.requirement("E43")
async def test_agents_work_in_the_folder_that_is_configured(opened):
    async def worker(agent):
        await agent.complete("done")

    async def master(agent):
        await agent.call("spawn_child", prompt="x")
        await agent.collect()
        await agent.complete("done")

    async with opened(settings={"defaults": {"cwd": "src"}}) as team:
        folder = team.workspace / "src"
        folder.mkdir()
        result = await team.run("do it", master=master, w1=worker)
        started = [team.provider.requests[name][0].cwd for name in ("master", "w1")]
    assert result.status == "completed"
    assert started == [str(folder), str(folder)]


@pytest.mark.requirement("E43")
@pytest.mark.parametrize("cwd", ["..", "/", "missing", "a.txt"])
async def test_a_configured_folder_that_is_none_of_the_workspace_keeps_runs_from_starting(
    opened, cwd
):
    async with opened(settings={"defaults": {"cwd": cwd}}) as team:
        (team.workspace / "a.txt").write_text("x")
        with pytest.raises(ConfigError, match=r"defaults\.cwd: "):
            await team.run("do it")
        assert team.ledger.events("run_started") == []
