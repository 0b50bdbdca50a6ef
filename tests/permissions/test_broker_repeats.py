"""What the broker tells the guard of: what was let through, denied, ended, or changed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny, PermissionRequest
from prsm_core.permissions import outcome_of
from prsm_core.permissions.guard import LIMIT
from prsm_core.permissions.results import DENIED
from tests.command_policies import make_policy
from tests.permissions.brokers import broker, make_context, shell, uses

BYPASS = PermissionMode.BYPASS
MODES = [mode for mode in PermissionMode if mode is not PermissionMode.DELEGATE]  # has no shell


@pytest.fixture
def context(tmp_path):
    return make_context(tmp_path)


async def run(one, request, context, text="out"):
    """Decide, let what is allowed end with a result, and return the verdict."""
    began = one.mark()
    verdict = await one.decide(request, context)
    if isinstance(verdict, Allow):
        outcome = outcome_of(succeeded=True, texts=(text,), error=None)
        one.ended(request, context, outcome, began)
    return verdict


async def kinds(one, context, *requests):
    return [type(await run(one, request, context)) for request in requests]


async def test_a_refused_stale_agent_does_not_use_up_the_guard(context):
    one = broker(make_policy(deny=["ls"]))
    for _ in range(LIMIT):
        await one.decide(shell("ls"), replace(context, active=False))
    assert "rule" in (await one.decide(shell("ls"), context)).reason


@pytest.mark.requirement("E16")
@pytest.mark.parametrize("mode", MODES)
async def test_the_same_command_with_the_same_result_is_refused_in_every_mode(context, mode):
    one, now = broker(tool_rules={"Bash": "allow"}), replace(context, mode=mode)
    assert await kinds(one, now, *[shell("ls")] * 5) == [Allow, Allow, Allow, Deny, Deny]
    assert "nothing that could change it" in (await one.decide(shell("ls"), now)).reason


@pytest.mark.requirement("E16")
@pytest.mark.parametrize("tool", ["Edit", "Write", "mcp__files__write"])
async def test_an_edit_in_between_lets_a_loop_of_edits_and_tests_go_on(context, tool):
    now = replace(context, mode=BYPASS)
    requests = [uses(tool, "src/a.py"), shell("python -m pytest -q")] * 10
    assert await kinds(broker(), now, *requests) == [Allow] * 20


@pytest.mark.requirement("E16")
@pytest.mark.parametrize("looks", ["Read", "Grep", "WebFetch", "update_plan", "spawn_child"])
async def test_what_only_looks_or_steers_is_no_change(context, looks):
    now = replace(context, mode=BYPASS)
    requests = [shell("make"), uses(looks, path="x")] * 4
    assert (await kinds(broker(), now, *requests))[-2:] == [Deny, Allow]


async def test_an_edit_that_was_refused_is_no_change(context):
    one, now = broker(tool_rules={"Edit": "deny"}), replace(context, mode=BYPASS)
    requests = [shell("make"), uses("Edit", "a.py")] * 4
    assert await kinds(one, now, *requests) == [Allow, Deny] * 3 + [Deny, Deny]


@pytest.mark.requirement("E16")
async def test_an_edit_of_another_agent_is_a_change_where_it_edits(context, tmp_path):
    one, now = broker(), replace(context, mode=BYPASS)
    assert await kinds(one, now, *[shell("make")] * 4) == [Allow] * 3 + [Deny]
    elsewhere = replace(uses("Edit", "/nowhere/a.py"), agent_id="b", cwd="/nowhere")
    one.ended(elsewhere, now, None, one.mark())
    assert await kinds(one, now, shell("make")) == [Deny]
    one.ended(replace(elsewhere, paths=(f"{tmp_path}/a.py",)), now, None, one.mark())
    assert await kinds(one, now, shell("make")) == [Allow]


async def test_an_edit_that_was_not_asked_for_is_a_change_once_it_has_ended(context):
    one, now = broker(), replace(context, mode=BYPASS)
    assert await kinds(one, now, *[shell("make")] * 3) == [Allow] * 3
    one.ended(uses("Edit", "a.py"), now, DENIED, one.mark())
    assert await kinds(one, now, shell("make")) == [Deny]
    one.ended(uses("Edit", "a.py"), now, None, one.mark())
    assert await kinds(one, now, shell("make")) == [Allow]


async def test_what_ends_after_its_agent_may_have_changed_something_and_is_no_result(context):
    one, now = broker(), replace(context, mode=BYPASS)
    assert await kinds(one, now, *[shell("make")] * 3) == [Allow] * 3
    late = replace(shell("touch x"), agent_id="b")
    one.ended(late, replace(now, active=False), None, one.mark())
    assert await kinds(one, now, shell("make")) == [Allow]
    assert "b" not in one._guard._agents


async def test_a_person_who_speaks_may_have_changed_something(context, tmp_path):
    one, now = broker(), replace(context, mode=BYPASS)
    assert await kinds(one, now, *[shell("make")] * 4) == [Allow] * 3 + [Deny]
    one.changed_by_hand(str(tmp_path / "src"), str(tmp_path))
    assert await kinds(one, now, shell("make")) == [Allow]


@pytest.mark.requirement("E16")
async def test_refused_commands_and_both_shell_tools_count_together(context):
    one = broker(make_policy(deny=["curl"]))
    by_tool = PermissionRequest(agent_id="a", tool="run_bash", command="curl x")
    by_argument = uses("Bash", command="curl x")
    for request in (shell("curl x"), by_tool, by_argument):
        assert "rule" in (await one.decide(request, context)).reason
    assert "3 times" in (await one.decide(shell(" curl x"), context)).reason
    assert "rule" in (await one.decide(replace(shell("curl x"), agent_id="b"), context)).reason
    one.forget("a")
    assert "rule" in (await one.decide(shell("curl x"), context)).reason


@pytest.mark.requirement("E16")
async def test_what_a_person_refuses_counts_and_to_decide_again_does_not(context):
    one = broker()
    for _ in range(3):
        assert isinstance(await one.decide(shell("unknown"), context), Ask)
        for _ in range(3):
            assert isinstance(await one.reconsider(shell("unknown"), context), Ask)
        one.settle(shell("unknown"), context, Deny("the user refused it"))
    assert isinstance(await one.decide(shell("unknown"), context), Deny)
    one.add_rule("allow", ["unknown"])
    assert isinstance(await one.decide(shell("unknown"), context), Allow)
