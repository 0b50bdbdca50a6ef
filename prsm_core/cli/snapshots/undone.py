"""Takes the last restore back; where that was of a prompt, with the conversation, both go."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.places import workspace_ledger, workspace_paths
from prsm_core.cli.saying import say
from prsm_core.cli.snapshots.opening import open_shadow, with_shadow
from prsm_core.cli.snapshots.restoring import ask, tell
from prsm_core.domain.ids import Ids
from prsm_core.engine.control.client import open_control
from prsm_core.engine.control.holding import held, require_quiet
from prsm_core.engine.control.session_lock import SessionLock, find_owner
from prsm_core.engine.going_back import carry_out, session_after, sessions_of, way_back
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.errors import ConfigError, PrsmError
from prsm_core.kit.text import escape_exact
from prsm_core.loop.run import run_to_end
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.workspace.shadow.journal import Done, Owed
    from prsm_core.workspace.shadow.records import Restored


def undo_restore(workspace: str, *, conversation: bool, is_sure: bool, as_json: bool) -> int:
    """Take back the last restore, once the person says so; return the exit code.

    Raises PrsmError.
    """
    install_child_watcher()
    last, owed = run_to_end(_look(workspace, conversation=conversation))
    if not is_sure:
        ask(with_shadow(workspace, lambda shadow: shadow.plan_undo()), _question(owed))
    if (asked := run_to_end(_asked(workspace, owed))) is not None:
        return _tell_asked(asked, as_json=as_json)
    restored = run_to_end(_undo(workspace, last, owed))
    return tell(restored, session_after(owed), as_json=as_json, is_of_both=owed is not None)


def _question(owed: Owed | None) -> str:
    if owed is None:
        return "undo the last restore"
    session = session_after(owed)
    return "undo the last undo of a prompt, and " + (
        "begin anew" if session is None else f"go on with session {session}"
    )


async def _look(workspace: str, *, conversation: bool) -> tuple[Done, Owed | None]:
    """Return the last restore, and what one that takes it back owes."""
    async with open_shadow(workspace) as shadow:  # which does first what is owed now
        last = shadow.journal.last_done()
    if last.then is None or not conversation:
        return last, None
    async with await SqliteStore.open(workspace_ledger(workspace), read_only=True) as store:
        return last, await way_back(store, last, Ids(time.time))


async def _asked(workspace: str, owed: Owed | None) -> Mapping[str, Any] | None:
    """Have the engine of one of the sessions do it; None where they have none."""
    state = workspace_paths(workspace).state
    for session in sessions_of(owed):
        if find_owner(state, session) is not None:
            async with open_control(state, session) as client:
                how = {"wanted": None, "files": True, "conversation": True}
                made: Mapping[str, Any] = await client.ask("undo", what="restore", **how)
                return made
    return None


async def _undo(workspace: str, last: Done, owed: Owed | None) -> Restored:
    state = workspace_paths(workspace).state
    async with AsyncExitStack() as stack:
        require_quiet(await stack.enter_async_context(held(state, Path(workspace))))
        for session in sessions_of(owed):  # nobody goes on with them
            stack.enter_context(SessionLock.take(state, session, since=time.time()))
        shadow = await stack.enter_async_context(open_shadow(workspace))
        restored = await asyncio.to_thread(partial(shadow.undo, owed, of=last))
        if owed is not None:
            await _carry_out(workspace, owed)
            await asyncio.to_thread(shadow.journal.settle)
        return restored


async def _carry_out(workspace: str, owed: Owed) -> None:
    try:
        async with await SqliteStore.open(workspace_ledger(workspace)) as store:
            await carry_out(store, owed, Ids(time.time), time.time())
    except PrsmError as error:
        raise ConfigError(
            f"the files are back, the conversation is not yet: {error.message}",
            hint="mend the cause; the next command about snapshots of this folder does the rest",
        ) from error


def _tell_asked(made: Mapping[str, Any], *, as_json: bool) -> int:
    """Say what an engine has done."""
    if as_json:
        names = ("restored", "session", "changes", "notes", "differs")
        told = {name: made[name] for name in names}
        click.echo(json.dumps({**told, "safety": made["snapshot"], "plan_notes": []}))
    else:
        say(f"files that went back: {made['files']}; take it back: prsm undo")
        if made["session"] is not None:
            say(f"the conversation goes on in session {made['session']}")
    for note in made["notes"]:
        say(f"prsm: note: {escape_exact(note)}", err=True)
    return 1 if made["differs"] else 0
