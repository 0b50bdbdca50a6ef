"""What people do with files in the engine of a session: keep them, and take back what was done."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import ConfigError
from prsm_core.commands import SessionLock, held, require_quiet
from prsm_core.engine.door.files import tell_snapshot
from prsm_core.engine.door.refusals import check_way, not_kept, run_open
from prsm_core.files import ACCEPTED, OPEN_STATES, ConversationStore, FileActs
from prsm_files.commits import Outcome
from prsm_files.session.committing import Wording, told_outcome
from prsm_files.session.deciding import (
    Choice,
    choose,
    family_of,
    find_change,
    of_last_turn,
    told_change,
    told_decision,
)
from prsm_files.session.going_back import carry_out, finish_owed, sessions_of, way_back
from prsm_files.session.naming import naming, newest_commit, newest_event, taken_by_hand
from prsm_files.session.reasons import Reasons, of_line, of_path, reason_values, told_reason
from prsm_files.session.taking_back import (
    find_act,
    find_prompt,
    known_since,
    told,
    told_acted,
    told_plan,
)
from prsm_files.shadow.records import About
from prsm_files.shadow.worktree import Shadow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from prsm_core import Store
    from prsm_core.door import Snapshot
    from prsm_core.files import ChangeRow, Decision, FilesContext, Hold, SessionSnapshot
    from prsm_files.session.changes import ChangeWatch
    from prsm_files.session.keeper import FilesKeeper
    from prsm_files.session.late import LateWatch
    from prsm_files.session.taking_back import Prompt
    from prsm_files.shadow.acts import Act, Owed
    from prsm_files.shadow.records import Restored
    from prsm_files.shadow.worktree import Spare


class Deciding(FileActs):
    """The part of an AppHandle that is about changes; without a watch none are found."""

    def __init__(self, watch: LateWatch | None, store: Store, session: str, workspace: str) -> None:
        self._watch = watch
        self._store = store
        self._session = session
        self._workspace = workspace

    async def changes(self) -> Sequence[Mapping[str, Any]]:
        """Return all changes of the session, oldest first."""
        rows, names = await self._rows(), await self._names()
        return [told_change(row, names) for row in rows]

    async def show_change(self, change: str) -> Mapping[str, Any]:
        """Return a change with its lines and its reason; see AppHandle."""
        row = find_change(await self._rows(), change)
        if self._watch is None:
            raise _not_kept()
        reason = await Reasons(self._store, self._session).of(row)
        text = await self._watch.get().patch([row])
        told = told_change(row, await self._names())
        return {**told, "rationale": reason_values(reason), "diff": text}

    async def rationale(self, path: str, line: int | None = None) -> Mapping[str, Any]:
        """Return why a file, or a line of it, was changed; see AppHandle."""
        rows = of_path(await self._rows(), self._workspace, path)
        row = rows[0]
        if line is not None:
            if self._watch is None:
                raise _not_kept()
            row = of_line(rows, await self._watch.get().origin(rows, line), line)
        reason = await Reasons(self._store, self._session).of(row)
        return told_reason(row, await self._names(), reason)

    async def _rows(self) -> Sequence[ChangeRow]:
        if self._watch is not None:
            return await self._watch.get().rows()
        return await self._store.changes(self._session)

    async def _names(self) -> Mapping[str, str]:
        agents = await self._store.agents(self._session)
        return {row.descriptor.agent_id: row.descriptor.name for row in agents}

    async def accept(
        self, changes: Sequence[str] = (), *, agent: str | None = None, call: str | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Accept changes; see AppHandle."""
        choice = await self._choice(changes, agent, call)
        watch = await self._able(choice)
        return (
            []
            if watch is None
            else [told_decision(one) for one in await watch.verdicts.accept(choice)]
        )

    async def reject(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        call: str | None = None,
        possible: bool = False,
    ) -> Sequence[Mapping[str, Any]]:
        """Take changes back; see AppHandle."""
        choice = await self._choice(changes, agent, call, is_sure=not possible)
        watch = await self._able(choice)
        if watch is None:
            return []
        made, act = await watch.verdicts.reject(choice)
        return [{**told_decision(one), "act": act} for one in made]

    async def commit_changes(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        by: str = "agent",
        message: str | None = None,
        dry_run: bool = False,
    ) -> Mapping[str, Any]:
        """Commit accepted changes; see AppHandle."""
        choice, wording = await self._choice(changes, agent, None), Wording(by=by, message=message)
        wording.check()
        watch = await self._able(choice, {ACCEPTED})
        if watch is None:
            return told_outcome(Outcome(), (), {})
        outcome, rows = await watch.verdicts.commit(choice, wording, is_dry=dry_run)
        return told_outcome(outcome, rows, await self._names())

    async def _able(
        self, choice: Choice, states: Collection[str] = OPEN_STATES
    ) -> ChangeWatch | None:
        """Return who decides; None: there is nothing to decide. Raises ConfigError."""
        rows = await self._store.changes(self._session)
        if self._watch is None and choose(rows, choice, states):
            raise _not_kept()
        return None if self._watch is None else self._watch.get()

    async def _choice(
        self, ids: Sequence[str], agent: str | None, call: str | None, *, is_sure: bool = False
    ) -> Choice:
        agents = None
        if agent is not None:
            rows = await self._store.agents(self._session)
            parents = {row.descriptor.agent_id: row.descriptor.parent_id for row in rows}
            agents = family_of(ConversationStore.resolve_agent_id(agent, rows), parents)
        return Choice(ids=tuple(ids), agents=agents, call=call, is_sure=is_sure)


