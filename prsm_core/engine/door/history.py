"""An agent's conversation in pages: each is read from its end, however much came before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from prsm_core.door import HistoryEntry
from prsm_core.engine.journal.views import TALK, EntryType, conversation, filter_detail
from prsm_core.errors import ConfigError
from prsm_core.kit.quotation import without_references

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.interfaces.store import Store

_STARTS = ("tool_call_started",)
_STARTS_AT_A_TIME = 256


async def read_history(
    store: Store, session: str, agent: str, detail: str, *, before: int | None, limit: int
) -> list[HistoryEntry]:
    """Return the last `limit` entries before the event `before`; see Agents.history.

    `agent` is an id. Raises ToolInputError for an unknown detail, ConfigError for the limit.
    """
    if limit < 1:
        raise ConfigError(f"a page of {limit} entries holds none", hint="ask for 1 or more")
    filter_detail((), detail)
    entries: list[Mapping[str, Any]] = []
    while not entries:  # as long as nothing that was read is worth an entry
        events = await store.last_events(session, agent, kinds=TALK, limit=limit, before=before)
        if not events:
            return []
        entries = filter_detail(conversation(events, numbered=True), detail)
        before = events[0].seq
    page = await _with_tools(store, session, agent, as_said(_last_whole(entries, limit)))
    return msgspec.convert(page, list[HistoryEntry])


def as_said(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return entries with what persons have said as they said it, without what they refer to."""
    return [
        {**entry, "text": without_references(entry["text"])}
        if entry["kind"] == EntryType.USER_MESSAGE
        else entry
        for entry in entries
    ]


def _last_whole(entries: list[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """Return at most the last `limit`; none of an event that would be cut, if others are left."""
    if len(entries) <= limit:
        return entries
    first = entries[-limit]["seq"]
    if entries[-limit - 1]["seq"] != first:
        return entries[-limit:]
    whole = [entry for entry in entries if entry["seq"] > first]
    return whole or [entry for entry in entries if entry["seq"] == first]


async def _with_tools(
    store: Store, session: str, agent: str, entries: list[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Name the tools of results whose calls began before the page."""
    unnamed = {entry["call"] for entry in entries if _lacks_tool(entry)}
    named: dict[str, str] = {}
    before = entries[0]["seq"]
    while before and unnamed - named.keys():
        starts = await store.last_events(
            session, agent, kinds=_STARTS, limit=_STARTS_AT_A_TIME, before=before
        )
        found = {event.data["call"]: event.data["tool"] for event in starts}
        named = {**found, **named}  # of calls with one id the newest counts
        before = (starts[0].seq or 0) if starts else 0
    return [
        {**entry, "tool": named.get(entry["call"])} if _lacks_tool(entry) else entry
        for entry in entries
    ]


def _lacks_tool(entry: Mapping[str, Any]) -> bool:
    return entry["kind"] == EntryType.TOOL_RESULT and entry["tool"] is None
