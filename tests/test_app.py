"""The composition root: settings and plugins become an engine behind an AppHandle."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing, asynccontextmanager

import pytest

from prsm_core.app import open_app, survey_providers
from prsm_core.cli.plugin_sections import with_settings
from prsm_core.config import resolve_paths
from prsm_core.config.schema import Settings
from prsm_core.domain.permissions import Allow, Answer, Deny, PermissionRequest
from prsm_core.errors import (
    ConfigError,
    MessageRoutingError,
    PluginError,
    ProviderNotAvailableError,
    PrsmError,
)
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.plugins import PluginManager
from tests import scripted_plugin
from tests.builtins import WITHOUT_DEMO
from tests.engine.harness import DEADLINE, complete
from tests.site_folder import path_without


@pytest.fixture
def behaviours():
    """What the agents of the plugin do, by name; one that fails fails the test."""
    scripted_plugin.behaviours.clear()
    scripted_plugin.failures.clear()
    yield scripted_plugin.behaviours
    for failure in scripted_plugin.failures:
        raise failure


@pytest.fixture
def opened(tmp_path, behaviours):
    """Open an application on an empty workspace."""
    environ = {"PRSM_HOME": str(tmp_path / "home")}
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    @asynccontextmanager
    async def open_it(
        *,
        interactive=False,
        settings=None,
        with_tools=False,
        trusted=False,
        builtins=WITHOUT_DEMO,
        **options,
    ):
        found = [("script", "tests.scripted_plugin"), ("tools", "tests.tool_plugin")]
        plugins = PluginManager.load(
            environ={}, builtins=[*builtins, *found[: 2 if with_tools else 1]], entry_points=[]
        )
        frontend = FrontendSpec(
            name="test", summary="", interactive=interactive, priority=0, factory=""
        )
        run_options = RunOptions(workspace=str(workspace), provider="script", **options)
        paths = resolve_paths(workspace, environ)
        all_settings = Settings.of(settings or {})
        plugins = with_settings(plugins, all_settings)
        async with asyncio.timeout(DEADLINE):
            async with open_app(
                run_options,
                all_settings,
                plugins,
                paths=paths,
                frontend=frontend,
                trusted=trusted,
            ) as app:
                yield app

    return open_it


async def first(app, kind):
    """Return the first event of a kind."""
    async with aclosing(app.events()) as events:
        async for event in events:
            if event.type == kind:
                return event
    raise AssertionError(kind)


def shell(agent, command):
    return PermissionRequest(
        agent_id=agent.id,
        tool="Bash",
        arguments={"command": command},
        cwd=agent.session.request.cwd,
        command=command,
    )


@pytest.mark.requirement("D3")
async def test_a_run_through_the_application_has_events_a_tree_and_histories(opened, behaviours):
    async def master(agent):
        await agent.call("spawn_child", prompt="count", name="a", wait=True)
        await agent.use(input_tokens=3, total_tokens=3)
        await agent.complete("all counted")

    behaviours["master"] = master
    async with opened() as app:
        run = await app.runs.start("count things")
        result = await run.result()
        assert (result.status, result.summary, result.exit_code) == ("completed", "all counted", 0)
        kinds = [event.type async for event in _until_finished(app)]
        assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
        tree = await app.agents.tree()
        assert (tree.session, tree.run) == (run.session, run.run_id)
        [root] = tree.agents
        assert (root.name, root.state, root.usage_self.total_tokens) == (
            "master",
            "completed",
            3,
        )
        assert [child.name for child in root.children] == ["a"]
        assert (await app.agents.history("a"))[0].text == "count"
        summary = await app.agents.history("a", "summary")
        assert summary[-1].tool == "task_complete"


async def _until_finished(app):
    async with aclosing(app.events()) as events:
        async for event in events:
            yield event
            if event.type == "run_finished":
                return


async def test_without_a_keeper_of_files_a_run_works_and_a_required_gate_stops_it(
    opened, behaviours
):
    async def master(agent):
        await agent.complete("done")

    behaviours["master"] = master
    gate = {"command": "true"}
    told = {"gates": {"tests": {**gate, "required": False}}}
    async with opened(builtins=(), settings=told) as app:
        run = await app.runs.start("x")
        assert (await run.result()).status == "completed"
        assert list(await app.changes.list()) == []
    with pytest.raises(PluginError, match=r"gates\.tests is required") as refused:
        async with opened(builtins=(), settings={"gates": {"tests": gate}}):
            pass
    assert refused.value.code == "gate_is_missing"
    assert str(refused.value.hint).startswith("prsm install files")


async def test_overrides_of_a_run_take_the_place_of_the_options(opened):
    async with opened() as app:
        run = await app.runs.start("x", model="script/other")
        await run.result()
        [agent] = (await app.agents.tree()).agents
        assert agent.model == "other"


async def test_what_keeps_a_run_from_starting_is_raised_where_it_is_started(opened, tmp_path):
    async with opened() as app:
        with pytest.raises(ConfigError, match="blank"):
            await app.runs.start("  ")
        with pytest.raises(PrsmError, match="'nobody' is not installed"):
            await app.runs.start("x", provider="nobody")
        assert not (tmp_path / "home" / "data").exists(), "no run, no ledger"
        run = await app.runs.start("x")
        assert (await run.result()).status == "completed"


async def test_a_sandbox_that_is_required_and_missing_is_told_and_leaves_no_ledger(
    opened, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    async with opened(settings={"sandbox": "require"}) as app:
        with pytest.raises(ConfigError, match=r"sandbox\.mode is require"):
            await app.runs.start("x")
    assert not (tmp_path / "home" / "data").exists()


@pytest.mark.requirement("D9", "U8")
async def test_a_person_decides_and_always_holds_for_the_subtree(opened, behaviours):
    verdicts = {}

    async def master(agent):
        await agent.call("spawn_child", prompt="x", name="a", wait=True)
        await agent.call("spawn_child", prompt="x", name="c", wait=True)
        await agent.complete()

    async def a(agent):
        verdicts["a"] = await agent.host.authorize(shell(agent, "make all"))
        await agent.call("spawn_child", prompt="x", name="b", wait=True)
        await agent.complete()

    async def other(agent):
        verdicts[agent.name] = await agent.host.authorize(shell(agent, "make all"))
        await agent.complete()

    behaviours.update(master=master, a=a, b=other, c=other)
    async with opened(interactive=True) as app:
        run = await app.runs.start("x")
        asked = await first(app, "permission_requested")
        [row] = await app.requests.open()
        assert (row.request, row.kind, row.name) == (
            asked.data["request"],
            "permission",
            "a",
        )
        with pytest.raises(ConfigError, match="no answer"):
            await app.requests.resolve(asked.data["request"], "perhaps")
        assert await app.requests.resolve(asked.data["request"], "always")
        assert not await app.requests.resolve(asked.data["request"], "deny")
        async with aclosing(app.events(after=asked.seq)) as events:
            async for event in events:
                if event.type == "permission_requested":
                    assert await app.requests.resolve(event.data["request"], "deny")
                    break
        assert (await run.result()).status == "completed"
    assert isinstance(verdicts["a"], Allow)
    assert isinstance(verdicts["b"], Allow)
    assert isinstance(verdicts["c"], Deny)


@pytest.mark.requirement("E23")
async def test_what_an_agent_wrote_of_the_environment_counts_in_later_sessions(
    opened, behaviours, tmp_path
):
    program = ".venv/bin/pytest"
    (tmp_path / "workspace" / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "workspace" / program).touch()
    verdicts = []

    async def master(agent):
        await agent.call("spawn_child", prompt="x", name="worker", wait=True)
        await agent.complete()

    async def check(agent):
        verdicts.append(type(await agent.host.authorize(shell(agent, program))))
        await agent.complete()

    async def edit(agent):
        request = PermissionRequest(agent_id=agent.id, tool="Write", paths=(program,))
        verdicts.append(type(await agent.host.authorize(request)))
        await agent.complete()

    for worker, on_ask in ((check, "deny"), (edit, "deny"), (edit, "allow"), (check, "deny")):
        behaviours.update(master=master, worker=worker)
        async with opened(trusted=True, on_ask=on_ask) as app:
            await (await app.runs.start("x")).result()
    assert verdicts == [Allow, Deny, Allow, Deny]


async def test_a_question_is_answered_through_the_application(opened, behaviours):
    async def master(agent):
        said = await agent.call("ask_user", question="which?", options=["red", "blue"])
        await agent.complete(said["choices"][0])

    behaviours["master"] = master
    async with opened(interactive=True) as app:
        run = await app.runs.start("x")
        asked = await first(app, "question_asked")
        assert not await app.requests.answer("nonsense", Answer(text="?"))
        assert await app.requests.answer(asked.data["request"], Answer(choices=("blue",)))
        assert not await app.requests.answer(asked.data["request"], Answer(choices=("red",)))
        assert (await run.result()).summary == "blue"


async def test_a_deny_rule_holds_for_run_bash_and_is_told(opened, behaviours):
    async def master(agent):
        await agent.call("spawn_child", prompt="x", name="a", wait=True)
        await agent.complete()

    async def a(agent):
        shown = await agent.call("run_bash", command="echo hi")
        assert shown["stdout"] == "hi\n"
        assert await agent.refused("run_bash", command="echo x; shred y") == "permission_denied"
        await agent.complete()

    behaviours.update(master=master, a=a)
    async with opened(settings={"permissions": {"deny": ["shred"]}}) as app:
        run = await app.runs.start("x")
        assert (await run.result()).status == "completed"


async def test_a_new_life_may_run_again_what_the_old_one_repeated(opened, behaviours):
    async def master(agent):
        await agent.call("spawn_child", prompt="x", name="a", wait=True)
        await agent.call("restart_child", child_id="a", prompt="y", wait=True)
        await agent.complete()

    async def a(agent):
        for _ in range(3):
            await agent.call("run_bash", command="echo hi")
        assert await agent.refused("run_bash", command="echo hi") == "permission_denied"
        await agent.complete()

    behaviours.update(master=master, a=a)
    async with opened() as app:
        run = await app.runs.start("x")
        assert (await run.result()).status == "completed"


async def test_a_persons_prompt_reaches_the_agent(opened, behaviours):
    async def master(agent):
        ready.set()
        await sent.wait()
        prompt = await agent.call("wait_for_message")
        await agent.complete(prompt["text"])

    ready, sent = asyncio.Event(), asyncio.Event()
    behaviours["master"] = master
    async with opened() as app:
        run = await app.runs.start("x")
        await ready.wait()
        with pytest.raises(ConfigError, match="no delivery 'shout'"):
            await app.agents.prompt("master", "hurry", "shout")
        assert await app.agents.prompt("master", "hurry") == "queued"
        sent.set()
        assert (await run.result()).summary == "hurry"
        with pytest.raises(MessageRoutingError, match="has ended"):
            await app.agents.prompt("master", "too late")


async def test_killing_names_those_it_ended(opened, behaviours):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.complete()

    async def a(agent):
        await agent.call("spawn_child", prompt="x", name="done", wait=True)
        await agent.spawn(name="b", role="reviewer")
        await agent.hang()

    async def b(agent):
        running.set()
        await agent.hang()

    running = asyncio.Event()
    behaviours.update(master=master, a=a, b=b)
    async with opened() as app:
        run = await app.runs.start("x")
        await running.wait()
        assert await app.agents.kill("a") == ["a", "b"]
        with pytest.raises(MessageRoutingError, match="ended"):
            await app.agents.kill("a")
        with pytest.raises(MessageRoutingError, match="no agent"):
            await app.agents.kill("nobody")
        assert (await run.result()).status == "completed"


async def test_restarting_an_agent_needs_a_run(opened, behaviours):
    ready = asyncio.Event()

    async def master(agent):
        await agent.call("spawn_child", prompt="one", name="a", wait=True)
        ready.set()
        await again.wait()
        [result] = await agent.collect()
        await agent.complete(result["summary"])

    again = asyncio.Event()
    behaviours.update(master=master, a=complete)
    async with opened() as app:
        run = await app.runs.start("x")
        await ready.wait()
        await app.agents.restart("a", "two")
        with pytest.raises(ConfigError, match="a run ends with its master"):
            await app.agents.restart("master", "more")
        again.set()
        assert (await run.result()).summary == "a is done"
        with pytest.raises(ConfigError, match="no run"):
            await app.agents.restart("a", "three")
        with pytest.raises(ConfigError, match="no run"):
            await app.agents.restart("master", "more")


async def test_leaving_the_application_interrupts_its_run(opened, behaviours):
    async def master(agent):
        await agent.hang()

    behaviours["master"] = master
    before = asyncio.all_tasks()
    async with opened() as app:
        run = await app.runs.start("x")
        await first(app, "turn_started")
    assert (await run.result()).status == "interrupted"
    assert asyncio.all_tasks() - before == set()


async def test_two_runs_of_a_session_go_one_after_the_other(opened):
    async with opened() as app:
        one = await app.runs.start("one")
        await one.result()
        two = await app.runs.start("two")
        assert (await two.result()).status == "completed"
        assert two.session == one.session
        assert two.run_id > one.run_id
        names = [agent.name for agent in (await app.agents.tree()).agents]
        assert len(names) == len(set(names)) == 2


async def test_probing_tells_of_every_provider_what_is_wrong_with_it(tmp_path):
    plugins = PluginManager.load(environ={}, builtins=WITHOUT_DEMO, entry_points=[])

    def broken(settings, services):
        raise ConfigError("no such key", hint="remove it")

    plugins._specs[ProviderSpec] = {
        "good": ProviderSpec(name="good", summary="", factory=scripted_plugin.build),
        "bad": ProviderSpec(name="bad", summary="", factory=broken),
    }
    paths = resolve_paths(tmp_path, {"PRSM_HOME": str(tmp_path / "home")})
    reports = await survey_providers(Settings(), plugins, paths=paths, with_models=True)
    good, bad = reports["good"], reports["bad"]
    assert good.status.available
    assert (good.capabilities is not None, good.models, good.models_problem) == (True, (), None)
    assert (bad.status.available, bad.status.reason) == (False, "no such key")
    assert (bad.capabilities, bad.models) == (None, ())


@pytest.mark.requirement("E61")
async def test_the_model_scorers_of_plugins_decide_what_agents_are_recommended(opened, behaviours):
    answers = []

    async def master(agent):
        task = {"task_description": "Fix the bug", "complexity": "moderate"}
        answers.append(await agent.call("recommend_model", **task))
        await agent.complete()

    behaviours["master"] = master
    known = {"provider": "script", "tier": "strong"}
    good = {**known, "affinities": {"coding": 0.9}}
    async with opened(settings={"model_registry": {"a": known, "b": good}}) as app:
        await (await app.runs.start("go")).result()
    [answer] = answers
    assert [entry["model"] for entry in answer["models"]] == ["script/b", "script/a"]
    assert [entry["score"] for entry in answer["models"]] == [0.74, 0.5]


async def test_where_no_package_brings_mcp_an_agent_that_needs_it_is_told_which_does(
    opened, behaviours, monkeypatch, tmp_path
):
    monkeypatch.setattr(sys, "path", path_without(tmp_path / "site", "prsm_mcp"))

    async def master(agent):
        with pytest.raises(ProviderNotAvailableError, match="the package prsm-mcp") as caught:
            async with agent.host.mcp_endpoint():
                raise AssertionError("there is an endpoint")
        assert caught.value.hint == "prsm install mcp"
        await agent.complete()

    behaviours["master"] = master
    async with opened() as app:
        assert (await (await app.runs.start("go")).result()).status == "completed"


LATE = "tests.tool_plugin_late"


@pytest.mark.requirement("A2", "A4")
async def test_a_tool_of_a_plugin_is_offered_and_held_by_its_check(opened, behaviours):
    seen = {}

    async def master(agent):
        assert await agent.refused("get_budget") == "permission_denied"
        seen["names"] = [tool.name for tool in agent.host.tools]
        assert await agent.refused("move") == "invalid_arguments"
        assert await agent.refused("move", to="nowhere") == "invalid_arguments"
        answer = await agent.call("move", to="work")
        assert answer == {"labels": {"own/state": "work", "steps": "yes"}}
        await agent.call("get_budget")
        await agent.complete()

    behaviours["master"] = master
    async with opened(with_tools=True, labels={"steps": "yes"}) as app:
        assert (await (await app.runs.start("go")).result()).status == "completed"
    assert "move" in seen["names"]


async def test_nothing_of_a_tools_plugin_is_imported_for_agents_without_labels(opened, behaviours):
    sys.modules.pop(LATE, None)

    async def master(agent):
        assert await agent.refused("move", to="work") == "unknown_tool"
        await agent.complete()

    behaviours["master"] = master
    async with opened(with_tools=True) as app:
        assert (await (await app.runs.start("go")).result()).status == "completed"
    assert LATE not in sys.modules
