"""The order of the broker's rules, and what plugins may and may not change."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from prsm_core.domain.agents import AgentRole, PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny, PermissionContext, PermissionRequest
from prsm_core.domain.tools import EDIT_TOOLS, NATIVE_TOOLS, READ_TOOLS
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.permissions import Grants, PermissionBroker
from tests.command_policies import Unreadable, make_policy, policy_for
from tests.permissions.brokers import broker, check, make_context, shell, uses
from tests.sources import ROOT

DATA = ROOT / "plugins" / "prsm_policy" / "tests" / "data" / "commands_sample.jsonl"
ROWS = [json.loads(line) for line in DATA.read_text().splitlines()]
MODES = list(PermissionMode)
BYPASS, PLAN = PermissionMode.BYPASS, PermissionMode.PLAN
READER = frozenset({"Read"})


@pytest.fixture
def context(tmp_path):
    return make_context(tmp_path)


@pytest.mark.parametrize("mode", MODES)
async def test_an_ended_agent_is_refused_everything(context, mode):
    stale = replace(context, active=False, mode=mode)
    for request in (uses("spawn_child"), uses("Read", "x"), shell("ls")):
        assert await broker().decide(request, stale) == Deny("the agent has ended")


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("mode", MODES)
async def test_a_deny_rule_holds_in_every_mode_and_against_every_grant(context, mode):
    grants = Grants()
    grants.add("master", shell("curl x"), str)
    grants.add("master", uses("WebFetch"), str)
    policy = make_policy(allow=["curl"], deny=["curl"])
    one = broker(
        policy,
        tool_rules={"WebFetch": "deny", "spawn_child": "deny"},
        grants=grants,
        checks=[check(Allow())],
        trusted_checks=["check"],
    )
    now = replace(context, mode=mode)
    for request in (shell("curl x"), uses("WebFetch"), uses("spawn_child")):
        assert isinstance(await one.decide(request, now), Deny)


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_the_agent_does_not_have_is_refused(context, mode):
    bare = replace(context, tools=READER, mode=mode)
    for request in (uses("Edit", "x"), shell("ls"), uses("WebFetch")):
        assert isinstance(await broker().decide(request, bare), Deny)
    assert isinstance(await broker().decide(uses("Read", "x"), bare), Allow)


@pytest.mark.parametrize(
    "fields", [{"shell_reads": True}, {"role": AgentRole.EXPERT}, {"role": AgentRole.REVIEWER}]
)
async def test_an_agent_that_reads_by_shell_runs_safe_commands_only(context, fields):
    reader = replace(context, tools=READER, mode=BYPASS, **fields)
    one = broker(make_policy(allow=["make"], ask=["du"]))
    assert isinstance(await one.decide(shell("cat README.md"), reader), Allow)
    assert isinstance(await one.decide(shell("du -sh ."), reader), Ask)
    for command in ("make", "touch x", "cat .env", "rm x"):
        assert isinstance(await one.decide(shell(command), reader), Deny)
    no_reader = replace(reader, tools=frozenset({"Grep"}))
    assert isinstance(await one.decide(shell("cat README.md"), no_reader), Deny)


@pytest.mark.requirement("E19", "E20")
@pytest.mark.parametrize("mode", MODES)
async def test_orchestration_and_control_tools_are_always_allowed(context, mode):
    bare = replace(context, tools=frozenset(), mode=mode)
    for tool in ("spawn_child", "run_bash", "ExitPlanMode", "update_plan"):
        assert isinstance(await broker().decide(uses(tool), bare), Allow)


async def test_a_command_that_comes_by_an_orchestration_tool_is_judged_as_a_command(context):
    request = PermissionRequest(agent_id="a", tool="run_bash", command="rm -rf x")
    assert isinstance(await broker().decide(request, context), Ask)
    bare = replace(context, tools=READER)
    assert isinstance(await broker().decide(request, bare), Deny)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", ".git/config", ".env", "~/x", ".mcp.json"])
async def test_a_write_outside_or_to_a_protected_path_asks_every_time(context, path):
    grants = Grants()
    grants.add("a", uses("Edit"), str)
    one = broker(grants=grants, tool_rules={"Edit": "allow"})
    for mode in (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, BYPASS):
        for request in (uses("Edit", "ok.py", path), uses("Edit", file_path=path)):
            verdict = await one.decide(request, replace(context, mode=mode))
            assert isinstance(verdict, Ask)
            assert verdict.options == ("once", "deny")
    assert isinstance(await one.decide(uses("Edit", path), replace(context, mode=PLAN)), Deny)


async def test_a_write_that_does_not_say_where_asks(context):
    assert isinstance(await broker().decide(uses("Write"), context), Ask)


async def test_a_secret_is_not_read_without_asking(context):
    assert isinstance(await broker().decide(uses("Read", ".env"), context), Ask)
    assert isinstance(await broker().decide(uses("Read", "../README.md"), context), Allow)


async def test_plan_mode_changes_nothing(context):
    plan = replace(context, mode=PLAN)
    one = broker(make_policy(allow=["make"]), tool_rules={"Deploy": "allow"})
    for request in (uses("Edit", "x"), shell("make"), uses("Deploy"), shell("rm x")):
        assert isinstance(await one.decide(request, plan), Deny)
    for request in (uses("Read", "x"), uses("WebFetch"), shell("git status")):
        assert isinstance(await one.decide(request, plan), Allow)


async def test_an_ask_rule_is_asked_every_time_also_in_bypass_and_after_a_grant(context):
    grants = Grants()
    grants.add("a", shell("ls"), str)
    one = broker(make_policy(ask=["ls"]), grants=grants)
    verdict = await one.decide(shell("ls"), replace(context, mode=BYPASS))
    assert isinstance(verdict, Ask)
    assert "always" not in verdict.options


@pytest.mark.requirement("E21")
async def test_what_was_allowed_always_is_shared_by_all_agents_below(context):
    one = broker(make_policy())
    request = shell("terraform plan")
    assert isinstance(await one.decide(request, context), Ask)
    data = one.grant("master", request)
    assert data == {"agent_id": "master", "tool": "Bash", "command": "terraform plan"}
    assert isinstance(await one.decide(request, context), Allow)
    sibling = replace(request, agent_id="b")
    assert isinstance(await one.decide(sibling, replace(context, lineage=("b", "master"))), Allow)
    assert isinstance(await one.decide(sibling, replace(context, lineage=("b",))), Ask)


@pytest.mark.requirement("E22")
async def test_tools_that_are_no_shell_are_allowed(context):
    for tool in READ_TOOLS | EDIT_TOOLS | {"WebFetch", "WebSearch"}:
        assert isinstance(await broker().decide(uses(tool, "src/x.py"), context), Allow)


@pytest.mark.requirement("E18")
async def test_an_unknown_tool_asks_unless_a_rule_or_bypass_says_otherwise(context):
    request = uses("mcp__github__create_issue", path="/repos/x")
    for rule, verdict in [(None, Ask), ("ask", Ask), ("allow", Allow), ("deny", Deny)]:
        rules = {request.tool: rule} if rule else {}
        assert type(await broker(tool_rules=rules).decide(request, context)) is verdict
    bypass = replace(context, mode=BYPASS)
    assert isinstance(await broker().decide(request, bypass), Allow)
    assert isinstance(await broker(tool_rules={request.tool: "ask"}).decide(request, bypass), Ask)


async def test_a_rule_that_asks_for_a_tool_holds_for_known_tools_too(context):
    one = broker(tool_rules={"Edit": "ask", "Bash": "ask"})
    for request in (uses("Edit", "x"), shell("ls")):
        verdict = await one.decide(request, context)
        assert isinstance(verdict, Ask)
        assert "always" in verdict.options


async def test_a_shell_request_without_a_command_asks(context):
    for mode in (PermissionMode.DEFAULT, BYPASS):
        verdict = await broker().decide(uses("Bash"), replace(context, mode=mode))
        assert isinstance(verdict, Ask)


@pytest.mark.requirement("E23")
async def test_the_broker_gives_the_recorded_commands_an_accepted_verdict(context):
    names: dict[type, str] = {Allow: "allow", Ask: "ask", Deny: "deny"}
    wrong = []
    for row in ROWS:
        rules = {name: row["policy"].get(name, ()) for name in ("allow", "ask", "deny")}
        if row["policy_source"] == "workspace":
            rules["workspace_allow"] = rules.pop("allow")
        now = replace(context, mode=PermissionMode(row["mode"]), trusted=row["trusted"])
        verdict = await broker(make_policy(**rules)).decide(shell(row["command"]), now)
        if names[type(verdict)] not in row["accept"] and row["expected"] != "allow":
            wrong.append((row["id"], verdict))
    assert not wrong


async def test_the_strongest_verdict_wins(context):
    for verdict, expected in [
        (Deny("no"), Deny),
        (Ask("hm"), Ask),
        (Allow(), Allow),
        (None, Allow),
    ]:
        one = broker(checks=[check(verdict), check(Allow(), "second")])
        assert type(await one.decide(uses("Read", "x"), context)) is expected
    for verdict, expected in [(Deny("no"), Deny), (Ask("hm"), Ask), (Allow(), Ask), (None, Ask)]:
        one = broker(checks=[check(verdict)])
        assert type(await one.decide(uses("Deploy"), context)) is expected


async def test_a_trusted_allow_stands_in_for_a_person_at_the_last_two_rules_only(context):
    one = broker(make_policy(ask=["du"]), checks=[check(Allow())], trusted_checks=["check"])
    for request in (uses("Deploy"), shell("terraform plan")):
        assert isinstance(await one.decide(request, context), Allow)
    for request in (shell("du"), uses("Edit", ".git/config")):
        assert isinstance(await one.decide(request, context), Ask)
    assert isinstance(await one.decide(uses("Deploy"), replace(context, mode=PLAN)), Deny)


async def test_a_trusted_allow_does_not_silence_another_check(context):
    checks = [check(Allow(), "first", priority=0), check(Ask("hm"), "second")]
    one = broker(checks=checks, trusted_checks=["first"])
    assert isinstance(await one.decide(uses("Deploy"), context), Ask)


async def test_checks_run_by_priority_then_name_until_one_denies(context):
    order = []

    def noting(name, priority, verdict=None):
        async def answer(_request, _context):
            order.append(name)
            return verdict

        return PermissionCheckSpec(name=name, summary="", priority=priority, check=answer)

    checks = [
        noting("c", 2),
        noting("b", 1),
        noting("a", 1),
        noting("d", 3, Deny("no")),
        noting("e", 4),
    ]
    await broker(checks=checks).decide(uses("Read", "x"), context)
    assert order == ["a", "b", "c", "d"]


async def test_in_bypass_only_checks_that_ask_for_it_run(context):
    bypass = replace(context, mode=BYPASS)
    for in_bypass, expected in [(True, Deny), (False, Allow)]:
        one = broker(checks=[check(Deny("no"), in_bypass=in_bypass)])
        assert type(await one.decide(uses("Read", "x"), bypass)) is expected


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (check(ValueError("broken")), "the permission check check failed: ValueError: broken"),
        (check(KeyError()), "failed: KeyError"),
        (check(SystemExit(3)), "failed: SystemExit: 3"),
        (check(BaseExceptionGroup("many", [SystemExit(3)])), "failed: BaseExceptionGroup: many"),
        (check(GeneratorExit()), "failed: GeneratorExit"),
        (check(asyncio.CancelledError()), "cancelled itself"),
        (check("yes"), "gave a str, which is no Allow or Deny or Ask"),
        (check(Deny(5)), "gave a Deny whose reason is a int: 5, not text"),  # type: ignore[arg-type]
        (check(Ask("?", options=())), "gave a Ask whose options is a tuple"),
        (check(Ask("?", options=("perhaps",))), "not some of the options of an Ask"),
        (
            PermissionCheckSpec(name="lost", summary="", priority=1, check="no.such:thing"),
            "lost failed",
        ),
    ],
)
async def test_a_check_that_fails_is_a_refusal_that_names_it(context, spec, reason):
    one = broker(checks=[spec], trusted_checks=[spec.name])
    verdict = await one.decide(uses("Read", "x"), context)
    assert isinstance(verdict, Deny)
    assert reason in verdict.reason


async def test_a_check_that_takes_too_long_is_a_refusal_that_names_it(context):
    async def hang(_request, _context):
        await asyncio.Event().wait()

    spec = PermissionCheckSpec(name="slow", summary="", priority=1, check=hang, timeout=0.01)
    verdict = await broker(checks=[spec]).decide(uses("Read", "x"), context)
    assert verdict == Deny("the permission check slow gave no verdict within 0.01 s")


@pytest.mark.requirement("F9")
async def test_a_check_that_keeps_to_itself_that_it_is_late_is_a_refusal(context):
    """It is cancelled at its deadline, swallows that, and says yes."""

    async def swallow(_request, _context):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Allow()

    spec = PermissionCheckSpec(name="slow", summary="", priority=1, check=swallow, timeout=0.01)
    verdict = await broker(checks=[spec], trusted_checks=["slow"]).decide(
        uses("Read", "x"), context
    )
    assert verdict == Deny("the permission check slow gave no verdict within 0.01 s")


@pytest.mark.requirement("F9")
async def test_a_check_that_blocks_the_thread_past_its_deadline_is_a_refusal(context):
    async def block(_request, _context):
        now = asyncio.get_running_loop().time
        began = now()
        while now() - began <= spec.timeout:
            pass
        return Allow()

    spec = PermissionCheckSpec(name="slow", summary="", priority=1, check=block, timeout=0.01)
    verdict = await broker(checks=[spec], trusted_checks=["slow"]).decide(
        uses("Read", "x"), context
    )
    assert verdict == Deny("the permission check slow gave no verdict within 0.01 s")


@pytest.mark.requirement("F9")
async def test_a_check_that_never_lets_go_is_left_behind_and_refuses(context):
    released = asyncio.Event()

    async def hold_on(_request, _context):
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()

    spec = PermissionCheckSpec(name="slow", summary="", priority=1, check=hold_on, timeout=0.01)
    verdict = await broker(checks=[spec]).decide(uses("Read", "x"), context)
    released.set()
    assert verdict == Deny("the permission check slow gave no verdict within 0.01 s")


async def test_cancelling_a_decision_is_no_verdict(context):
    started = asyncio.Event()

    async def hang(_request, _context):
        started.set()
        await asyncio.Event().wait()

    spec = PermissionCheckSpec(name="slow", summary="", priority=1, check=hang)
    async with asyncio.TaskGroup() as group:
        deciding = group.create_task(broker(checks=[spec]).decide(uses("Read", "x"), context))
        await started.wait()
        deciding.cancel()
    assert deciding.cancelled()


async def test_a_verdict_of_a_check_carries_its_name(context):
    for verdict in (Deny("no"), Ask("hm"), ValueError("broken")):
        one = broker(checks=[check(verdict, "watcher")])
        assert (await one.decide(uses("Read", "x"), context)).check == "watcher"
    denied = await broker(tool_rules={"Read": "deny"}).decide(uses("Read", "x"), context)
    assert denied.check is None


REQUESTS = st.builds(
    PermissionRequest,
    agent_id=st.just("a"),
    tool=st.sampled_from([*sorted(NATIVE_TOOLS), "spawn_child", "update_plan", "mcp__x__y"]),
    command=st.none() | st.sampled_from(["ls", "curl x", "rm x", "git push", "$(x)", "ls; curl"]),
    paths=st.lists(st.sampled_from(["a", "../a", ".git/x", ".env"]), max_size=2).map(tuple),
)
CONTEXTS = st.builds(
    PermissionContext,
    mode=st.sampled_from(MODES),
    role=st.sampled_from(list(AgentRole)),
    provider=st.just("p"),
    workspace=st.just("/nowhere"),
    trusted=st.booleans(),
    tools=st.frozensets(st.sampled_from(sorted(NATIVE_TOOLS))),
    shell_reads=st.booleans(),
    active=st.booleans(),
)
STRENGTH: dict[type, int] = {Allow: 0, Ask: 1, Deny: 2}


def decide(request, context, policy=None, **options):
    return asyncio.run(broker(policy, **options).decide(request, context))


@given(REQUESTS, CONTEXTS, st.sampled_from(["curl", "ls", "git", "rm"]))
def test_adding_a_deny_rule_never_weakens_a_verdict(request, context, rule):
    policy = make_policy(allow=["curl", "git push"], deny=["git"])
    stricter = make_policy(allow=["curl", "git push"], deny=["git", rule])
    before, after = decide(request, context, policy), decide(request, context, stricter)
    assert STRENGTH[type(after)] >= STRENGTH[type(before)]


@given(REQUESTS, CONTEXTS, st.sampled_from([None, Ask("hm"), Deny("no"), ValueError()]))
def test_a_check_never_weakens_a_verdict_unless_it_is_trusted(request, context, verdict):
    before = decide(request, context)
    for answer in (verdict, Allow()):
        after = decide(request, context, checks=[check(answer)])
        assert STRENGTH[type(after)] >= STRENGTH[type(before)]


@given(REQUESTS, CONTEXTS)
def test_taking_tools_away_never_weakens_a_verdict(request, context):
    fewer = replace(context, tools=frozenset(sorted(context.tools)[1:]))
    before, after = decide(request, context), decide(request, fewer)
    assert STRENGTH[type(after)] >= STRENGTH[type(before)]


async def test_the_broker_is_built_from_the_settings(context):
    from prsm_core.config.schema import PermissionSettings

    settings = PermissionSettings.of(
        {"allow": ["frob"], "deny": ["curl"], "tools": {"Deploy": "deny"}, "trusted": ["check"]}
    )
    one = PermissionBroker(
        settings,
        checks={"check": check(Allow())},
        orchestration=["ask_parent"],
        commands=policy_for(settings),
    )
    for request, expected in [
        (shell("frob"), Allow),
        (shell("curl x"), Deny),
        (uses("Deploy"), Deny),
        (uses("Other"), Allow),
        (uses("ask_parent"), Allow),
        (uses("mcp__prsm__ask_parent"), Allow),
        (uses("ExitPlanMode"), Allow),
    ]:
        assert type(await one.decide(request, context)) is expected, request
    plain = PermissionBroker(
        PermissionSettings(),
        checks={},
        orchestration=["ask_parent"],
        commands=policy_for(PermissionSettings()),
    )
    assert isinstance(await plain.decide(uses("mcp__evil__ask_parent"), context), Ask)


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("mode", MODES)
async def test_a_rule_that_fails_is_a_refusal_that_says_so(context, mode):
    request = shell(Unreadable("make"))
    verdict = await broker().reconsider(request, replace(context, mode=mode))
    assert isinstance(verdict, Deny)
    assert "the command policy failed" in verdict.reason
    assert "KeyError" in verdict.reason


async def test_what_is_ruled_and_granted_is_told(context):
    grants = Grants()
    grants.add("w1", shell("make all"), str)
    policy = make_policy(
        allow=["make"], ask=["git push"], deny=["curl"], workspace_allow=["npm test"]
    )
    one = broker(policy, tool_rules={"WebFetch": "deny"}, grants=grants)
    one.add_rule("deny", ["rm", "-rf"])
    told = one.told()
    rules = [(rule["verdict"], " ".join(rule["words"]), rule["layer"]) for rule in told["rules"]]
    assert rules == [
        ("deny", "curl", None),
        ("deny", "rm -rf", None),
        ("ask", "git push", None),
        ("allow", "make", "own"),
        ("allow", "npm test", "workspace"),
    ]
    assert told["tools"] == {"WebFetch": "deny"}
    assert told["grants"] == [{"agent_id": "w1", "tool": "Bash", "command": "make all"}]
    json.dumps(told)
