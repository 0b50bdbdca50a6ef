"""Writes a session out: as JSON that can be imported, as JSONL of its events, as a page."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.ledger import open_session
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.page import render_page
from prsm_core.cli.sessions.showing import look_at
from prsm_core.config.atomic import replace_file
from prsm_core.engine.door.offers import Owning
from prsm_core.engine.journal.views import ConversationStore, walk_tree
from prsm_core.errors import ConfigError
from prsm_core.store.migrations import NEWEST
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from prsm_core.interfaces.store import SessionInfo
    from prsm_core.store import SqliteStore

FORMAT = "prsm-session"
VERSION = 1


async def export_session(workspace: str, prefix: str | None, form: str, output: str | None) -> None:
    """Write a session to a file or to stdout.

    Raises:
        PrsmError: there is no such session, or the file cannot be written.
    """
    async with open_session(workspace, prefix) as (store, info):
        pieces = pieces_of(store, info, workspace_paths(workspace).state, form)
        if output is None or output == "-":
            async for piece in pieces:
                click.echo(piece, nl=False)
            return
        data = "".join([piece async for piece in pieces]).encode()
    path = await asyncio.to_thread(write, Path(output), f"{info.session_id}.{form}", data)
    say(f"session {info.session_id} is written to {path} ({len(data):,} bytes)", err=True)


def pieces_of(store: SqliteStore, info: SessionInfo, state: Path, form: str) -> AsyncIterator[str]:
    """Return a session in a form, piece by piece; raises ConfigError for a form there is not."""
    if form not in FORMS:
        raise ConfigError(f"there is no form {form!r}", hint=f"there are {', '.join(FORMS)}")
    return FORMS[form](store, info, Owning.look(state, info.session_id))


def write(path: Path, name: str, data: bytes) -> Path:
    """Write a file, or one of this name in a folder; return it.

    What is no file, as /dev/stdout or a pipe, is written to and stays what it is.
    """
    if path.is_dir():
        path = path / name
    try:
        if path.exists() and not path.is_file():
            _write_to(path, data)
        else:
            replace_file(path.resolve(), data)  # a link stays one
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written: {error.strerror}", hint="choose another file with -o"
        ) from error
    return path


def _write_to(path: Path, data: bytes) -> None:
    """Write to a device or a pipe; one that nobody reads is an error, not a wait."""
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(handle, "wb") as file:  # noqa: PTH123 - of a handle
        os.set_blocking(handle, True)
        file.write(data)


async def _json(store: SqliteStore, info: SessionInfo, owning: Owning) -> AsyncIterator[str]:
    """Yield the session as JSON."""
    yield await session_text(store, info, owning)


async def session_text(store: SqliteStore, info: SessionInfo, owning: Owning) -> str:
    """Return the session as JSON: what it is, then the rows of its tables."""
    copy = await store.copy(info.session_id)
    head: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "ledger": NEWEST,
        "prsm": __version__,
        "session": {
            "id": info.session_id,
            "name": info.name,
            "task": info.task,
            "workspace": info.workspace,
            "status": owning.status(info.status, info.engine),
            "created_at": info.started_at,
        },
    }
    return json.dumps({**head, **copy}, indent=1, ensure_ascii=False) + "\n"


async def _jsonl(store: SqliteStore, info: SessionInfo, _: Owning) -> AsyncIterator[str]:
    """Yield one event envelope a line, as `prsm events --json` prints them."""
    async for event in store.events(info.session_id):
        yield json.dumps(event.to_dict()) + "\n"


async def _html(store: SqliteStore, info: SessionInfo, owning: Owning) -> AsyncIterator[str]:
    """Yield one page that needs nothing beside it."""
    shown = await look_at(store, info, owning, 0, time.time())
    talks = ConversationStore(store, info.session_id)
    yield render_page(
        shown,
        {node["id"]: await talks.get_history(node["id"]) for node in walk_tree(shown["agents"])},
    )


FORMS = {"json": _json, "jsonl": _jsonl, "html": _html}
