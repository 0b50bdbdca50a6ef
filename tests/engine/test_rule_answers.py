"""Answers that make a rule: in force at once for the whole tree, and kept for later runs."""

from __future__ import annotations

import threading

import pytest

from prsm_core.config import resolve_paths, trust
from prsm_core.config.own_rules import OwnRules
from prsm_core.config.policy_file import read_policy, user_policy_path, workspace_policy_path
from prsm_core.config.schema import PermissionSettings
from prsm_core.domain.permissions import Allow, Ask, Deny, PermissionRequest
from prsm_core.door import RequestOutcome
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.permissions import PermissionBroker, Redactor
from tests.command_policies import policy_for
from tests.engine.harness import DEADLINE

BUILD = "npm run build -- --prod"


@pytest.fixture
def paths(tmp_path):
    return resolve_paths(tmp_path / "workspace", {"PRSM_HOME": str(tmp_path / "home")})


@pytest.fixture
def ruled(opened, paths):
    """Open a team whose broker is the real one, and whose person may make rules."""

    def open_ruled(*, checks=None, interactive=True, **options):
        broker = PermissionBroker(
            PermissionSettings(),
            checks=checks or {},
            orchestration=(),
            commands=policy_for(PermissionSettings(), policy=read_policy(paths)),
        )
        own = options.pop("own_rules", None) or OwnRules.of(paths)
        return opened(broker=broker, own_rules=own, interactive=interactive, **options)

    return open_ruled


def bash(agent, command=BUILD):
    return PermissionRequest(agent_id=agent.id, tool="Bash", command=command, cwd=".")


async def answer(team, verdict, agent="a", **fields):
    """Wait for a permission of an agent, answer it, and return what was asked."""
    asked = await team.seen("permission_requested", agent, **fields)
    requests = team.engine.requests
    assert requests.resolve(asked.data["request"], "permission", {"verdict": verdict})
    return asked


async def told(team, text):
    """Wait until a notice says so."""
    event = await team.seen("notice")
    while text not in event.data["text"]:
        event = await team.seen("notice", text=event.data["text"])
    return event


async def spawning(agent, *names, **arguments):
    for name in names:
        await agent.spawn(name=name, **arguments)
    await agent.collect(len(names))
    await agent.complete()


@pytest.mark.requirement("D11", "U9")
@pytest.mark.parametrize(("verdict", "project"), [("allow_project", True), ("allow_global", False)])
async def test_a_rule_to_allow_holds_at_once_for_the_whole_tree_and_is_kept(
    ruled, paths, verdict, project
):
    async def master(agent):
        await spawning(agent, "a")

    async def a(agent):
        assert await agent.host.authorize(bash(agent)) == Allow(f"allowed {verdict} by user")
        await agent.spawn(name="b")
        await agent.collect()
        await agent.complete()

    async def b(agent):
        for command in (BUILD, "npm run build -- --slow"):
            allowed = await agent.host.authorize(bash(agent, command))
            assert isinstance(allowed, Allow)
            assert "npm run build" in allowed.reason
        await agent.complete()

    async with ruled() as team:
        running = team.start("do it", master=master, a=a, b=b)
        asked = await answer(team, verdict)
        assert asked.data["rules"] == {"allow": ["npm run build"], "deny": [BUILD]}
        assert asked.data["options"] == [
            *("once", "always", "allow_project", "allow_global"),
            *("deny", "deny_project", "deny_global"),
        ]
        assert (await running).status == "completed"
        await told(team, "added allow npm run build")
    [resolved] = team.ledger.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == (verdict, "user")
    path = workspace_policy_path(paths) if project else user_policy_path(paths)
    assert path.read_text() == "allow:\n  - npm run build\n"
    assert paths.workspace_dir.exists() is project
    assert trust.is_trusted(paths) is project


