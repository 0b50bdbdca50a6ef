"""Weighs what an agent says it has done: claimed, checked, or verified.

A claim that does not hold is no error: the result is taken, and says what does not hold. Only a
failing gate sends the agent back, so that it can mend what it broke.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core import OrchestrationError, PrsmError
from prsm_core.engine.processes.executor import run_captured
from prsm_core.files import UNCHECKED, Evidence, Level, Proof, is_in_repository, run_shell
from prsm_core.kit.quotation import quote
from prsm_files.session.evidence import NEVER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from prsm_core import AgentResult, AgentRole, Clock
    from prsm_core.files import (
        AgentRecord,
        ChangeRow,
        CommandSandbox,
        FilesContext,
        Folders,
        GateSettings,
        ProcessLauncher,
    )
    from prsm_files.artifacts import Blob
    from prsm_files.session.evidence.command_log import CommandLog
    from prsm_files.session.evidence.witness import Seen, Witness

SECONDS = 20.0
OUTPUT_LIMIT = 2**20
GATE_OUTPUT = 8 * 2**10  # bytes kept of the end of a gate's output
SHOWN_LINES = 20

# The newest commit of this line that was made before a time, and what it holds of some paths. It
# reads nothing but objects: no index, no filter, no hook, and no network.
_SCRIPT = """\
export GIT_NO_LAZY_FETCH=1 GIT_OPTIONAL_LOCKS=0
commit=$(git rev-list -1 --min-age="$1" HEAD -- 2>/dev/null) || exit 0
shift
[ -z "$commit" ] || exec git ls-tree -z -l "$commit" -- "$@"
"""
_ENTRY = re.compile(r"(100\d{3}) blob ([0-9a-f]+) +(\d+)\t(.*)", re.DOTALL)


class GateVerdict(Struct, frozen=True, kw_only=True):
    """How a gate ended; what could not even run is broken, and no agent's fault."""

    name: str
    problem: str | None  # None: it passed
    output: str = ""  # its last lines
    is_broken: bool = False
    is_required: bool = True
    folder: str = ""  # the workspace that it judged
    is_whole: bool = True  # that is the session's own
    is_new: bool = True  # it ran now; else it passed before, and nothing has changed since

    @property
    def line(self) -> str:
        """What is wrong, in a line."""
        return f"gate {self.name} {self.problem}"


class GateRunner:
    """Lets the gates of one engine run in turn: they often share ports and build folders."""

    def __init__(
        self,
        gates: Mapping[str, GateSettings],
        *,
        workspace: str,
        launcher: ProcessLauncher,
        clock: Clock,
        env: Mapping[str, str],
        variables_of: Callable[[str], Mapping[str, str]],
        sandbox: Callable[[], CommandSandbox] | None = None,
    ) -> None:
        self._gates = gates
        self._workspace = workspace
        self._launcher = launcher
        self._clock = clock
        self._env = env
        self._variables_of = variables_of
        self._sandbox = sandbox
        self._one_at_a_time = asyncio.Lock()
        self._passed: dict[tuple[str, str], int] = {}  # by gate and folder: what was done by then

    async def run(
        self,
        roles: frozenset[AgentRole],
        workspace: str | None = None,
        *,
        now: Callable[[], int] = lambda: 0,
        edited: int | None = None,
    ) -> list[GateVerdict]:
        """Run each gate for one of the roles, in a workspace or its like; none may be for it.

        One that has passed there does not run again if the last edit, by its event, was over by
        then.
        """
        folder, verdicts = workspace or self._workspace, []
        async with self._one_at_a_time:
            for name, gate in self._gates.items():
                if gate.roles and not roles.intersection(gate.roles):
                    continue
                begins = now()
                passed = self._passed.get((name, folder))
                if edited is not None and passed is not None and edited <= passed:
                    verdict, is_new = GateVerdict(name=name, problem=None), False
                else:
                    verdict, is_new = await self._run(name, gate, folder), True
                self._passed.pop((name, folder), None)
                if verdict.problem is None:
                    self._passed[name, folder] = begins if is_new else passed or 0
                about = {"folder": folder, "is_whole": folder == self._workspace}
                verdict = replace(verdict, is_required=gate.required, is_new=is_new, **about)
                verdicts.append(verdict)
        return verdicts

    async def _run(self, name: str, gate: GateSettings, workspace: str) -> GateVerdict:
        try:
            result = await run_shell(
                self._launcher,
                f"exec 2>&1\n{gate.command}",  # lines of both outputs, in their order
                cwd=os.fspath(Path(workspace, gate.cwd or "")),
                timeout_s=gate.timeout_seconds,
                clock=self._clock,
                env={**self._env, **self._variables_of(workspace)},
                output_limit=GATE_OUTPUT,
                keep_end=True,
                sandbox=None if self._sandbox is None else self._sandbox(),
            )
        except PrsmError as error:
            return GateVerdict(name=name, problem=f"could not run: {error.message}", is_broken=True)
        problem = None
        if result.timed_out:
            problem = f"did not end within {gate.timeout_seconds:g} s"
        elif result.exit_code != 0:
            problem = f"failed with exit code {result.exit_code}"
        lines = result.stdout.rstrip().splitlines()[-SHOWN_LINES:]
        return GateVerdict(name=name, problem=problem, output="\n".join(lines))


