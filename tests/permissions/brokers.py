"""A broker with its parts, and what it is asked, for its tests."""

from __future__ import annotations

from prsm_core.config.schema import PermissionSettings
from prsm_core.domain.agents import AgentRole, PermissionMode
from prsm_core.domain.permissions import PermissionContext, PermissionRequest
from prsm_core.domain.tools import NATIVE_TOOLS
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.permissions import PermissionBroker
from tests.command_policies import make_policy


def broker(policy=None, *, checks=(), trusted_checks=(), tool_rules=None, **options):
    return PermissionBroker(
        PermissionSettings(trusted=tuple(trusted_checks), tools=tool_rules or {}),
        commands=policy or make_policy(),
        checks={spec.name: spec for spec in checks},
        orchestration=("spawn_child", "run_bash"),
        **options,
    )


def shell(command, **fields):
    return PermissionRequest(agent_id="a", tool="Bash", command=command, **fields)


def uses(tool, *paths, **arguments):
    return PermissionRequest(agent_id="a", tool=tool, paths=paths, arguments=arguments)


def make_context(workspace):
    """Return the context of a worker that may do all that agents may."""
    return PermissionContext(
        mode=PermissionMode.DEFAULT,
        role=AgentRole.WORKER,
        provider="p",
        workspace=str(workspace),
        trusted=True,
        tools=NATIVE_TOOLS,
        lineage=("a", "master"),
    )


def check(verdict, name="check", **fields):
    async def answer(_request, _context):
        if isinstance(verdict, BaseException):
            raise verdict
        return verdict

    fields = {"priority": 1, "in_bypass": True, **fields}
    return PermissionCheckSpec(name=name, summary="", check=answer, **fields)