@pytest.mark.requirement("D11", "U9")
@pytest.mark.parametrize(("verdict", "project"), [("deny_project", True), ("deny_global", False)])
async def test_a_rule_to_deny_forbids_the_exact_command_however_it_is_wrapped(
    ruled, paths, verdict, project
):
    async def master(agent):
        await spawning(agent, "a")

    async def a(agent):
        refused = await agent.host.authorize(bash(agent, "rm -rf build"))
        assert refused == Deny("the user refused it, and any like it from now on")
        again = await agent.host.authorize(bash(agent, "cd . && sudo rm -rf build"))
        assert isinstance(again, Deny)
        assert "deny 'rm -rf build'" in again.reason
        await agent.complete()

    async with ruled() as team:
        running = team.start("do it", master=master, a=a)
        await answer(team, verdict)
        assert (await running).status == "completed"
        await told(team, "added deny rm -rf build")
    [rule] = read_policy(paths).rules
    assert (rule.verdict, rule.words) == ("deny", ("rm", "-rf", "build"))
    assert rule.layer == ("workspace" if project else "user")
    assert not trust.is_trusted(paths), "a rule to deny holds without trust"


@pytest.mark.requirement("U9")
@pytest.mark.parametrize(
    ("verdict", "kind"), [("allow_global", Allow), ("deny_global", Deny), ("always", Allow)]
)
async def test_an_answer_ends_what_else_waits_and_is_decided_by_it(ruled, verdict, kind):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect(1)
        await agent.complete()

    async def a(agent):
        await agent.spawn(name="b")
        assert isinstance(await agent.host.authorize(bash(agent)), kind)
        await agent.collect(1)
        await agent.complete()

    async def b(agent):
        assert isinstance(await agent.host.authorize(bash(agent)), kind)
        await agent.complete()

    async with ruled() as team:
        running = team.start("do it", master=master, a=a, b=b)
        await team.seen("permission_requested", "b")
        await answer(team, verdict)
        assert (await running).status == "completed"
    [other] = team.ledger.events("permission_resolved", "b")
    wanted = "once" if kind is Allow else "deny"
    assert (other["verdict"], other["by"]) == (wanted, "rule")


async def test_a_check_that_asks_is_asked_again_before_a_rule_answers_for_it(ruled):
    async def asks(request, context):
        return Ask("the check wants a person")

    check = PermissionCheckSpec(name="asks", summary="", priority=1, check=asks)

    async def master(agent):
        await spawning(agent, "a", "b")

    async def worker(agent):
        await agent.host.authorize(bash(agent))
        await agent.complete()

    async with ruled(checks={"asks": check}) as team:
        running = team.start("do it", master=master, a=worker, b=worker)
        waiting = await team.seen("permission_requested", "b")
        await answer(team, "allow_global")
        await told(team, "added allow npm run build")
        await team.settled()
        assert [row.request_id for row in team.engine.requests.waiting()] == [
            waiting.data["request"]
        ]
        await answer(team, "deny", "b")
        assert (await running).status == "completed"


@pytest.mark.requirement("U9")
async def test_answers_that_could_not_hold_are_not_offered(ruled, paths):
    paths.workspace_dir.mkdir(parents=True)
    paths.workspace_config.write_text("gates: {}\n")  # and nobody trusts it
    user_policy_path(paths).parent.mkdir(parents=True)
    user_policy_path(paths).write_text("ask: [git commit]\ndeny: [git push]\n")
    commands = {
        "npm run build": "once always allow_global deny deny_project deny_global",
        "npm run a && npm run b": "once always allow_global deny",
        "git commit -m x": "once deny",
        "$PROGRAM": "once deny",
        "frob --key sk-12345678": "once always deny",
    }

    async def master(agent):
        await spawning(agent, "a")

    async def a(agent):
        for command in commands:
            await agent.host.authorize(bash(agent, command))
        await agent.complete()

    redactor = Redactor(["sk-12345678"])
    async with ruled(interactive=False, redactor=redactor) as team:
        assert (await team.run("do it", master=master, a=a)).status == "completed"
    asked = team.ledger.events("permission_requested")
    assert [" ".join(event["options"]) for event in asked] == list(commands.values())


