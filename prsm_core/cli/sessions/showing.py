"""One session: its runs, its agents, what was said last, and what of it is open."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from prsm_core.cli.ledger import open_session
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.reading import print_agents
from prsm_core.cli.saying import print_table, say
from prsm_core.cli.sessions.listing import at_text, name_of
from prsm_core.door import CallEntry
from prsm_core.engine.door.history import read_history
from prsm_core.engine.door.offers import Owning, lost_agents
from prsm_core.engine.journal.views import build_tree
from prsm_core.kit.text import escape_exact, first_line, format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.domain.sessions import RunNow
    from prsm_core.interfaces.store import AgentRow, Picture, SessionInfo, Store
    from prsm_core.store import SqliteStore

_RUNS = ("RUN", "STATUS", "BEGAN", "TIME", "TASK")


async def print_session(
    workspace: str, prefix: str | None, messages: int, *, as_json: bool
) -> None:
    """Print a session as text, or as one JSON object."""
    now = time.time()
    async with open_session(workspace, prefix) as (store, info):
        owning = Owning.look(workspace_paths(workspace).state, info.session_id)
        shown = await look_at(store, info, owning, messages, now)
    if as_json:
        click.echo(json.dumps(to_builtins(shown), indent=2))
    else:
        _print(shown, now)


async def look_at(
    store: SqliteStore, info: SessionInfo, owning: Owning, messages: int, now: float
) -> dict[str, Any]:
    """Return what is shown, as JSON values, with the records of the tree."""
    session, runs = info.session_id, await store.runs(info.session_id)
    picture = await store.picture(session)
    rows = picture.agents
    tree = build_tree(
        session,
        info.run_id,
        rows,
        now,
        interrupted=not owning.is_owned,
        lost=lost_agents(rows, runs, owning),
        requests=picture.requests,
    )
    return {
        "session": session,
        "name": info.name,
        "task": info.task,
        "workspace": info.workspace,
        "started_at": info.started_at,
        "last_event_at": info.last_at,
        "last_seq": info.last_seq,
        "status": owning.status(info.status, info.engine),
        "pid": owning.pid,
        "origin": info.origin,
        "runs": [_run(run, owning) for run in runs],
        "agents": tree.agents,
        "spent": tree.spent,
        "messages": await _last_messages(store, session, rows, messages),
        "open": _open(picture, is_owned=owning.is_owned),
    }


def _run(run: RunNow, owning: Owning) -> dict[str, Any]:
    outcome = run.outcome or {}
    return {
        "run": run.run_id,
        "task": run.task,
        "status": owning.status(run.status, run.engine),
        "epoch": run.epoch,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "summary": outcome.get("summary"),
        "error": outcome.get("error"),
    }


async def _last_messages(
    store: Store, session: str, agents: Sequence[AgentRow], limit: int
) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for row in agents if limit else ():
        agent = row.descriptor
        entries = await read_history(
            store, session, agent.agent_id, "summary", before=None, limit=limit
        )
        found += [
            {"seq": entry.seq, **to_builtins(entry), "agent": agent.name}
            for entry in entries
            if not isinstance(entry, CallEntry)
        ]
    return sorted(found, key=lambda entry: entry["seq"])[-limit:] if limit else []


def _open(picture: Picture, *, is_owned: bool) -> list[dict[str, Any]]:
    turns = {turn.agent_id: turn for turn in picture.turns}
    told = []
    for row in picture.agents:
        agent = row.descriptor
        if agent.state.is_terminal:
            continue
        turn = turns.get(agent.agent_id)
        told.append(
            {
                "agent": agent.agent_id,
                "name": agent.name,
                "state": agent.state.value,
                "is_running": is_owned,
                "turn": None if turn is None else turn.number,
                "calls": [] if turn is None else [call.tool for call in turn.calls],
                "unread": sum(message.target == agent.agent_id for message in picture.unread),
                "requests": sum(request.agent_id == agent.agent_id for request in picture.requests),
                "has_thread": row.resume_token is not None,
            }
        )
    return told


def _print(shown: Mapping[str, Any], now: float) -> None:
    owned = "" if shown["pid"] is None else f", process {shown['pid']}"
    called = name_of(shown["name"], shown["task"])
    say(f"session {shown['session']} {called!r} ({shown['status']}{owned})")
    if shown["origin"] is not None:
        say(f"forked from {shown['origin']}, whose past it shares")
    last = at_text(shown["last_event_at"])
    say(f"workspace {escape_exact(shown['workspace'])}, last event {last}")
    say("")
    print_table(_RUNS, [_run_cells(run, now) for run in shown["runs"]])
    say("")
    print_agents((node for root in shown["agents"] for node in root.walk()), now)
    if shown["messages"]:
        say("")
        for entry in shown["messages"]:
            who = "to " if entry["kind"] == "user_message" else ""
            say(f"{who}{escape_exact(entry['agent'])}: {first_line(entry['text'])}")
    say("")
    if shown["pid"] is not None:
        say(f"it runs in process {shown['pid']}: prsm attach {shown['session']}")
    elif not shown["open"]:
        say("all its agents have ended: there is nothing to resume")
    else:
        say(f"can be resumed (prsm resume {shown['session']}):")
        for agent in shown["open"]:
            say(f"  {escape_exact(agent['name'])}: {_stands(agent)}")


def _run_cells(run: Mapping[str, Any], now: float) -> tuple[str | None, ...]:
    end = run["finished_at"]
    if end is None and run["status"] == "running":
        end = now
    return (
        run["run"],
        run["status"],
        at_text(run["started_at"]),
        None if end is None else format_duration(end - run["started_at"]),
        first_line(run["task"]),
    )


def _stands(agent: Mapping[str, Any]) -> str:
    where = "between turns" if agent["turn"] is None else f"in turn {agent['turn']}"
    said = [f"{agent['state']}, {where}"]
    if agent["calls"]:
        said.append(f"open calls: {', '.join(map(escape_exact, agent['calls']))}")
    if agent["unread"]:
        said.append(f"unread messages: {agent['unread']}")
    if agent["requests"]:
        said.append(f"requests that wait for a person: {agent['requests']}")
    if not agent["has_thread"]:
        said.append("its vendor's thread is not known")
    return "; ".join(said)
