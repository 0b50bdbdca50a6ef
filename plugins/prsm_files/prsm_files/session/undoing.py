"""What people do with files in the engine of a session: keep them, and take back what was done."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from prsm_core import ConfigError
from prsm_core.commands import SessionLock, held, require_quiet
from prsm_core.door import CommitReport, UndoReport
from prsm_core.files import ACCEPTED, OPEN_STATES, NoChanges, NoSnapshots, tell_snapshot
from prsm_files.session.commenting import Remark, Team, check_comments, chosen_lines, send
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
from prsm_files.session.naming import (
    naming,
    newest_commit,
    newest_event,
    newest_run,
    session_snapshot,
)
from prsm_files.session.reading import ChangeReader, no_changes_kept
from prsm_files.session.taking_back import (
    carry_out,
    check_way,
    find_act,
    find_prompt,
    finish_owed,
    known_since,
    not_kept,
    run_open,
    sessions_of,
    told,
    told_acted,
    told_plan,
    way_back,
)
from prsm_files.shadow.records import About
from prsm_files.shadow.worktree import Shadow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    from prsm_core.door import (
        Change,
        ChangeDetail,
        Comment,
        DecidedChange,
        LeftWorktree,
        Rationale,
        SentComments,
        Snapshot,
    )
    from prsm_core.files import ChangeRow, FilesContext, Hold
    from prsm_files.session.changes import ChangeWatch
    from prsm_files.session.commenting import Line, Say
    from prsm_files.session.keeper import FilesKeeper
    from prsm_files.session.late import LateWatch
    from prsm_files.session.taking_back import Prompt
    from prsm_files.session.trees import TreeKeeper
    from prsm_files.shadow.acts import Act, Owed
    from prsm_files.shadow.records import Restored

T = TypeVar("T")


class QuietFiles:
    """The files of a session, and the moment in which nobody writes them, here or elsewhere."""

    def __init__(
        self,
        context: FilesContext,
        keeper: FilesKeeper | None,
        watch: LateWatch | None,
        is_running: Callable[[], bool],
        state: Path | None,
    ) -> None:
        self.context = context
        self.keeper = keeper
        self.watch = watch
        self.state = state
        self.folder = Path(context.workspace)
        self.is_running = is_running
        self._untold: list[str] = []  # what was cut off came to, until an answer tells it

    def check_idle(self) -> None:
        """Raise ConfigError while a run is open."""
        if self.is_running():
            raise run_open(self.context.session)

    async def use(self, work: Callable[[Shadow], T]) -> T:
        """Run an act on the kept files. Raises ConfigError where no files are kept."""
        if self.keeper is None:
            raise not_kept()
        return await self.keeper.use(self.folder, work)

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Let nobody write, or raise ConfigError; what was cut off is done first."""
        of = self.context
        async with self.held() as (keeper, others, hold):
            require_quiet(others)
            require_quiet([of.journal.redact(str(one)) for one in hold.disturbing])
            finish = partial(finish_owed, of.store, ids=of.ids, now=of.clock.time())
            self._untold += await keeper.recover(self.folder, finish)
            yield

    @asynccontextmanager
    async def held(self) -> AsyncIterator[tuple[FilesKeeper, Sequence[str], Hold]]:
        """Let nobody begin to write, here and in other engines; yield who may all the same."""
        if self.keeper is None:
            raise not_kept()
        async with AsyncExitStack() as stack:
            writers: Sequence[str] = ()
            if self.state is not None:
                others = held(self.state, self.folder, but=self.context.session)
                writers = await stack.enter_async_context(others)
            yield self.keeper, writers, await stack.enter_async_context(self.context.quiet.hold())

    async def go_back(
        self,
        work: Callable[[Shadow], Restored],
        prompt: Prompt | None = None,
        owed: Owed | None = None,
    ) -> UndoReport:
        """Restore files in a `quiet` moment, and do what that owes; return what was done.

        That begins with what came of an undo that was cut off before: no event can tell of it, for
        no run is open. Where the act is refused, the next one tells.
        """
        restored = await self.use(work)
        if self.watch is not None:
            await self.watch.get().verdicts.recover()
        session = await self.carry_out(owed)
        if owed is not None:
            await self.use(lambda shadow: shadow.journal.settle())
        answer = told(prompt, session, restored)
        notes, self._untold = (*self._untold, *answer.notes), []
        return replace(answer, notes=notes)

    async def carry_out(self, owed: Owed | None) -> str | None:
        """Do what is owed to the conversation; return the session that is gone on with now."""
        of = self.context
        return None if owed is None else await carry_out(of.store, owed, of.ids, of.clock.time())


