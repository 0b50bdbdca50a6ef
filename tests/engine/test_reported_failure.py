"""An agent can say itself that it has failed: `task_complete` with `success: false`."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.requirement("U28")

WHY = "the tests of the parser fail, and I cannot mend them"


async def gives_up(agent):
    await agent.call("task_complete", summary=WHY, success=False)


async def test_a_master_that_reports_failure_ends_the_run_with_1_and_its_words(team):
    result = await team.run(master=gives_up)
    assert (result.status, result.exit_code) == ("failed", 1)
    assert (result.summary, result.error) == (WHY, WHY)
    [turn] = team.ledger.events("turn_finished", "master")
    assert (turn["stop_reason"], turn["error"]) == ("end_turn", None)
    [call] = team.ledger.events("tool_call_finished", "master")
    assert call["status"] == "completed"


async def test_a_child_that_reports_failure_is_failed_and_its_parent_has_its_words(team):
    async def master(agent):
        await agent.spawn(name="a")
        [agent.memory["told"]] = await agent.collect()
        await agent.complete()

    result = await team.run(master=master, a=gives_up)
    told = team.provider.memory[team["master"].agent_id]["told"]
    assert (told["success"], told["error"]) == (False, WHY)
    assert (result.status, result.exit_code) == ("completed", 0)
    assert [(one.kind, one.text) for one in result.problems] == [("failed", WHY)]


async def test_no_gate_runs_for_who_reports_failure(opened):
    gates = {"gates": {"tests": {"command": "touch ran"}}}
    async with opened(settings=gates) as team:
        result = await team.run(master=gives_up)
    assert result.exit_code == 1
    assert not (team.workspace / "ran").exists()


async def test_children_of_who_reports_failure_end_first(team):
    async def master(agent):
        await agent.spawn(name="a")
        await team.seen("turn_started", "a")
        await gives_up(agent)

    async def a(agent):
        await agent.hang()

    result = await team.run(master=master, a=a)
    assert (result.status, result.error) == ("failed", WHY)
    assert team["a"].result.error_kind == "killed"


@pytest.mark.parametrize("success", [True, None])
async def test_success_is_what_is_taken_where_nothing_else_is_said(team, success):
    async def master(agent):
        said = {} if success is None else {"success": success}
        await agent.complete("done", **said)

    assert (await team.run(master=master)).exit_code == 0


async def test_success_that_is_no_flag_is_refused(team):
    async def master(agent):
        assert (
            await agent.refused("task_complete", summary="x", success="no") == "invalid_arguments"
        )
        await agent.complete()

    await team.run(master=master)
