"""What people do with files in the engine of a session: keep them, and take back what was done."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.engine.control.holding import held, require_quiet
from prsm_core.engine.door.files import snapshot_values
from prsm_core.engine.door.refusals import check_way, not_kept, run_open
from prsm_core.engine.files.deciding import Choice, of_last_turn, told_decision
from prsm_core.engine.files.naming import naming, newest_commit, newest_event, taken_by_hand
from prsm_core.engine.undoing import find_prompt, finish_owed, fork_before, told, told_plan
from prsm_core.workspace.shadow.records import About

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core.domain.changes import Decision
    from prsm_core.domain.snapshots import SessionSnapshot
    from prsm_core.engine.engine import OrchestrationEngine
    from prsm_core.engine.files.keeper import FilesKeeper
    from prsm_core.engine.files.quiet import Hold
    from prsm_core.engine.undoing import Prompt
    from prsm_core.interfaces.store import Store


class Undoing:
    """The part of an AppHandle that takes back; `state` is where other engines are found."""

    def __init__(
        self,
        engine: OrchestrationEngine,
        store: Store,
        session: str,
        state: Path | None,
    ) -> None:
        self._engine = engine
        self._store = store
        self._session = session
        self._ids = engine.ids
        self._state = state
        self._folder = Path(engine.workspace)

    async def take_snapshot(self, description: str) -> Mapping[str, Any]:
        """Keep the files as they are, and have the session name it; see AppHandle."""
        engine, redact = self._engine, self._engine.journal.redact
        await engine.journal.flush()
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
        row = taken_by_hand(taken)
        if seq:
            await self._name(row)
        return snapshot_values(about.session, row)

    async def _name(self, row: SessionSnapshot) -> None:
        known = await self._store.sessions()
        newest = next((one.run_id for one in known if one.session_id == self._session), None)
        step = naming(
            [row],
            step_id=f"{self._session}:snapshot:{row.snapshot_id}",
            session=self._session,
            run=self._engine.journal.run_id or newest or "",
            at=self._engine.clock.time(),
        )
        await self._engine.journal.commit(step)

    async def undo(
        self, what: str, wanted: str | None, *, files: bool, conversation: bool
    ) -> Mapping[str, Any]:
        """Take back; see AppHandle."""
        check_way(what)
        if what == "turn":
            return await self._turn()
        if self._engine.is_running:
            raise run_open(self._session)
        if what == "restore":
            return await self._restore()
        return await self._prompt(wanted, files=files, conversation=conversation)

    async def restore_snapshot(self, wanted: str, *, is_dry: bool) -> Mapping[str, Any]:
        """Let the files be as in a snapshot, or say what that would change; see AppHandle."""
        if is_dry:
            keeper = self._engine.files
            if keeper is None:
                raise not_kept()
            plan = await keeper.use(self._folder, lambda shadow: shadow.plan(wanted))
            return told_plan(plan)
        if self._engine.is_running:
            raise run_open(self._session)
        async with self._quiet() as keeper:
            restored = await keeper.use(self._folder, lambda shadow: shadow.restore(wanted))
            return told(None, None, restored)

    async def _turn(self) -> Mapping[str, Any]:
        changes = self._engine.changes
        made: Sequence[Decision] = ()
        if changes is not None:
            rows = of_last_turn(await changes.get().rows())
            if rows:
                ids = tuple(row.change.id for row in rows)
                made = await changes.get().verdicts.reject(Choice(ids=ids))
        return {**told(None, None, None), "decided": [told_decision(one) for one in made]}

    async def _restore(self) -> Mapping[str, Any]:
        async with self._quiet() as keeper:
            restored = await keeper.use(self._folder, lambda shadow: shadow.undo())
            return told(None, None, restored)

    async def _prompt(
        self, wanted: str | None, *, files: bool, conversation: bool
    ) -> Mapping[str, Any]:
        await self._engine.journal.flush()
        prompt = await find_prompt(self._store, self._session, wanted)
        if not conversation:
            prompt = replace(prompt, owner=None)
        owed = prompt.owed(self._ids.ulid())
        if not files:
            return told(prompt, None if owed is None else await self._fork(owed), None)
        return await self._with_files(prompt, owed)

    async def _with_files(
        self, prompt: Prompt, owed: Mapping[str, Any] | None
    ) -> Mapping[str, Any]:
        async with self._quiet() as keeper:
            wanted = prompt.snapshot.snapshot_id
            restored = await keeper.use(
                self._folder, lambda shadow: shadow.restore(wanted, then=owed)
            )
            fork = None
            if owed is not None:
                fork = await self._fork(owed)
                await keeper.use(self._folder, lambda shadow: shadow.settle())
            return told(prompt, fork, restored)

    async def _fork(self, owed: Mapping[str, Any]) -> str:
        return await fork_before(self._store, owed, self._ids, self._engine.clock.time())

    @asynccontextmanager
    async def _quiet(self) -> AsyncIterator[FilesKeeper]:
        """Let nobody write, or raise ConfigError; what was cut off is done first."""
        async with self._held() as (keeper, others, hold):
            require_quiet(others)
            require_quiet([self._engine.journal.redact(str(one)) for one in hold.disturbing])
            now = self._engine.clock.time()
            finish = partial(finish_owed, self._store, ids=self._ids, now=now)
            for note in await keeper.recover(self._folder, finish):
                self._engine.journal.note("notice", level="warning", text=note)
            yield keeper

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[tuple[FilesKeeper, Sequence[str], Hold]]:
        """Let nobody begin to write, here and in other engines; yield who may all the same."""
        keeper = self._engine.files
        if keeper is None:
            raise not_kept()
        async with AsyncExitStack() as stack:
            writers: Sequence[str] = ()
            if self._state is not None:
                others = held(self._state, self._folder, but=self._session)
                writers = await stack.enter_async_context(others)
            yield keeper, writers, await stack.enter_async_context(self._engine.quiet.hold())
