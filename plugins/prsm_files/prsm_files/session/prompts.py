"""Snapshots before what persons say: the files as they are when a prompt reaches an agent.

The gate is held from before the prompt is in the ledger until the snapshot is taken, so that no
call which the prompt brings about writes first. It is taken beside the model's first request: who
never writes never waits, and one that ends before it was begun takes none, for nothing was changed.

The shadow holds the snapshot before the ledger names it. Where an engine dies between the two, the
next one of the session names it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.kit import first_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from prsm_core import Clock, Event, Store
    from prsm_core.files import Feed, Hold, Journal, QuietMoment, WorkspaceSettings
    from prsm_core.kit import Background
    from prsm_files.session.keeper import FilesKeeper
    from prsm_files.shadow.records import Snapshot
    from prsm_files.shadow.worktree import Shadow

RUN, PROMPT = "run", "prompt"  # kinds, as the shadow's records have them
_UNTAKEN = "no snapshot of {} is taken"
# Without anything told, once the first turn began: sooner than a model answers, and not amid the
# steps of a run that goes on and may be over soon. Who wants to write meanwhile has it taken at
# once.
BESIDE_SECONDS = 0.3
LATEST_SECONDS = 2.0  # after the first turn began, however much is told
END_SECONDS = 5.0  # how long the end of a run waits for snapshots that are being taken
_LONGEST = 120  # characters of a prompt that are a snapshot's description


class _Wanted(Struct, frozen=True, kw_only=True):
    """A snapshot that is to be taken."""

    kind: str
    folder: Path
    agent: str | None
    description: str
    last_commit: int


class PromptSnapshots:
    """Owns the snapshots that are being taken for prompts of one session."""

    def __init__(
        self,
        keeper: FilesKeeper,
        quiet: QuietMoment,
        journal: Journal,
        feed: Feed,
        store: Store,
        background: Background,
        clock: Clock,
        settings: WorkspaceSettings,
    ) -> None:
        self._keeper = keeper
        self._quiet = quiet
        self._journal = journal
        self._store = store
        self._background = background
        self._clock = clock
        self._settings = settings
        self._seq: int | None = None  # of the newest event; None: nothing was committed here
        self._known: set[str] | None = None  # snapshots that the ledger names; None: not read yet
        self._naming = asyncio.Lock()  # one at a time, as they were taken
        # Of those that wait for the first turn: that it has begun, and that nobody is to wait.
        self._due: dict[asyncio.Event, asyncio.Event] = {}
        self._told = 0  # how often something was
        self._at_work: set[asyncio.Task[None]] = set()
        self._is_ending = False
        feed.add_tap(self._heed)

    @asynccontextmanager
    async def before(self, said: str, folder: str, agent: str | None) -> AsyncIterator[None]:
        """Hold the gate while a prompt is put into the ledger; then take a snapshot.

        What raises takes none: nobody was told anything.
        """
        hold = self._quiet.close_gate()
        try:
            wanted = _Wanted(
                kind=RUN if agent is None else PROMPT,
                folder=Path(folder),
                agent=agent,
                description=_description(said),
                last_commit=await self._newest_commit(),
            )
            self._is_ending = False
            yield
        except BaseException:
            hold.release()
            raise
        task = self._background.start(self._take(hold, wanted), name="snapshot before a prompt")
        self._at_work.add(task)
        task.add_done_callback(lambda done: self._over(done, hold))

    async def settle(self) -> None:
        """Wait for snapshots that are being taken, and let those be that were not begun."""
        self._is_ending = True
        for due, wanted in self._due.items():
            due.set()
            wanted.set()
        if self._at_work:
            tasks = tuple(self._at_work)
            seconds = self._background.parting.most(END_SECONDS)
            await first_of(self._clock, seconds, lambda: asyncio.wait(tasks))

    def _over(self, task: asyncio.Task[None], hold: Hold) -> None:
        self._at_work.discard(task)
        hold.release()  # also of one that was cancelled before it began

    def _heed(self, events: tuple[Event, ...]) -> None:
        self._seq = max(self._seq or 0, *(event.seq or 0 for event in events))
        self._told += 1
        if self._due and any(event.type == "turn_started" for event in events):
            for due in self._due:
                due.set()

    async def _newest_commit(self) -> int:
        """Return the position of the session's newest commit that told something; 0: none has."""
        await self._journal.spoken.writing.past()  # what is in the ledger is then heard of
        session = self._journal.session_id
        if self._seq is None:
            known = {info.session_id: info.last_seq for info in await self._store.sessions()}
            self._seq = known.get(session, 0)
        if self._seq == 0:
            return 0
        from prsm_files.session.naming import newest_commit  # no first run needs it

        return await newest_commit(self._store, session, self._seq)

    async def _take(self, hold: Hold, wanted: _Wanted) -> None:
        if wanted.kind == RUN:
            await self._until_due(hold)
        if self._is_ending:
            return
        await hold.settle()
        taken = await self._keeper.attempt(
            wanted.folder, lambda shadow: self._taken(shadow, hold, wanted), _UNTAKEN
        )
        hold.release()
        if taken is None:
            return
        securing = self._keeper.secure(wanted.folder)
        self._background.launch(securing, name="what snapshots borrow")
        async with self._naming:
            if self._journal.is_over:
                return
            is_first = self._known is None
            await self._note(wanted, *taken)
        if is_first:
            await self._retire(wanted.folder)

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
            latest, told = self._clock.now() + LATEST_SECONDS, -1
            while told != self._told and (left := latest - self._clock.now()) > 0:
                told = self._told
                if await first_of(self._clock, min(BESIDE_SECONDS, left), wanted.wait):
                    return
        finally:
            del self._due[due]

    def _taken(
        self, shadow: Shadow, hold: Hold, wanted: _Wanted
    ) -> tuple[Snapshot, Sequence[Snapshot]]:
        """Take a snapshot, in the thread; return it, and all that there are of the session."""
        from prsm_files.shadow.worktree import About  # once one is taken

        session = self._journal.session_id
        about = About(
            kind=wanted.kind,
            description=self._journal.redact(wanted.description),
            session=session,
            position=wanted.last_commit,
            agent=wanted.agent,
        )

        def unquiet() -> tuple[str, ...]:
            return tuple(self._journal.redact(str(call)) for call in hold.disturbing)

        taken = shadow.take(about, unquiet=unquiet, may_be_known=True)
        kept = () if self._known is not None else shadow.snapshots()
        return taken, [one for one in kept if one.session == session]

    async def _note(self, wanted: _Wanted, taken: Snapshot, kept: Sequence[Snapshot]) -> None:
        """Have the ledger name a snapshot, and those that a dead engine took and never named."""
        from prsm_files.session.naming import naming, session_snapshot  # once one is taken

        if self._known is None:
            state = await self._store.state(self._journal.session_id)
            self._known = {one.snapshot_id for one in state.snapshots}
        lost = [one for one in kept if one.id not in self._known and one.id != taken.id]
        now = session_snapshot(
            taken, wanted.kind, wanted.description, wanted.agent, wanted.last_commit
        )
        rows = [
            session_snapshot(one, one.kind, one.description, one.agent, one.position)
            for one in lost
        ]
        self._known |= {taken.id, *(one.id for one in lost)}
        journal = self._journal
        step = naming(
            (*rows[::-1], now),
            step_id=journal.run_step_id(),
            session=journal.session_id,
            run=journal.run_id,
            at=self._clock.time(),
        )
        await journal.commit(step)

    async def _retire(self, folder: Path) -> None:
        """Drop old snapshots, but none of this session, and none that a fork begins at."""
        spared = (self._known or set()) | await self._store.shared_snapshots()
        from prsm_files.shadow.retention import Retention  # once in an engine

        keep = self._settings
        size = keep.keep_mib * 2**20
        rule = Retention(count=keep.keep_snapshots, days=keep.keep_days, size=size)
        lost = "old snapshots of {} are not dropped"
        count = await self._keeper.attempt(folder, lambda shadow: shadow.retire(rule, spared), lost)
        if count:
            text = f"{count} snapshots of earlier prompts are dropped: workspace.keep_* says so"
            self._journal.tell("notice", level="info", text=text)


def _description(said: str) -> str:
    line = next((line.strip() for line in said.splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
