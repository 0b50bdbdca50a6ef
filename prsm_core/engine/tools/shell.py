"""The run_bash tool: a command under the same permissions as a vendor's own shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.permissions import Deny, PermissionRequest
from prsm_core.engine.calls import Reply
from prsm_core.engine.processes.shell import run_shell
from prsm_core.engine.spawning import resolve_cwd
from prsm_core.errors import OrchestrationError, ToolCallTimeoutError

if TYPE_CHECKING:
    from prsm_core.engine.calls import Call


async def run_bash(call: Call) -> Reply:
    """Run a command in the agent's folder, or one below it, if it is permitted."""
    record, runtime = call.record, call.manager.runtime
    command = call.args["command"]
    own = record.descriptor.cwd
    cwd = resolve_cwd(call.args.get("cwd"), own, own)
    await call.open()
    host, sandbox = call.session.host, await runtime.sandbox.prepare()
    authorize = host.authorize_sandboxed if sandbox.is_active else host.authorize
    verdict = await authorize(
        PermissionRequest(
            agent_id=record.agent_id, tool="Bash", arguments=call.args, cwd=cwd, command=command
        )
    )
    if isinstance(verdict, Deny):
        raise OrchestrationError(
            f"not permitted: {verdict.reason}",
            hint="do it another way, or ask_parent",
            code="permission_denied",
        )
    limit = runtime.settings.engine.tool_timeout_seconds
    result = await run_shell(
        runtime.launcher,
        command,
        cwd=cwd,
        timeout_s=min(call.args.get("timeout", limit), limit),
        clock=runtime.clock,
        env=runtime.shell_env,
        sandbox=runtime.sandbox,
        region=record.descriptor.grant.region,
        closed=[folder for folder, _ in call.manager.leases.beside(record.agent_id)],
    )
    if result.timed_out:
        raise ToolCallTimeoutError(
            "the command ran for too long and was killed", hint="give it a longer timeout"
        )
    return Reply(
        {
            "exit_code": result.exit_code,
            "stdout": result.stdout,
            "stderr": result.stderr,
            "truncated": result.truncated,
        }
    )
