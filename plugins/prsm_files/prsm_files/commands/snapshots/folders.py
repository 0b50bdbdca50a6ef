"""Writes a snapshot as a folder, with what its session says, and takes one in."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prsm_core import ConfigError, StoreError
from prsm_core.cli.ledger import choose_session
from prsm_core.cli.sessions.exporting import session_text
from prsm_core.commands import install_child_watcher, open_ledger, run_to_end, say, workspace_paths
from prsm_core.engine.door.offers import Owning
from prsm_core.kit import escape_exact
from prsm_files.commands.snapshots.opening import open_shadow, with_shadow
from prsm_files.commands.snapshots.showing import told
from prsm_files.session.deciding import told_change
from prsm_files.shadow.exporting import export_folder
from prsm_files.shadow.importing import import_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import Store
    from prsm_files.shadow.records import Snapshot

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # of a call, as the name of a file


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
        async with open_ledger(workspace) as store:
            info = choose_session(await store.sessions(), snapshot.session)
            owning = Owning.look(workspace_paths(workspace).state, info.session_id)
            text = await session_text(store, info, owning)
            return {"session.json": text.encode(), **await _changes(store, info.session_id)}
    except StoreError as error:
        if error.code not in {"no_ledger", "unknown_session"}:
            raise
        return {}


async def _changes(store: Store, session: str) -> Mapping[str, bytes]:
    names = {row.descriptor.agent_id: row.descriptor.name for row in await store.agents(session)}
    found: dict[str, list[Mapping[str, object]]] = {}
    for row in await store.changes(session):
        author = row.change.author
        call = "" if author is None else author.call
        name = call if _NAME.fullmatch(call) else row.change.id
        found.setdefault(name, []).append(told_change(row, names))
    return {
        f"file-changes/{name}.json": json.dumps({"changes": rows}, indent=1).encode("ascii")
        for name, rows in found.items()
    }
