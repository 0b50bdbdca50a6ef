"""Takes a restore back; where that was of a prompt, with the conversation, both go."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core import ConfigError, PrsmError
from prsm_core.commands import (
    SessionLock,
    find_owner,
    held,
    open_control,
    open_ledger,
    require_quiet,
    run_to_end,
    say,
    workspace_paths,
    write_ledger,
)
from prsm_core.files import Ids
from prsm_core.kit import escape_exact
from prsm_files.commands.changes.finishing import settle_all
from prsm_files.commands.snapshots.opening import open_shadow, with_shadow
from prsm_files.commands.snapshots.restoring import ask, tell
from prsm_files.session.going_back import carry_out, session_after, sessions_of, way_back

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_files.shadow.acts import Act
    from prsm_files.shadow.journal import Owed
    from prsm_files.shadow.records import Restored


def undo_restore(
    workspace: str, act: Act, *, conversation: bool, is_sure: bool, as_json: bool
) -> int:
    """Take a restore back, once the person says so; return the exit code. Raises PrsmError."""
    owed = run_to_end(_way_back(workspace, act)) if conversation else None
    if not is_sure:
        ask(with_shadow(workspace, lambda shadow: shadow.plan(act.safety)), _question(owed))
    if (asked := run_to_end(_asked(workspace, act, owed))) is not None:
        return _tell_asked(asked, as_json=as_json)
    restored = run_to_end(_undo(workspace, act, owed))
    return tell(restored, session_after(owed), as_json=as_json, is_of_both=owed is not None)


def _question(owed: Owed | None) -> str:
    if owed is None:
        return "undo the restore"
    session = session_after(owed)
    return "undo the undo of a prompt, and " + (
        "begin anew" if session is None else f"go on with session {session}"
    )


async def _way_back(workspace: str, act: Act) -> Owed | None:
    """Return what a restore owes that takes another one back."""
    if act.then is None:
        return None
    async with open_ledger(workspace) as store:
        return await way_back(store, act, Ids(time.time))


async def _asked(workspace: str, act: Act, owed: Owed | None) -> Mapping[str, Any] | None:
    """Have the engine of one of the sessions do it; None where they have none."""
    state = workspace_paths(workspace).state
    for session in sessions_of(owed):
        if find_owner(state, session) is not None:
            async with open_control(state, session) as client:
                how = {"wanted": act.id, "files": True, "conversation": True}
                made: Mapping[str, Any] = await client.ask("undo", what="act", **how)
                return made
    return None


async def _undo(workspace: str, act: Act, owed: Owed | None) -> Restored:
    state = workspace_paths(workspace).state
    async with AsyncExitStack() as stack:
        require_quiet(await stack.enter_async_context(held(state, Path(workspace))))
        mine = sessions_of(owed)
        for session in mine:  # nobody goes on with them
            stack.enter_context(SessionLock.take(state, session, since=time.time()))
        shadow = await stack.enter_async_context(open_shadow(workspace))
        restored = await asyncio.to_thread(partial(shadow.undo, owed, of=act))
        await settle_all(workspace, shadow, mine)
        if owed is not None:
            await _carry_out(workspace, owed)
            await asyncio.to_thread(shadow.journal.settle)
        return restored


async def _carry_out(workspace: str, owed: Owed) -> None:
    try:
        async with write_ledger(workspace) as store:
            await carry_out(store, owed, Ids(time.time), time.time())
    except PrsmError as error:
        raise ConfigError(
            f"the files are back, the conversation is not yet: {error.message}",
            hint="mend the cause; the next command about snapshots of this folder does the rest",
        ) from error


def _tell_asked(made: Mapping[str, Any], *, as_json: bool) -> int:
    """Say what an engine has done."""
    if as_json:
        names = ("restored", "session", "changes", "notes", "differs", "act")
        told = {name: made[name] for name in names}
        click.echo(json.dumps({**told, "safety": made["snapshot"], "plan_notes": []}))
    else:
        say(f"files that went back: {made['files']}; undo it: prsm undo {made['act']}")
        if made["session"] is not None:
            say(f"the conversation goes on in session {made['session']}")
    for note in made["notes"]:
        say(f"prsm: note: {escape_exact(note)}", err=True)
    return 1 if made["differs"] else 0
