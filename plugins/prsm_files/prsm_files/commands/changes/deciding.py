"""Accepts changes and takes them back: by the engine of the session, or without one."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from prsm_core import ConfigError
from prsm_core.commands import (
    find_owner,
    held,
    install_child_watcher,
    open_control,
    require_quiet,
    run_to_end,
    say,
    workspace_paths,
)
from prsm_core.kit import escape_exact
from prsm_files.changes.acting import Rejecter
from prsm_files.commands.changes.finishing import finish, owned, settle, store_decisions
from prsm_files.commands.changes.knowing import Known, known_changes, line_of
from prsm_files.commands.snapshots.opening import open_shadow
from prsm_files.session.deciding import accepted, wanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


SHOWN = 20  # changes that are asked about one by one


class Which(Struct, frozen=True, kw_only=True):
    """Which changes a command line means."""

    ids: tuple[str, ...] = ()
    agent: str | None = None
    call: str | None = None
    is_all: bool = False
    is_sure: bool = False  # leave out what a person may have made, unless its id is given

    def check(self) -> None:
        """Raise ConfigError unless it says which."""
        ways = [bool(self.ids), self.agent is not None or self.call is not None, self.is_all]
        if sum(ways) != 1:
            raise ConfigError(
                "which changes are meant is not said" if not any(ways) else "that is said twice",
                hint="give ids, or --agent or --call, or --all",
            )


def accept_changes(workspace: str, session: str | None, which: Which, *, as_json: bool) -> None:
    """Accept changes, and print them. Raises PrsmError."""
    which.check()
    made = run_to_end(_accept(workspace, session, which))
    _tell(made, "accepted", as_json=as_json)


def reject_changes(
    workspace: str, session: str | None, which: Which, *, is_sure: bool, as_json: bool
) -> int:
    """Take changes back once the person says so; return the exit code. Raises PrsmError."""
    which.check()
    install_child_watcher()
    if not is_sure:
        _ask(run_to_end(_known(workspace, session, which)))
    known, made = run_to_end(_reject(workspace, session, which))
    _tell(made, "taken back", as_json=as_json)
    say_unsure(len(known.unsure))
    return int(any(one["state"] == "unmerged" for one in made))


async def _known(workspace: str, session: str | None, which: Which) -> Known:
    return await known_changes(
        workspace, session, which.ids, which.agent, which.call, is_sure=which.is_sure
    )


async def _accept(workspace: str, session: str | None, which: Which) -> Sequence[Mapping[str, Any]]:
    known = await _known(workspace, session, which)
    if (made := await _asked(workspace, known, "accept", which)) is not None:
        return made
    with owned(workspace, known.session):
        return await store_decisions(workspace, known, accepted(known.rows))


async def _reject(
    workspace: str, session: str | None, which: Which
) -> tuple[Known, Sequence[Mapping[str, Any]]]:
    known = await _known(workspace, session, which)
    state = workspace_paths(workspace).state
    # The session's own engine holds itself.
    async with held(state, Path(workspace), but=known.session) as writers:
        require_quiet(writers)
        if (made := await _asked(workspace, known, "reject", which)) is not None:
            return known, made
        with owned(workspace, known.session):
            await finish(workspace, known.session)
            known = await _known(workspace, known.session, which)
            return known, await _take_back(workspace, known) if known.rows else []


async def _take_back(workspace: str, known: Known) -> Sequence[Mapping[str, Any]]:
    async with open_shadow(workspace) as shadow:
        reject = Rejecter(shadow).reject
        rejection = await asyncio.to_thread(reject, known.session, wanted(known.rows))
        acted = rejection.acted
        made = await settle(workspace, known, shadow, acted.act)
        return [{**one, "act": acted.id} for one in made]


async def _asked(
    workspace: str, known: Known, op: str, which: Which
) -> Sequence[Mapping[str, Any]] | None:
    """Have the session's engine decide; None where it has none."""
    state = workspace_paths(workspace).state
    if find_owner(state, known.session) is None:
        return None
    async with open_control(state, known.session) as client:
        ids = [row.change.id for row in known.rows]
        if not ids:
            return []
        more = {"possible": False} if op == "reject" else {}
        made: list[Mapping[str, Any]] = await client.ask(
            op, changes=ids, agent=None, call=None, **more
        )
        return made


def _ask(known: Known) -> None:
    if not known.rows:
        return
    count = len(known.rows)
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(
            f"nobody can be asked whether {count} changes are to be taken back", hint="give --yes"
        )
    for row in known.rows[:SHOWN]:
        say(f"  {line_of(row, known.names)}")
    if count > SHOWN:
        say(f"  … {count - SHOWN} more")
    for line in staying(known):
        say(line)
    say_unsure(len(known.unsure))
    click.confirm(f"take back {count} changes?", abort=True, err=True)


def staying(known: Known) -> Sequence[str]:
    """Return what stays although all are meant: what no agent of the session made."""
    count = len(known.outside)
    lines = [f"  = {line_of(row, known.names)}" for row in known.outside[:SHOWN]]
    lines += [f"  = … {count - SHOWN} more"] if count > SHOWN else []
    what = "from outside, and not taken along (=): give their ids to decide about them"
    return [*lines, f"{what}: {count}"] if count else []


def say_unsure(count: int) -> None:
    """Say how many changes stay that a person may have made, if there are any."""
    if count:
        what = "stay, for you may have made them (?)"
        say(f"prsm: {what}: {count}; --possible takes them back, too", err=True)


def _tell(made: Sequence[Mapping[str, Any]], what: str, *, as_json: bool) -> None:
    if as_json:
        changes = [{name: one[name] for name in one if name != "act"} for one in made]
        click.echo(json.dumps({"changes": changes, "act": _act_of(made)}))
        return
    done = [one for one in made if one["state"] != "unmerged"]
    for one in done[:SHOWN]:
        say(f"  {one['change']}  {escape_exact(one['path'])}")
    act = _act_of(made)
    say(f"{what}: {len(done)}" + (f"; undo it: prsm undo {act}" if act else ""))
    for one in made:
        if one["state"] == "unmerged":
            path, why = escape_exact(one["path"]), escape_exact(one["why"] or "")
            say(f"prsm: {one['change']} of {path} stays: {why}", err=True)


def _act_of(made: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the act by which changes were taken back, if any was."""
    return next((one["act"] for one in made if one.get("act")), None)
