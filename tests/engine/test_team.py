"""What agents are told of the models they may give their children, and that it is so."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_testing.fake_clock import FakeClock

from prsm_core.config import Settings
from prsm_core.domain.models import ModelInfo
from prsm_core.domain.notes import ModelChoice
from prsm_core.engine.providers.model_choice import (
    TEAM_BYTES,
    Member,
    Workforce,
    WorkforceNow,
    describe_members,
)
from prsm_core.engine.providers.model_names import Listing, ModelNames
from prsm_core.errors import ConfigError, ModelNotAvailableError, StoreError
from prsm_core.interfaces.provider import ProviderSpec, ProviderStatus
from tests.engine.deaths import DIED, die, go_on
from tests.engine.harness import ScriptedProvider, complete

HEAD = "For spawn_child's model, usable now:"
CHANGED = "The models that your children may have have changed."
UNSEEN = "recommend_model tells those of other providers."
THERE = ProviderStatus(available=True)


class Vendor(ScriptedProvider):
    """Another vendor's provider, which may list its models."""

    def __init__(self, name, *models, status=THERE, knows=(), hangs=False, fails=None):
        super().__init__(status=status)
        self.name, self.models, self.knows, self.hangs = name, models, knows, hangs
        self.fails = fails
        self.probed = self.listed = 0

    def spec(self):
        return ProviderSpec(
            name=self.name,
            summary="a summary",
            good_for=f"what {self.name} is for",
            factory=super().spec().factory,
        )

    async def probe(self):
        self.probed += 1
        if self.hangs:
            await asyncio.Event().wait()
        return await super().probe()

    async def list_models(self):
        self.listed += 1
        if self.fails is not None:
            raise self.fails
        if self.hangs:
            await asyncio.Event().wait()
        return [ModelInfo(model_id=model) for model in self.models]

    async def knows_model(self, model):
        return model in self.knows


def specs(*vendors):
    return {"others": tuple(vendor.spec() for vendor in vendors)}


def beside(*vendors):
    """Return what gives a scripted master these vendors for its children."""
    return {"options": {"provider": "script"}, **specs(*vendors)}


def told(team, name="master"):
    """Return the lines that tell an agent of the models, without the first."""
    prompt = team[name].descriptor.system_prompt
    assert prompt.count(HEAD) <= 1
    lines = prompt.partition(HEAD)[2].splitlines()[1:]
    return [line.removeprefix("- ") for line in lines if line.startswith("- ")]


def news(answer):
    """Return the lines that an answer adds about the models."""
    head, _, below = answer["notice"].partition(f"{HEAD}\n")
    assert head == f"{CHANGED}\n"
    return [line.removeprefix("- ") for line in below.splitlines()]


@pytest.mark.requirement("E4", "U37")
async def test_a_master_is_told_of_its_own_provider_and_no_other_one_is_looked_at(as_master):
    codex = Vendor("codex")
    team = await as_master(script_of_nothing, **beside(codex))
    assert told(team) == ["script: scripted agents"]
    assert UNSEEN in team["master"].descriptor.system_prompt.splitlines()
    assert codex.probed == 0


async def test_who_has_but_one_provider_is_told_of_no_others(as_master):
    team = await as_master(script_of_nothing)
    assert UNSEEN not in team["master"].descriptor.system_prompt


