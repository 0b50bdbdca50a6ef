"""Writes a session out: as JSON that can be imported, as JSONL of its events, as a page.

The page has no script and nothing from elsewhere, and every text in it is escaped. Its policy (CSP)
forbids whatever it does not need, so that a text that got through would do nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import defaultdict, deque
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.ledger import open_session
from prsm_core.cli.places import workspace_paths
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.listing import at_text, name_of
from prsm_core.cli.sessions.showing import look_at
from prsm_core.engine.door.offers import Owning
from prsm_core.engine.journal.views import ConversationStore
from prsm_core.errors import ConfigError
from prsm_core.kit.regular import replace_file
from prsm_core.kit.text import escape_prose, format_duration
from prsm_core.store.migrations import NEWEST
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from prsm_core.door import AgentNode
    from prsm_core.interfaces.store import SessionInfo
    from prsm_core.store import SqliteStore

    Entry = Mapping[str, Any]


POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --dim: #667; }
@media (prefers-color-scheme: dark) { :root { --dim: #99a; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; border-top: 1px solid var(--line); }
h2 { padding-top: 1rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .2rem 1rem .2rem 0; }
.dim, time, summary, th { color: var(--dim); } time { font-size: .8rem; margin-left: .5rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; font-size: .875rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; }
.entry { margin: .6rem 0; padding: .4rem .8rem; border-left: 3px solid var(--line); }
.user_message { background: var(--soft); } details { margin: .4rem 0 .4rem .8rem; }
ul.tree, ul.tree ul { list-style: none; padding-left: 1.2rem; } ul.tree { padding-left: 0; }
.failed, .killed, .interrupted, .denied { color: #c33; } .completed { color: #2a7; }
"""


def _lines(shown: Mapping[str, Any], talks: Mapping[str, Sequence[Entry]]) -> Iterator[str]:
    title = _text(name_of(shown["name"], shown["task"]))
    nodes = [node for root in shown["agents"] for node in root.walk()]
    places = {node.id: f"agent-{number}" for number, node in enumerate(nodes, 1)}
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title><style>{STYLE}</style></head><body>"
    yield f"<h1>{title}</h1>"
    yield from _head(shown)
    yield "<h2>Agents</h2>"
    yield from _tree(nodes, places)
    for node in nodes:
        yield from _agent(node, places[node.id], talks.get(node.id, ()))
    yield "</body></html>"


def _head(shown: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        ("session", shown["session"]),
        ("status", shown["status"] or "unknown"),
        ("task", shown["task"]),
        ("workspace", shown["workspace"]),
        ("began", at_text(shown["started_at"]) or "unknown"),
        ("last event", at_text(shown["last_event_at"]) or "unknown"),
        ("used", shown["spent"].as_spent.text),
    ]
    yield "<table>"
    for name, value in rows:
        yield f'<tr><th>{name}</th><td class="text">{_text(value)}</td></tr>'
    yield "</table>"
    for run in shown["runs"]:
        yield f'<p><b class="{_class(run["status"])}">{_text(run["status"])}</b>'
        yield f'<span class="text"> {_text(run["task"])}</span></p>'
        for said in (run["summary"], run["error"]):
            if said:
                yield f'<div class="entry text">{_text(said)}</div>'


def _tree(nodes: Sequence[AgentNode], places: Mapping[str, str]) -> Iterator[str]:
    """Yield the tree; however deep it is, without recursion."""
    depth = -1
    for node in nodes:
        if node.depth > depth:
            yield '<ul class="tree">' * (node.depth - depth)
        else:
            yield "</li></ul>" * (depth - node.depth) + "</li>"
        depth = node.depth
        used = node.usage_self.as_spent
        took = "" if node.elapsed_s is None else f"{format_duration(node.elapsed_s)}, "
        yield (
            f'<li><a href="#{places[node.id]}">{_text(node.name)}</a> '
            f'<b class="{_class(node.state)}">{_text(node.state)}</b> '
            f'<span class="dim">{_text(node.role)}, {_text(node.provider)}/'
            f"{_text(node.model)}, {took}tokens: {_text(used.tokens_text)}, "
            f"cost: {_text(used.cost_text)}</span>"
        )
    yield "</li></ul>" * (depth + 1)


def _agent(node: AgentNode, place: str, entries: Sequence[Entry]) -> Iterator[str]:
    yield f'<section id="{place}"><h2>{_text(node.name)}</h2>'
    if not entries:
        yield '<p class="dim">It said nothing.</p>'
    results: defaultdict[str, deque[Entry]] = defaultdict(deque)  # a vendor uses its ids again
    for entry in entries:
        if entry["kind"] == "tool_result":
            results[entry["call"]].append(entry)
    for entry in entries:
        if entry["kind"] == "tool_call":
            waiting = results[entry["call"]]
            yield from _call(entry, waiting.popleft() if waiting else None)
        elif entry["kind"] == "thinking":
            yield f"<details><summary>thinking</summary>{_pre(entry['text'])}</details>"
        elif entry["kind"] != "tool_result":
            who = "to the agent" if entry["kind"] == "user_message" else "the agent"
            yield f'<div class="entry {entry["kind"]}"><b>{who}</b>{_at(entry)}'
            yield f'<div class="text">{_text(entry["text"])}</div></div>'
    yield "</section>"


def _call(entry: Entry, result: Entry | None) -> Iterator[str]:
    status = "open" if result is None else str(result["status"])
    yield f"<details><summary>{_text(entry['tool'])}: "
    yield f'<span class="{_class(status)}">{_text(status)}</span>{_at(entry)}</summary>'
    if entry["arguments"]:
        yield _pre(json.dumps(entry["arguments"], indent=2, ensure_ascii=False))
    if result is not None and result["text"]:
        yield _pre(result["text"])
    yield "</details>"


def _at(entry: Entry) -> str:
    return f"<time>{_text(at_text(entry['at']) or '')}</time>"


def _pre(text: str) -> str:
    return f"<pre>{_text(text)}</pre>"


def _class(name: Any) -> str:
    word = str(name)
    return word if word.isidentifier() and word.isascii() else "other"


def _text(value: Any) -> str:
    """Return a text as HTML; what would act on its reader unseen is told by its number."""
    return escape(escape_prose(str(value)))


FORMAT = "prsm-session"
VERSION = 1


async def export_session(workspace: str, prefix: str | None, form: str, output: str | None) -> None:
    """Write a session to a file or to stdout."""
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
    """Write a file, one of this name in a folder, or to a device or pipe; return it."""
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
    async for event in store.events(info.session_id):
        yield json.dumps(event.to_dict()) + "\n"


async def _html(store: SqliteStore, info: SessionInfo, owning: Owning) -> AsyncIterator[str]:
    shown = await look_at(store, info, owning, 0, time.time())
    conversations = ConversationStore(store, info.session_id)
    talks = {
        node.id: await conversations.get_history(node.id)
        for root in shown["agents"]
        for node in root.walk()
    }
    for line in _lines(shown, talks):
        yield line + "\n"


FORMS = {"json": _json, "jsonl": _jsonl, "html": _html}
