"""The sessions of a repository, one a line."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from prsm_core.cli.ledger import open_ledger
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.saying import print_table, say
from prsm_core.domain.usage import Spent, total
from prsm_core.engine.door.offers import session_rows
from prsm_core.errors import StoreError
from prsm_core.kit.text import first_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from prsm_core.interfaces.store import SessionInfo, Store

_HEADERS = ("NAME", "SESSION", "STATUS", "AGENTS", "COST", "LAST EVENT", "TASK", "WORKSPACE")
_SPARE = ("WORKSPACE", "TASK", "COST")
_WORDS = 5  # of a task, in the name of a session that was given none
_LETTERS = 40
_SHOWN = 60  # characters of a task


def name_of(name: str | None, task: str) -> str:
    """Return what a session is called: its name, or the first words of its task."""
    if name is not None:
        return first_line(name)
    line = first_line(task, len(task) or 1).removesuffix("…")
    words = " ".join(line.split()[:_WORDS])
    return words if len(words) <= _LETTERS else words[: _LETTERS - 1] + "…"


def at_text(at: float | None) -> str | None:
    """Return a moment in local time, None where it is not known."""
    if at is None:
        return None
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


async def print_sessions(workspace: str, limit: int, *, as_json: bool) -> None:
    """Print the newest sessions as a table, or as a JSON list."""
    try:
        async with open_ledger(workspace) as store:
            infos = await store.sessions()
            state = workspace_paths(workspace).state
            rows = [await _row(store, info, state) for info in infos[:limit]]
    except StoreError as error:
        if not (as_json and error.code == "no_ledger"):
            raise
        infos, rows = (), []
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    print_table(_HEADERS, [_cells(row) for row in rows], spare=_SPARE)
    if hidden := len(infos) - len(rows):
        say(f"… and {hidden} older: prsm sessions list --limit {len(infos)}", err=True)


async def _row(store: Store, info: SessionInfo, state_dir: Path) -> Mapping[str, Any]:
    [row] = session_rows([info], state_dir)
    agents = await store.agents(info.session_id)
    spent = total(agent.spent for agent in agents)
    return {
        **asdict(row),
        "agents": len(agents),
        "spent": spent.to_dict(),
        "last_event_at": info.last_at,
    }


def _cells(row: Mapping[str, Any]) -> Sequence[str | None]:
    status = row["status"] if row["pid"] is None else f"{row['status']} (pid {row['pid']})"
    fork = "" if row["origin"] is None else f" (fork of {row['origin']})"
    return (
        name_of(row["name"], row["task"]),
        f"{row['session']}{fork}",
        status,
        str(row["agents"]),
        Spent.from_dict(row["spent"]).cost_text,
        at_text(row["last_event_at"]),
        first_line(row["task"], _SHOWN),
        row["workspace"],
    )