@pytest.mark.requirement("E61")
async def test_a_master_and_its_workers_are_told_what_is_usable_and_for_what(as_master):
    aliases = {
        "quick": {"provider": "codex", "model_id": "mini", "description": "small edits"},
        "deep": {"provider": "codex", "model_id": "large"},
        "gone": {"provider": "elsewhere", "model_id": "x"},
    }
    registry = {"large": {"provider": "codex", "tier": "frontier", "affinities": {"coding": 0.9}}}
    codex = Vendor("codex")
    refuses = Vendor("claude", status=ProviderStatus(available=False, reason="not installed"))
    logged_out = Vendor("gemini", status=ProviderStatus(available=True, logged_in=False))

    heard = []

    async def script(agent, team):
        answer = await agent.call("spawn_child", prompt="begin", name="w0")
        assert "notice" not in answer, "the others are looked at meanwhile"
        heard.append(await agent.call("wait_for_message"))
        heard.append(await agent.call("spawn_child", prompt="x", name="w1", worktree=False))
        await agent.spawn(name="r1", role="reviewer")
        await agent.collect(2)

    team = await as_master(
        script,
        settings={"models": aliases, "model_registry": registry},
        **beside(codex, refuses, logged_out),
    )
    expected = [
        "script: scripted agents",
        "codex: what codex is for",
        "quick: small edits",
        "deep: codex/large frontier, coding",
    ]
    assert told(team) == expected[:1]
    assert news(heard[0]) == expected
    assert "notice" not in heard[1], "it is told once"
    assert told(team, "w1") == expected
    assert HEAD not in team["r1"].descriptor.system_prompt
    assert codex.probed == 1


async def test_who_may_spawn_nobody_is_told_nothing(as_master):
    async def script(agent, team):
        await agent.spawn(depth=0)
        await agent.collect()

    team = await as_master(script, **beside(Vendor("codex")))
    assert HEAD not in team["w1"].descriptor.system_prompt


@pytest.mark.requirement("E63")
async def test_only_what_an_agent_may_hand_down_is_told(as_master):
    async def script(agent, team):
        await agent.call("recommend_model", task_description="x")
        models = ["codex", "claude/big", "script"]
        await agent.spawn(name="a", models=models)
        await agent.collect()

    async def child(agent):
        assert await agent.refused("spawn_child", prompt="x", model="claude") == "not_granted"
        await agent.complete()

    team = await as_master(script, team={"a": child}, **beside(Vendor("codex"), Vendor("claude")))
    assert told(team, "a") == [
        "script: scripted agents",
        "codex: what codex is for",
        "claude/big",
    ]


@pytest.mark.requirement("E63")
async def test_where_there_are_peers_only_they_are_told(as_master):
    peers = {"defaults": {"peer_models": ["claude"]}}

    async def script(agent, team):
        answer = await agent.call("recommend_model", task_description="x")
        assert news(answer) == ["script: scripted agents", "claude: what claude is for"]

    await as_master(script, settings=peers, **beside(Vendor("codex"), Vendor("claude")))


async def script_of_nothing(agent, team):
    """Do nothing but complete."""


async def test_a_program_that_hangs_delays_no_run_and_is_not_told(as_master):
    slow = Vendor("slow", hangs=True)

    async def script(agent, team):
        answer = await agent.call("recommend_model", task_description="x")
        assert [entry["model"] for entry in answer["usable"]] == ["script", "codex"]

    await as_master(script, clock=FakeClock(), **beside(slow, Vendor("codex")))
    assert slow.probed == 1


MEMBERS = st.lists(st.builds(Member, name=st.text(min_size=1), what=st.text()), max_size=30)


@given(MEMBERS)
def test_it_takes_at_most_400_bytes_and_says_how_the_rest_is_seen(members):
    text = describe_members(members)
    assert len(text.encode()) <= TEAM_BYTES == 400
    shown = text.count("\n- ")
    assert bool(text) == bool(members)
    more = describe_members(members, has_more=True)
    assert len(more.encode()) <= TEAM_BYTES
    assert (UNSEEN in more.splitlines()) <= (more.count("\n- ") == len(members))
    if shown < len(members):
        assert f"recommend_model lists {len(members) - shown} more." in text
    lines = text.splitlines()
    assert len(lines) == text.count("\n") + bool(text), "no name makes a line of its own"
    assert all(line.startswith(("- ", "For ", "recommend_model ")) for line in lines)


