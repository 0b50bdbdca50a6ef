"""Finishes what a process that has died began with changes: acts, or commits."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from prsm_core import SessionOwnedError, StoreError
from prsm_core.commands import (
    SessionLock,
    find_owner,
    install_child_watcher,
    open_ledger,
    run_to_end,
    say,
    workspace_paths,
    write_ledger,
)
from prsm_core.files import ChangesDecided, Ids, Step
from prsm_files.changes.acting import Acting
from prsm_files.commands.changes.knowing import Known, known_changes
from prsm_files.commands.snapshots.opening import open_shadow
from prsm_files.commits import Committer
from prsm_files.session.committing import committed
from prsm_files.session.deciding import decided_by, told_decision
from prsm_files.shadow.whereabouts import Shadows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from prsm_core.files import Decision
    from prsm_files.shadow.acts import Act
    from prsm_files.shadow.worktree import Shadow


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
            known = await known_changes(workspace, session, (), None, None, is_all=True)
            await settle(workspace, known, shadow, act)
            say(f"prsm: note: what act {act.id} ({act.kind}) decided is in the ledger", err=True)


async def settle(
    workspace: str, known: Known, shadow: Shadow, act: Act
) -> Sequence[Mapping[str, Any]]:
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
    known = await known_changes(workspace, heir, (), None, None, is_all=True)
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
    known = await known_changes(workspace, session, (), None, None, is_all=True)
    await store_decisions(workspace, known, committed(known.rows, outcome))
    await asyncio.to_thread(committer.finish)
    say("prsm: note: commits that were cut off are finished", err=True)


def owned(workspace: str, session: str) -> SessionLock:
    """Own the session, so that no engine goes on with it meanwhile."""
    return SessionLock.take(workspace_paths(workspace).state, session, since=time.time())


async def store_decisions(
    workspace: str, known: Known, made: Sequence[Decision]
) -> Sequence[Mapping[str, Any]]:
    """Have the ledger say what is decided; return it as JSON values. Raises StoreError."""
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
