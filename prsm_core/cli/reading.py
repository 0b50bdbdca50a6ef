"""Prints what a ledger holds: the tree, the events, a conversation."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET, to_builtins

from prsm_core.cli.ledger import open_session
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.saying import print_table, say
from prsm_core.engine.control.client import open_control
from prsm_core.engine.control.session_lock import Owner, find_owner
from prsm_core.engine.door.history import as_said
from prsm_core.engine.door.offers import Owning, lost_agents
from prsm_core.engine.journal.views import (
    Conversation,
    ConversationStore,
    build_tree,
    filter_detail,
)
from prsm_core.errors import ControlError
from prsm_core.kit.text import escape_exact, escape_prose, first_line, format_duration
from prsm_core.loop.output import drained, room_in, write_aside
from prsm_core.terminal.wording import subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prsm_core.domain.events import Event
    from prsm_core.door import AgentNode, AgentTree

_SPARE = ("ROLE", "LAST TOOL", "ID")
LIVE_SECONDS = 2.0  # for the process that runs a session to tell its tree
SHOWN = 8  # characters of a request's id
_TREE_HEADERS = (
    *("AGENT", "ID", "STATE", "EVIDENCE", "ROLE", "MODEL", "TIME", "CHANGED", "TOKENS"),
    *("COST", "LAST TOOL"),
)


async def print_tree(workspace: str, session: str | None, *, as_json: bool) -> None:
    """Print the agents of a session as a table, or as one JSON object."""
    now = time.time()
    async with open_session(workspace, session) as (store, info):
        # The owner first: one that ends meanwhile has written how its agents ended.
        owner = find_owner(workspace_paths(workspace).state, info.session_id)
        tree = None if owner is None else await _live_tree(workspace, info.session_id)
        if tree is None:
            rows = await store.agents(info.session_id)
            asked = await store.open_requests(info.session_id)
            lost = lost_agents(rows, await store.runs(info.session_id), Owning(owner, bool(owner)))
            tree = build_tree(
                info.session_id,
                info.run_id,
                rows,
                now,
                interrupted=owner is None,
                lost=lost,
                requests=asked,
                changes=await store.changes(info.session_id),
            )
    if as_json:
        click.echo(json.dumps(to_builtins(tree), indent=2))
        return
    status = Owning(owner, bool(owner)).status(info.status, info.engine)
    say(f"session {info.session_id} ({status}): {first_line(info.task)}", err=True)
    print_agents(tree.walk(), now)
    say(_so_far(tree, owner, is_over=status not in {"interrupted", "running", None}), err=True)


def print_agents(agents: Iterable[AgentNode], now: float) -> None:
    """Print the agents of a tree as a table, and below it what waits for a person."""
    nodes = list(agents)
    print_table(_TREE_HEADERS, [_tree_row(node) for node in nodes], spare=_SPARE)
    for node in nodes:
        if node.waiting_on and not node.state.startswith("waiting"):
            say(f"{escape_exact(node.name)} is held by {escape_exact(node.waiting_on)}")
        for line in _waiting(node, now):
            say(line)


async def _live_tree(workspace: str, session: str) -> AgentTree | None:
    """Return the tree as the session's owner knows it.

    None where it does not answer soon, or is of a version that tells of ended turns only.
    """
    try:
        async with (
            asyncio.timeout(LIVE_SECONDS),
            open_control(workspace_paths(workspace).state, session) as client,
        ):
            tree = await client.agents.tree()
            return tree if tree.is_live else None
    except (ControlError, TimeoutError):  # it is stopped, has just begun, or just ended
        return None


def _so_far(tree: AgentTree, owner: Owner | None, *, is_over: bool) -> str:
    used = tree.spent.as_spent.text
    if tree.is_live:
        return f"so far, turns that run included: {used}"
    if owner is not None:
        return (
            f"so far, closed turns: {used} (process {owner.process.pid}, which runs the session,"
            " does not answer)"
        )
    return f"in all: {used}" if is_over else f"so far, closed turns: {used}"


def _tree_row(node: AgentNode) -> tuple[str | None, ...]:
    spent, changed = node.usage_subtree.as_spent, node.changes_subtree
    return (
        "  " * node.depth + node.name,
        node.id[:8],
        "waits for YOU" if node.waits_for_user else node.state,
        node.evidence,
        node.role,
        f"{node.provider}/{node.model}",
        None if node.elapsed_s is None else format_duration(node.elapsed_s),
        None if changed is UNSET or not changed.files else f"+{changed.added} -{changed.removed}",
        spent.tokens_text,
        spent.cost_text,
        node.last_tool,
    )


def _waiting(node: AgentNode, now: float) -> Iterator[str]:
    for asked in node.waits_for_user:
        at = datetime.fromtimestamp(asked.since).astimezone().strftime("%H:%M:%S")
        since = f"since {at} ({format_duration(now - asked.since)})"
        yield f"{escape_exact(node.name)} waits for YOU {since}: {subject(to_builtins(asked))}"
        yield f"  answer it: prsm answer {asked.request[:SHOWN]}, or: prsm attach"


async def print_events(
    workspace: str,
    session: str | None,
    *,
    after: int,
    last: int | None = None,
    follow: bool,
    as_json: bool,
) -> None:
    """Print a session's events, one a line: those behind `after`, or the `last` of them."""
    write_aside()
    async with open_session(workspace, session) as (store, info):
        if last is not None:  # events are numbered without a gap
            after = max(after, info.last_seq - last)
        names = {
            row.descriptor.agent_id: row.descriptor.name
            for row in await store.agents(info.session_id)
        }
        async for event in store.events(info.session_id, after, follow=follow):
            if event.type == "agent_spawned" and event.agent:
                names[event.agent] = str(event.data.get("name"))
            click.echo(json.dumps(event.to_dict()) if as_json else _event_line(event, names))
            await room_in(sys.stdout)
        await drained(sys.stdout)


