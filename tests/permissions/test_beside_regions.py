"""Shell commands of agents that have a region, or others beside them that do."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.permissions import Grants
from tests.command_policies import make_policy
from tests.permissions.brokers import broker, check, make_context, shell, uses

MODES = [mode for mode in PermissionMode if mode is not PermissionMode.DELEGATE]  # has no shell
BYPASS, PLAN = PermissionMode.BYPASS, PermissionMode.PLAN


@pytest.fixture
def context(tmp_path):
    return make_context(tmp_path)


OWN = {"region": ("/work/src",)}
OTHERS = {"leased": (("/work/docs", "owner"),)}
WRITERS = (
    *("cp a src/x", "echo x > src/x", "sed -i s/a/b/ x", "make", "tee x", "touch src/x"),
    *("python3 build.py", "pytest", "make test", "npm test", "cargo check", "ls > x"),
    *("cd src && touch x", "bash -c 'touch x'", "ls; mkdir y", "$PROGRAM", "unknown-tool"),
)


@pytest.mark.parametrize("command", WRITERS)
@pytest.mark.parametrize("regions", [OWN, OTHERS, OWN | OTHERS])
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode is not PLAN])
async def test_beside_regions_what_may_write_asks_whatever_allows_it(
    context, command, regions, mode
):
    now = replace(context, mode=mode, **regions)
    grants = Grants()
    grants.add("master", shell(command), str)
    allowing = make_policy(allow=[command.split()[0], "make", "pytest"])
    one = broker(
        allowing,
        grants=grants,
        tool_rules={"Bash": "allow"},
        checks=[check(Allow())],
        trusted_checks=["check"],
    )
    for request in (shell(command), uses("Bash", command=command)):
        verdict = await one.decide(request, now)
        assert isinstance(verdict, Ask), command
        assert verdict.options == ("once", "deny")
        assert all(folder in verdict.reason for folder in now.region or ())
        assert all(f"{folder} is of {owner}" in verdict.reason for folder, owner in now.leased)


@pytest.mark.parametrize("command", ["ls src", "cat README.md", "git status", "rg x src | head"])
async def test_beside_regions_what_surely_reads_runs_unasked(context, command):
    for mode in MODES:
        now = replace(context, mode=mode, **OWN, **OTHERS)
        assert isinstance(await broker().decide(shell(command), now), Allow)


async def test_who_only_delegates_has_no_shell_beside_regions_either(context):
    now = replace(context, mode=PermissionMode.DELEGATE, **OWN, **OTHERS)
    for command in ("ls src", *WRITERS):
        assert isinstance(await broker().decide(shell(command), now), Deny)


@pytest.mark.parametrize("command", WRITERS)
async def test_in_plan_mode_what_may_write_beside_regions_is_denied(context, command):
    plan = replace(context, mode=PLAN, **OTHERS)
    assert isinstance(await broker().decide(shell(command), plan), Deny)


async def test_in_the_sandbox_regions_hold_by_themselves_and_the_policy_goes_on(context):
    now = replace(context, mode=BYPASS, sandboxed=True, **OWN, **OTHERS)
    assert isinstance(await broker().decide(shell("cp a src/x"), now), Allow)
    assert isinstance(await broker().decide(shell("rm -rf src"), now), Ask)
    denying = broker(make_policy(deny=["cp"]))
    assert isinstance(await denying.decide(shell("cp a src/x"), now), Deny)


async def test_a_shell_tool_without_a_command_asks_every_time_beside_regions(context):
    grants = Grants()
    grants.add("a", uses("Bash"), str)
    verdict = await broker(grants=grants).decide(uses("Bash"), replace(context, **OTHERS))
    assert isinstance(verdict, Ask)
    assert verdict.options == ("once", "deny")


async def test_a_deny_rule_and_a_check_that_denies_hold_beside_regions(context):
    now = replace(context, **OTHERS)
    for one in (broker(make_policy(deny=["make"])), broker(checks=[check(Deny("no"))])):
        assert isinstance(await one.decide(shell("make"), now), Deny)


STAYS = (
    *("touch src/x", "mkdir -p src/a/b", "cp a src/x", "echo x | tee -a src/x"),
    *("cp a b", "touch elsewhere", "cd src && touch x", "mkdir d; touch d/x"),
)
MAY_LEAVE = (
    *("touch ../x", "cp a ../x", "echo x > /tmp/x", "echo x > way/x", "touch way/x", "cp a way"),
    *("cp a into", "tee alias", "cp -r a b", "mv a b", "ln a b", "ln -s .. b; touch b/x", "make"),
    *("sed -i s/a/b/ a", "python3 x.py", "touch $X", "touch x*", "touch .git/config", "rm a"),
    *("echo x > src/x", "cp -t .. a", "LD_PRELOAD=x touch a", "./touch a"),
)


@pytest.fixture
def apart(context, tmp_path):
    """An agent with a region, in a worktree of its own that has ways out of it."""
    work = tmp_path / "tree"
    for folder in ("src", "into"):
        (work / folder).mkdir(parents=True)
    (work / "a").write_text("a")
    (work / "way").symlink_to("..")
    (work / "into" / "a").symlink_to("../../outside")
    (tmp_path / "other").write_text("x")
    (work / "alias").hardlink_to(tmp_path / "other")
    return replace(
        context, workspace=str(work), mode=BYPASS, region=(str(work / "src"),), apart=True
    )


@pytest.mark.parametrize("command", STAYS)
async def test_what_surely_stays_in_an_agents_own_worktree_is_not_asked_about(apart, command):
    assert isinstance(await broker().decide(shell(command), apart), Allow)
    beside = replace(apart, apart=False)
    assert isinstance(await broker().decide(shell(command), beside), Ask)
    whole = replace(apart, region=None, leased=(("/work/docs", "owner"),))
    assert isinstance(await broker().decide(shell(command), whole), Ask), "all of it is merged"


@pytest.mark.parametrize("command", MAY_LEAVE)
async def test_what_may_leave_an_agents_own_worktree_is_asked_about(apart, command):
    assert isinstance(await broker().decide(shell(command), apart), Ask)


ALL = (*STAYS, "make", "pytest", "python3 build.py", "cargo check", "rm a", "ls", "unknown-tool")


@pytest.mark.parametrize("mode", MODES)
async def test_in_every_mode_what_stays_in_an_own_worktree_is_judged_as_if_there_were_no_region(
    apart, mode
):
    """The region asks nothing of its own: what the mode allows runs, what it asks about it asks."""
    for command in STAYS:
        mine = await broker().decide(shell(command), replace(apart, mode=mode))
        free = await broker().decide(
            shell(command), replace(apart, mode=mode, region=None, apart=False)
        )
        assert mine == free, command
        allowing = broker(make_policy(allow=[command.split()[0], "tee", "cd", "mkdir"]))
        if mode is not PLAN and ";" not in command and "&&" not in command:
            verdict = await allowing.decide(shell(command), replace(apart, mode=mode))
            assert isinstance(verdict, Allow), command


@pytest.mark.parametrize("mode", MODES)
async def test_in_every_mode_the_sandbox_is_judged_as_if_there_were_no_region(context, mode):
    for command in ALL:
        free = replace(context, mode=mode, sandboxed=True)
        held = replace(free, **OWN, **OTHERS)
        assert await broker().decide(shell(command), held) == await broker().decide(
            shell(command), free
        ), command
        beside = await broker().decide(shell(command), replace(held, sandboxed=False))
        assert isinstance(beside, Allow if command == "ls" else Ask | Deny), command
