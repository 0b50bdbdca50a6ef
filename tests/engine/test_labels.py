"""Labels: people and programs say something of agents, models never do, and a death loses none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.agents import AgentState
from prsm_core.domain.labels import ALL_BYTES, MOST, NAME_BYTES, TEXT_BYTES, relabelled
from prsm_core.domain.permissions import Allow, PermissionRequest, Question
from prsm_core.domain.writes import AgentSpawned
from prsm_core.engine.tools.family import MAX_ARGUMENT
from prsm_core.errors import ConfigError, MessageRoutingError, OrchestrationError, ToolInputError
from prsm_core.permissions import Redactor
from tests.engine.deaths import die, dies_after, dies_at, go_on, run_to_death
from tests.engine.harness import RuleBroker

WRONG = "invalid_arguments"
NAMES = st.sampled_from(
    ["a", "b", "a.b", "script/a", "script/a/b", "other/a", "Script/a", "", "/", "a b"]
)
CHANGES = st.dictionaries(NAMES, st.sampled_from([None, "", "x", "y" * 60]), max_size=5)


def labels_of(team, name):
    return dict(team[name].descriptor.labels)


@pytest.mark.parametrize(
    ("changes", "problem", "cure"),
    [
        ({"a b": "x"}, "'a b' is no name of a label", "letters, digits"),
        ({"": "x"}, "'' is no name of a label", "letters, digits"),
        ({1: "x"}, "1 is no name of a label", "letters, digits"),
        ({"a": 1}, "label a is a int", "a text"),
        ({"n" * (NAME_BYTES + 1): "x"}, "129 bytes", "128"),
        ({"a": "ü" * TEXT_BYTES}, "8192 bytes", "4096"),
        ({f"n{n}": "x" for n in range(MOST + 1)}, "65 labels", "64 at most"),
        ({f"n{n}": "x" * TEXT_BYTES for n in range(5)}, "20490 bytes", f"{ALL_BYTES} bytes"),
        ({"regions/state": "x"}, "the program regions's alone", "without a slash"),
        (["a"], "labels are a list", "by name"),
    ],
)
def test_what_can_be_no_label_is_refused_with_the_cure(changes, problem, cure):
    with pytest.raises(ConfigError) as caught:
        relabelled({}, changes, owner=None, error=ConfigError)
    assert problem in caught.value.message
    assert cure in (caught.value.hint or "")
    assert caught.value.code == "bad_labels"


@given(
    st.dictionaries(NAMES, st.text(max_size=5), max_size=3),
    CHANGES,
    st.sampled_from([None, "script", "b"]),
)
def test_changes_are_laid_over_or_refused_whole_and_no_program_sets_another_ones(
    known, changes, owner
):
    try:
        laid = relabelled(known, changes, owner=owner, error=ConfigError)
    except ConfigError:
        return
    assert laid == {k: v for k, v in {**known, **changes}.items() if v is not None}
    assert all(name.partition("/")[0] == owner for name in changes if "/" in name)


async def test_a_master_has_those_of_its_run_and_children_inherit_them(opened):
    seen = {}

    async def worker(agent):
        seen[agent.name] = dict(agent.session.request.labels)
        await agent.complete()

    async def lead(agent):
        seen[agent.name] = dict(agent.session.request.labels)
        await agent.spawn(name="w2")
        await agent.collect()
        await agent.complete()

    async def master(agent):
        seen[agent.name] = dict(agent.session.request.labels)
        await agent.spawn(name="w1")
        await agent.collect()
        await agent.complete()

    async with opened() as team:
        given_ = {"team": "blue", "why": "because \ud800"}
        await team.run("do it", {"labels": given_}, master=master, w1=lead, w2=worker)
    fit = {"team": "blue", "why": "because �"}
    assert seen == {"master": fit, "w1": fit, "w2": fit}
    told = [dict(event["labels"]) for event in team.ledger.events("agent_spawned")]
    assert told == [fit] * 3


async def test_a_run_with_labels_that_cannot_be_does_not_begin(opened):
    async with opened() as team:
        for labels in ({"script/a": "x"}, {"a b": "x"}):
            with pytest.raises(ConfigError) as caught:
                await team.run("do it", {"labels": labels})
            assert caught.value.code == "bad_labels"
        assert await team.store.sessions() == []


async def test_a_secret_is_in_no_label(opened):
    async with opened(redactor=Redactor(["s3cr3t-value"])) as team:
        await team.run("do it", {"labels": {"a": "s3cr3t-value"}})
        assert "s3cr3t-value" not in str(labels_of(team, "master"))
        (state,) = [await team.store.state("session")]
    assert dict(state.agents[0].agent.labels) == labels_of(team, "master")


async def test_a_models_call_with_a_programs_arguments_is_refused(opened):
    async def master(agent):
        wrong: list[dict] = [{"labels": {"a": "x"}}, {"labels": {}}, {"continues": "w1"}]
        for arguments in wrong:
            assert await agent.refused("spawn_child", prompt="work", **arguments) == WRONG
            children = [{"prompt": "work", **arguments}]
            refused = await agent.refused("spawn_children_parallel", children=children)
            assert refused == WRONG
        with pytest.raises(OrchestrationError) as caught:
            await agent.host.relabel({"a": "x"})
        assert caught.value.code == "no_program"
        await agent.complete()

    async with opened() as team:
        await team.run("do it", master=master)
        assert labels_of(team, "master") == {}
    assert len(team.ledger.events("agent_spawned")) == 1


async def test_a_program_labels_its_children_and_nobody_is_shown_that_it_can(opened):
    async def master(agent):
        for tool in agent.host.tools:
            assert "labels" not in str(tool.input_schema)
        named = {"kind": "x", "script/task": "0", "team": None}
        await agent.spawn(name="w1", labels=named)
        children = [{"prompt": "work", "name": "w2", "labels": {"script/task": "1"}}]
        await agent.call("spawn_children_parallel", children=children)
        for wrong in ({"other/a": "x"}, {"a b": "x"}):
            assert await agent.refused("spawn_child", prompt="w", labels=wrong) == "bad_labels"
        assert await agent.refused("spawn_child", prompt="w", labels={"a": 1}) == WRONG
        await agent.collect(2)
        await agent.complete()

    async with opened(is_program=True) as team:
        await team.run("do it", {"labels": {"team": "blue"}}, master=master)
        assert labels_of(team, "w1") == {"kind": "x", "script/task": "0"}
        assert labels_of(team, "w2") == {"script/task": "1", "team": "blue"}


async def test_a_child_with_labels_takes_no_other_ones_task(opened):
    async def master(agent):
        await agent.spawn(labels={"n": "1"})
        await agent.collect()
        again = await agent.call("spawn_child", prompt="work", labels={"n": "1"})
        assert not again["reused"]
        await agent.collect()
        plain = await agent.call("spawn_child", prompt="work")
        assert not plain["reused"]
        await agent.collect()
        assert (await agent.call("spawn_child", prompt="work"))["reused"]
        await agent.collect()
        await agent.complete()

    async with opened(is_program=True) as team:
        await team.run("do it", master=master)


async def test_what_a_program_says_of_itself_and_its_children_holds_at_once(opened):
    seen = []

    class Watching(RuleBroker):
        async def decide(self, request, context):
            seen.append(dict(context.labels))
            return Allow()

    async def worker(agent):
        asked = PermissionRequest(agent_id=agent.id, tool="Bash", command="x", arguments={})
        await agent.host.authorize(asked)
        await agent.call("ask_parent", question="go on?")
        await agent.host.authorize(asked)
        await agent.complete()

    async def master(agent):
        host = agent.host
        assert await host.relabel({"script/state": "spawning"}) == {"script/state": "spawning"}
        await agent.spawn(name="w1", labels={"script/task": "0", "script/state": None})
        message = await agent.call("wait_for_message")
        said = await host.relabel({"script/task": "1"}, "w1")
        assert said == {"script/task": "1"}
        assert [dict(child.labels) for child in host.children()] == [said]
        with pytest.raises(MessageRoutingError):
            await host.relabel({"a": "x"}, "nobody")
        with pytest.raises(OrchestrationError) as caught:
            await host.relabel({"other/a": "x"})
        assert caught.value.code == "bad_labels"
        about = message["correlation_id"]
        await agent.call("respond_to_child", child_id="w1", correlation_id=about, response="yes")
        await agent.collect()
        (child,) = host.children()
        assert (child.name, child.state, child.result.success) == ("w1", AgentState.COMPLETED, True)
        assert await host.relabel({"script/task": "2"}, child.agent_id) == {"script/task": "2"}
        await agent.complete()

    async with opened(is_program=True, broker=Watching()) as team:
        await team.run("do it", master=master, w1=worker)
    assert seen == [{"script/task": "0"}, {"script/task": "1"}]
    told = [(e["labels"]) for e in team.ledger.events("agent_labels_changed")]
    assert told == [{"script/state": "spawning"}, {"script/task": "1"}, {"script/task": "2"}]


async def test_one_that_has_ended_says_nothing_more(opened):
    hosts = {}

    async def master(agent):
        hosts["master"] = agent.host
        await agent.complete()

    async with opened(is_program=True) as team:
        await team.run("do it", master=master)
        with pytest.raises(OrchestrationError) as caught:
            await hosts["master"].relabel({"a": "x"})
        assert caught.value.code == "agent_ended"


@pytest.mark.parametrize("dies", [dies_at, dies_after])
async def test_a_subtask_is_spawned_once_whenever_the_engine_dies(opened, dies):
    """A child and what it is for are written together: it is told from its labels, not counted."""

    async def master(agent):
        known = {child.labels["script/task"]: child for child in agent.host.children()}
        for task in ("0", "1", "2"):
            if task not in known:
                await agent.spawn(labels={"script/task": task})
        await agent.host.relabel({"script/state": "running"})
        ended = [child for child in agent.host.children() if child.result is not None]
        while len(ended) < 3:
            await agent.call("wait_for_message")
            ended = [child for child in agent.host.children() if child.result is not None]
        await agent.host.relabel({"script/state": "done"})
        await agent.complete()

    states = []

    async def goes_on(agent):
        states.append(dict(agent.session.request.labels))
        await master(agent)

    async def first(agent):
        await agent.spawn(labels={"script/task": "0"})
        dies(team, AgentSpawned)
        await master(agent)

    async with opened(check=False, is_program=True) as team:
        await run_to_death(team, master=first)
    async with opened(is_program=True) as again:
        assert (await go_on(again, master=goes_on)).status == "completed"
        born = [again[f"w{n}"].descriptor.labels["script/task"] for n in (1, 2, 3)]
        assert sorted(born) == ["0", "1", "2"]
        assert labels_of(again, "master") == {"script/state": "done"}
    assert len(again.ledger.events("agent_spawned")) == 4


async def test_a_resume_finds_what_was_said_last(opened):
    async def master(agent):
        await agent.host.relabel({"script/state": "one"})
        await agent.host.relabel({"script/state": "two"})
        await die(team)

    found = []

    async def goes_on(agent):
        found.append(dict(agent.session.request.labels))
        await agent.complete()

    async with opened(check=False, is_program=True) as team:
        await run_to_death(team, master=master)
    async with opened(is_program=True) as again:
        await go_on(again, master=goes_on)
    assert found == [{"script/state": "two"}]


async def test_a_follow_up_task_lays_its_labels_over_the_masters(opened):
    found = []

    async def master(agent):
        found.append(dict(agent.session.request.labels))
        await agent.complete()

    async with opened() as team:
        await team.run("do it", {"labels": {"a": "1", "b": "1"}}, master=master)
        master_id = team["master"].agent_id
        await team.engine.run_continuation("more", master_id, labels={"b": "2"})
        with pytest.raises(ConfigError):
            await team.engine.run_continuation("more", master_id, labels={"x/y": "2"})
        assert labels_of(team, "master") == {"a": "1", "b": "2"}
        state = await team.store.state("session")
    assert found == [{"a": "1", "b": "1"}, {"a": "1", "b": "2"}]
    assert dict(state.agents[0].agent.labels) == {"a": "1", "b": "2"}


async def test_what_is_drawn_beside_a_question_comes_with_it_and_has_a_bound(opened):
    async def master(agent):
        plan = {"subtasks": [{"region": "src/ui"}], "estimated_cost": 15_000}
        await agent.host.ask_user(Question(text="Is this the plan?", data=plan))
        wrong: list[Any] = [{"a": "x" * 70_000}, ["a"]]
        for data in wrong:
            with pytest.raises(ToolInputError):
                await agent.host.ask_user(Question(text="?", data=data))
        await agent.complete()

    async with opened() as team:
        await team.run("do it", master=master)
    (asked,) = team.ledger.events("question_asked")
    assert asked["data"] == {"subtasks": [{"region": "src/ui"}], "estimated_cost": 15_000}


@pytest.mark.parametrize("is_program", [True, False])
async def test_a_program_is_told_the_calls_of_a_child_and_a_model_is_not(opened, is_program):
    long, many = "x" * MAX_ARGUMENT, 60

    async def master(agent):
        await agent.spawn("read", name="a")
        await agent.collect()
        asked = {"child_id": "a", "detail_level": "calls"}
        if not is_program:
            assert await agent.refused("get_child_history", **asked) == WRONG
        else:
            told = await agent.call("get_child_history", **asked)
            entries = told["entries"]
            for number, entry in enumerate(entries):
                path = f"{number}{long}"[:MAX_ARGUMENT]
                assert entry == {"tool": "Read", "arguments": {"path": path}}
            assert len(entries) + told["left_out"] == many + 1
            assert 0 < len(entries) < many
        await agent.complete()

    async def a(agent):
        for number in range(many):
            await agent.start_tool(f"r{number}", "Read", path=f"{number}{long}")
            await agent.end_tool(f"r{number}", result="1 2 3")
        await agent.complete("read")

    async with opened(is_program=is_program) as team:
        assert (await team.run("do it", master=master, a=a)).status == "completed"