class Sources(Struct, frozen=True, kw_only=True):
    """What evidence is taken from."""

    context: FilesContext
    gates: GateRunner
    folders: Folders
    in_worktree: Callable[[AgentRecord], Awaitable[bool]]  # whether it has changed something there
    witness: Callable[[], Witness] | None  # None: nobody watches the files


class ClaimProof(Proof):
    """Weighs what one incarnation has done since its beginning; its notes count its refusals."""

    def __init__(self, record: AgentRecord, sources: Sources) -> None:
        self._record, self._from = record, sources

    async def weigh(
        self, artifacts: Sequence[str], commands: Sequence[str], *, is_last: bool = False
    ) -> Evidence:
        """Check the files and commands an agent names; run the gates if it has changed files.

        Raises OrchestrationError, code `gate_failed`, while it may be sent back, unless it
        `is_last`.
        """
        log, rows = await self._command_log(commands), await self._rows()
        return await self._judge(log, rows, artifacts, may_refuse=not is_last)

    async def again(self, result: AgentResult) -> AgentResult:
        """Return an accepted result with what its children did to it that have ended since."""
        log, rows = await self._command_log(()), await self._rows()
        if log.last_edit(rows) <= log.claimed_at:
            return result
        now = await self._judge(log, rows, result.artifacts, may_refuse=False)
        level = min(now.level, Level(result.evidence), key=list(Level).index)
        # The gates have judged all that there is.
        if now.level is Level.VERIFIED:
            level = Level(result.evidence) if result.evidence_gaps else now.level
        gaps = tuple(dict.fromkeys((*result.evidence_gaps, *now.gaps)))
        return replace(result, evidence=level.value, evidence_gaps=gaps)

    async def _judge(
        self,
        log: CommandLog,
        rows: Sequence[ChangeRow] | None,
        artifacts: Sequence[str],
        *,
        may_refuse: bool,
    ) -> Evidence:
        of, record, edited = self._from, self._record, log.last_edit(rows)
        has_changed = edited > NEVER or bool(rows) or await of.in_worktree(record)
        file_gaps = await self._file_gaps(artifacts)
        unproven = log.unproven()
        gaps = [*file_gaps, *unproven]
        # What changed is measured where it is watched: naming a file changes nothing there.
        has_changed = has_changed or (bool(artifacts) and not file_gaps and rows is None)
        verdicts: list[GateVerdict] = []
        if has_changed:
            agent, feed = record.descriptor, of.context.feed
            verdicts = await of.gates.run(
                agent.duties,
                of.folders.of(agent.cwd),
                now=lambda: feed.newest,
                edited=edited if edited > NEVER else None,
            )
        await self._tell(verdicts)
        required = [verdict for verdict in verdicts if verdict.is_required]
        failed = [verdict for verdict in required if verdict.problem is not None]
        if may_refuse:
            self._refuse([verdict for verdict in failed if not verdict.is_broken])
        is_verified = bool(required) and not failed
        is_checked = is_verified or log.has_checked_since(edited)
        if has_changed and not (is_checked or unproven or failed):
            gaps.append(UNCHECKED)
        level = Level.CHECKED if is_checked and not (gaps or failed) else Level.CLAIMED
        if level is Level.CHECKED and is_verified:
            level = Level.VERIFIED
        gaps += [verdict.line for verdict in failed]
        redact = of.context.journal.redact
        return Evidence(level=level, gaps=tuple(redact(gaps)), by=tuple(redact(log.others())))

    async def _rows(self) -> Sequence[ChangeRow] | None:
        """Return what was found of the agents' changes; None where nobody watches them."""
        of, cwd = self._from, self._record.descriptor.cwd
        if of.witness is None or of.folders.of(cwd) != of.context.workspace:
            return None  # of a worktree nothing is found before it is merged
        return await of.witness().changes(self._record)

    async def _file_gaps(self, names: Sequence[str]) -> list[str]:
        if not names:
            return []
        from prsm_files.artifacts import find_artifacts, find_unchanged, touched_since

        agent, began = self._record.descriptor, self._record.notes.began_at
        folder, since = agent.cwd, agent.created_at if began is None else began
        found, gaps = await asyncio.to_thread(find_artifacts, folder, names)
        seen: Mapping[str, Seen] = {}
        if self._from.witness is not None and found:
            seen = await self._from.witness().of(self._record, [one.path for one in found])
        for one in found:
            if one.path in seen and seen[one.path].others:
                others = ", ".join(filter(None, seen[one.path].others))
                how = f" by {others}, and not by the agent"
                if not others:
                    how = ", but by no call of the agent that is known of"
                gaps.append(f"{one.name!r} was changed{how}")
        before = {path: one.before for path, one in seen.items() if one.before is not None}
        touched, more = touched_since([one for one in found if one.path not in seen], since)
        gaps += more
        has_git = bool(touched) and await asyncio.to_thread(is_in_repository, folder)
        if has_git:
            paths = [artifact.path for artifact in touched]
            of = self._from.context
            before |= await blobs_before(of.launcher, of.clock, folder, paths, since)
        gaps += await asyncio.to_thread(find_unchanged, folder, found, before)
        return gaps

    async def _command_log(self, commands: Sequence[str]) -> CommandLog:
        """Read the calls of the agent and all below it, since its present life began."""
        from prsm_files.session.evidence.command_log import READ_EVENTS, CommandLog

        of = self._from.context
        log = CommandLog(of.journal.redact(list(commands)), of.commands)
        born = await of.conversations.born(self._record.agent_id)
        family = {
            record.agent_id: (path, record.descriptor.cwd)
            for record, path in of.roster.family(self._record)
        }
        # All agents are below the master: one reading of the log finds what one of each would.
        is_master = self._record.descriptor.parent_id is None
        for agent_id in [None] if is_master else family:
            async for event in of.conversations.events(agent_id, born):
                if event.type in READ_EVENTS and event.agent in family:
                    log.read(event, *family[event.agent])
        return log

    async def _tell(self, verdicts: Sequence[GateVerdict]) -> None:
        record, journal = self._record, self._from.context.journal
        for verdict in verdicts:
            if not verdict.is_new:
                continue
            if verdict.problem is not None:
                text = f"{verdict.line} for {record.descriptor.name}"
                journal.note("notice", record.agent_id, level="warning", text=text)
            await journal.fact(
                "gate_finished",
                record.agent_id,
                gate=verdict.name,
                folder=verdict.folder,
                whole=verdict.is_whole,
                required=verdict.is_required,
                problem=verdict.problem,
            )

    def _refuse(self, failed: Sequence[GateVerdict]) -> None:
        refusals = self._record.notes.refusals
        if not failed or refusals >= self._from.context.settings.engine.gate_refusals:
            return
        self._record.note(refusals=refusals + 1)
        lines = [
            f"{one.line}; it prints:\n{quote(one.output)}" if one.output else one.line
            for one in failed
        ]
        raise OrchestrationError(
            "\n".join(lines), hint="mend it, then call task_complete again", code="gate_failed"
        )


async def blobs_before(
    launcher: ProcessLauncher, clock: Clock, folder: str, paths: Sequence[str], since: float
) -> dict[str, Blob]:
    """Return what was committed before `since` (Unix seconds), by path, as far as git says."""
    from prsm_files.artifacts import Blob  # once files are named

    result = await run_captured(
        launcher,
        ("bash", "--noprofile", "--norc", "-c", _SCRIPT, "git", str(int(since) - 1), *paths),
        name="git",
        cwd=folder,
        timeout_s=SECONDS,
        clock=clock,
        output_limit=OUTPUT_LIMIT,
    )
    entries = (_ENTRY.fullmatch(entry) for entry in result.stdout.split("\0"))
    return {
        entry[4]: Blob(id=entry[2], size=int(entry[3]), is_executable=entry[1] == "100755")
        for entry in entries
        if entry is not None
    }
