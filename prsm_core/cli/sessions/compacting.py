"""Gives the disk space of deleted sessions back, unless an engine uses the ledger."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import click

from prsm_core.cli.checkup.folders import format_size
from prsm_core.cli.ledger import open_ledger
from prsm_core.cli.places import workspace_ledger, workspace_paths
from prsm_core.cli.saying import say
from prsm_core.engine.control.session_lock import find_owner
from prsm_core.errors import PrsmError, SessionOwnedError
from prsm_core.store.removal import compact, measure

if TYPE_CHECKING:
    from prsm_core.engine.control.session_lock import Owner


async def compact_ledger(workspace: str, *, as_json: bool) -> None:
    """Compact the ledger of a repository, and say how large it was and is.

    Raises:
        PrsmError: there is no ledger, an engine uses it, or it cannot be written.
    """
    if (busy := await _user(workspace)) is not None:
        session, owner = busy
        raise SessionOwnedError(
            f"the ledger is not compacted: process {owner.process.pid} runs session {session}",
            hint="end it first: prsm kill master, or Ctrl-C where it runs",
        )
    before, after = await asyncio.to_thread(compact, workspace_ledger(workspace))
    if as_json:
        click.echo(json.dumps({"before": before.size, "after": after.size}))
    else:
        was, size = format_size(before.size), format_size(after.size)
        say(f"The ledger takes {size}; before it took {was}.")


async def give_space_back(workspace: str) -> int:
    """Compact the ledger if that is worth it and no engine uses it; return the bytes won.

    What fails is a note: what the caller has deleted is gone all the same.
    """
    ledger = workspace_ledger(workspace)
    try:
        if not (await asyncio.to_thread(measure, ledger)).is_worth_it or await _user(workspace):
            return 0
        before, after = await asyncio.to_thread(compact, ledger)
    except PrsmError as error:
        say(f"prsm: note: disk space is not given back: {error.message}", err=True)
        return 0
    return before.size - after.size


async def _user(workspace: str) -> tuple[str, Owner] | None:
    """Return a session of the ledger that a process runs, and that process."""
    async with open_ledger(workspace) as store:
        sessions = await store.sessions()
    state = workspace_paths(workspace).state
    for info in sessions:
        if (owner := find_owner(state, info.session_id)) is not None:
            return info.session_id, owner
    return None