async def test_what_does_not_fit_is_shown_by_recommend_model(as_master):
    aliases = {f"alias-number-{n}": {"provider": "codex", "model_id": f"m{n}"} for n in range(30)}
    names = ["script", "codex", *aliases]

    async def script(agent, team):
        answer = await agent.call("recommend_model", task_description="x")
        assert [entry["model"] for entry in answer["usable"]] == names
        await agent.spawn(name="w1")
        await agent.collect()

    team = await as_master(script, settings={"models": aliases}, **beside(Vendor("codex")))
    shown = told(team, "w1")
    assert [line.partition(":")[0] for line in shown] == names[: len(shown)]
    prompt = team["w1"].descriptor.system_prompt
    assert f"recommend_model lists {len(names) - len(shown)} more." in prompt


@pytest.mark.requirement("E61", "E64")
async def test_one_child_of_each_vendor_by_the_providers_name_alone(as_master):
    async def script(agent, team):
        for vendor in ("codex", "claude", "gemini"):
            await agent.spawn(model=vendor, name=vendor)
        both = [{"prompt": "x", "model": "codex"}, {"prompt": "y", "model": "claude"}]
        await agent.call("spawn_children_parallel", children=both)
        await agent.collect(5)

    vendors = [Vendor(name) for name in ("codex", "claude", "gemini")]
    team = await as_master(script, **beside(*vendors))
    models = {
        name: (team[name].descriptor.provider, team[name].descriptor.model)
        for name in ("codex", "claude", "gemini", "w1", "w2")
    }
    assert models == {
        "codex": ("codex", "default"),
        "claude": ("claude", "default"),
        "gemini": ("gemini", "default"),
        "w1": ("codex", "default"),
        "w2": ("claude", "default"),
    }


@pytest.mark.requirement("E64")
async def test_a_model_that_no_provider_has_is_refused_with_the_nearest(as_master):
    codex = Vendor("codex", "gpt-large", "gpt-mini", knows=("gpt-large-2026",))

    async def script(agent, team):
        wrong = {"prompt": "x", "model": "codex/gpt-larg"}
        outcome = await agent.outcome("spawn_child", wrong)
        error = outcome.data["error"]
        assert error["code"] == "unknown_model"
        assert "codex/gpt-large" in error["hint"]
        parallel = {"children": [{"prompt": "fine"}, wrong]}
        assert await agent.refused("spawn_children_parallel", **parallel) == "unknown_model"
        listed = {"prompt": "x", "models": ["codex/gpt-mini", "codex/gpt-mimi"]}
        assert await agent.refused("spawn_child", **listed) == "unknown_model"
        assert await agent.refused("spawn_child", prompt="x", model="codx") == "unknown_model"
        await agent.spawn(model="codex/gpt-mini")
        await agent.spawn(model="codex/gpt-large-2026")  # by its longer name
        await agent.collect(2)

    team = await as_master(script, **beside(codex))
    assert len(team.manager.roster.records()) == 3
    assert codex.listed == 1, "a provider is asked once"


async def test_an_expert_of_a_model_that_there_is_not_is_refused(as_master):
    async def script(agent, team):
        asked = {"expert_id": "critic", "question": "why?"}
        assert await agent.refused("consult_expert", **asked) == "unknown_model"

    experts = {"critic": {"system_prompt": "You judge.", "model": "codex/nope"}}
    await as_master(script, settings={"experts": experts}, **beside(Vendor("codex", "m")))


async def test_a_provider_that_lists_nothing_gets_every_name(as_master):
    async def script(agent, team):
        await agent.spawn(model="codex/anything")
        await agent.collect()

    team = await as_master(script, **beside(Vendor("codex")))
    assert team["w1"].descriptor.model == "anything"


