"""The shell beside regions: what may write is asked about, or runs in a sandbox that keeps to them.

The agents are scripted; the permission function, the ledger and the shell are the real ones.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from prsm_core.config.schema import PermissionSettings
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Deny, PermissionRequest
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.permissions import PermissionBroker
from tests.command_policies import policy_for
from tests.engine.harness import DEADLINE, SESSION
from tests.engine.sandboxes import needs_bwrap

IN_BYPASS = {"mode": PermissionMode.BYPASS}
WRITES = ("cp a src/x", "echo x > src/x", "sed -i s/a/b/ src/x", "make")


@pytest.fixture
def regional(opened, tmp_path):
    """Open a team under the real permission function: `owner` holds src, `other` nothing."""

    @asynccontextmanager
    async def open_regional(*, permissions=None, checks=None, **fields):
        settings = PermissionSettings.of(permissions or {})
        broker = PermissionBroker(
            settings,
            commands=policy_for(settings),
            checks=checks or {},
            orchestration=(),
        )
        async with opened(broker=broker, **fields) as team:
            (team.workspace / "src").mkdir()
            (team.workspace / "a").write_text("a")
            yield team

    return open_regional


def bash(agent, command):
    """Ask as a vendor's own shell does."""
    return agent.host.authorize(
        PermissionRequest(
            agent_id=agent.id, tool="Bash", command=command, cwd=agent.session.request.cwd
        )
    )


async def lead(agent, *, name="other", owner="owner"):
    """Have `name` work while `owner` holds its region."""
    await agent.spawn(name=owner, region=["src"])
    await release(agent, lambda: agent.spawn(name=name, wait=True))
    await agent.collect()
    await agent.complete()


async def release(agent, work):
    """Do some work while a child holds its region, then let the child go."""
    message = await agent.call("wait_for_message")
    await work()
    await agent.call(
        "respond_to_child",
        child_id=message["from"],
        correlation_id=message["correlation_id"],
        response="go on",
    )


async def hold(agent):
    await agent.call("ask_parent", question="more?")
    await agent.complete()


def reasons(team, agent):
    return [event["reason"] for event in team.ledger.events("permission_requested", agent)]


async def always(_request, _context):
    return Allow("trusted")


TRUSTED = PermissionCheckSpec(name="trusting", summary="", priority=1, check=always, in_bypass=True)


@pytest.mark.requirement("E24")
@pytest.mark.parametrize(
    "permissions",
    [
        {},
        {"allow": ["cp", "sed", "make", "echo"], "tools": {"Bash": "allow"}},
        {"trusted": ["trusting"]},
    ],
)
async def test_beside_anothers_region_a_command_that_may_write_asks_in_bypass_and_despite_rules(
    regional, permissions
):
    async def other(agent):
        for command in WRITES:
            assert isinstance(await bash(agent, command), Deny), command
        assert isinstance(await bash(agent, "ls src"), Allow)
        await agent.complete()

    checks = {"trusting": TRUSTED}
    async with regional(permissions=permissions, checks=checks) as team:
        result = await team.run("do it", IN_BYPASS, master=lead, owner=hold, other=other)
    assert result.status == "completed"
    asked = team.ledger.events("permission_requested", "other")
    assert [event["command"] for event in asked] == list(WRITES)
    assert {tuple(event["options"]) for event in asked} == {("once", "deny")}
    assert all(f"{team.workspace}/src is of owner" in event["reason"] for event in asked)


async def test_the_holder_of_a_region_is_asked_about_its_own_shell_too(regional):
    async def owner(agent):
        for command in WRITES:
            assert isinstance(await bash(agent, command), Deny), command
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="owner", region=["src"], wait=True)
        await agent.complete()

    async with regional() as team:
        await team.run("do it", IN_BYPASS, master=master, owner=owner)
    assert all(f"its own is {team.workspace}/src" in why for why in reasons(team, "owner"))
    assert len(reasons(team, "owner")) == len(WRITES)


