"""Opens a ledger for reading beside a running engine, and finds a session in it."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from prsm_core.cli.places import workspace_ledger, workspace_paths
from prsm_core.engine.control.session_lock import unbegun
from prsm_core.errors import ConfigError, StoreError
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from prsm_core.interfaces.store import SessionInfo

LOOKED_AT = 20  # ledgers of other folders, the newest


@asynccontextmanager
async def open_ledger(workspace: str) -> AsyncIterator[SqliteStore]:
    """Open the repository's ledger for reading. Raises StoreError for none."""
    path = workspace_ledger(workspace)
    try:
        store = await SqliteStore.open(path, read_only=True)
    except StoreError as error:
        if error.code != "no_ledger":
            raise
        hint = 'start a run with `prsm run "…"`, or choose a folder with --workspace'
        if gone := [folder async for folder in _gone(path)]:
            hint += f"; sessions are kept of folders that are gone, move one back to go on with \
them: {', '.join(gone)}"
        raise StoreError(
            f"nothing was run yet in {workspace}", hint=hint, code="no_ledger"
        ) from error
    async with store:
        yield store


@asynccontextmanager
async def write_ledger(workspace: str) -> AsyncIterator[SqliteStore]:
    """Open the repository's ledger for writing. Raises StoreError."""
    async with await SqliteStore.open(workspace_ledger(workspace)) as store:
        yield store


async def _gone(missing: Path) -> AsyncIterator[str]:
    """Yield folders that no longer exist but have sessions in a neighbouring ledger."""
    ledgers = missing.parent.parent.glob(f"*/{missing.name}")
    newest = sorted(ledgers, key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest[:LOOKED_AT]:
        with suppress(StoreError):  # a damaged ledger of another folder is told to whoever asks it
            async with await SqliteStore.open(path, read_only=True) as store:
                sessions = await store.sessions()
            for folder in {session.workspace: None for session in sessions}:
                if is_gone(folder):
                    yield folder


def is_gone(folder: str) -> bool:
    """Return whether a folder, maybe of another machine, is not here or cannot be seen."""
    return not os.path.isdir(folder)  # noqa: PTH112 - Path.is_dir raises for such a name


@asynccontextmanager
async def open_session(
    workspace: str, prefix: str | None
) -> AsyncIterator[tuple[SqliteStore, SessionInfo]]:
    """Open the repository's ledger for reading, and find a session in it.

    Raises StoreError for no ledger and for none or several sessions, SessionOwnedError for a
    session that is owned but has had no run yet.
    """
    async with AsyncExitStack() as stack:
        try:
            store = await stack.enter_async_context(open_ledger(workspace))
            info = choose_session(await store.sessions(), prefix)
        except StoreError as error:
            owned = unbegun(workspace_paths(workspace).state, prefix or "")
            if owned is None or error.code not in {"no_ledger", "unknown_session"}:
                raise
            raise owned from error
        yield store, info


@asynccontextmanager
async def open_newest(workspace: str) -> AsyncIterator[tuple[SqliteStore, SessionInfo] | None]:
    """Open the repository's ledger, if any, with its newest session unless it is set aside.

    The ledger decides: a marker file could be wrong after a crash or a deletion.
    """
    newest = None
    async with AsyncExitStack() as stack:
        try:
            store = await stack.enter_async_context(open_ledger(workspace))
            found = await store.sessions()
            if found and not found[0].is_aside:
                newest = store, found[0]
        except StoreError as error:
            if error.code not in {"no_ledger", "older_ledger"}:
                raise
        yield newest


def require_current(info: SessionInfo, prefix: str | None) -> None:
    """Raise ConfigError if the newest session is set aside and nobody named it."""
    if prefix is None and info.is_aside:
        raise ConfigError(
            f"all that was said in the newest session, {info.session_id}, was taken back",
            hint=f'`prsm run "…"` begins anew; --session {info.session_id} goes on with that one',
            code="set_aside",
        )


def choose_session(sessions: Sequence[SessionInfo], prefix: str | None) -> SessionInfo:
    """Return the newest session, or the one with this id, beginning of an id, or name.

    Raises StoreError for none (code `unknown_session`), and for several (`ambiguous_session`).
    """
    start = (prefix or "").lower()
    # A blank one is the beginning of all: it is a variable that nobody has set, and no choice.
    is_choice = prefix is None or bool(start)
    found = [s for s in sessions if is_choice and s.session_id.lower().startswith(start)]
    exact = [s for s in found if s.session_id == prefix]
    if exact or (found and prefix is None):
        return (exact or found)[0]
    if not found:
        found = [s for s in sessions if s.name is not None and s.name.lower() == start]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(s.session_id for s in (found or sessions)[:5])
    if found:
        raise StoreError(
            f"{prefix!r} is the beginning, or the name, of {len(found)} sessions",
            hint=f"give more of the id: {listed}",
            code="ambiguous_session",
        )
    raise StoreError(
        "there is no session yet" if prefix is None else f"there is no session {prefix!r}",
        hint=f"the newest are: {listed}" if listed else 'start a run with `prsm run "…"`',
        code="unknown_session",
    )
