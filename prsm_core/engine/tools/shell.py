"""The run_bash tool: a command under the same permissions as a vendor's own shell."""

from __future__ import annotations

import asyncio
import os
import stat
from collections import Counter
from typing import TYPE_CHECKING

from prsm_core.domain.permissions import Deny, PermissionRequest
from prsm_core.domain.record import Record
from prsm_core.engine.processes.executor import run_shell
from prsm_core.engine.spawn import resolve_cwd
from prsm_core.engine.turns.call import Reply
from prsm_core.errors import OrchestrationError, ToolCallTimeoutError
from prsm_core.permissions import outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prsm_core.engine.processes.executor import CommandSandbox, ShellResult
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.engine.quiet import QuietMoment
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.call import Call
    from prsm_core.engine.turns.parts import Permits, Standing
    from prsm_core.interfaces.clock import Clock
    from prsm_core.permissions import Outcome, PermissionBroker

# The effect of a command that may have run.
_STARTED = "started"
# Of one region or worktree. They are looked at before each command beside other agents.
MAX_ENTRIES = 100_000


class Shell(Record, frozen=True, kw_only=True):
    """Handles commands."""

    permits: Permits
    standing: Standing
    broker: PermissionBroker
    quiet: QuietMoment
    sandbox: CommandSandbox
    launcher: ProcessLauncher
    clock: Clock
    env: Mapping[str, str]
    variables_of: Callable[[str], Mapping[str, str]]  # of those who work in a folder
    limit_s: float  # how long a command may run

    async def run_bash(self, call: Call) -> Reply:
        """Run a permitted command in the agent's folder, or one below it."""
        if call.recall(_STARTED) is not None:
            raise OrchestrationError(
                "the engine died while the command ran: whether it had its effect is unknown",
                hint="look at what it was to change before you run it again",
                code="effect_unknown",
            )
        record, life = call.record, call.life
        command = call.args["command"]
        own = record.descriptor.cwd
        cwd = resolve_cwd(call.args.get("cwd"), own, own)
        await call.open()
        request = PermissionRequest(
            agent_id=record.agent_id,
            tool="Bash",
            arguments=call.args,
            cwd=cwd,
            command=command,
            call_id=call.id,
        )
        sandbox = await self.sandbox.prepare()
        is_sealed = sandbox.is_active and not await self._leaks(record)
        verdict = await self.permits.authorize(life, request, sandboxed=is_sealed)
        if isinstance(verdict, Deny):
            raise OrchestrationError(
                f"not permitted: {verdict.reason}",
                hint="do it another way, or ask_parent",
                code="permission_denied",
            )
        try:
            result = await self._noted_run(call, request)
        finally:
            self.quiet.ended(self.quiet.of(record.descriptor, request))
        if result.timed_out:
            raise ToolCallTimeoutError(
                "the command ran for too long and was killed", hint="give it a longer timeout"
            )
        names = ("exit_code", "stdout", "stderr", "truncated")
        return Reply({name: getattr(result, name) for name in names})

    async def _noted_run(self, call: Call, request: PermissionRequest) -> ShellResult:
        await call.note(_STARTED)
        began, outcome = self.broker.mark(), None
        try:
            result = await self._run(call, call.args["command"], request.cwd)
            outcome = _outcome(result)
        finally:
            self.broker.ended(request, self.standing.context(call.life), outcome, began)
        return result

    async def _leaks(self, record: AgentRecord) -> bool:
        """Return whether a file with a second name would let the command write elsewhere."""
        region = self._region(record)
        own = (record.descriptor.cwd,) if region is None else region
        is_bound = record.descriptor.grant.region is not None
        for folder in (*(own if is_bound else ()), *self._closed(record)):
            if await asyncio.to_thread(is_reached_from_outside, folder):
                return True
        return False

    async def _run(self, call: Call, command: str, cwd: str) -> ShellResult:
        return await run_shell(
            self.launcher,
            command,
            cwd=cwd,
            timeout_s=min(call.args.get("timeout", self.limit_s), self.limit_s),
            clock=self.clock,
            env={**self.env, **self.variables_of(cwd)},
            sandbox=self.sandbox,
            region=self._region(call.record),
            closed=self._closed(call.record),
        )

    def _region(self, record: AgentRecord) -> tuple[str, ...] | None:
        # In a worktree of its own a build may write beside its region: that is never merged.
        return None if self.standing.is_apart(record) else record.descriptor.grant.region

    def _closed(self, record: AgentRecord) -> list[str]:
        return [folder for folder, _ in self.standing.leased(record.agent_id)]


def _outcome(result: ShellResult) -> Outcome | None:
    if result.timed_out or result.truncated:
        return None
    error = f"exit code {result.exit_code}" if result.exit_code else None
    texts = (result.stdout, result.stderr)
    return outcome_of(succeeded=not result.exit_code, texts=texts, error=error)


def is_reached_from_outside(folder: str, *, limit: int = MAX_ENTRIES) -> bool:
    """Return whether a file below a folder has a name outside of it, or may have.

    Mounts close paths, not files: such a file can be written by its other name. A folder with more
    than `limit` entries, or an unreadable one, counts as having such a file.
    """
    inside: Counter[tuple[int, int]] = Counter()
    names: dict[tuple[int, int], int] = {}
    try:
        for count, status in enumerate(_statuses(folder)):
            if count >= limit:
                return True
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                file = (status.st_dev, status.st_ino)
                inside[file] += 1
                names[file] = status.st_nlink
    except OSError:
        return os.path.lexists(folder)  # what is not there yet has no files
    return any(inside[file] < links for file, links in names.items())


def _statuses(folder: str) -> Iterator[os.stat_result]:
    status = os.lstat(folder)
    yield status
    waiting = [folder] if stat.S_ISDIR(status.st_mode) else []
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
