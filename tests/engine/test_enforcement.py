"""What a provider cannot enforce of the policy is told before its first turn, or refused."""

from __future__ import annotations

import pytest

from prsm_core.config import Settings
from prsm_core.domain.agents import PermissionMode
from prsm_core.engine.providers.levels import LEVELS, describe_shortfall, needed_level
from prsm_core.errors import ProviderNotAvailableError
from prsm_core.interfaces.provider import ProviderCapabilities, ProviderSpec, ProviderStatus
from tests.engine.harness import ScriptedProvider, complete

GAP = "what it reads is not asked for"
DENY = {"permissions": {"deny": ["git push"]}}
STRICT = {"permissions": {"require": "pre_tool"}}
CRITIC = {"system_prompt": "You judge.", "model": "weak/default"}


def reach(level, *gaps):
    """Return the fields of a provider that enforces this much, and names these gaps."""
    return {
        "capabilities": ProviderCapabilities(enforcement=level),
        "status": ProviderStatus(available=True, gaps=gaps),
    }


class Weak(ScriptedProvider):
    """Another vendor, whose tools run as they like."""

    probes = 0

    def spec(self):
        return ProviderSpec(name="weak", summary="asks nobody", factory=super().spec().factory)

    async def probe(self):
        self.probes += 1
        return await super().probe()


def policy(mode=PermissionMode.DEFAULT, **permissions):
    return needed_level(Settings.of({"permissions": permissions}).permissions, mode)[0]


def warnings(team):
    """Return the warnings, and for each whether a turn had begun before."""
    events = team.ledger.events()
    first_turn = [event["type"] for event in events].index("turn_started")
    return [
        (event["text"], number > first_turn)
        for number, event in enumerate(events)
        if event["type"] == "notice"
    ]


@pytest.mark.parametrize(
    ("permissions", "level"),
    [
        ({}, "approval"),
        ({"allow": ["make"], "tools": {"Bash": "allow"}}, "approval"),
        ({"mode": PermissionMode.BYPASS}, "approval"),
        ({"mode": PermissionMode.PLAN}, "pre_tool"),
        ({"deny": ["git push"]}, "pre_tool"),
        ({"ask": ["git push"]}, "pre_tool"),
        ({"tools": {"WebFetch": "ask"}}, "pre_tool"),
        ({"required": ["audit"]}, "pre_tool"),
        ({"deny": ["git push"], "require": "sandbox"}, "sandbox"),
        ({"edits": "ask"}, "pre_tool"),
        ({"edits": "ask", "mode": PermissionMode.DELEGATE}, "pre_tool"),
        ({"edits": "ask", "mode": PermissionMode.ACCEPT_EDITS}, "approval"),
        ({"edits": "ask", "mode": PermissionMode.BYPASS}, "approval"),
    ],
)
def test_a_policy_that_says_what_must_not_happen_needs_to_be_asked_before_each_tool(
    permissions, level
):
    assert policy(**permissions) == level


@pytest.mark.parametrize("least", LEVELS[1:])
@pytest.mark.parametrize("has", [*LEVELS, "a new word"])
def test_a_provider_falls_short_exactly_when_its_level_is_below_the_one_that_is_needed(has, least):
    permissions = Settings.of({"permissions": {"require": least}}).permissions
    capabilities = ProviderCapabilities(enforcement=has)
    short = describe_shortfall(permissions, PermissionMode.DEFAULT, capabilities, None)
    rank = LEVELS.index(has) if has in LEVELS else 0
    assert bool(short) == (rank < LEVELS.index(least))


@pytest.mark.requirement("F5", "E36")
@pytest.mark.parametrize("asks_edits", [True, False])
async def test_who_is_not_known_to_ask_for_each_edit_is_told_where_each_is_asked_about(
    opened, asks_edits
):
    has = ProviderCapabilities(enforcement="approval", asks_edits=asks_edits)
    settings = {"permissions": {"edits": "ask"}}
    async with opened(settings=settings, **{**reach("approval"), "capabilities": has}) as team:
        await team.run()
        told = [text for text, _ in warnings(team)]
    assert [("set permissions.require: pre_tool" in text) for text in told] == (
        [] if asks_edits else [True]
    )


@pytest.mark.requirement("F5")
async def test_what_the_masters_provider_does_not_enforce_is_told_before_its_first_turn(opened):
    async with opened(settings=DENY, **reach("approval", GAP)) as team:
        await team.run()
        [(text, is_late)] = warnings(team)
        assert not is_late
        assert text == (
            "provider script does not enforce all of the policy; its agents run all the same,"
            " unless you set permissions.require: pre_tool (`prsm providers` says what)"
        )
        assert team.ledger.events()[1]["type"] == "notice", "it comes with run_started"


async def test_each_run_of_a_session_tells_it_again(opened):
    async with opened(**reach("none")) as team:
        await team.run()
        await team.engine.run_continuation("more", team["master"].agent_id)
        assert len(warnings(team)) == 2


async def test_a_gap_is_told_also_where_the_level_is_high_enough(opened):
    async with opened(**reach("pre_tool", GAP)) as team:
        await team.run()
        [(text, _)] = warnings(team)
    assert text == (
        "provider script does not enforce all of the policy; its agents run all the same"
        " (`prsm providers` says what)"
    )


async def test_nothing_is_told_of_a_provider_that_enforces_all(opened):
    async with opened(settings=DENY, **reach("pre_tool")) as team:
        await team.run()
        assert warnings(team) == []


