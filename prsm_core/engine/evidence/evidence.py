"""Weighs what an agent says it has done: claimed, checked, or verified.

A claim that does not hold is no error: the result is taken, and says what does not hold. Only a
failing gate sends the agent back, so that it can mend what it broke.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.domain.record import Record
from prsm_core.engine.evidence.baseline import blobs_before, is_in_repository
from prsm_core.engine.state import Evidence, Level
from prsm_core.errors import OrchestrationError
from prsm_core.kit.quotation import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_core.engine.evidence.command_log import CommandLog
    from prsm_core.engine.evidence.gates import GateRunner, GateVerdict
    from prsm_core.engine.evidence.witness import Seen, Witness
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.journal.views import ConversationStore
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.interfaces.clock import Clock
    from prsm_core.workspace.artifacts import Artifact


class Sources(Record, frozen=True, kw_only=True):
    """What evidence is taken from, and how often a failing gate may send an agent back."""

    roster: Roster
    conversations: ConversationStore
    gates: GateRunner
    launcher: ProcessLauncher
    journal: Journal
    clock: Clock
    refusals: int
    workspace: Callable[[str], str]  # of the session, for who works in a folder
    witness: Callable[[], Witness] | None = None  # None: nobody watches the files


class Proof(Struct, eq=False):
    """Weighs what one incarnation has done since its beginning; its notes count its refusals."""

    _record: AgentRecord
    _from: Sources

    async def weigh(self, artifacts: Sequence[str], commands: Sequence[str]) -> Evidence:
        """Check the files and commands an agent names; with files, run the gates for its role.

        Raises OrchestrationError, code `gate_failed`, while the agent may still be sent back.
        """
        if not (artifacts or commands):
            return Evidence()
        log = await self._command_log(commands)
        gaps = [*await self._file_gaps(artifacts), *log.gaps()]
        agent = self._record.descriptor
        where = self._from.workspace(agent.cwd)
        verdicts = await self._from.gates.run(agent.role, where) if artifacts else []
        failed = [verdict for verdict in verdicts if verdict.problem is not None]
        self._tell(failed)
        self._refuse([verdict for verdict in failed if not verdict.is_broken])
        level = Level.CLAIMED if gaps else Level.CHECKED
        if level is Level.CHECKED and verdicts and not failed:
            level = Level.VERIFIED
        gaps += [f"gate {verdict.name} {verdict.problem}" for verdict in failed]
        redact = self._from.journal.redact
        gaps, others = redact(gaps), redact(log.others())
        return Evidence(level=level, gaps=tuple(gaps), by=tuple(others))

    async def _file_gaps(self, names: Sequence[str]) -> list[str]:
        if not names:
            return []
        from prsm_core.workspace.artifacts import find_artifacts, find_unchanged, touched_since

        agent, began = self._record.descriptor, self._record.notes.began_at
        folder, since = agent.cwd, agent.created_at if began is None else began
        found, gaps = await asyncio.to_thread(find_artifacts, folder, names)
        seen = await self._seen(found)
        gaps += [
            f"{one.name!r} {_whose(seen[one.path])}"
            for one in found
            if one.path in seen and seen[one.path].others
        ]
        before = {path: one.before for path, one in seen.items() if one.before is not None}
        touched, more = touched_since([one for one in found if one.path not in seen], since)
        gaps += more
        has_git = bool(touched) and await asyncio.to_thread(is_in_repository, folder)
        if has_git:
            paths = [artifact.path for artifact in touched]
            clock = self._from.clock
            before |= await blobs_before(self._from.launcher, clock, folder, paths, since)
        gaps += await asyncio.to_thread(find_unchanged, folder, found, before)
        return gaps

    async def _seen(self, found: Sequence[Artifact]) -> Mapping[str, Seen]:
        """Return what is known of files without asking a clock, or what was committed."""
        witness = self._from.witness
        if witness is None or not found:
            return {}
        return await witness().of(self._record, [one.path for one in found])

    async def _command_log(self, commands: Sequence[str]) -> CommandLog:
        """Read the calls of the agent and all below it in the ledger, which is up to date.

        The open call has brought it there for the agent; others may do more meanwhile.
        """
        from prsm_core.engine.evidence.command_log import CommandLog

        log = CommandLog(self._from.journal.redact(list(commands)))
        for record, who in self._from.roster.family(self._record) if commands else ():
            async for event in self._from.conversations.events(record.agent_id):
                log.read(event, who)
        return log

    def _tell(self, failed: Sequence[GateVerdict]) -> None:
        record = self._record
        for verdict in failed:
            text = f"gate {verdict.name} {verdict.problem} for {record.descriptor.name}"
            self._from.journal.note("notice", record.agent_id, level="warning", text=text)

    def _refuse(self, failed: Sequence[GateVerdict]) -> None:
        refusals = self._record.notes.refusals
        if not failed or refusals >= self._from.refusals:
            return
        self._record.note(refusals=refusals + 1)
        raise OrchestrationError(
            "\n".join(_told(verdict) for verdict in failed),
            hint="mend it, then call task_complete again",
            code="gate_failed",
        )


def _whose(seen: Seen) -> str:
    names = ", ".join(one for one in seen.others if one)
    if not names:
        return "was changed, but by no call of the agent that is known of"
    return f"was changed by {names}, and not by the agent"


def _told(verdict: GateVerdict) -> str:
    told = f"gate {verdict.name} {verdict.problem}"
    return f"{told}; it prints:\n{quote(verdict.output)}" if verdict.output else told
