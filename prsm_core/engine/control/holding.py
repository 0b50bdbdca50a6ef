"""Holds the files of a working tree: agents of all engines there do not begin to write."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.engine.control.remote import open_remote
from prsm_core.engine.control.session_lock import find_owner
from prsm_core.errors import ConfigError, ControlError
from prsm_core.workspace.identity import repo_identity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

_OVER = frozenset({"no_owner", "closing"})  # codes of errors: its agents write no more


@asynccontextmanager
async def held(
    state: Path, folder: Path, *, but: str | None = None
) -> AsyncIterator[Sequence[str]]:
    """Hold the files that a folder is part of; yield the agents that may write all the same.

    Every engine that works there is asked, `but` that of one session, and waits for its agents, for
    ten seconds. What this process dies of releases the files. Raises ControlError for an engine
    that does not answer.
    """
    root = repo_identity(folder).root
    known = sorted(lock.stem for lock in (state / "runs").glob("*.lock"))
    running = [one for one in known if one != but and find_owner(state, one) is not None]
    async with AsyncExitStack() as stack:
        found = await asyncio.gather(*(_hold(stack, state, root, one) for one in running))
        yield [writer for writers in found for writer in writers]


async def _hold(stack: AsyncExitStack, state: Path, root: Path, session: str) -> Sequence[str]:
    """Hold the files of a session, if it works in that working tree."""
    try:
        app = await stack.enter_async_context(open_remote(state, session))
        if repo_identity(Path(app.options.workspace)).root != root:
            return ()
        values = app.hold_files()
        stack.push_async_callback(values.aclose)
        return await anext(values)
    except ControlError as error:
        if error.code in _OVER:  # it has ended meanwhile
            return ()
        raise


def require_quiet(writers: Sequence[str]) -> None:
    """Raise ConfigError while agents write: what they do would be mixed with what is restored."""
    if writers:
        raise ConfigError(
            f"nothing was changed, because an agent writes here: {'; '.join(writers)}",
            hint="let it end, or end it with `prsm kill`, then try again",
            code="agents_write",
        )
