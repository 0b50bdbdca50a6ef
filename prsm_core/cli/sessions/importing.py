"""Takes a session in from a file: one that was exported, or a transcript of a vendor's agent."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.places import workspace_ledger
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.exporting import FORMAT, VERSION
from prsm_core.cli.sessions.retelling import retell
from prsm_core.cli.sessions.transcripts import Transcript, read_transcript
from prsm_core.config import private_dir
from prsm_core.domain.ids import Ids
from prsm_core.errors import ConfigError
from prsm_core.kit.reading import read_object
from prsm_core.kit.regular import read_whole, read_within
from prsm_core.kit.sanitize import sanitize
from prsm_core.store import SqliteStore
from prsm_core.store.migrations import NEWEST
from prsm_core.store.session_rows import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_BYTES = 512 << 20  # of a file that is taken in: it is held whole, some times over
_CURE = "export it with `prsm export SESSION --format json`"
_ROLES = {"manager": "master", "unified": "master"}  # as the specification once called them


async def import_session(workspace: str, file: str, *, as_json: bool) -> None:
    """Take the session of a file into the ledger of the workspace.

    Raises:
        PrsmError: the file cannot be read, is no export, or one that the ledger cannot hold.
    """
    found, new_id = await asyncio.to_thread(_read, file), _new_ids()
    is_foreign = isinstance(found, Transcript)
    copy = await retell(found, new_id) if is_foreign else _checked(found, file)
    path = workspace_ledger(workspace)
    private_dir(path.parent)
    async with await SqliteStore.open(path) as store:
        session = await store.put_copy(copy, new_id)
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
        if file == "-":
            data = read_within(sys.stdin.buffer, MOST_BYTES)
        else:
            data = read_whole(file, MOST_BYTES)
    except OSError as error:
        where = "name a file that you may read, or - for what another command writes"
        raise ConfigError(f"{file}: cannot be read: {error.strerror}", hint=where) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text", hint=_CURE, code="foreign") from error
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{file}: is nested too deep", hint=_CURE, code="foreign") from error
    except ValueError as error:
        lines = _lines(data, file)
        if (transcript := read_transcript(lines)) is not None:
            return transcript
        what = "events of a session, which lack its rows" if _are_events(lines) else "not JSON"
        raise ConfigError(f"{file}: is {what}: {error}", hint=_CURE, code="foreign") from error
    if isinstance(value, dict) and "format" not in value:  # a transcript may have one line only
        return read_transcript(_lines(data, file)) or value
    return value


def _lines(data: bytes, file: str) -> list[Mapping[str, Any]]:
    """Return the JSON objects of a file that has one a line, as they can be kept.

    The last line may be torn, of a process that was killed; whatever else is left out is told. A
    line ends with a line feed alone: what else ends lines of text stands in JSON as it is.
    """
    found: list[Mapping[str, Any]] = []
    odd: list[int] = []
    *lines, last = data.split(b"\n")
    for number, line in enumerate((*lines, last), 1):
        if line.strip():
            try:
                found.append(sanitize(read_object(line)))
            except ValueError:
                odd.append(number)
    if odd and odd[-1] == len(lines) + 1:
        odd.pop()
    if found and odd:
        where = f"lines of it are no JSON objects, and left out: {len(odd)}, the first is {odd[0]}"
        say(f"prsm: note: {file}: {where}", err=True)
    return found


def _are_events(lines: Sequence[Mapping[str, Any]]) -> bool:
    return bool(lines) and lines[0].keys() >= {"seq", "session", "type"}


def _checked(value: Any, file: str) -> Mapping[str, Any]:
    """Return the rows of an export; raises ConfigError for what is none, by its name."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        said = value.get("format") if isinstance(value, dict) else None
        what = f"JSON of the format {said!r}" if said else "JSON, but no session of prsm"
        raise ConfigError(f"{file}: is {what}", hint=_CURE, code="foreign")
    newest = (VERSION, NEWEST)
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
