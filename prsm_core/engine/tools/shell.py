"""The run_bash tool: a command under the same permissions as a vendor's own shell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prsm_core.domain.permissions import Deny, PermissionRequest
from prsm_core.engine.processes.region_mounts import is_reached_from_outside
from prsm_core.engine.processes.shell import run_shell
from prsm_core.engine.spawn.plan import resolve_cwd
from prsm_core.engine.turns.calls import Reply
from prsm_core.errors import OrchestrationError, ToolCallTimeoutError
from prsm_core.permissions import outcome_of

if TYPE_CHECKING:
    from prsm_core.engine.processes.shell import ShellResult
    from prsm_core.engine.turns.calls import Call
    from prsm_core.permissions import Outcome


async def run_bash(call: Call) -> Reply:
    """Run a command in the agent's folder, or one below it, if it is permitted."""
    record, runtime = call.record, call.manager.runtime
    command = call.args["command"]
    own = record.descriptor.cwd
    cwd = resolve_cwd(call.args.get("cwd"), own, own)
    await call.open()
    request = PermissionRequest(
        agent_id=record.agent_id, tool="Bash", arguments=call.args, cwd=cwd, command=command
    )
    host, sandbox = call.session.host, await runtime.sandbox.prepare()
    is_sealed = sandbox.is_active and not await _leaks(call)
    authorize = host.authorize_sandboxed if is_sealed else host.authorize
    verdict = await authorize(request)
    if isinstance(verdict, Deny):
        raise OrchestrationError(
            f"not permitted: {verdict.reason}",
            hint="do it another way, or ask_parent",
            code="permission_denied",
        )
    began, outcome = runtime.broker.mark(), None
    try:
        result = await _run(call, command, cwd)
        outcome = _outcome(result)
    finally:
        runtime.broker.ended(request, host.context(), outcome, began)
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


async def _leaks(call: Call) -> bool:
    """Return whether mounts do not keep the command to the regions: a file has two names."""
    own = call.record.descriptor.grant.region or ()
    others = [folder for folder, _ in call.manager.leases.beside(call.record.agent_id)]
    for folder in (*own, *others):
        if await asyncio.to_thread(is_reached_from_outside, folder):
            return True
    return False


async def _run(call: Call, command: str, cwd: str) -> ShellResult:
    runtime = call.manager.runtime
    limit = runtime.settings.engine.tool_timeout_seconds
    return await run_shell(
        runtime.launcher,
        command,
        cwd=cwd,
        timeout_s=min(call.args.get("timeout", limit), limit),
        clock=runtime.clock,
        env=runtime.shell_env,
        sandbox=runtime.sandbox,
        region=call.record.descriptor.grant.region,
        closed=[folder for folder, _ in call.manager.leases.beside(call.record.agent_id)],
    )


def _outcome(result: ShellResult) -> Outcome | None:
    """Return how a command ended, None where that is not all known."""
    if result.timed_out or result.truncated:
        return None
    error = f"exit code {result.exit_code}" if result.exit_code else None
    texts = (result.stdout, result.stderr)
    return outcome_of(succeeded=not result.exit_code, texts=texts, error=error)
