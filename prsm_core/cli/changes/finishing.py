"""Finishes what a process that has died began with changes: a rejection, or commits."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from prsm_core.cli.changes.knowing import Known, known_changes
from prsm_core.cli.places import workspace_ledger, workspace_paths
from prsm_core.cli.saying import say
from prsm_core.cli.snapshots.opening import open_shadow
from prsm_core.domain.ids import Ids
from prsm_core.domain.steps import Step
from prsm_core.domain.writes import ChangesDecided
from prsm_core.engine.control.session_lock import SessionLock, find_owner
from prsm_core.engine.files.committing import committed
from prsm_core.engine.files.deciding import decisions, told_decision
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.loop.run import run_to_end
from prsm_core.store import SqliteStore
from prsm_core.workspace.changes.rejecting import Rejecter
from prsm_core.workspace.commits.carrying import Committer
from prsm_core.workspace.shadow.opening import Shadows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core.domain.changes import Decision
    from prsm_core.workspace.shadow.worktree import Shadow


def finish_cut_off(workspace: str, session: str) -> bool:
    """Finish what a process that has died began in a session; whether there was anything.

    The session's engine does so itself, if there is one. Raises PrsmError.
    """
    paths = workspace_paths(workspace)
    shadows = Shadows(state=paths.state, data=paths.data, trees=paths.trees)
    shadow = shadows.open(_no_git, Path(workspace))
    begun = {Rejecter(shadow).session, Committer(shadow).session}
    if session not in begun or find_owner(paths.state, session) is not None:
        return False
    install_child_watcher()
    with SessionLock.take(paths.state, session, since=time.time()):
        run_to_end(finish(workspace, session))
    return True


def _no_git(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("nobody runs git here")


async def finish(workspace: str, session: str) -> None:
    """Do it, for a session that this process owns. Raises PrsmError."""
    async with open_shadow(workspace) as shadow:
        await _finish_rejection(workspace, session, shadow)
        await _finish_commits(workspace, session, shadow)


async def _finish_rejection(workspace: str, session: str, shadow: Shadow) -> None:
    rejecter = Rejecter(shadow)
    if rejecter.session != session:
        return
    rejection = await asyncio.to_thread(rejecter.unfinished)
    if rejection is not None:
        known = await known_changes(workspace, session, (), None, None, is_all=True)
        await store_decisions(workspace, known, decisions(known.rows, rejection.decided))
        await asyncio.to_thread(rejecter.finish)
        say("prsm: note: a rejection that was cut off is finished", err=True)


async def _finish_commits(workspace: str, session: str, shadow: Shadow) -> None:
    committer = Committer(shadow)
    if committer.session != session:
        return
    outcome = await asyncio.to_thread(committer.unfinished)
    if outcome is None:
        say("prsm: note: commits that were cut off have changed nothing", err=True)
        return
    known = await known_changes(workspace, session, (), None, None, is_all=True)
    await store_decisions(workspace, known, committed(known.rows, outcome))
    await asyncio.to_thread(committer.finish)
    say("prsm: note: commits that were cut off are finished", err=True)


def owned(workspace: str, known: Known) -> SessionLock:
    """Own the session, so that no engine goes on with it meanwhile."""
    return SessionLock.take(workspace_paths(workspace).state, known.session, since=time.time())


@asynccontextmanager
async def rejecting(workspace: str) -> AsyncIterator[Rejecter]:
    """Open what takes changes of a folder back."""
    async with open_shadow(workspace) as shadow:
        yield Rejecter(shadow)


async def store_decisions(
    workspace: str, known: Known, made: Sequence[Decision]
) -> Sequence[Mapping[str, Any]]:
    """Have the ledger say what is decided; return it as JSON values. Raises StoreError."""
    if made:
        async with await SqliteStore.open(workspace_ledger(workspace)) as store:
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
