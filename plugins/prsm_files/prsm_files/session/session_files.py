"""The files of one engine's session: all that keeps them, and snapshots before what persons say.

The gate is held from before the prompt is in the ledger until the snapshot is taken, so that no
call which it brings about writes first. The snapshot is taken beside the model's first request. A
run that ends before takes none: nothing was changed. Where an engine dies before the ledger names a
snapshot, the next one of the session names it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core.files import SnapshotTaken, WorkspaceFiles
from prsm_core.kit import first_of
from prsm_files.session.evidence.evidence import ClaimProof, GateRunner, Sources
from prsm_files.session.keeper import FilesKeeper
from prsm_files.session.late import LateWatch
from prsm_files.session.trees import TreeKeeper, Workspaces
from prsm_files.shadow.opening import Shadows
from prsm_files.shadow.records import PROMPT, RUN, About

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core import Event
    from prsm_core.files import AgentRecord, FilesContext, Hold, Paths
    from prsm_files.session.changes import ChangeWatch
    from prsm_files.session.commenting import Say
    from prsm_files.session.evidence.witness import Witness
    from prsm_files.session.undoing import KeptChanges, KeptSnapshots
    from prsm_files.shadow.records import Snapshot
    from prsm_files.shadow.worktree import Shadow


_UNTAKEN = "no snapshot of {} is taken"
# Without anything told, once the first turn began: sooner than a model answers, and not amid the
# steps of a run that goes on and may be over soon. Who wants to write meanwhile has it taken at
# once.
BESIDE_SECONDS = 0.3
LATEST_SECONDS = 2.0  # after the first turn began, however much is told
END_SECONDS = 5.0  # how long the end of a run waits for snapshots that are being taken
_LONGEST = 120  # characters of a prompt that are a snapshot's description


def keep_files(paths: Paths) -> Callable[[FilesContext], SessionFiles]:
    """Return what opens the files of an engine, whose shadows lie where PRSM keeps its state."""
    return opens(Shadows(state=paths.state, data=paths.data, trees=paths.trees))


def opens(shadows: Shadows | None) -> Callable[[FilesContext], SessionFiles]:
    """Return what opens the files of an engine; None: nothing is recorded, claims are weighed."""
    return partial(SessionFiles, shadows=shadows)


class SessionFiles(WorkspaceFiles):
    """Owns what keeps the files of a session; without `shadows` nothing of them is recorded."""

    folders: Workspaces
    trees: TreeKeeper
    watch: LateWatch | None

    def __init__(self, context: FilesContext, shadows: Shadows | None) -> None:
        self.context = of = context
        self.folders = Workspaces(of.workspace, None if shadows is None else shadows.trees)
        self.keeper: FilesKeeper | None = None
        self.watch, self._snapshots = None, None
        witness: Callable[[], Witness] | None = None
        if shadows is not None:
            parts = (of.launcher, of.clock, of.background, of.journal)
            self.keeper = keeper = FilesKeeper(shadows, *parts)
            self.watch = watch = LateWatch(lambda: self._make_watch(keeper))
            witness = partial(self._make_witness, watch, keeper)
            if of.settings.workspace.snapshots != "off":
                self._snapshots = PromptSnapshots(keeper, of)
        self.trees = TreeKeeper(of, self.keeper, self.folders, self._look_at)
        self._sources = Sources(
            context=of,
            gates=GateRunner(
                of.settings.gates,
                workspace=of.workspace,
                launcher=of.launcher,
                clock=of.clock,
                env=of.env,
                variables_of=self.folders.variables,
                sandbox=of.sandbox,
            ),
            folders=self.folders,
            in_worktree=self.trees.has_changed,
            witness=witness,
        )

    def door(
        self, is_running: Callable[[], bool], locks: Path | None, say: Say
    ) -> tuple[KeptChanges, KeptSnapshots]:
        """Return the groups of an AppHandle; other engines are found by their `locks`."""
        # Once a person does something.
        from prsm_files.session.undoing import KeptChanges, KeptSnapshots, QuietFiles

        files = QuietFiles(self.context, self.keeper, self.watch, is_running, locks)
        return KeptChanges(files, self.trees, say), KeptSnapshots(files)

    def before(
        self, said: str, folder: str, agent: str | None
    ) -> AbstractAsyncContextManager[None]:
        """Have a snapshot taken of the files as they are before this is said, if any is."""
        if self._snapshots is None:
            return nullcontext()
        return self._snapshots.before(said, folder, agent)

    def proof(self, record: AgentRecord) -> ClaimProof:
        """Return what weighs what an agent says it has done."""
        return ClaimProof(record, self._sources)

    async def recover(self, folder: Path) -> Sequence[str]:
        """Finish or take back what was cut off; return what was done. Raises PrsmError."""
        if self.keeper is None:
            return ()

        async def finish(owed: Mapping[str, Any]) -> str:
            from prsm_files.session.taking_back import finish_owed  # few undos are cut off

            of = self.context
            return await finish_owed(of.store, owed, ids=of.ids, now=of.clock.time())

        return [*await self.keeper.recover(folder, finish), *await self.trees.recover(folder)]

    async def settle(self) -> None:
        """Wait for snapshots that are being taken: a run is about to end."""
        if self._snapshots is not None:
            await self._snapshots.settle()

    async def aclose(self) -> None:
        """End git."""
        if self.keeper is not None:
            await self.keeper.aclose()

    def _make_watch(self, keeper: FilesKeeper) -> ChangeWatch:
        from prsm_files.session.changes import ChangeWatch  # once a call may write

        return ChangeWatch(keeper, self.context, self.folders)

    def _look_at(self, shadow: Shadow, files: tuple[str, ...]) -> None:
        if self.watch is not None:
            self.watch.look_at(shadow, files)

    def _make_witness(self, watch: LateWatch, keeper: FilesKeeper) -> Witness:
        from prsm_files.session.evidence.witness import Witness  # at the first claim

        return Witness(watch, keeper, self.context)


class PromptSnapshots:
    """Owns the snapshots that are being taken for prompts of one session."""

    def __init__(self, keeper: FilesKeeper, of: FilesContext) -> None:
        self._keeper = keeper
        self._of = of
        self._seq: int | None = None  # of the newest event; None: nothing was committed here
        self._known: set[str] | None = None  # snapshots that the ledger names; None: not read yet
        self._naming = asyncio.Lock()  # one at a time, as they were taken
        # Of those that wait for the first turn: that it has begun, and that nobody is to wait.
        self._due: dict[asyncio.Event, asyncio.Event] = {}
        self._told = 0  # how often something was
        self._at_work: set[asyncio.Task[None]] = set()
        self._is_ending = False
        of.feed.add_tap(self._heed)

    @asynccontextmanager
    async def before(self, said: str, folder: str, agent: str | None) -> AsyncIterator[None]:
        """Hold the gate while a prompt is put into the ledger; then take a snapshot."""
        hold = self._of.quiet.close_gate()
        try:
            line = next((line.strip() for line in said.splitlines() if line.strip()), "")
            about = About(
                kind=RUN if agent is None else PROMPT,
                description=line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…",
                session=self._of.session,
                position=await self._newest_commit(),
                agent=agent,
            )
            self._is_ending = False
            yield
        except BaseException:
            hold.release()
            raise
        taking = self._take(hold, Path(folder), about)
        task = self._of.background.start(taking, name="snapshot before a prompt")
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)
        # Also of one that is cancelled before it begins.
        task.add_done_callback(lambda _: hold.release())

    async def settle(self) -> None:
        """Wait for snapshots that are being taken, and let those be that were not begun."""
        self._is_ending = True
        for due, wanted in self._due.items():
            due.set()
            wanted.set()
        if self._at_work:
            tasks = tuple(self._at_work)
            seconds = self._of.background.parting.most(END_SECONDS)
            await first_of(self._of.clock, seconds, lambda: asyncio.wait(tasks))

    def _heed(self, events: tuple[Event, ...]) -> None:
        self._seq = max(self._seq or 0, *(event.seq or 0 for event in events))
        self._told += 1
        if self._due and any(event.type == "turn_started" for event in events):
            for due in self._due:
                due.set()

    async def _newest_commit(self) -> int:
        await self._of.journal.spoken.writing.past()  # what is in the ledger is then heard of
        from prsm_files.session.naming import newest_commit, newest_event

        store, session = self._of.store, self._of.session
        if self._seq is None:
            self._seq = await newest_event(store, session)
        return await newest_commit(store, session, self._seq)

    async def _take(self, hold: Hold, folder: Path, about: About) -> None:
        if about.kind == RUN:
            await self._until_due(hold)
        if self._is_ending:
            return
        await hold.settle()
        taken = await self._keeper.attempt(
            folder, lambda shadow: self._taken(shadow, hold, about), _UNTAKEN
        )
        hold.release()
        if taken is None:
            return
        securing = self._keeper.secure(folder)
        self._of.background.launch(securing, name="what snapshots borrow")
        async with self._naming:
            if self._of.journal.is_over:
                return
            is_first = self._known is None
            await self._note(about, *taken)
        if is_first:
            await self._retire(folder)

    async def _until_due(self, hold: Hold) -> None:
        """Wait until the model is asked and nothing else is told, or a call wants to write."""
        due, wanted = asyncio.Event(), asyncio.Event()

        def want() -> None:
            due.set()
            wanted.set()

        self._due[due] = wanted
        hold.when_wanted(want)
        try:
            await due.wait()
            latest, told = self._of.clock.now() + LATEST_SECONDS, -1
            while told != self._told and (left := latest - self._of.clock.now()) > 0:
                told = self._told
                if await first_of(self._of.clock, min(BESIDE_SECONDS, left), wanted.wait):
                    return
        finally:
            del self._due[due]

    def _taken(
        self, shadow: Shadow, hold: Hold, about: About
    ) -> tuple[Snapshot, Sequence[Snapshot]]:
        redact = self._of.journal.redact

        def unquiet() -> tuple[str, ...]:
            return tuple(redact(str(call)) for call in hold.disturbing)

        told = about._replace(description=redact(about.description))
        taken = shadow.take(told, unquiet=unquiet, may_be_known=True)
        kept = () if self._known is not None else shadow.snapshots()
        return taken, [one for one in kept if one.session == about.session]

    async def _note(self, about: About, taken: Snapshot, kept: Sequence[Snapshot]) -> None:
        """Have the ledger name a snapshot, and those that a dead engine took and never named."""
        from prsm_files.session.naming import session_snapshot, session_step  # once one is taken

        session, journal = self._of.session, self._of.journal
        if self._known is None:
            state = await self._of.store.state(session)
            self._known = {one.snapshot_id for one in state.snapshots}
        lost = [one for one in kept if one.id not in self._known and one.id != taken.id]
        self._known |= {taken.id, *(one.id for one in lost)}
        rows = (*map(session_snapshot, lost[::-1]), session_snapshot(taken, about))
        writes = (SnapshotTaken(snapshot=row) for row in rows)
        step_id, at = journal.run_step_id(), self._of.clock.time()
        await journal.commit(session_step(session, step_id, journal.run_id, at, *writes))

    async def _retire(self, folder: Path) -> None:
        """Drop old snapshots, but none of this session, and none that a fork begins at."""
        spared = (self._known or set()) | await self._of.store.shared_snapshots()
        from prsm_files.shadow.worktree import Retention  # once in an engine

        keep = self._of.settings.workspace
        size = keep.keep_mib * 2**20
        rule = Retention(count=keep.keep_snapshots, days=keep.keep_days, size=size)
        lost = "old snapshots of {} are not dropped"
        count = await self._keeper.attempt(folder, lambda shadow: shadow.retire(rule, spared), lost)
        if count:
            text = f"{count} snapshots of earlier prompts are dropped: workspace.keep_* says so"
            self._of.journal.tell("notice", level="info", text=text)