class KeptChanges(NoChanges):
    """The changes of a session; without a watch none are found."""

    _watch: LateWatch | None

    def __init__(self, files: QuietFiles, trees: TreeKeeper, say: Say) -> None:
        super().__init__(files.context, files.watch)
        self._files = files
        self._trees = trees
        self._say = say
        self._store = files.context.store
        self._session = files.context.session
        lines = None if files.watch is None else files.watch.get
        self._reader = ChangeReader(self._store, self._session, files.context.workspace, lines)

    async def list(self) -> Sequence[Change]:
        """Return all changes of the session, oldest first."""
        return await self._reader.list()

    async def show(self, change: str) -> ChangeDetail:
        """Return a change with its lines and its reason; see Changes."""
        await self._flush()
        return await self._reader.show(change)

    async def rationale(self, path: str, line: int | None = None) -> Rationale:
        """Return why a file, or a line of it, was changed; see Changes."""
        await self._flush()
        return await self._reader.rationale(path, line)

    async def worktrees(self) -> Sequence[LeftWorktree]:
        """Return the worktrees of agents that have ended and are not merged."""
        return await self._trees.left(self._session)

    async def _flush(self) -> None:
        await self._context.journal.flush()

    async def accept(
        self, changes: Sequence[str] = (), *, agent: str | None = None, call: str | None = None
    ) -> Sequence[DecidedChange]:
        """Accept changes; see Changes."""
        choice = await self._choice(changes, agent, call)
        watch = await self._able(choice)
        made = () if watch is None else await watch.verdicts.accept(choice)
        return [told_decision(one) for one in made]

    async def reject(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        call: str | None = None,
        possible: bool = False,
    ) -> Sequence[DecidedChange]:
        """Take changes back; see Changes."""
        choice = await self._choice(changes, agent, call, is_sure=not possible)
        watch = await self._able(choice)
        if watch is None:
            return []
        made, act = await watch.verdicts.reject(choice)
        return [told_decision(one, act) for one in made]

    async def comment(
        self, comments: Sequence[Comment], delivery: str = "queue"
    ) -> Sequence[SentComments]:
        """Send comments to the agents that made the changes; see Changes."""
        check_comments(comments)
        rows, agents = await self._reader.rows(), await self._store.agents(self._session)
        parents = {row.descriptor.agent_id: row.descriptor.parent_id for row in agents}
        names = {row.descriptor.agent_id: row.descriptor.name for row in agents}
        remarks = []
        for comment in comments:
            row = find_change(rows, comment.change)
            lines = await self._lines(row, comment)
            remarks.append(Remark(told_change(row, names), lines, comment.text))
        known = self._context.roster.records()
        at_work = {record.agent_id for record in known if not record.state.is_terminal}
        team = Team(parents, at_work, self._files.is_running())
        return await send(remarks, team, self._say, delivery)

    async def _lines(self, row: ChangeRow, comment: Comment) -> Sequence[Line]:
        if comment.old is None and comment.new is None:
            return ()
        return chosen_lines(await self._reader.lines().patch([row]), comment)

    async def commit(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        by: str = "agent",
        message: str | None = None,
        dry_run: bool = False,
    ) -> CommitReport:
        """Commit accepted changes; see Changes."""
        await self._flush()
        choice, wording = await self._choice(changes, agent, None), Wording(by=by, message=message)
        wording.check()
        watch = await self._able(choice, {ACCEPTED})
        if watch is None:
            return CommitReport()
        if dry_run:
            await watch.verdicts.recover()
            outcome, rows = await watch.verdicts.plan_commits(choice, wording)
        else:
            outcome, rows = await watch.verdicts.commit(choice, wording)
        return told_outcome(outcome, rows, await self._reader.names())

    async def _able(
        self, choice: Choice, states: Collection[str] = OPEN_STATES
    ) -> ChangeWatch | None:
        """Return who decides; None: there is nothing to decide. Raises ConfigError."""
        rows = await self._store.changes(self._session)
        if self._watch is None and choose(rows, choice, states):
            raise no_changes_kept()
        return None if self._watch is None else self._watch.get()

    async def _choice(
        self, ids: Sequence[str], agent: str | None, call: str | None, *, is_sure: bool = False
    ) -> Choice:
        agents = await family_of(self._store, self._session, agent)
        return Choice(ids=tuple(ids), agents=agents, call=call, is_sure=is_sure)

    async def undo(
        self,
        what: str = "prompt",
        wanted: str | None = None,
        *,
        files: bool = True,
        conversation: bool = True,
        mine: bool = False,
        possible: bool = False,
    ) -> UndoReport:
        """Take back; see Changes."""
        check_way(what)
        if what == "turn":
            return await self._turn(with_possible=possible)
        if what == "act":
            return await self._act(wanted, conversation=conversation)
        self._files.check_idle()
        return await self._prompt(wanted, files=files, conversation=conversation, mine=mine)

    async def _turn(self, *, with_possible: bool) -> UndoReport:
        if self._watch is None:
            return UndoReport()
        watch = self._watch.get()
        rows = of_last_turn(await watch.rows(), with_possible=with_possible)
        if not rows:
            return UndoReport()
        made, act = await watch.verdicts.reject(Choice(ids=tuple(row.change.id for row in rows)))
        return UndoReport(decided=tuple(map(told_decision, made)), act=act)

    async def _act(self, wanted: str | None, *, conversation: bool) -> UndoReport:
        """Take an act back: a restore if no run is open, any other one of this session."""
        act = await self._files.use(lambda shadow: find_act(shadow, wanted))
        if act.is_restore:
            self._files.check_idle()
            return await self._restore(act, conversation=conversation)
        if act.session != self._session or self._watch is None:
            raise ConfigError(
                f"act {act.id} is of session {act.session}",
                hint=f"take it back by a command: prsm undo {act.id}",
                code="other_session",
            )
        acted, made = await self._watch.get().verdicts.undo(act)
        return told_acted(acted, map(told_decision, made))

    async def _restore(self, last: Act, *, conversation: bool) -> UndoReport:
        await self._flush()
        async with self._files.quiet(), AsyncExitStack() as owned:
            owed = await way_back(self._store, last, self._context.ids) if conversation else None
            for session in sessions_of(owed):
                if session != self._session and self._files.state is not None:
                    since = self._context.clock.time()
                    take = partial(SessionLock.take, self._files.state, session, since=since)
                    # Nobody goes on with it.
                    owned.enter_context(await asyncio.to_thread(take))
            return await self._files.go_back(lambda shadow: shadow.undo(owed, of=last), owed=owed)

    async def _prompt(
        self, wanted: str | None, *, files: bool, conversation: bool, mine: bool
    ) -> UndoReport:
        await self._flush()
        prompt = await find_prompt(self._store, self._session, wanted)
        owed = prompt.owed(self._context.ids, with_files=files) if conversation else None
        if not files:
            return told(prompt, await self._files.carry_out(owed), None)
        async with self._files.quiet():
            spare = None
            if not mine:
                shadow = await self._files.use(lambda shadow: shadow)
                spare = (await known_since(self._store, prompt, shadow)).spare
            name = prompt.snapshot.snapshot_id
            restore = partial(Shadow.restore, wanted=name, then=owed, spare=spare)
            return await self._files.go_back(restore, prompt, owed)


