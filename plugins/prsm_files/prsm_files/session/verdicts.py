"""What is decided about the changes of a session, and the acts and commits that carry it out.

What is to be done to files is noted beside them first, and settled once the ledger says it. What a
process that has died left in between is finished before anything else is decided.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from prsm_core.files import ACCEPTED, ChangesDecided, Decision, text_path
from prsm_files.changes.acting import Acting, Rejecter
from prsm_files.commits import Committer, Outcome
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
from prsm_files.session.naming import newest_run, session_step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    from prsm_core import Store
    from prsm_core.files import ChangeRow
    from prsm_files.changes.acting import Acted
    from prsm_files.commits import Asked
    from prsm_files.session.committing import Wording
    from prsm_files.session.deciding import Choice
    from prsm_files.shadow.acts import Act
    from prsm_files.shadow.worktree import Shadow

T = TypeVar("T")


class SessionOwner:
    """Decides in the name of a session. This is one without an engine, which overrides more.

    Attributes:
        lock: Held while files are written, and looked at.
    """

    def __init__(self, store: Store, session: str) -> None:
        self.store = store
        self.session = session
        self.lock = asyncio.Lock()

    async def use(self, work: Callable[[Shadow], T]) -> T:
        """Do what needs the shadow of the folder, in a thread. Raises PrsmError, and OSError."""
        raise NotImplementedError

    async def attempt(self, work: Callable[[Shadow], T]) -> T | None:
        """Finish something that was cut off; None where that fails, and why is told."""
        return await self.use(work)

    async def rows(self) -> Sequence[ChangeRow]:
        """Return all changes of the session, oldest first."""
        return await self.store.changes(self.session)

    async def commit(self, step_id: str, *writes: Any) -> None:
        """Commit a step of the session, in its newest run. Raises StoreError."""
        run = await newest_run(self.store, self.session)
        await self.store.commit(session_step(self.session, step_id, run, time.time(), *writes))

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[Callable[[set[str]], None]]:
        """Let no call begin; yield what raises ConfigError if one runs that may write files."""
        yield lambda _: None

    def learn(self, shadow: Shadow) -> None:
        """Take note of what PRSM itself has written; it blocks."""

    def tell(self, agent: str, text: str) -> None:
        """Tell an agent something, if it is still at work."""

    def note(self, text: str) -> None:
        """Tell a person what was finished."""


class Verdicts:
    """Decides about the changes of a session, for its owner."""

    def __init__(self, owner: SessionOwner) -> None:
        self._owner = owner
        self._store, self._session = owner.store, owner.session

    async def accept(self, choice: Choice) -> Sequence[Decision]:
        """Accept changes: nothing else becomes of them. Raises ConfigError for wrong ids."""
        await self.recover()
        return await self.decide(accepted(choose(await self._owner.rows(), choice)))

    async def reject(self, choice: Choice) -> tuple[Sequence[Decision], str | None]:
        """Take changes back, each alone, and tell their agents; return that, and the act.

        Calls that run are waited for. Raises ConfigError for wrong ids, and where one goes on that
        may write the same files; PrsmError where git is not fit.
        """
        # Nobody waits for wrong ids.
        choose(await self._store.changes(self._session), choice)
        async with self._owner.quiet() as require_quiet:
            await self.recover()
            rows = choose(await self._owner.rows(), choice)
            require_quiet({text_path(row.change.path) for row in rows})
            steps = wanted(rows)
            acted, made = await self._act(
                rows, lambda rejecter: rejecter.reject(self._session, steps), taken_back_text
            )
            return made, acted.id

    async def undo(self, act: Act) -> tuple[Acted, Sequence[Decision]]:
        """Take back an act that wrote single files, and tell agents, as a rejection does."""
        async with self._owner.quiet() as require_quiet:
            await self.recover()
            rows = await self._owner.rows()
            require_quiet({one.name for one in act.wrote})
            more = of_merge(rows, act)
            return await self._act(
                rows, lambda rejecter: rejecter.undo(act, more), brought_back_text
            )

    async def _act(
        self,
        rows: Sequence[ChangeRow],
        work: Callable[[Rejecter], Acted],
        text: Callable[[Collection[Decision]], str],
    ) -> tuple[Acted, Sequence[Decision]]:
        """Carry an act out, have the ledger say what it decided about changes, and tell agents."""

        def act(shadow: Shadow) -> Acted:
            acted = work(Rejecter(shadow))
            self._owner.learn(shadow)
            return acted

        async with self._owner.lock:
            acted = await self._owner.use(act)
            made = await self.decide(decided_by(rows, acted.act, self._session))
            await self._owner.use(lambda shadow: Acting(shadow).finish(acted.act, self._session))
        by_id = {one.id: one for one in made}
        told = defaultdict[str, list[Decision]](list)
        for row in (row for row in rows if row.change.id in by_id):
            for agent in dict.fromkeys(one.agent for one in row.change.authors):
                told[agent].append(by_id[row.change.id])
        for agent, theirs in told.items():
            self._owner.tell(agent, text(theirs))
        return acted, made

    async def plan_commits(
        self, choice: Choice, wording: Wording
    ) -> tuple[Outcome, Sequence[ChangeRow]]:
        """Return what `commit` would do, and the changes that are meant. Raises PrsmError."""
        rows, asked = await self._asked(choice, wording)
        return await self._owner.use(lambda shadow: Committer(shadow).plan(asked)), rows

    async def _asked(
        self, choice: Choice, wording: Wording
    ) -> tuple[Sequence[ChangeRow], Sequence[Asked]]:
        rows = choose(await self._owner.rows(), choice, {ACCEPTED})
        return rows, await commits_of(self._store, self._session, rows, wording)

    async def commit(self, choice: Choice, wording: Wording) -> tuple[Outcome, Sequence[ChangeRow]]:
        """Commit accepted changes; return what was done, and them. Raises PrsmError."""
        await self.recover()
        rows, asked = await self._asked(choice, wording)
        async with self._owner.lock:
            outcome = await self._owner.use(
                lambda shadow: Committer(shadow).commit(self._session, asked)
            )
            await self._note_committed(rows, outcome)
        return outcome, rows

    async def _note_committed(self, rows: Sequence[ChangeRow], outcome: Outcome) -> None:
        await self.decide(committed(rows, outcome))
        await self._owner.use(lambda shadow: Committer(shadow).finish())

    async def recover(self) -> None:
        """Finish acts and commits that were cut off, and what others' acts owe."""
        await self._recover_acts()

        def ended(shadow: Shadow) -> Outcome | None:
            committer = Committer(shadow)
            if committer.session != self._session:
                return None
            return committer.unfinished() or Outcome()

        outcome = await self._owner.attempt(ended)
        if outcome is None:
            return
        if outcome.commits:
            await self._note_committed(await self._store.changes(self._session), outcome)
        what = "are finished" if outcome.commits else "have changed nothing"
        self._owner.note(f"commits that were cut off {what}")

    async def _recover_acts(self) -> None:
        def finished(shadow: Shadow) -> Act | None:
            acting = Acting(shadow)
            act = acting.unfinished(self._session) if acting.is_cut_off else None
            self._owner.learn(shadow)
            return act

        def settled(shadow: Shadow, act: Act) -> bool:
            Acting(shadow).finish(act, self._session)
            return True

        async with self._owner.lock:
            while (act := await self._owner.attempt(finished)) is not None:
                rows = await self._store.changes(self._session)
                await self.decide(decided_by(rows, act, self._session))
                if not await self._owner.attempt(partial(settled, act=act)):
                    # Why was told; the next decision tries again.
                    return
                self._owner.note(f"what act {act.id} ({act.kind}) decided is in the ledger")

    async def decide(self, made: Sequence[Decision]) -> Sequence[Decision]:
        """Have the ledger say what is decided. Raises StoreError."""
        if made:
            step_id = f"{self._session}:decided:{secrets.token_hex(5)}"
            await self._owner.commit(step_id, ChangesDecided(decisions=tuple(made)))
        return made