async def test_a_rule_that_cannot_be_written_holds_for_this_run_and_that_is_said(ruled, paths):
    own = OwnRules(paths=paths, may_allow_for_project=True)
    paths.data.parent.mkdir(parents=True)
    paths.data.write_text("in the way")

    async def master(agent):
        await spawning(agent, "a")

    async def a(agent):
        assert isinstance(await agent.host.authorize(bash(agent)), Allow)
        assert isinstance(await agent.host.authorize(bash(agent)), Allow)
        await agent.complete()

    async with ruled(own_rules=own) as team:
        running = team.start("do it", master=master, a=a)
        await answer(team, "allow_global")
        notice = await told(team, "holds for this run only")
        assert notice.data["level"] == "error"
        assert str(paths.data) in notice.data["text"]
        assert (await running).status == "completed"
    assert len(team.ledger.events("permission_requested")) == 1


class SlowRules(OwnRules, frozen=True, kw_only=True):
    """Writes no rule before it may."""

    may: threading.Event

    def add(self, verdict, rules, *, project):
        assert self.may.wait(DEADLINE)
        return super().add(verdict, rules, project=project)


@pytest.mark.requirement("U9")
async def test_what_became_of_a_rule_is_told_before_its_run_ends(ruled, paths):
    async def a(agent):
        assert isinstance(await agent.host.authorize(bash(agent)), Allow)
        await agent.complete()

    own = SlowRules(paths=paths, may_allow_for_project=True, may=threading.Event())
    async with ruled(own_rules=own) as team:
        running = team.start("do it", master=lambda agent: spawning(agent, "a"), a=a)
        await answer(team, "allow_global")
        await team.seen("agent_state_changed", "master", to="completed")
        await team.settled()
        own.may.set()
        assert (await running).status == "completed"
        await told(team, "added allow")


@pytest.mark.requirement("U9")
async def test_what_became_of_a_rule_is_told_before_the_engine_leaves_its_run(ruled, paths):
    async def a(agent):
        assert isinstance(await agent.host.authorize(bash(agent)), Allow)
        await agent.hang()

    own = SlowRules(paths=paths, may_allow_for_project=True, may=threading.Event())
    async with ruled(own_rules=own) as team:
        running = team.start("do it", master=lambda agent: spawning(agent, "a"), a=a)
        await answer(team, "allow_global")
        await team.settled()
        leaving = team.engine.start_soon(team.engine.shutdown(), name="shutdown")
        await team.settled()
        own.may.set()
        await leaving
        assert (await running).status == "interrupted"
        [added] = [one for one in team.ledger.events("notice") if "added" in one["text"]]
        assert "allow npm run build" in added["text"]


@pytest.mark.requirement("U9")
async def test_a_workspace_that_changed_meanwhile_is_not_trusted_by_a_rule(ruled, paths):
    paths.workspace_dir.mkdir(parents=True)
    paths.workspace_config.write_text("gates: {}\n")
    trust.trust(paths)

    async def master(agent):
        await spawning(agent, "a")

    async def a(agent):
        (paths.workspace_dir / "models.yaml").write_text("models: {}\n")
        assert isinstance(await agent.host.authorize(bash(agent)), Allow)
        await agent.complete()

    async with ruled() as team:
        running = team.start("do it", master=master, a=a)
        await answer(team, "allow_project")
        await told(team, "holds other changes that are not trusted")
        assert (await running).status == "completed"
    assert not trust.is_trusted(paths)


@pytest.mark.requirement("D9")
async def test_a_late_answer_can_be_told_whose_was_first(ruled, paths):
    async def master(agent):
        await spawning(agent, "a")

    async def a(agent):
        await agent.host.authorize(bash(agent))
        await agent.complete()

    async with ruled() as team:
        running = team.start("do it", master=master, a=a)
        asked = await team.seen("permission_requested")
        request, requests = asked.data["request"], team.engine.requests
        assert requests.outcome(request) is None
        once = {"verdict": "once"}
        assert requests.resolve(request, "permission", once, via="prsm attach")
        assert not requests.resolve(request, "permission", {"verdict": "allow_project"})
        first = RequestOutcome(request=request, by="user", via="prsm attach", verdict="once")
        assert requests.outcome(request[:8]) == first
        assert (await running).status == "completed"
        assert requests.outcome(request) == first
        assert requests.outcome("x") is None
    [resolved] = team.ledger.events("permission_resolved")
    assert (resolved["by"], resolved["via"]) == ("user", "prsm attach")
    assert read_policy(paths).rules == (), "an answer that came too late makes no rule"
