"""Permission checks that are asked about orchestration calls, by the broker alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny, PermissionRequest
from prsm_core.interfaces.permission import PermissionCheckSpec
from tests.permissions.brokers import broker, check, make_context, shell, uses

MODES = list(PermissionMode)


@pytest.fixture
def context(tmp_path):
    return make_context(tmp_path)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("in_bypass", [True, False])
async def test_a_check_on_orchestration_is_asked_about_calls_in_every_mode(
    context, mode, in_bypass
):
    now = replace(context, mode=mode)
    for verdict, expected in [
        (Deny("no"), Deny),
        (Ask("hm"), Ask),
        (Allow(), Allow),
        (None, Allow),
        (ValueError("broken"), Deny),
    ]:
        one = broker(checks=[check(verdict, orchestration=True, in_bypass=in_bypass)])
        assert one.watches_calls
        judged = await one.judge_call(uses("spawn_child", prompt="x"), now)
        kind: object = type(judged)
        assert kind is expected
        if isinstance(judged, Ask | Deny):
            assert judged.check == "check"
        if isinstance(judged, Ask):
            assert judged.options == ("once", "deny")


async def test_other_checks_see_no_calls_and_then_there_is_nothing_to_ask(context):
    one = broker(checks=[check(Deny("no"))])
    assert not one.watches_calls
    assert isinstance(await one.judge_call(uses("spawn_child"), context), Allow)


async def test_a_vendor_that_asks_leave_for_a_tool_of_ours_does_not_ask_such_a_check_twice(
    context,
):
    asked = []

    async def note(request, _context):
        asked.append(request.tool)

    spec = PermissionCheckSpec(
        name="watch", summary="", priority=1, check=note, in_bypass=True, orchestration=True
    )
    one = broker(checks=[spec])
    assert isinstance(await one.decide(uses("spawn_child"), context), Allow)
    assert asked == []
    await one.judge_call(uses("spawn_child"), context)
    await one.decide(shell("ls"), context)
    run_bash = PermissionRequest(agent_id="a", tool="run_bash", command="ls")
    await one.decide(run_bash, context)
    assert asked == ["spawn_child", "Bash", "run_bash"]


async def test_no_call_of_an_ended_agent_is_judged(context):
    one = broker(checks=[check(Allow(), orchestration=True)])
    ended = replace(context, active=False)
    assert isinstance(await one.judge_call(uses("spawn_child"), ended), Deny)