def _event_line(event: Event, names: Mapping[str, str]) -> str:
    at = datetime.fromtimestamp(event.ts).astimezone().strftime("%H:%M:%S")
    who = names.get(event.agent or "", event.agent or "-")
    fields = " ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in event.data.items()
        if value is not None
    )
    cut = fields if len(fields) <= 200 else fields[:199] + "…"
    return escape_exact(f"{event.seq:>6} {at} {who:<8} {event.type:<22} {cut}".rstrip())


async def print_history(
    workspace: str,
    session: str | None,
    agent: str,
    *,
    detail: str,
    last: int | None = None,
    follow: bool = False,
    as_json: bool,
) -> None:
    """Print one agent's conversation, all of it or its `last` entries, and what comes then."""
    write_aside()
    async with open_session(workspace, session) as (store, info):
        rows = await store.agents(info.session_id)
        agent_id = ConversationStore.resolve_agent_id(agent, rows)
        conversation, seen = Conversation(), 0
        async for event in store.events(info.session_id, agent=agent_id):
            conversation.add(event)
            seen = event.seq or seen
        entries = as_said(filter_detail(conversation.take(), detail))[-(last or 0) :]
        if as_json and not follow:
            click.echo(json.dumps(entries, indent=2))
        else:
            for entry in entries:
                await _print_entry(entry, as_json=as_json)
        if follow:
            async for event in store.events(info.session_id, seen, follow=True, agent=agent_id):
                conversation.add(event)
                for entry in as_said(filter_detail(conversation.take(), detail)):
                    await _print_entry(entry, as_json=as_json)
        await drained(sys.stdout)


async def _print_entry(entry: Mapping[str, Any], *, as_json: bool) -> None:
    click.echo(json.dumps(entry) if as_json else _entry_text(entry))
    await room_in(sys.stdout)


def _entry_text(entry: Mapping[str, Any]) -> str:
    kind = entry["kind"]
    if kind == "tool_call":
        arguments = entry.get("arguments")
        shown = f" {json.dumps(arguments, ensure_ascii=False)}" if arguments else ""
        return escape_exact(f"> {entry['tool']}{shown}")
    if kind == "tool_result":
        head = f"< {escape_exact(str(entry['tool']))} {escape_exact(str(entry['status']))}"
        return f"{head}\n{_indented(entry['text'])}" if entry["text"] else head
    title = {"user_message": "user", "text": "agent", "thinking": "thinking"}[kind]
    return f"{title}:\n{_indented(entry['text'])}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in escape_prose(text).split("\n"))
