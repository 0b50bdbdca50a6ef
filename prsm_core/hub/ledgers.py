"""Where sessions lie, and what is read and changed there: nobody has to own a session for it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from prsm_core.config import ledger_path
from prsm_core.domain.ids import Ids
from prsm_core.engine.agents.adoption import last_master
from prsm_core.engine.control.session_lock import unbegun
from prsm_core.engine.door.history import read_history
from prsm_core.engine.door.naming import name_session
from prsm_core.engine.door.offers import Owning, lost_agents, session_rows
from prsm_core.engine.door.view import request_rows
from prsm_core.engine.forking import ForkRequest, fork_session
from prsm_core.errors import StoreError
from prsm_core.store import SqliteStore
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from prsm_core.config import Paths
    from prsm_core.interfaces.store import SessionInfo


class Found(NamedTuple):
    """A session, and the ledger that it is in."""

    ledger: Path
    info: SessionInfo


async def find_session(session: str, paths: Paths, *, only_its_own: bool = False) -> Found:
    """Return where a session is, in a ledger of the workspace's repository or in any.

    Another ledger that cannot be read hides no session. Raises StoreError for one that there is
    not, which tells what could not be looked into, and SessionOwnedError for one that a process
    owns and no ledger has yet.
    """
    unread: list[StoreError] = []
    for path in await asyncio.to_thread(ledgers, paths, only_its_own=only_its_own):
        try:
            async with await SqliteStore.open(path, read_only=True) as store:
                for info in await store.sessions():
                    if info.session_id == session:
                        return Found(path, info)
        except StoreError as error:
            if only_its_own:
                raise
            unread.append(error)
    if (owned := unbegun(paths.state, session)) is not None:
        raise owned
    where = f" in {paths.workspace}" if only_its_own else ""
    hint = "open one without a session: it is a new one"
    raise StoreError(
        f"there is no session {session!r}{where}",
        hint="; ".join([hint, *(error.message for error in unread)]),
        code="unknown_session",
    )


async def rename(found: Found, name: str) -> None:
    """Give a session a name; see Hub.rename."""
    async with await SqliteStore.open(found.ledger) as store:
        await name_session(store, found.info, name)


async def fork(found: Found, at: int | None) -> str:
    """Make another session of one; see Hub.fork."""
    request = ForkRequest(at=None if at is None else str(at))
    async with await SqliteStore.open(found.ledger) as store:
        ids = Ids(time.time)
        state = await fork_session(store, found.info.session_id, request, ids, time.time())
        return state.session_id


async def peek(found: Found, limit: int) -> Sequence[Mapping[str, Any]]:
    """Return the last entries of a session's master; see Hub.peek."""
    session = found.info.session_id
    async with await SqliteStore.open(found.ledger, read_only=True) as store:
        master = last_master(await store.agents(session))
        if master is None:
            return ()
        agent = master.descriptor.agent_id
        return await read_history(store, session, agent, "full", before=None, limit=limit)


def ledgers(paths: Paths, *, only_its_own: bool) -> list[Path]:
    """Return the ledger of the workspace's repository, or those of all, as far as they exist."""
    key = repo_identity(paths.workspace).key if only_its_own else "*"
    ledger = ledger_path(paths, key)
    folder = ledger.parents[1]
    return sorted(folder.glob(str(ledger.relative_to(folder))))


async def sessions_in(path: Path, state_dir: Path) -> list[Mapping[str, Any]]:
    """Return the sessions of a ledger as Hub.sessions tells them; none of one not yet begun."""
    try:
        opened = await SqliteStore.open(path, read_only=True)
    except StoreError as error:
        if error.code == "no_ledger":
            return []
        raise
    async with opened as store:
        rows = await asyncio.to_thread(session_rows, await store.sessions(), state_dir)
        return [{**row, "waits": await _waits(store, row, state_dir)} for row in rows]


async def _waits(
    store: SqliteStore, row: Mapping[str, Any], state_dir: Path
) -> Sequence[Mapping[str, Any]]:
    """Return what waits for a person; with its owner, or a run's engine, its requests end."""
    session = row["session"]
    requests = () if row["pid"] is None else await store.open_requests(session)
    if not requests:
        return ()
    agents, owning = await store.agents(session), Owning.look(state_dir, session)
    lost = lost_agents(agents, await store.runs(session), owning)
    requests = [request for request in requests if request.agent_id not in lost]
    names = {agent.descriptor.agent_id: agent.descriptor.name for agent in agents}
    return request_rows(requests, names, lambda value: value)
