"""Renames and deletes sessions, and gives disk space back unless an engine uses the ledger."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING

import click

from prsm_core.cli.checkup.folders import format_size
from prsm_core.cli.ledger import open_ledger, open_session, write_ledger
from prsm_core.cli.places import workspace_ledger, workspace_paths
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.deleting import Places, delete, strangers
from prsm_core.cli.sessions.keepers import Keepers, require_no_trees
from prsm_core.cli.sessions.listing import name_of
from prsm_core.engine.control.session_lock import Owner, SessionLock, find_owner
from prsm_core.engine.door.naming import checked_name, name_session
from prsm_core.errors import ConfigError, PrsmError, SessionOwnedError
from prsm_core.store.removal import compact, measure

if TYPE_CHECKING:
    from collections.abc import Sequence


async def rename_session(workspace: str, prefix: str, name: str, *, as_json: bool) -> None:
    """Give a session a name, or none where it is blank."""
    _ = checked_name(name)
    async with open_session(workspace, prefix) as (_, info):
        session, task = info.session_id, info.task
    async with write_ledger(workspace) as store:
        new = await name_session(store, info, name)
    if as_json:
        click.echo(json.dumps({"session": session, "name": new}))
    else:
        say(f"session {session} is called {name_of(new, task)!r}")


async def delete_session(
    workspace: str, prefix: str, keepers: Keepers, *, is_sure: bool, with_trees: bool, as_json: bool
) -> None:
    """Delete a session for good, once the person says so; the `keepers` remove what is theirs.

    Who is asked is told of worktrees that go along. Where nobody is, they keep it from being
    deleted unless that is wanted, `with_trees`.
    """
    async with open_session(workspace, prefix) as (store, info):
        session, agents = info.session_id, len(await store.agents(info.session_id))
    what = (
        f"session {session} ({name_of(info.name, info.task)!r}: "
        f"agents: {agents}, events: {info.last_seq})"
    )
    paths = workspace_paths(workspace)
    state = paths.state
    try:
        lock = SessionLock.take(state, session, since=time.time())
        with lock:
            trees = keepers.worktrees(session)
            if not is_sure:
                _confirm(what, trees)
            elif not with_trees:
                require_no_trees(trees, session)
            places = Places(state, workspace_ledger(workspace), keepers)
            counts, files = await delete(places, session, lock)
    except SessionOwnedError as error:
        raise SessionOwnedError(
            f"{error.message}; it is not deleted",
            hint="end it first: prsm kill master, or Ctrl-C where it runs",
        ) from error
    won = await give_space_back(workspace)
    if as_json:
        told = {"session": session, "deleted": counts, "files": files, "worktrees": len(trees)}
        click.echo(json.dumps({**told, "bytes": won}))
    else:
        say(f"deleted {what}" + (f", and its worktrees: {len(trees)}" if trees else ""))
    for folder in strangers(state, keepers.providers):
        text = f"what a provider that is not installed keeps in databases stays in {folder}"
        say(f"prsm: note: {text}", err=True)


def _confirm(what: str, trees: Sequence[str]) -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(
            f"nobody can be asked whether {what} is to be deleted",
            hint="give --yes: what is deleted does not come back",
        )
    for line in trees:
        say(f"  with it goes the worktree of {line}", err=True)
    click.confirm(f"delete {what} for good?", abort=True, err=True)


async def compact_ledger(workspace: str, *, as_json: bool) -> None:
    """Compact the ledger of a repository, and say how large it was and is."""
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
    """Compact an unused ledger if that is worth it and return the bytes won; note what fails."""
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
    async with open_ledger(workspace) as store:
        sessions = await store.sessions()
    state = workspace_paths(workspace).state
    for info in sessions:
        if (owner := find_owner(state, info.session_id)) is not None:
            return info.session_id, owner
    return None