@pytest.mark.requirement("E64")
@pytest.mark.parametrize("where", ["flag", "model", "master_model"])
@pytest.mark.parametrize(
    ("name", "nearest"),
    [("nope", "the nearest names: "), ("gpt-min", "gpt-mini"), ("codex/gpt-min", "gpt-mini")],
)
async def test_a_run_with_a_model_that_its_provider_does_not_have_never_begins(
    opened, where, name, nearest
):
    codex = Vendor("codex", "gpt-mini", "gpt-large")
    defaults = {"provider": "codex", **({} if where == "flag" else {where: name})}
    async with opened(settings={"defaults": defaults}, check=False, **specs(codex)) as team:
        with pytest.raises(ConfigError) as caught:
            await team.run(options={"master_model": name} if where == "flag" else {})
        assert nearest in str(caught.value.hint)
        assert "prsm models list" in str(caught.value.hint)
        assert caught.value.exit_code == 2
        assert team.ledger.events() == []
        assert codex.requests == {}


async def test_a_run_takes_a_providers_name_for_its_default_model(opened):
    codex = Vendor("codex")
    codex.behaviours["master"] = complete
    async with opened(**specs(codex)) as team:
        await team.run(options={"master_model": "codex"})
        master = team["master"].descriptor
    assert (master.provider, master.model) == ("codex", "default")


@pytest.mark.requirement("E61")
async def test_with_an_empty_registry_what_providers_list_is_recommended(as_master):
    codex, claude = Vendor("codex", "gpt-large", "gpt-mini"), Vendor("claude")
    gone = Vendor("gemini", "pro", status=ProviderStatus(available=False))

    async def script(agent, team):
        names = []
        for more in ({}, {"complexity": "complex"}):
            answer = await agent.call("recommend_model", task_description="Fix it", **more)
            names = [entry["model"] for entry in answer["models"]]
            assert names == [
                "script/default",
                "claude/default",
                "codex/default",
                "codex/gpt-large",
                "codex/gpt-mini",
            ]
        for name in names:
            await agent.spawn(model=name)
        await agent.collect(5)

    await as_master(script, **beside(codex, claude, gone))
    assert (codex.listed, gone.listed) == (1, 0)


async def test_a_provider_whose_list_does_not_come_is_recommended_by_its_default(as_master):
    silent = Vendor("codex", fails=OSError("it is broken"))

    async def script(agent, team):
        answer = await agent.call("recommend_model", task_description="Fix it")
        assert [entry["model"] for entry in answer["models"]] == ["script/default", "codex/default"]

    await as_master(script, **beside(silent))


@pytest.mark.requirement("U15", "E36")
async def test_a_master_hands_down_plan_fewer_models_and_no_depth(as_master):
    async def script(agent, team):
        await agent.spawn(name="a", mode="plan", depth=0, models=["script/small"])
        await agent.spawn(name="b", depth=1, mode="bypass")
        await agent.spawn(name="c", models=["script/x", "script/y"], model="script/y", depth=9)
        outside = {"prompt": "x", "models": ["script/x", "script/y"]}
        assert await agent.refused("spawn_child", **outside) == "not_granted"  # which of them?
        await agent.collect(3)

    async def small(agent):
        assert await agent.refused("spawn_child", prompt="x") == "max_depth"
        await agent.complete()

    async def leads(agent):
        more = {"prompt": "x", "models": ["script"]}
        assert await agent.refused("spawn_child", **more) == "not_granted"
        await agent.spawn(name="d", model="script/x", depth=7)
        await agent.collect()
        await agent.complete()

    team = await as_master(script, team={"a": small, "c": leads})
    a, b, c, d = (team[name].descriptor for name in "abcd")
    assert (a.mode, a.grant.mode, a.grant.depth) == ("plan", "plan", 0)
    assert (a.provider, a.model, a.grant.models) == ("script", "small", {"script/small"})
    assert (b.mode, b.grant.depth) == ("default", 1), "no more than its parent may hand down"
    assert c.grant.models == d.grant.models == {"script/x", "script/y"}
    assert (c.grant.depth, d.grant.depth) == (9, 7)


