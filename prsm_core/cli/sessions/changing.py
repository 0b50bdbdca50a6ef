"""Changes a session as a whole: its name, and its removal."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import click

from prsm_core.cli.ledger import open_session
from prsm_core.cli.places import workspace_ledger, workspace_paths
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.compacting import give_space_back
from prsm_core.cli.sessions.deleting import Places, delete
from prsm_core.cli.sessions.keepers import Keepers, require_no_trees
from prsm_core.cli.sessions.leftovers import strangers
from prsm_core.cli.sessions.listing import name_of
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.engine.door.naming import checked_name, name_session
from prsm_core.errors import ConfigError, SessionOwnedError
from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from prsm_core.interfaces.provider import ProviderSpec


async def rename_session(workspace: str, prefix: str, name: str, *, as_json: bool) -> None:
    """Give a session a name, or none where it is blank.

    Raises:
        PrsmError: the name is none, there is no such session, or the ledger cannot be written.
    """
    _ = checked_name(name)
    async with open_session(workspace, prefix) as (_, info):
        session, task = info.session_id, info.task
    async with await SqliteStore.open(workspace_ledger(workspace)) as store:
        new = await name_session(store, info, name)
    if as_json:
        click.echo(json.dumps({"session": session, "name": new}))
    else:
        say(f"session {session} is called {name_of(new, task)!r}")


async def delete_session(
    workspace: str,
    prefix: str,
    keepers: Keepers,
    *,
    is_sure: bool,
    with_trees: bool,
    as_json: bool,
) -> None:
    """Delete a session for good, once the person says so; the `keepers` remove what is theirs.

    Who is asked is told of worktrees that go along. Where nobody is, they keep it from being
    deleted unless that is wanted, `with_trees`.

    Raises:
        PrsmError: there is no such session, a process owns it, others go on from it, nobody can
            be asked, or something of it is left that cannot be deleted.
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
    _tell_strangers(state, keepers.providers)


def _tell_strangers(state: Path, specs: Collection[ProviderSpec]) -> None:
    for folder in strangers(state, specs):
        text = f"what a provider that is not installed keeps in databases stays in {folder}"
        say(f"prsm: note: {text}", err=True)


def _confirm(what: str, trees: Sequence[str]) -> None:
    """Ask the person; raises ConfigError where nobody is there, Abort for a no."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(
            f"nobody can be asked whether {what} is to be deleted",
            hint="give --yes: what is deleted does not come back",
        )
    for line in trees:
        say(f"  with it goes the worktree of {line}", err=True)
    click.confirm(f"delete {what} for good?", abort=True, err=True)
