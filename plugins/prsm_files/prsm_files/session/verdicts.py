"""Decides about changes: they stay, are taken back, or committed; the ledger and the files agree.

What is to be done to files is noted beside them first, and settled once the ledger says it. What a
process that has died left in between is finished before anything else is decided.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Protocol

from prsm_core import ConfigError
from prsm_core.engine.quiet import HOLD_SECONDS
from prsm_core.files import ACCEPTED, ChangesDecided, text_path
from prsm_files.changes.acting import Acting
from prsm_files.changes.rejecting import Rejecter
from prsm_files.commits.carrying import Committer
from prsm_files.session.committing import commits_of, committed
from prsm_files.session.deciding import (
    accepted,
    brought_back_text,
    choose,
    decided_by,
    of_merge,
    taken_back_text,
    wanted,
)
from prsm_files.shadow.records import joined

if TYPE_CHECKING:
    from asyncio import Lock
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core import Store
    from prsm_core.files import ChangeRow, Decision, Hold, Journal, WritingCall
    from prsm_files.changes.acting import Acted
    from prsm_files.changes.rejecting import Rejection
    from prsm_files.commits.records import Outcome
    from prsm_files.session.committing import Wording
    from prsm_files.session.deciding import Choice
    from prsm_files.session.keeper import FilesKeeper
    from prsm_files.shadow.acts import Act
    from prsm_files.shadow.worktree import Shadow

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

    async def reject(self, choice: Choice) -> tuple[Sequence[Decision], str | None]:
        """Take changes back, each alone, and tell their agents; return that, and the act.

        New calls wait meanwhile, and those that run are waited for, ten seconds. Raises ConfigError
        for wrong ids, and where a call still runs that may write the same files; PrsmError where
        git or the folder is not fit.
        """
        choose(await self._store.changes(self._session), choice)  # nobody waits for wrong ids
        async with self._hold(limit=HOLD_SECONDS) as hold:
            await self.recover()
            rows = choose(await self._watch.rows(), choice)
            self._require_quiet(hold, {text_path(row.change.path) for row in rows})
            return await self._reject(rows)

    async def undo(self, act: Act) -> tuple[Acted, Sequence[Decision]]:
        """Take an act back that wrote single files, and tell agents what is decided by that.

        Calls wait, and are waited for, as for a rejection. Raises what that does.
        """
        async with self._hold(limit=HOLD_SECONDS) as hold:
            await self.recover()
            rows = await self._watch.rows()
            self._require_quiet(hold, {joined(one.root, one.path) for one in act.wrote})
            more = of_merge(rows, act)

            def take_back(shadow: Shadow) -> Acted:
                acted = Rejecter(shadow).undo(act, more)
                self._watch.learn(shadow)
                return acted

            async with self._one:
                acted = await self._keeper.use(self._folder, take_back)
                made = await self._settle(acted.act, rows)
            self._tell_brought_back(rows, made)
            return acted, made

    async def _settle(self, act: Act, rows: Sequence[ChangeRow]) -> Sequence[Decision]:
        """Have the ledger say what an act decided about the session's changes."""
        made = await self._decide(decided_by(rows, act, self._session))
        await self._keeper.use(
            self._folder, lambda shadow: Acting(shadow).finish(act, self._session)
        )
        return made

    def _require_quiet(self, hold: Hold, meant: Collection[str]) -> None:
        """Raise ConfigError while a call runs that may write some files."""
        racing = [
            call
            for call in hold.disturbing
            if not (named := self._watch.paths(call)) or named & set(meant)
        ]
        if racing and meant:
            writers = "; ".join(self._journal.redact(str(call)) for call in racing)
            raise ConfigError(
                f"nothing was taken back, because an agent writes here: {writers}",
                hint="let it end, or end it with `prsm kill`, then try again",
                code="agents_write",
            )

    async def _reject(self, rows: Sequence[ChangeRow]) -> tuple[Sequence[Decision], str | None]:
        def take_back(shadow: Shadow) -> Rejection:
            rejection = Rejecter(shadow).reject(self._session, wanted(rows))
            self._watch.learn(shadow)
            return rejection

        async with self._one:
            rejection = await self._keeper.use(self._folder, take_back)
            made = await self._settle(rejection.acted.act, rows)
        self._tell_taken_back(rows, made)
        return made, rejection.acted.id

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
        """Finish what a process that has died began for this session: acts, commits.

        Of an act that another process did, such as a restore, it decides what is this session's.
        """
        await self._recover_acts()

        def ended(shadow: Shadow) -> Outcome | None:
            committer = Committer(shadow)
            return committer.unfinished() if committer.session == self._session else None

        outcome = await self._keeper.attempt(self._folder, ended, _UNDONE)
        if outcome is not None:
            await self._note_committed(await self._store.changes(self._session), outcome)

    async def _recover_acts(self) -> None:
        def finished(shadow: Shadow) -> Act | None:
            acting = Acting(shadow)
            act = acting.unfinished(self._session) if acting.is_cut_off else None
            self._watch.learn(shadow)
            return act

        def settled(shadow: Shadow, act: Act) -> bool:
            Acting(shadow).finish(act, self._session)
            return True

        async with self._one:
            while (act := await self._keeper.attempt(self._folder, finished, _UNDONE)) is not None:
                rows = await self._store.changes(self._session)
                await self._decide(decided_by(rows, act, self._session))
                settle = partial(settled, act=act)
                if not await self._keeper.attempt(self._folder, settle, _UNDONE):
                    return  # why was told; the next decision tries again

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
        for agent, theirs in _by_agent(rows, made).items():
            self._watch.tell(agent, taken_back_text(theirs))

    def _tell_brought_back(self, rows: Sequence[ChangeRow], made: Sequence[Decision]) -> None:
        for agent, theirs in _by_agent(rows, made).items():
            self._watch.tell(agent, brought_back_text(theirs))


def _by_agent(
    rows: Sequence[ChangeRow], made: Sequence[Decision]
) -> Mapping[str, Sequence[Decision]]:
    """Return decisions by the agents that may have made the changes."""
    by_id = {one.id: one for one in made}
    told: dict[str, list[Decision]] = {}
    for row in rows:
        for agent in dict.fromkeys(one.agent for one in row.change.authors):
            if row.change.id in by_id:
                told.setdefault(agent, []).append(by_id[row.change.id])
    return told
