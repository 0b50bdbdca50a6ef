"""Changes of a session as a command knows them, and what it decides about them in the ledger.

What a process that has died began with changes is finished: acts, and commits.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

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
from prsm_core.files import OPEN_STATES, ChangesDecided, ConversationStore, Ids, Step
from prsm_core.kit import escape_exact
from prsm_files.changes.acting import Acting
from prsm_files.commands.snapshots.opening import open_shadow
from prsm_files.commits import Committer
from prsm_files.session.committing import committed
from prsm_files.session.deciding import (
    Choice,
    choose,
    decided_by,
    family_of,
    find_change,
    is_of_agents,
    told_decision,
)
from prsm_files.shadow.opening import Shadows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from prsm_core import Store
    from prsm_core.door import DecidedChange
    from prsm_core.files import ChangeRow, Decision
    from prsm_files.shadow.acts import Act, Owed
    from prsm_files.shadow.worktree import Shadow

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
    run: str
    rows: tuple[ChangeRow, ...]
    names: Mapping[str, str]
    unsure: tuple[ChangeRow, ...] = ()  # left out: a person may have made them
    last_seq: int = 0  # of the session's events, all of which are known
    outside: tuple[ChangeRow, ...] = ()  # of no agent of the session: decided by their ids alone


async def known_changes(
    workspace: str,
    session: str | None,
    which: Which,
    states: Collection[str] | None = OPEN_STATES,
) -> Known:
    """Read the changes that are meant, which are in some states; None: any. Raises PrsmError."""
    async with open_session(workspace, session) as (store, info):
        rows = await store.changes(info.session_id)
        agents = await store.agents(info.session_id)
        await _check_ids(store, info.session_id, rows, which.ids)
    family = None
    if which.agent is not None:
        parents = {row.descriptor.agent_id: row.descriptor.parent_id for row in agents}
        family = family_of(ConversationStore.resolve_agent_id(which.agent, agents), parents)
    outside: tuple[ChangeRow, ...] = ()
    if states is None:
        found = [row for row in rows if family is None or _may_be_of(row, family)]
    else:
        found = list(choose(rows, Choice(ids=which.ids, agents=family, call=which.call), states))
        outside = tuple(row for row in rows if row.state in states and not is_of_agents(row))
    left = [row for row in found if row.change.is_unsure and which.is_sure and not which.ids]
    return Known(
        session=info.session_id,
        run=info.run_id or "",
        last_seq=info.last_seq,
        rows=tuple(row for row in found if row not in left),
        unsure=tuple(left),
        names={row.descriptor.agent_id: row.descriptor.name for row in agents},
        outside=() if which.ids else outside,
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
                if _has(await store.changes(info.session_id), wanted):
                    raise ConfigError(
                        f"change {wanted!r} is not of session {session}",
                        hint=f"it is of session {info.session_id}: give --session "
                        f"{info.session_id}",
                        code="unknown_change",
                    ) from error
            raise


def _has(rows: Sequence[ChangeRow], wanted: str) -> bool:
    text = wanted.strip().lower()
    return any(text and row.change.id.startswith(text) for row in rows)


def _may_be_of(row: ChangeRow, family: frozenset[str]) -> bool:
    return any(one.agent in family for one in row.change.authors)


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


def finish_cut_off(workspace: str, session: str) -> bool:
    """Finish what a dead process began in a session without an engine; whether it had."""
    paths = workspace_paths(workspace)
    shadows = Shadows(state=paths.state, data=paths.data, trees=paths.trees)
    shadow = shadows.open(_no_git, Path(workspace))
    is_begun = Acting(shadow).owes(session) or Committer(shadow).session == session
    if not is_begun or find_owner(paths.state, session) is not None:
        return False
    install_child_watcher()
    with owned(workspace, session):
        run_to_end(finish(workspace, session))
    return True


def _no_git(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("nobody runs git here")


async def finish(workspace: str, session: str) -> None:
    """Do it, for a session that this process owns. Raises PrsmError."""
    async with open_shadow(workspace) as shadow:
        await _finish_acts(workspace, session, shadow)
        await _finish_commits(workspace, session, shadow)


async def _finish_acts(workspace: str, session: str, shadow: Shadow) -> None:
    acting = Acting(shadow)
    while acting.owes(session):
        act = await asyncio.to_thread(acting.unfinished, session)
        if act is not None:
            known = await all_changes(workspace, session)
            await settle(workspace, known, shadow, act)
            say(f"prsm: note: what act {act.id} ({act.kind}) decided is in the ledger", err=True)


async def settle(workspace: str, known: Known, shadow: Shadow, act: Act) -> Sequence[DecidedChange]:
    """Have the ledger say what an act decided in a session that this process owns; return it."""
    made = await store_decisions(workspace, known, decided_by(known.rows, act, known.session))
    await asyncio.to_thread(Acting(shadow).finish, act, known.session)
    return made


async def settle_all(workspace: str, shadow: Shadow, mine: Collection[str] = ()) -> None:
    """Have ledgers say what acts in a folder decided, such as a restore. Raises PrsmError.

    This process owns the sessions that are `mine`. The engine of any other one does so itself.
    """
    for act in await asyncio.to_thread(shadow.acts.all):
        for session in act.owed:
            heir = await _heir(workspace, act, session)
            if heir is None:  # nobody knows the changes any more
                await asyncio.to_thread(Acting(shadow).finish, act, session)
            elif heir in mine:
                await _settle_by(workspace, shadow, act, session, heir)
            else:
                with suppress(SessionOwnedError), owned(workspace, heir):
                    await _settle_by(workspace, shadow, act, session, heir)


async def _settle_by(workspace: str, shadow: Shadow, act: Act, session: str, heir: str) -> None:
    """Have the ledger say by `heir` what an act decided in a session."""
    known = await all_changes(workspace, heir)
    await store_decisions(workspace, known, decided_by(known.rows, act, session))
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


async def _finish_commits(workspace: str, session: str, shadow: Shadow) -> None:
    committer = Committer(shadow)
    if committer.session != session:
        return
    outcome = await asyncio.to_thread(committer.unfinished)
    if outcome is None:
        say("prsm: note: commits that were cut off have changed nothing", err=True)
        return
    known = await all_changes(workspace, session)
    await store_decisions(workspace, known, committed(known.rows, outcome))
    await asyncio.to_thread(committer.finish)
    say("prsm: note: commits that were cut off are finished", err=True)


def owned(workspace: str, session: str) -> SessionLock:
    """Own the session, so that no engine goes on with it meanwhile."""
    return SessionLock.take(workspace_paths(workspace).state, session, since=time.time())


async def store_decisions(
    workspace: str, known: Known, made: Sequence[Decision]
) -> Sequence[DecidedChange]:
    """Have the ledger say what is decided; return it as `Changes` tells it. Raises StoreError."""
    if made:
        async with write_ledger(workspace) as store:
            await store.commit(
                Step(
                    step_id=f"{known.session}:decided:{Ids(time.time).ulid()}",
                    session_id=known.session,
                    run_id=known.run,
                    agent_id=None,
                    at=time.time(),
                    writes=(ChangesDecided(decisions=tuple(made)),),
                )
            )
    return [told_decision(one) for one in made]


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
    from prsm_files.session.going_back import carry_out  # few acts owe anything

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
