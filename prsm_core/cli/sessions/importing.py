"""Takes a session in that was exported: from a file into the ledger of a repository."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.places import workspace_ledger
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.exporting import FORMAT, VERSION
from prsm_core.config import private_dir
from prsm_core.domain.ids import Ids
from prsm_core.errors import ConfigError
from prsm_core.store import SqliteStore
from prsm_core.store.migrations import load_migrations
from prsm_core.store.session_rows import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CURE = "export it with `prsm export SESSION --format json`"
_ROLES = {"manager": "master", "unified": "master"}  # as the specification once called them
_FOREIGN = {  # how the first line of a file of others is known
    "a transcript of Claude Code": ("sessionId", "parentUuid"),
    "a log of Codex": ("payload", "timestamp"),
    "events of a session, which lack its rows": ("seq", "session"),
}


async def import_session(workspace: str, file: str, *, as_json: bool) -> None:
    """Take the session of a file into the ledger of the workspace.

    Raises:
        PrsmError: the file cannot be read, is no export, or one that the ledger cannot hold.
    """
    copy = _checked(await asyncio.to_thread(_read, file), file)
    path = workspace_ledger(workspace)
    private_dir(path.parent)
    async with await SqliteStore.open(path) as store:
        session = await store.put_copy(copy, _new_ids())
    if as_json:
        click.echo(json.dumps({"session": session, "was": copy["meta"][0]["session_id"]}))
        return
    say(f"imported session {session}: agents: {len(copy['agents'])}, events: {len(copy['events'])}")
    if (was := copy["meta"][0]["session_id"]) != session:
        say(f"prsm: note: {was} is there already, so it got ids of its own", err=True)
    if grants := len(copy["grants"]):
        text = f"it carries {grants} permissions that were given for good; a resume honours them"
        say(f"prsm: warning: {text}", err=True)


def _read(file: str) -> Any:
    """Return the JSON of a file; "-" is stdin."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    try:
        return json.loads(data)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text", hint=_CURE, code="foreign") from error
    except ValueError as error:
        raise ConfigError(
            f"{file}: is {_known(data)}: {error}", hint=_CURE, code="foreign"
        ) from error


def _known(data: bytes) -> str:
    """Return what a file of several JSON lines is, by its first one."""
    try:
        first = json.loads(data.split(b"\n", 1)[0])
    except ValueError:
        return "not JSON"
    for what, names in _FOREIGN.items():
        if isinstance(first, dict) and first.keys() >= set(names):
            return what
    return "more than one JSON value"


def _checked(value: Any, file: str) -> Mapping[str, Any]:
    """Return the rows of an export; raises ConfigError for what is none, by its name."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        said = value.get("format") if isinstance(value, dict) else None
        what = f"JSON of the format {said!r}" if said else "JSON, but no session of prsm"
        raise ConfigError(f"{file}: is {what}", hint=_CURE, code="foreign")
    newest = (VERSION, len(load_migrations()))
    versions = [value.get(name) for name in ("version", "ledger")]
    if not all(isinstance(each, int) for each in versions):
        raise ConfigError(f"{file}: tells no version of its format", hint=_CURE, code="foreign")
    if any(int(each or 0) > known for each, known in zip(versions, newest, strict=True)):
        raise ConfigError(
            f"{file}: was exported by a newer prsm ({value.get('prsm')})",
            hint="upgrade prsm-core",
            code="newer_export",
        )
    copy = {table: value.get(table, []) for table in TABLES}
    for table, rows in copy.items():
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ConfigError(f"{file}: {table} is no list of rows", hint=_CURE, code="bad_copy")
    return {**copy, "agents": [_named_as_now(row) for row in copy["agents"]]}


def _named_as_now(agent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an agent with the names that roles and states have now, also of earlier formats.

    A state stays what it was: an agent that ran when it was exported is `interrupted` here.
    """
    role, state = (str(agent.get(name)).lower() for name in ("role", "state"))
    return {**agent, "role": _ROLES.get(role, role), "state": state}


def _new_ids() -> Callable[[str], str]:
    """Return what makes ids of the kind that a table has."""
    ids = Ids(time.time)
    kinds = {"agents": ids.agent, "requests": ids.request}
    return lambda table: kinds.get(table, ids.ulid)()