async def test_a_child_of_another_mode_is_not_used_again(as_master):
    async def script(agent, team):
        await agent.spawn(mode="plan")
        await agent.collect()
        await agent.spawn()
        await agent.collect()
        again = await agent.call("spawn_child", prompt="more", mode="plan")
        assert (again["name"], again["reused"]) == ("w1", True)
        await agent.collect()

    team = await as_master(script)
    assert [team[name].descriptor.mode for name in ("w1", "w2")] == ["plan", "default"]


async def test_a_fallback_that_its_provider_does_not_have_is_left_out(opened):
    codex = Vendor("codex", "good")
    chain = {"defaults": {"fallbacks": ["codex/god", "codex"]}}

    def refuse(request):
        if request.model != "default" or request.name != "w1":
            return
        raise ModelNotAvailableError("it is gone")

    async def master(agent):
        await agent.spawn(model="script/default")
        await agent.collect()
        await agent.complete()

    async with opened(settings=chain, check=False, refuse=refuse, **specs(codex)) as team:
        await team.run(options={"provider": "script"}, master=master)
        notices = [event["text"] for event in team.ledger.events("notice")]
        assert team["w1"].descriptor.provider == "codex"
        assert team["w1"].descriptor.model == "default"
    assert any("fallback 'codex/god' is left out" in text for text in notices)


@pytest.mark.requirement("E61")
async def test_a_continuation_is_told_the_team_of_now(opened):
    """One provider was installed and another one left between the two runs."""
    codex, claude = Vendor("codex"), Vendor("claude", status=ProviderStatus(available=False))
    texts, answers = [], []

    async def master(agent):
        texts.append(agent.text)
        answers.append(await agent.call("recommend_model", task_description="x"))
        await agent.complete()

    async with opened(**specs(codex, claude)) as team:
        await team.run("one", {"provider": "script"}, master=master)
        await team.engine.run_continuation("two", team["master"].agent_id)
        claude.status, codex.status = THERE, ProviderStatus(available=False)
        await team.engine.run_continuation("three", team["master"].agent_id)
        await team.engine.run_continuation("four", team["master"].agent_id)
    assert texts == ["one", "two", "three", "four"]
    assert news(answers[0]) == ["script: scripted agents", "codex: what codex is for"]
    assert news(answers[2]) == ["script: scripted agents", "claude: what claude is for"]
    assert not any("notice" in answer for answer in (answers[1], answers[3]))


def test_what_agents_are_told_is_made_anew_once_something_new_is_known():
    listed: dict[str, Listing] = {}
    usable, own = {"one"}, ModelChoice(provider="one", model="default")
    names = ModelNames(settings=Settings(), providers=frozenset({"one", "two"}), listed=listed)
    known = Workforce(names=names, summaries={"two": "the other"})
    now = WorkforceNow(known, lambda: frozenset(usable))
    first = now()
    assert now() is first
    assert "two" not in first.describe(own, None)
    usable.add("two")
    second = now()
    assert "- two: the other" in second.describe(own, None)
    assert "two" not in second.describe(own, frozenset({"one/default"}))
    listed["one"] = Listing(models=())
    assert len({id(one) for one in (first, second, now())}) == 3
    assert now() is now()


@pytest.mark.requirement("E61")
async def test_who_goes_on_after_a_death_and_asks_for_a_model_is_told_of_all_that_can_be_used(
    opened,
):
    given = specs(Vendor("codex"))
    seen: list[str] = []

    async def first(agent):
        await die(team)

    async def goes_on(agent):
        answer = await agent.call("recommend_model", task_description="write a parser")
        seen.extend(one["model"] for one in answer["usable"])
        await agent.complete()

    async with opened(check=False, **given) as team:
        with pytest.raises(StoreError, match=DIED):
            await team.run("do it", {"provider": "script"}, master=first)
    async with opened(**given) as again:
        await go_on(again, master=goes_on)
    assert "codex" in {name.partition("/")[0] for name in seen}