class KeptSnapshots(NoSnapshots):
    """The snapshots of a session; without a keeper none are taken."""

    def __init__(self, files: QuietFiles) -> None:
        super().__init__(files.context)
        self._files = files

    async def take(self, description: str = "") -> Snapshot:
        """Keep the files as they are, and have the session name it; see Snapshots."""
        of, redact = self._context, self._context.journal.redact
        await of.journal.flush()
        seq = await newest_event(of.store, of.session)
        about = About(
            description=redact(description),
            session=of.session if seq else None,
            position=await newest_commit(of.store, of.session, seq) if seq else None,
        )
        async with self._files.held() as (keeper, others, hold):

            def writers() -> tuple[str, ...]:
                return (*others, *(redact(str(one)) for one in hold.disturbing))

            taken = await keeper.use(
                self._files.folder, lambda shadow: shadow.take(about, unquiet=writers)
            )
        await keeper.secure(self._files.folder)
        row = session_snapshot(taken)
        if seq:
            run = of.journal.run_id or await newest_run(of.store, of.session)
            await of.journal.commit(naming(of.session, row, run, of.clock.time()))
        return tell_snapshot(about.session, row)

    async def restore(self, snapshot: str, *, dry_run: bool = False) -> UndoReport:
        """Let the files be as in a snapshot, or say what that would change; see Snapshots."""
        if dry_run:
            return told_plan(await self._files.use(lambda shadow: shadow.plan(snapshot)))
        self._files.check_idle()
        async with self._files.quiet():
            return await self._files.go_back(lambda shadow: shadow.restore(snapshot))
