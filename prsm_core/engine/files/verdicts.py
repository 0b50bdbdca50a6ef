"""Decides about changes: they stay, are taken back, or committed; the ledger and the files agree.

What is to be done to files is noted beside them first, and settled once the ledger says it. What a
process that has died left in between is finished before anything else is decided.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Protocol

from prsm_core.domain.changes import ACCEPTED, text_path
from prsm_core.domain.writes import ChangesDecided
from prsm_core.engine.files.committing import commits_of, committed
from prsm_core.engine.files.deciding import accepted, choose, decisions, taken_back_text, wanted
from prsm_core.engine.files.quiet import HOLD_SECONDS
from prsm_core.errors import ConfigError
from prsm_core.workspace.changes.rejecting import Rejecter
from prsm_core.workspace.commits.carrying import Committer

if TYPE_CHECKING:
    from asyncio import Lock
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core.domain.changes import ChangeRow, Decision
    from prsm_core.engine.files.committing import Wording
    from prsm_core.engine.files.deciding import Choice
    from prsm_core.engine.files.keeper import FilesKeeper
    from prsm_core.engine.files.quiet import Hold, WritingCall
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.interfaces.store import Store
    from prsm_core.workspace.changes.rejecting import Rejection
    from prsm_core.workspace.commits.records import Outcome
    from prsm_core.workspace.shadow.worktree import Shadow

_ID_BYTES = 5
_UNDONE = "what was decided about changes in {}, and cut off, is not finished"


class Watching(Protocol):
    """What watches the folder, as far as decisions need it."""

    async def rows(self) -> Sequence[ChangeRow]:
        """Return all changes of the session, oldest first; those of calls that have ended too."""
        ...

    async def commit(self, step_id: str, *writes: ChangesDecided, run: str | None = None) -> None:
        """Commit a step of the session."""
        ...

    def paths(self, call: WritingCall) -> frozenset[str]:
        """Return the files of the folder that a call says it writes."""
        ...

    def learn(self, shadow: Shadow) -> None:
        """Know now what PRSM itself has written: what comes behind it is of calls; it blocks."""
        ...

    def tell(self, agent: str, text: str) -> None:
        """Tell an agent something with its next answer or prompt, if it is still at work."""
        ...


class Verdicts:
    """Owns what a session decides about its changes.

    Args:
        watch: Watches the folder.
        keeper: Runs what blocks, one at a time.
        journal: Tells the open run, and what is not to be said.
        store: Tells what was found.
        hold: Holds the gate of the session's calls; see `QuietMoment.hold`.
        one: Is held while the files are looked at, or written.
        session: Whose changes they are.
        folder: Where they are.
    """

    def __init__(
        self,
        watch: Watching,
        keeper: FilesKeeper,
        journal: Journal,
        store: Store,
        *,
        hold: Callable[..., AbstractAsyncContextManager[Hold]],
        one: Lock,
        session: str,
        folder: Path,
    ) -> None:
        self._watch = watch
        self._keeper = keeper
        self._journal = journal
        self._store = store
        self._hold = hold
        self._one = one
        self._session = session
        self._folder = folder

    async def accept(self, choice: Choice) -> Sequence[Decision]:
        """Accept changes: nothing else becomes of them. Raises ConfigError for wrong ids."""
        await self.recover()
        rows = choose(await self._watch.rows(), choice)
        return await self._decide(accepted(rows))

    async def reject(self, choice: Choice) -> Sequence[Decision]:
        """Take changes back, each alone, and tell their agents.

        New calls wait meanwhile, and those that run are waited for, ten seconds. Raises ConfigError
        for wrong ids, and where a call still runs that may write the same files; PrsmError where
        git or the folder is not fit.
        """
        choose(await self._store.changes(self._session), choice)  # nobody waits for wrong ids
        async with self._hold(limit=HOLD_SECONDS) as hold:
            await self.recover()
            rows = choose(await self._watch.rows(), choice)
            self._require_quiet(hold, rows)
            return await self._reject(rows)

    def _require_quiet(self, hold: Hold, rows: Sequence[ChangeRow]) -> None:
        """Raise ConfigError while a call runs that may write the files of changes."""
        meant = {text_path(row.change.path) for row in rows}
        racing = [
            call
            for call in hold.disturbing
            if not (named := self._watch.paths(call)) or named & meant
        ]
        if racing and rows:
            writers = "; ".join(self._journal.redact(str(call)) for call in racing)
            raise ConfigError(
                f"nothing was taken back, because an agent writes here: {writers}",
                hint="let it end, or end it with `prsm kill`, then try again",
                code="agents_write",
            )

    async def _reject(self, rows: Sequence[ChangeRow]) -> Sequence[Decision]:
        def take_back(shadow: Shadow) -> Rejection:
            rejection = Rejecter(shadow).reject(self._session, wanted(rows))
            self._watch.learn(shadow)
            return rejection

        async with self._one:
            rejection = await self._keeper.use(self._folder, take_back)
            made = await self._decide(decisions(rows, rejection.decided))
            await self._keeper.use(self._folder, lambda shadow: Rejecter(shadow).finish())
        self._tell_taken_back(rows, made)
        return made

    async def commit(
        self, choice: Choice, wording: Wording, *, is_dry: bool = False
    ) -> tuple[Outcome, Sequence[ChangeRow]]:
        """Commit accepted changes, or with `is_dry` only say how; return it, and those changes.

        Raises ConfigError for wrong ids and where nothing can be committed now, PrsmError where git
        or the folder is not fit.
        """
        await self.recover()
        rows = choose(await self._watch.rows(), choice, {ACCEPTED})
        asked = await commits_of(self._store, self._session, rows, wording)
        if is_dry:
            plan = await self._keeper.use(self._folder, lambda at: Committer(at).plan(asked))
            return plan, rows
        async with self._one:
            outcome = await self._keeper.use(
                self._folder, lambda shadow: Committer(shadow).commit(self._session, asked)
            )
            await self._note_committed(rows, outcome)
        return outcome, rows

    async def _note_committed(self, rows: Sequence[ChangeRow], outcome: Outcome) -> None:
        await self._decide(committed(rows, outcome))
        await self._keeper.use(self._folder, lambda shadow: Committer(shadow).finish())

    async def recover(self) -> None:
        """Finish what a process that has died began for this session: a rejection, commits."""
        await self._recover_rejection()

        def ended(shadow: Shadow) -> Outcome | None:
            committer = Committer(shadow)
            return committer.unfinished() if committer.session == self._session else None

        outcome = await self._keeper.attempt(self._folder, ended, _UNDONE)
        if outcome is not None:
            await self._note_committed(await self._store.changes(self._session), outcome)

    async def _recover_rejection(self) -> None:

        def finished(shadow: Shadow) -> Rejection | None:
            rejecter = Rejecter(shadow)
            rejection = rejecter.unfinished() if rejecter.session == self._session else None
            self._watch.learn(shadow)
            return rejection

        async with self._one:
            rejection = await self._keeper.attempt(self._folder, finished, _UNDONE)
            if rejection is not None:
                rows = await self._store.changes(self._session)
                await self._decide(decisions(rows, rejection.decided))
                await self._keeper.attempt(
                    self._folder, lambda shadow: Rejecter(shadow).finish(), _UNDONE
                )

    async def _decide(self, made: Sequence[Decision]) -> Sequence[Decision]:
        if made:
            run = await self._run()
            step_id = f"{self._session}:decided:{secrets.token_hex(_ID_BYTES)}"
            await self._watch.commit(step_id, ChangesDecided(decisions=tuple(made)), run=run)
        return made

    async def _run(self) -> str:
        """Return the open run, or the newest one."""
        if self._journal.run_id:
            return self._journal.run_id
        found = (info for info in await self._store.sessions() if info.session_id == self._session)
        return next((info.run_id or "" for info in found), "")

    def _tell_taken_back(self, rows: Sequence[ChangeRow], made: Sequence[Decision]) -> None:
        by_id = {one.id: one for one in made}
        told: dict[str, list[Decision]] = {}
        for row in rows:
            for agent in dict.fromkeys(one.agent for one in row.change.authors):
                told.setdefault(agent, []).append(by_id[row.change.id])
        for agent, theirs in told.items():
            self._watch.tell(agent, taken_back_text(theirs))