async def test_once_the_region_is_free_the_shell_is_too(regional):
    async def other(agent):
        assert isinstance(await bash(agent, "make"), Deny)
        await agent.complete()

    async def late(agent):
        assert isinstance(await bash(agent, "make"), Allow)
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="owner", region=["src"])
        await release(agent, lambda: agent.spawn(name="other", wait=True))
        await agent.collect()
        await agent.spawn(name="late", wait=True)
        await agent.complete()

    async with regional() as team:
        behaviours = {"owner": hold, "other": other, "late": late}
        await team.run("do it", IN_BYPASS, master=master, **behaviours)


async def test_a_persons_once_lets_it_pass_once_and_their_always_from_before_does_not(regional):
    async def master(agent):
        await agent.spawn(name="boss", wait=True)
        await agent.complete()

    async def boss(agent):
        assert isinstance(await bash(agent, "make"), Allow)  # "always", before there are regions
        assert isinstance(await bash(agent, "make"), Allow)
        await lead(agent)

    async def other(agent):
        assert isinstance(await bash(agent, "make"), Allow)
        assert isinstance(await bash(agent, "make"), Deny)
        await agent.complete()

    async with regional(interactive=True) as team:
        running = team.start("do it", master=master, boss=boss, owner=hold, other=other)
        asked, requests = await team.seen("permission_requested", "boss"), team.engine.requests
        assert requests.resolve(asked.data["request"], "permission", {"verdict": "always"})
        for verdict in ("once", "deny"):
            asked = await newer(team, asked)
            assert requests.resolve(asked.data["request"], "permission", {"verdict": verdict})
        assert (await running).status == "completed"
    assert len(reasons(team, "other")) == 2


async def newer(team, last):
    """Wait for the next request for permission behind an event."""
    async with asyncio.timeout(DEADLINE):
        async for event in team.store.events(SESSION, after=last.seq, follow=True):
            if event.type == "permission_requested":
                return event
    raise AssertionError("the store was closed")


async def test_a_lease_that_begins_while_a_person_thinks_is_put_to_them(regional):
    thinks = asyncio.Event()

    async def master(agent):
        await agent.spawn(name="other")
        await thinks.wait()
        await agent.spawn(name="owner", region=["src"])
        await release(agent, lambda: agent.collect())
        await agent.collect()
        await agent.complete()

    async def other(agent):
        assert isinstance(await bash(agent, "make"), Deny)
        await agent.complete()

    async with regional(interactive=True) as team:
        running = team.start("do it", master=master, owner=hold, other=other)
        first = await team.seen("permission_requested", "other")
        thinks.set()
        await team.seen("agent_state_changed", "owner", to="waiting_for_parent")
        requests = team.engine.requests
        assert requests.resolve(first.data["request"], "permission", {"verdict": "once"})
        second = await newer(team, first)
        assert "src is of owner" in second.data["reason"]
        assert requests.resolve(second.data["request"], "permission", {"verdict": "deny"})
        assert (await running).status == "completed"
    assert "src is of owner" not in reasons(team, "other")[0]


async def test_without_a_sandbox_run_bash_asks_like_any_shell(regional):
    async def other(agent):
        assert await agent.refused("run_bash", command="echo x > src/x") == "permission_denied"
        assert await agent.refused("run_bash", command="echo x > y") == "permission_denied"
        assert "a" in (await agent.call("run_bash", command="ls"))["stdout"]
        await agent.complete()

    async with regional() as team:
        await team.run("do it", IN_BYPASS, master=lead, owner=hold, other=other)
    assert not list((team.workspace / "src").iterdir())
    assert not (team.workspace / "y").exists()


