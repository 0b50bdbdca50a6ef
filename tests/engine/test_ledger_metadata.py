"""What a context has for the ledger and not for the model: what it is, and where it stands."""

import json

import pytest
from prsm_testing.steps import Steps

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.tools import NATIVE_TOOLS, READ_TOOLS
from prsm_core.engine.turns.context import ledger_role

COLUMNS = (
    *("session_label", "parent_turn_id", "role", "toolset_name"),
    *("permissions_granted", "source_event_id", "workspace_path"),
)


def kept(team, agent, number):
    """Return what the turns table and the sessions table have of an agent's turn."""
    [row] = team.ledger.rows(
        "SELECT t.parent_turn_id, t.role, t.toolset_name, t.permissions_granted, t.source_event_id,"
        " t.workspace_path, t.id FROM turns t JOIN agents a USING (agent_id)"
        " WHERE a.name = ? AND t.turn_no = ?",
        agent,
        number,
    )
    parent, role, toolset, granted, source, workspace, turn = row
    [label] = team.ledger.rows(
        "SELECT DISTINCT session_label FROM session_history WHERE thread_id = ?", turn
    )
    found = (label[0], parent, role, toolset, tuple(json.loads(granted)), source, workspace)
    return dict(zip(COLUMNS, found, strict=True)), turn


@pytest.mark.requirement("N6")
async def test_what_a_context_has_for_the_ledger_is_what_the_ledger_has(team):
    async def master(agent):
        if agent.turn == 1:
            await agent.spawn("answer briefly", name="a")
            return  # with a child alive there is a next turn
        await agent.complete()

    await team.run("the task", master=master)
    first, second = team.provider.contexts["master"]
    [child] = team.provider.contexts["a"]
    own, turn = kept(team, "master", 1)
    assert own == {name: getattr(first, name) for name in COLUMNS}
    assert kept(team, "master", 2)[0] == {name: getattr(second, name) for name in COLUMNS}
    assert kept(team, "a", 1)[0] == {name: getattr(child, name) for name in COLUMNS}
    assert (first.session_label, first.toolset_name) == ("session/master", "master")
    assert first.permissions_granted == ("bypass", "Glob", "Grep", "Read")
    assert (first.parent_turn_id, second.parent_turn_id) == (None, turn)
    assert first.workspace_path == child.workspace_path == str(team.workspace)


@pytest.mark.requirement("N6")
async def test_a_turn_that_a_message_began_names_it_and_one_that_a_task_began_names_none(team):
    async def master(agent):
        if agent.turn == 1:
            await agent.spawn(name="a")
            return
        await agent.complete()

    await team.run("the task", master=master)
    first, second = team.provider.contexts["master"]
    assert first.source_event_id is None
    [(message, kind, turn)] = team.ledger.rows(
        "SELECT message_id, type, consumed_by FROM inbox WHERE message_id = ?",
        second.source_event_id,
    )
    assert (message, kind) == (second.source_event_id, "task_result")
    assert turn == kept(team, "master", 2)[1]


@pytest.mark.requirement("N6")
async def test_a_master_that_has_tools_to_write_with_is_unified_in_the_ledger(team):
    tools = frozenset({"Read", "Edit", "Bash"})
    await team.run("do it", {"master_tools": tools})
    [context] = team.provider.contexts["master"]
    [request] = team.provider.requests["master"]
    assert (context.role, kept(team, "master", 1)[0]["role"]) == ("unified", "unified")
    assert request.native_tools == tools


@pytest.mark.requirement("N6")
@pytest.mark.parametrize(
    ("role", "tools", "called"),
    [
        (AgentRole.MASTER, READ_TOOLS, "manager"),
        (AgentRole.MASTER, READ_TOOLS | {"WebFetch"}, "manager"),
        (AgentRole.MASTER, frozenset({"Bash"}), "unified"),
        (AgentRole.MASTER, NATIVE_TOOLS, "unified"),
        (AgentRole.WORKER, NATIVE_TOOLS, "worker"),
        (AgentRole.EXPERT, READ_TOOLS, "worker"),
        (AgentRole.REVIEWER, READ_TOOLS, "worker"),
    ],
)
def test_the_ledger_calls_an_agent_by_what_it_does(role, tools, called):
    agent = Steps().descriptor("a", role=role, tools=tools)
    assert ledger_role(agent) == called
