"""The changes of a session as a command knows them, and what decides without an engine."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from prsm_core import ConfigError, PrsmError, SessionOwnedError, StoreError
from prsm_core.commands import (
    SessionLock,
    find_owner,
    install_child_watcher,
    open_ledger,
    open_session,
    run_to_end,
    say,
    workspace_paths,
    write_ledger,
)
from prsm_core.files import OPEN_STATES, Ids
from prsm_core.kit import escape_exact
from prsm_files.changes.acting import Acting
from prsm_files.commands.snapshots.opening import open_shadow
from prsm_files.commits import Committer
from prsm_files.session.deciding import (
    Choice,
    authors_of,
    choose,
    decided_by,
    family_of,
    find_change,
    is_of_agents,
    names_of,
)
from prsm_files.session.verdicts import SessionOwner, Verdicts
from prsm_files.shadow.opening import Shadows
from prsm_files.shadow.records import beginning_with

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from prsm_core import Store
    from prsm_core.files import ChangeRow
    from prsm_files.shadow.acts import Act, Owed
    from prsm_files.shadow.worktree import Shadow

T = TypeVar("T")
MARKS = {"added": "+", "deleted": "-", "modified": "~"}
_OUTSIDE = "(outside)"


class Which(Struct, frozen=True, kw_only=True):
    """Which changes a command line means."""

    ids: tuple[str, ...] = ()
    agent: str | None = None
    call: str | None = None
    is_all: bool = False
    is_sure: bool = False  # leave out what a person may have made, unless its id is given

    def check(self) -> None:
        """Raise ConfigError unless it says which."""
        ways = [bool(self.ids), self.agent is not None or self.call is not None, self.is_all]
        if sum(ways) != 1:
            raise ConfigError(
                "which changes are meant is not said" if not any(ways) else "that is said twice",
                hint="give ids, or --agent or --call, or --all",
            )


class Known(Struct, frozen=True, kw_only=True):
    """Changes of a session, and what its agents are called."""

    session: str
    choice: Choice
    rows: tuple[ChangeRow, ...]
    names: Mapping[str, str]
    unsure: tuple[ChangeRow, ...] = ()  # left out: a person may have made them
    last_seq: int = 0  # of the session's events, all of which are known
    outside: tuple[ChangeRow, ...] = ()  # of no agent of the session: decided by their ids alone

    @property
    def ids(self) -> list[str]:
        """The ids of the changes."""
        return [row.change.id for row in self.rows]


async def known_changes(
    workspace: str,
    session: str | None,
    which: Which,
    states: Collection[str] | None = OPEN_STATES,
) -> Known:
    """Read the changes that are meant, which are in some states; None: any. Raises PrsmError."""
    async with open_session(workspace, session) as (store, info):
        rows = await store.changes(info.session_id)
        names = await names_of(store, info.session_id)
        family = await family_of(store, info.session_id, which.agent)
        await _check_ids(store, info.session_id, rows, which.ids)
    choice = Choice(ids=which.ids, agents=family, call=which.call, is_sure=which.is_sure)
    outside: tuple[ChangeRow, ...] = ()
    unsure: tuple[ChangeRow, ...] = ()
    if states is None:
        found = [row for row in rows if family is None or family & authors_of(row)]
    else:
        found = list(choose(rows, choice, states))
        if not which.ids:
            outside = tuple(row for row in rows if row.state in states and not is_of_agents(row))
            all_ = choose(rows, replace(choice, is_sure=False), states)
            unsure = tuple(row for row in all_ if row not in found)
    return Known(
        session=info.session_id,
        choice=choice,
        last_seq=info.last_seq,
        rows=tuple(found),
        unsure=unsure,
        names=names,
        outside=outside,
    )


async def all_changes(workspace: str, session: str | None, agent: str | None = None) -> Known:
    """Read all changes of a session, or of an agent and those below it. Raises PrsmError."""
    return await known_changes(workspace, session, Which(agent=agent), states=None)


async def _check_ids(
    store: Store, session: str, rows: Sequence[ChangeRow], ids: Sequence[str]
) -> None:
    """Raise ConfigError for an id of no change of a session; it names one that has it."""
    for wanted in ids:
        try:
            find_change(rows, wanted)
        except ConfigError as error:
            if error.code != "unknown_change":
                raise
            for info in await store.sessions():
                others = await store.changes(info.session_id)
                if beginning_with(wanted, [row.change.id for row in others]):
                    raise ConfigError(
                        f"change {wanted!r} is not of session {session}",
                        hint=f"it is of session {info.session_id}: give --session "
                        f"{info.session_id}",
                        code="unknown_change",
                    ) from error
            raise


def who(row: ChangeRow, names: Mapping[str, str]) -> str:
    """Return who made a change; with a `?` where a person may have."""
    agents = dict.fromkeys(one.agent for one in row.change.authors)
    mark = "?" if row.change.is_unsure else ""
    return ", ".join(f"{names.get(agent, agent[:8])}{mark}" for agent in agents) or _OUTSIDE


def line_of(row: ChangeRow, names: Mapping[str, str]) -> str:
    """Return a change in one line."""
    change = row.change
    mark = "! " if change.beside else ""
    author = escape_exact(who(row, names))
    return f"{change.id}  {mark}{MARKS[change.kind]} {escape_exact(change.path)}  {author}"


class OwnedSession(SessionOwner):
    """A session without an engine. Its shadow is opened once it is needed, as git then is."""

    def __init__(self, workspace: str, store: Store, session: str, stack: AsyncExitStack) -> None:
        super().__init__(store, session)
        self._workspace, self._stack = workspace, stack
        self._shadow: Shadow | None = None

    async def use(self, work: Callable[[Shadow], T]) -> T:
        """Do what needs the shadow of the folder, in a thread. Raises PrsmError, and OSError."""
        if self._shadow is None:
            self._shadow = await self._stack.enter_async_context(open_shadow(self._workspace))
        return await asyncio.to_thread(work, self._shadow)

    def note(self, text: str) -> None:
        """Tell a person what was finished."""
        say(f"prsm: note: {text}", err=True)


@asynccontextmanager
async def open_verdicts(
    workspace: str, session: str, *, may_write: bool = True
) -> AsyncIterator[Verdicts]:
    """Open what decides in a session without an engine; to write, this process owns it."""
    async with AsyncExitStack() as stack:
        if may_write:
            stack.enter_context(owned(workspace, session))
        ledger = (write_ledger if may_write else open_ledger)(workspace)
        store = await stack.enter_async_context(ledger)
        yield Verdicts(OwnedSession(workspace, store, session, stack))


def owned(workspace: str, session: str) -> SessionLock:
    """Own the session, so that no engine goes on with it meanwhile."""
    return SessionLock.take(workspace_paths(workspace).state, session, since=time.time())


def finish_cut_off(workspace: str, session: str) -> bool:
    """Finish what a dead process began in a session without an engine; whether it had."""
    paths = workspace_paths(workspace)
    shadows = Shadows(state=paths.state, data=paths.data, trees=paths.trees)
    shadow = shadows.open(_no_git, Path(workspace))
    is_begun = Acting(shadow).owes(session) or Committer(shadow).session == session
    if not is_begun or find_owner(paths.state, session) is not None:
        return False
    install_child_watcher()

    async def finish() -> None:
        async with open_verdicts(workspace, session) as verdicts:
            await verdicts.recover()

    run_to_end(finish())
    return True


def _no_git(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("nobody runs git here")


async def settle_all(workspace: str, shadow: Shadow, mine: Collection[str] = ()) -> None:
    """Have ledgers say what acts decided, but where an engine owns a session that is not `mine`."""
    for act in await asyncio.to_thread(shadow.acts.all):
        for session in act.owed:
            heir = await _heir(workspace, act, session)
            # Without an heir nobody knows the changes any more.
            with suppress(SessionOwnedError):
                async with AsyncExitStack() as stack:
                    if heir is not None and heir not in mine:
                        stack.enter_context(owned(workspace, heir))
                    if heir is not None:
                        store = await stack.enter_async_context(write_ledger(workspace))
                        made = decided_by(await store.changes(heir), act, session)
                        await Verdicts(OwnedSession(workspace, store, heir, stack)).decide(made)
                    await asyncio.to_thread(Acting(shadow).finish, act, session)


async def _heir(workspace: str, act: Act, session: str) -> str | None:
    """Return a session that knows what an act decided in one, which may be gone, or that one."""
    ids = {one.change for one in act.verdicts if one.session == session}
    try:
        async with open_ledger(workspace) as store:
            others = [info.session_id for info in await store.sessions()]
            for one in sorted(others, key=lambda other: other != session):
                if ids & {row.change.id for row in await store.changes(one)}:
                    return one
    except StoreError as error:
        if error.code != "no_ledger":
            raise
    return None


async def end_restore(
    workspace: str, shadow: Shadow, owed: Owed | None, mine: Collection[str], done: str
) -> str | None:
    """Finish what belongs to a restore beside its files; return the session that continues."""
    await settle_all(workspace, shadow, mine)
    if owed is None:
        return None
    session = await carry_out_now(workspace, owed, done)
    await asyncio.to_thread(shadow.journal.settle)
    return session


async def carry_out_now(workspace: str, owed: Owed, done: str = "") -> str | None:
    """Do what is owed; an error says what is `done` by then, if anything is. Raises PrsmError."""
    from prsm_files.session.taking_back import carry_out  # few acts owe anything

    try:
        async with write_ledger(workspace) as store:
            return await carry_out(store, owed, Ids(time.time), time.time())
    except PrsmError as error:
        if not done:
            raise
        raise ConfigError(
            f"{done}, the conversation is not yet: {error.message}",
            hint="mend the cause; the next command about snapshots of this folder does the rest",
        ) from error
