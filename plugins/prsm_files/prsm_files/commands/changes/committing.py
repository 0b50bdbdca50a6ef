"""Commits accepted changes: by the engine of the session, or without one; asked for first."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from prsm_core import ConfigError
from prsm_core.commands import (
    find_owner,
    install_child_watcher,
    open_control,
    open_session,
    run_to_end,
    say,
    workspace_paths,
)
from prsm_core.files import ACCEPTED
from prsm_core.kit import escape_exact
from prsm_files.commands.changes.finishing import finish, owned, store_decisions
from prsm_files.commands.changes.knowing import Known, known_changes
from prsm_files.commands.snapshots.opening import open_shadow
from prsm_files.commits import Committer, Outcome
from prsm_files.session.committing import Wording, commits_of, committed, told_outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_HOOKS = "no hook of the repository was run, and nothing is signed"


class Wanted(Struct, frozen=True, kw_only=True):
    """What a command line wants to be committed, and how."""

    workspace: str
    session: str | None
    ids: tuple[str, ...]
    agent: str | None
    wording: Wording


def commit_changes(wanted: Wanted, *, is_dry: bool, is_sure: bool, as_json: bool) -> int:
    """Commit accepted changes once the person says so; return the exit code. Raises PrsmError."""
    wanted.wording.check()
    install_child_watcher()
    if is_dry or not is_sure:
        planned = run_to_end(_commit(wanted, is_dry=True))
        if is_dry or not (planned["commits"] or planned["held"]):
            _tell(planned, as_json=as_json)
            return int(bool(planned["left"]))
        if planned["commits"]:
            _ask(planned)
    made = run_to_end(_commit(wanted, is_dry=False))
    _tell(made, as_json=as_json)
    return int(bool(made["left"]))


async def _commit(wanted: Wanted, *, is_dry: bool) -> Mapping[str, Any]:
    known = await _known(wanted, wanted.session)
    if (told := await _asked(wanted, known, is_dry=is_dry)) is not None:
        return told
    if is_dry:
        return await _carried_out(wanted, known, is_dry=True)
    with owned(wanted.workspace, known.session):
        await finish(wanted.workspace, known.session)
        return await _carried_out(wanted, await _known(wanted, known.session), is_dry=False)


async def _known(wanted: Wanted, session: str | None) -> Known:
    return await known_changes(
        wanted.workspace, session, wanted.ids, wanted.agent, None, states={ACCEPTED}
    )


async def _asked(wanted: Wanted, known: Known, *, is_dry: bool) -> Mapping[str, Any] | None:
    """Have the session's engine commit; None where it has none."""
    state = workspace_paths(wanted.workspace).state
    if find_owner(state, known.session) is None:
        return None
    ids = [row.change.id for row in known.rows]
    if not ids:
        return told_outcome(Outcome(), (), {})
    how = {"by": wanted.wording.by, "message": wanted.wording.message, "dry_run": is_dry}
    async with open_control(state, known.session) as client:
        told: Mapping[str, Any] = await client.ask("commit_changes", changes=ids, agent=None, **how)
        return told


async def _carried_out(wanted: Wanted, known: Known, *, is_dry: bool) -> Mapping[str, Any]:
    async with open_session(wanted.workspace, known.session) as (store, _):
        asked = await commits_of(store, known.session, known.rows, wanted.wording)
    async with open_shadow(wanted.workspace) as shadow:
        committer = Committer(shadow)
        if is_dry:
            outcome = await asyncio.to_thread(committer.plan, asked)
        else:
            outcome = await asyncio.to_thread(committer.commit, known.session, asked)
            await store_decisions(wanted.workspace, known, committed(known.rows, outcome))
            await asyncio.to_thread(committer.finish)
    return told_outcome(outcome, known.rows, known.names)


def _ask(planned: Mapping[str, Any]) -> None:
    count = len(planned["commits"])
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError("nobody can be asked whether to commit", hint="give --yes")
    _print(planned)
    click.confirm(f"make {count} commits?", abort=True, err=True)


def _tell(told: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(told))
        return
    _print(told)
    if not told["commits"]:
        say("nothing is committed: no change that is accepted is left to commit")
    elif told["commits"][0]["commit"] is not None:
        say(f"prsm: note: {_NO_HOOKS}", err=True)


def _print(told: Mapping[str, Any]) -> None:
    for one in told["commits"]:
        id_ = "would commit" if one["commit"] is None else one["commit"][:12]
        where = f" in {escape_exact(one['repository'])}" if one["repository"] else ""
        mark = "?" if one["possible"] else ""
        names = ", ".join(f"{escape_exact(who['name'] or '')}{mark}" for who in one["agents"])
        say(f"{id_}{where}  {escape_exact(one['subject'])}  ({names or 'outside'})")
        for path in one["files"]:
            say(f"  {escape_exact(path)}")
    for one in told["held"]:
        say(f"{one['change']} of {escape_exact(one['path'])}: HEAD has it already")
    for one in told["left"]:
        path, why = escape_exact(one["path"]), escape_exact(one["why"])
        say(f"prsm: {one['change']} of {path} is left out: {why}", err=True)