@needs_bwrap
@pytest.mark.requirement("U23")
async def test_in_the_sandbox_run_bash_is_not_asked_about_and_writes_in_no_region_of_others(
    regional,
):
    async def owner(agent):
        for command in ("echo mine > src/x", "cp a src/copy"):
            assert (await agent.call("run_bash", command=command))["exit_code"] == 0
        assert "Read-only" in (await agent.call("run_bash", command="echo x > y"))["stderr"]
        await hold(agent)

    async def other(agent):
        for command in ("echo x > src/x", "cp a src/x", "sed -i s/mine/x/ src/x", "mv src away"):
            done = await agent.call("run_bash", command=command)
            assert done["exit_code"] != 0, command
        assert (await agent.call("run_bash", command="cat src/x > seen"))["exit_code"] == 0
        assert await agent.refused("run_bash", command="rm -rf a") == "permission_denied"
        await agent.complete()

    async with regional(settings={"sandbox": "auto"}) as team:
        await team.run("do it", IN_BYPASS, master=lead, owner=owner, other=other)
    assert (team.workspace / "src" / "x").read_text() == "mine\n"
    assert (team.workspace / "seen").read_text() == "mine\n"
    assert not (team.workspace / "y").exists()
    [asked] = team.ledger.events("permission_requested")
    assert asked["command"] == "rm -rf a", "the sandbox is no leave to do what is dangerous"


@needs_bwrap
@pytest.mark.parametrize("side", ["of others", "own"])
async def test_where_a_file_of_a_region_has_a_second_name_outside_the_sandbox_does_not_count(
    regional, side
):
    """A mount closes the path, and the other name leads to the same bytes."""

    async def other(agent):
        if side == "of others":
            await tries(agent)
        await agent.complete()

    async def owner(agent):
        if side == "own":
            await tries(agent)
        await hold(agent)

    async def tries(agent):
        writes = f"echo x > {'alias' if side == 'of others' else 'src/kept'}"
        assert await agent.refused("run_bash", command=writes) == "permission_denied"
        assert "mine" in (await agent.call("run_bash", command="cat src/kept"))["stdout"]

    async with regional(settings={"sandbox": "auto"}) as team:
        kept = team.workspace / "src" / "kept"
        kept.write_text("mine")
        (team.workspace / "alias").hardlink_to(kept)
        await team.run("do it", IN_BYPASS, master=lead, owner=owner, other=other)
    assert kept.read_text() == "mine"


async def test_a_file_tool_asks_about_a_second_name_beside_regions_and_only_there(regional):
    def edit(agent, path):
        cwd = agent.session.request.cwd
        return agent.host.authorize(
            PermissionRequest(agent_id=agent.id, tool="Edit", paths=(path,), cwd=cwd)
        )

    async def other(agent):
        for name in ("alias", "link", "sub/../alias"):
            assert isinstance(await edit(agent, name), Deny), name
        assert isinstance(await edit(agent, "a"), Allow)
        await agent.complete()

    async def early(agent):
        assert isinstance(await edit(agent, "alias"), Allow)
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="early", wait=True)
        await lead(agent)

    async with regional() as team:
        kept = team.workspace / "src" / "kept"
        kept.write_text("mine")
        (team.workspace / "alias").hardlink_to(kept)
        (team.workspace / "link").symlink_to("alias")
        behaviours = {"early": early, "owner": hold, "other": other}
        await team.run("do it", IN_BYPASS, master=master, **behaviours)
    assert all("has a second name" in why for why in reasons(team, "other"))
    assert len(reasons(team, "other")) == 3


@needs_bwrap
async def test_the_shell_of_a_vendor_is_not_in_the_sandbox_and_asks(regional):
    async def other(agent):
        assert isinstance(await bash(agent, "cp a src/x"), Deny)
        await agent.complete()

    async with regional(settings={"sandbox": "auto"}) as team:
        await team.run("do it", IN_BYPASS, master=lead, owner=hold, other=other)
    assert len(reasons(team, "other")) == 1


async def test_in_plan_mode_nothing_is_asked_and_what_may_write_is_denied(regional):
    async def other(agent):
        for command in WRITES:
            assert isinstance(await bash(agent, command), Deny), command
        assert isinstance(await bash(agent, "ls src"), Allow)
        await agent.complete()

    async with regional(interactive=True) as team:
        options = {"mode": PermissionMode.PLAN}
        await team.run("do it", options, master=lead, owner=hold, other=other)
    assert reasons(team, "other") == []
