"""What may change files: edits, unknown tools, and commands that are not known to read only."""

from __future__ import annotations

import pytest

from prsm_core.config.schema import PermissionSettings
from prsm_core.domain.agents import AgentRole, PermissionMode
from prsm_core.domain.permissions import PermissionContext, PermissionRequest
from prsm_core.engine.tools.table import ToolTable
from prsm_core.permissions import PermissionBroker
from tests.command_policies import policy_for


@pytest.fixture
def may_write(tmp_path):
    broker = PermissionBroker(
        PermissionSettings(),
        checks={},
        orchestration=ToolTable().names,
        commands=policy_for(PermissionSettings()),
    )

    async def ask(tool="Bash", command=None, *, trusted=False, **arguments):
        context = PermissionContext(
            mode=PermissionMode.BYPASS,
            role=AgentRole.WORKER,
            provider="p",
            workspace=str(tmp_path),
            trusted=trusted,
        )
        request = PermissionRequest(
            agent_id="a", tool=tool, command=command, arguments=arguments, cwd=str(tmp_path)
        )
        return await broker.may_write(request, context)

    return ask


@pytest.mark.parametrize("command", ["ls -la", "git status", "cat a | grep x", "rg TODO"])
async def test_a_command_that_is_known_to_read_writes_nothing(may_write, command):
    assert not await may_write(command=command)


@pytest.mark.parametrize("command", ["make", "echo x > a", "ls; rm a", "cat $(make)", "((("])
async def test_any_other_command_may_write(may_write, command):
    assert await may_write(command=command)


async def test_the_checks_of_a_trusted_project_run_its_code_which_may_write(may_write):
    assert await may_write(command="pytest -q", trusted=True)


@pytest.mark.parametrize("tool", ["Edit", "Write", "NotebookEdit", "mcp__x__y"])
async def test_editors_and_unknown_tools_may_write(may_write, tool):
    assert await may_write(tool)


@pytest.mark.parametrize(
    "tool", ["Read", "Glob", "Grep", "WebFetch", "ExitPlanMode", "update_plan", "spawn_child"]
)
async def test_readers_and_prsms_own_tools_write_nothing(may_write, tool):
    assert not await may_write(tool)
