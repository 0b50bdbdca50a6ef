"""Takes a snapshot for a person, which a session names; writes one as a folder, and takes it in."""

from __future__ import annotations

import asyncio
import json
import re
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec import Struct

from prsm_core import ConfigError, PrsmError, SessionOwnedError, StoreError
from prsm_core.cli.ledger import is_gone
from prsm_core.cli.sessions.exporting import session_text
from prsm_core.commands import (
    held,
    install_child_watcher,
    open_ledger,
    open_session,
    run_to_end,
    say,
    workspace_paths,
    write_ledger,
)
from prsm_core.engine.door.offers import Owning
from prsm_core.files import repo_identity
from prsm_core.kit import escape_exact
from prsm_files.commands.changes.knowing import owned
from prsm_files.commands.snapshots.opening import open_engine, open_shadow, with_shadow
from prsm_files.commands.snapshots.showing import say_taken, told
from prsm_files.session.deciding import names_of, told_change
from prsm_files.session.naming import naming, newest_commit, session_snapshot
from prsm_files.shadow.exchange import export_folder, import_folder
from prsm_files.shadow.records import About

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import Store
    from prsm_core.door import Change
    from prsm_files.shadow.records import Snapshot

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # of a call, as the name of a file


class _Teller(Struct, frozen=True):
    session: str
    run: str
    position: int


def create_snapshot(workspace: str, description: str, *, as_json: bool) -> None:
    """Take a snapshot and print its id. Raises PrsmError."""
    install_child_watcher()
    snapshot = run_to_end(_create(workspace, description))
    if as_json:
        click.echo(json.dumps(told(snapshot)))
    else:
        say_taken(snapshot)


async def _create(workspace: str, description: str) -> Snapshot:
    teller = await _teller(workspace)
    if teller is not None and (taken := await _asked(workspace, teller, description)) is not None:
        return taken
    about = About(description=description)
    with ExitStack() as stack:
        if teller is not None:
            try:
                stack.enter_context(owned(workspace, teller.session))
                about = about._replace(session=teller.session, position=teller.position)
            except PrsmError as error:
                _say_untold(error)
        snapshot = await _take(workspace, about)
        if teller is not None and about.session is not None:
            await _name(workspace, teller, snapshot)
        return snapshot


async def _teller(workspace: str) -> _Teller | None:
    """Return the newest session that works in this working tree; None: there is none."""
    root = repo_identity(Path(workspace)).root
    try:
        async with open_ledger(workspace) as store:
            for info in await store.sessions():
                if not is_gone(info.workspace) and repo_identity(Path(info.workspace)).root == root:
                    at = await newest_commit(store, info.session_id, info.last_seq)
                    return _Teller(info.session_id, info.run_id or "", at)
    except StoreError as error:
        if error.code != "no_ledger":
            _say_untold(error)
    return None


async def _asked(workspace: str, teller: _Teller, description: str) -> Snapshot | None:
    """Have the session's engine take it; None where it has none, or keeps no files."""
    async with open_engine(workspace, teller.session) as engine:
        if engine is None:
            return None
        try:
            taken = await engine.snapshots.take(description)
        except PrsmError as error:
            if error.code != "no_snapshots":
                raise
            return None
    async with open_shadow(workspace) as shadow:
        return await asyncio.to_thread(shadow.find, taken.id)


async def _take(workspace: str, about: About) -> Snapshot:
    state, folder = workspace_paths(workspace).state, Path(workspace)
    async with (
        held(state, folder, but=about.session) as writers,
        open_shadow(workspace) as shadow,
    ):
        take = partial(shadow.take, about, unquiet=lambda: tuple(writers))
        taken = await asyncio.to_thread(take)
        try:
            await asyncio.to_thread(shadow.secure)
        except PrsmError as error:
            # The snapshot is there all the same.
            say(f"what git throws away one day, snapshots lose: {escape_exact(error.message)}")
        return taken


async def _name(workspace: str, teller: _Teller, snapshot: Snapshot) -> None:
    try:
        async with write_ledger(workspace) as store:
            row = session_snapshot(snapshot)
            await store.commit(naming(teller.session, row, teller.run, time.time()))
    except StoreError as error:
        _say_untold(error)


def _say_untold(error: PrsmError) -> None:
    why = escape_exact(error.message)
    say(f"prsm: note: no session tells of this snapshot: {why}", err=True)


def export_snapshot(workspace: str, wanted: str, folder: str, *, as_json: bool) -> None:
    """Write a snapshot to a new folder, and print which. Raises PrsmError."""
    install_child_watcher()
    try:
        snapshot = run_to_end(_export(workspace, wanted, Path(folder)))
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot be written: {error.strerror}", hint="choose another folder"
        ) from error
    if as_json:
        click.echo(json.dumps({"id": snapshot.id, "folder": folder}))
    else:
        say(f"snapshot {snapshot.id} is written to {escape_exact(folder)}")
        say(f"take it in elsewhere: prsm snapshot import {escape_exact(folder)}", err=True)


def import_snapshot(workspace: str, folder: str, *, with_links: bool, as_json: bool) -> None:
    """Take in the snapshot of a folder, and print its id here. Raises PrsmError."""
    take = partial(import_folder, folder=Path(folder), with_links=with_links)
    snapshot = with_shadow(workspace, take)
    if as_json:
        click.echo(json.dumps(told(snapshot)))
    else:
        say(f"snapshot {snapshot.id} of {escape_exact(snapshot.folder)}")
        say(f"go to it: prsm snapshot restore {snapshot.id}", err=True)


async def _export(workspace: str, wanted: str, folder: Path) -> Snapshot:
    async with open_shadow(workspace) as shadow:
        snapshot = await asyncio.to_thread(shadow.find, wanted)
        besides = await _besides(workspace, snapshot)
        write = partial(export_folder, shadow, snapshot.id, folder, besides=besides)
        return await asyncio.to_thread(write)


async def _besides(workspace: str, snapshot: Snapshot) -> Mapping[str, bytes]:
    """Return what the snapshot's session says: itself, and its changes of files by call."""
    if snapshot.session is None:
        return {}
    try:
        async with open_session(workspace, snapshot.session) as (store, info):
            owning = Owning.look(workspace_paths(workspace).state, info.session_id)
            text = await session_text(store, info, owning)
            return {"session.json": text.encode(), **await _changes(store, info.session_id)}
    except SessionOwnedError:  # it has had no run yet
        return {}
    except StoreError as error:
        if error.code not in {"no_ledger", "unknown_session"}:
            raise
        return {}


async def _changes(store: Store, session: str) -> Mapping[str, bytes]:
    names = await names_of(store, session)
    found: dict[str, list[Change]] = {}
    for row in await store.changes(session):
        author = row.change.author
        call = "" if author is None else author.call
        name = call if _NAME.fullmatch(call) else row.change.id
        found.setdefault(name, []).append(told_change(row, names))
    return {
        f"file-changes/{name}.json": json.dumps(
            msgspec.to_builtins({"changes": rows}), indent=1
        ).encode("ascii")
        for name, rows in found.items()
    }