def _not_kept() -> ConfigError:
    return ConfigError(
        "changes of files are not kept here",
        hint="let `workspace.snapshots` be something else than off",
        code="no_changes",
    )


class Undoing(Deciding):
    """The part of an AppHandle that takes back; `state` is where other engines are found."""

    def __init__(
        self,
        context: FilesContext,
        keeper: FilesKeeper | None,
        watch: LateWatch | None,
        is_running: Callable[[], bool],
        state: Path | None,
    ) -> None:
        super().__init__(watch, context.store, context.session, context.workspace)
        self._keeper = keeper
        self._is_running = is_running
        self._journal = context.journal
        self._clock = context.clock
        self._quiet_moment = context.quiet
        self._ids = context.ids
        self._state = state
        self._folder = Path(context.workspace)
        self._untold: list[str] = []  # what was cut off came to, until an answer tells it

    async def take_snapshot(self, description: str = "") -> Snapshot:
        """Keep the files as they are, and have the session name it; see AppHandle."""
        journal, redact = self._journal, self._journal.redact
        await journal.flush()
        seq = await newest_event(self._store, self._session)
        about = About(
            description=redact(description),
            session=self._session if seq else None,
            position=await newest_commit(self._store, self._session, seq) if seq else None,
        )
        async with self._held() as (keeper, others, hold):

            def writers() -> tuple[str, ...]:
                return (*others, *(redact(str(one)) for one in hold.disturbing))

            taken = await keeper.use(
                self._folder, lambda shadow: shadow.take(about, unquiet=writers)
            )
        await keeper.secure(self._folder)
        row = taken_by_hand(taken)
        if seq:
            await self._name(row)
        return tell_snapshot(about.session, row)

    async def _name(self, row: SessionSnapshot) -> None:
        known = await self._store.sessions()
        newest = next((one.run_id for one in known if one.session_id == self._session), None)
        step = naming(
            [row],
            step_id=f"{self._session}:snapshot:{row.snapshot_id}",
            session=self._session,
            run=self._journal.run_id or newest or "",
            at=self._clock.time(),
        )
        await self._journal.commit(step)

    async def undo(
        self,
        what: str = "prompt",
        wanted: str | None = None,
        *,
        files: bool = True,
        conversation: bool = True,
        mine: bool = False,
        possible: bool = False,
    ) -> Mapping[str, Any]:
        """Take back; see AppHandle."""
        check_way(what)
        if what == "turn":
            return await self._turn(with_possible=possible)
        if what == "act":
            return await self._act(wanted, conversation=conversation)
        if self._is_running():
            raise run_open(self._session)
        return await self._prompt(wanted, files=files, conversation=conversation, mine=mine)

    async def restore_snapshot(self, snapshot: str, *, dry_run: bool = False) -> Mapping[str, Any]:
        """Let the files be as in a snapshot, or say what that would change; see AppHandle."""
        if dry_run:
            keeper = self._keeper
            if keeper is None:
                raise not_kept()
            plan = await keeper.use(self._folder, lambda shadow: shadow.plan(snapshot))
            return told_plan(plan)
        if self._is_running():
            raise run_open(self._session)
        async with self._quiet() as keeper:
            restored = await keeper.use(self._folder, lambda shadow: shadow.restore(snapshot))
            await self._settle()
            return self._told(None, None, restored)

    async def _turn(self, *, with_possible: bool) -> Mapping[str, Any]:
        changes = self._watch
        made: Sequence[Decision] = ()
        act = None
        if changes is not None:
            rows = of_last_turn(await changes.get().rows(), with_possible=with_possible)
            if rows:
                ids = tuple(row.change.id for row in rows)
                made, act = await changes.get().verdicts.reject(Choice(ids=ids))
        decided = [told_decision(one) for one in made]
        return {**told(None, None, None), "decided": decided, "act": act}

    async def _act(self, wanted: str | None, *, conversation: bool) -> Mapping[str, Any]:
        """Take an act back: a restore if no run is open, any other one of this session."""
        keeper, changes = self._keeper, self._watch
        if keeper is None:
            raise not_kept()
        act = await keeper.use(self._folder, lambda shadow: find_act(shadow, wanted))
        if act.is_restore:
            if self._is_running():
                raise run_open(self._session)
            return await self._restore(act, conversation=conversation)
        if act.session != self._session or changes is None:
            raise ConfigError(
                f"act {act.id} is of session {act.session}",
                hint=f"take it back by a command: prsm undo {act.id}",
                code="other_session",
            )
        return told_acted(*await changes.get().verdicts.undo(act))

    async def _restore(self, last: Act, *, conversation: bool) -> Mapping[str, Any]:
        await self._journal.flush()
        async with self._quiet() as keeper, AsyncExitStack() as owned:
            owed = await way_back(self._store, last, self._ids) if conversation else None
            for session in sessions_of(owed):
                if session != self._session and self._state is not None:
                    since = self._clock.time()
                    take = partial(SessionLock.take, self._state, session, since=since)
                    owned.enter_context(await asyncio.to_thread(take))  # nobody goes on with it
            restored = await keeper.use(self._folder, lambda shadow: shadow.undo(owed, of=last))
            await self._settle()
            return self._told(None, await self._carry_out(owed, keeper), restored)

    async def _settle(self) -> None:
        if self._watch is not None:
            await self._watch.get().verdicts.recover()

    async def _prompt(
        self, wanted: str | None, *, files: bool, conversation: bool, mine: bool
    ) -> Mapping[str, Any]:
        await self._journal.flush()
        prompt = await find_prompt(self._store, self._session, wanted)
        owed = prompt.owed(self._ids, with_files=files) if conversation else None
        if not files:
            return told(prompt, await self._carry_out(owed, None), None)
        async with self._quiet() as keeper:
            spare = None if mine else await self._spare(prompt, keeper)
            name = prompt.snapshot.snapshot_id
            restore = partial(Shadow.restore, wanted=name, then=owed, spare=spare)
            restored = await keeper.use(self._folder, restore)
            await self._settle()
            return self._told(prompt, await self._carry_out(owed, keeper), restored)

    async def _spare(self, prompt: Prompt, keeper: FilesKeeper) -> Spare:
        """Return what tells of the files that the person has changed since a prompt."""
        shadow = await keeper.use(self._folder, lambda shadow: shadow)
        return (await known_since(self._store, prompt, shadow)).spare

    async def _carry_out(self, owed: Owed | None, keeper: FilesKeeper | None) -> str | None:
        """Do what is owed, beside a restore by the keeper; return what is gone on with now."""
        if owed is None:
            return None
        session = await carry_out(self._store, owed, self._ids, self._clock.time())
        if keeper is not None:
            await keeper.use(self._folder, lambda shadow: shadow.journal.settle())
        return session

    @asynccontextmanager
    async def _quiet(self) -> AsyncIterator[FilesKeeper]:
        """Let nobody write, or raise ConfigError; what was cut off is done first."""
        async with self._held() as (keeper, others, hold):
            require_quiet(others)
            require_quiet([self._journal.redact(str(one)) for one in hold.disturbing])
            now = self._clock.time()
            finish = partial(finish_owed, self._store, ids=self._ids, now=now)
            self._untold += await keeper.recover(self._folder, finish)
            yield keeper

    def _told(
        self, prompt: Prompt | None, session: str | None, restored: Restored
    ) -> Mapping[str, Any]:
        """Return what was taken back, and first what came of an undo that was cut off before.

        No event can tell of that: no run is open. Where the act is refused, the next one tells.
        """
        answer = told(prompt, session, restored)
        notes, self._untold = [*self._untold, *answer["notes"]], []
        return {**answer, "notes": notes}

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[tuple[FilesKeeper, Sequence[str], Hold]]:
        """Let nobody begin to write, here and in other engines; yield who may all the same."""
        keeper = self._keeper
        if keeper is None:
            raise not_kept()
        async with AsyncExitStack() as stack:
            writers: Sequence[str] = ()
            if self._state is not None:
                others = held(self._state, self._folder, but=self._session)
                writers = await stack.enter_async_context(others)
            yield keeper, writers, await stack.enter_async_context(self._quiet_moment.hold())