@pytest.mark.requirement("F5", "U37")
async def test_an_experts_provider_is_told_of_before_its_first_agent_and_not_looked_at_earlier(
    opened,
):
    weak = Weak(**reach("none"))
    experts = {"experts": {"critic": CRITIC}}

    async def master(agent):
        assert weak.probes == 0
        await agent.call("consult_expert", expert_id="critic", question="?")
        await agent.complete()

    async with opened(settings=experts, others=(weak.spec(),)) as team:
        weak.behaviours["critic"] = complete
        await team.run(master=master)
        [notice] = team.ledger.events("notice")
        kinds = [event["type"] for event in team.ledger.events(agent=notice["agent"])]
    assert notice["text"].startswith("provider weak does not enforce all of the policy; its agents")
    assert kinds.index("notice") < kinds.index("turn_started")
    assert weak.probes == 1


@pytest.mark.requirement("F5")
async def test_a_provider_that_only_an_agent_names_is_told_of_before_its_first_turn(opened):
    weak = Weak(**reach("sandbox"))

    async def master(agent):
        for _ in range(2):
            await agent.spawn(model="weak/default", wait=True)
        await agent.complete()

    async with opened(others=(weak.spec(),)) as team:
        await team.run(master=master)
        [notice] = team.ledger.events("notice")
        kinds = [event["type"] for event in team.ledger.events(agent="w1")]
    assert notice["text"].startswith("provider weak does not enforce all of the policy; its agents")
    assert notice["agent"] == "w1"
    assert kinds.index("notice") < kinds.index("turn_started")


@pytest.mark.requirement("F5")
async def test_a_master_on_a_provider_below_what_is_required_is_refused_and_nothing_written(opened):
    async with opened(settings=STRICT, check=False, **reach("approval", GAP)) as team:
        with pytest.raises(ProviderNotAvailableError, match="does not enforce enough") as caught:
            await team.run(options={"provider": "script"})
        assert "permissions.require wants 'pre_tool'" in caught.value.message
        assert GAP in caught.value.message
        assert team.ledger.events() == []


async def test_the_first_provider_that_enforces_enough_is_chosen(opened):
    weak = Weak(**reach("approval"))
    settings = {**STRICT, "providers": {"weak": {}}}  # it comes first
    async with opened(settings=settings, others=(weak.spec(),), **reach("pre_tool")) as team:
        await team.run()
        assert team["master"].descriptor.provider == "script"


@pytest.mark.requirement("F5")
async def test_no_child_is_started_on_a_provider_below_what_is_required(opened):
    weak = Weak(**reach("approval", GAP))
    settings = {**STRICT, "experts": {"critic": CRITIC}}
    refused = "provider_not_available"

    async def master(agent):
        assert await agent.refused("spawn_child", prompt="x", model="weak/default") == refused
        assert await agent.refused("consult_expert", expert_id="critic", question="?") == refused
        assert (await agent.call("consult_peer", question="?", peer="list"))["peers"] == []
        await agent.complete()

    async with opened(settings=settings, others=(weak.spec(),), **reach("pre_tool")) as team:
        result = await team.run(master=master)
    assert result.status == "completed"
    assert not weak.requests


async def test_no_agent_is_moved_to_a_fallback_below_what_is_required(opened):
    weak = Weak(**reach("none"))
    settings = {**STRICT, "defaults": {"fallbacks": ["weak/default"]}}

    def refuse(_request):
        raise ProviderNotAvailableError("the program is gone")

    async with opened(
        settings=settings, others=(weak.spec(),), refuse=refuse, **reach("pre_tool")
    ) as team:
        result = await team.run()
    assert result.status == "failed"
    assert not weak.requests


async def test_who_drives_a_master_from_outside_is_told_of_and_never_refused(opened):
    weak = Weak(**reach("none", GAP))
    async with opened(settings=STRICT, external=weak.spec(), **reach("pre_tool")) as team:
        result = await team.run()
        [(text, _)] = warnings(team)
    assert result.status == "completed"
    assert "; its agents run all the same (" in text


BOXES = {"box": {"agents": True, "memory_mib": 64}}


@pytest.mark.parametrize("is_boxed", [True, False])
async def test_who_starts_no_agent_in_a_box_is_told_before_the_first_turn(opened, is_boxed):
    has = ProviderCapabilities(enforcement="pre_tool", boxes=is_boxed)
    async with opened(settings=BOXES, **{**reach("pre_tool"), "capabilities": has}) as team:
        await team.run()
        told = [(text, is_late) for text, is_late in warnings(team) if "does not start" in text]
    assert [is_late for _, is_late in told] == ([] if is_boxed else [False])


async def test_without_boxes_in_the_settings_nothing_is_told_of_them(opened):
    async with opened(**reach("pre_tool")) as team:
        await team.run()
        assert not any("box" in text for text, _ in warnings(team))


def untested(version):
    """Return what the probe of a provider finds whose program nobody has tested."""
    reason = f"version {version} was not tested"
    return ProviderStatus(available=True, version=version, tested=">=1,<2", reason=reason)


@pytest.mark.parametrize("is_child", [False, True], ids=["master", "child"])
async def test_a_version_that_nobody_tested_is_told_of_in_the_run_as_no_news(opened, is_child):
    other = Weak(capabilities=ProviderCapabilities(enforcement="pre_tool"), status=untested("3.0"))
    own = {} if is_child else {"status": untested("2.1")}
    some = ProviderCapabilities(enforcement="pre_tool")

    async def master(agent):
        if is_child:
            await agent.spawn(model="weak/m")
            await agent.spawn(model="weak/m")
            await agent.collect(2)
        await agent.complete()

    async with opened(others=(other.spec(),), capabilities=some, **own) as team:
        await team.run(master=master)
        told = [(one["text"], one["once"]) for one in team.ledger.events("notice")]
    name, version = ("weak", "3.0") if is_child else ("script", "2.1")
    text = f"provider {name}: version {version} was not tested (`prsm doctor` says more)"
    assert told == [(text, True)]
