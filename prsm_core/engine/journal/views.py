"""Read-only views of the ledger: the tree of agents, and each agent's conversation."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from prsm_core.domain.agents import AgentState
from prsm_core.domain.changes import REJECTED
from prsm_core.domain.usage import total
from prsm_core.door import AgentNode, AgentTree, ChangeCount, Usage, Waiting
from prsm_core.errors import MessageRoutingError, ToolInputError
from prsm_core.kit.text import call_text

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterable,
        AsyncIterator,
        Callable,
        Collection,
        Iterable,
        Mapping,
        Sequence,
    )

    from prsm_core.domain.changes import ChangeRow, FileChange
    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.sessions import AgentNow
    from prsm_core.domain.steps import HumanRequest
    from prsm_core.domain.usage import Spent
    from prsm_core.engine.state import UsedByTurn
    from prsm_core.interfaces.store import AgentRow, Store

T = TypeVar("T")

DETAILS = ("full", "summary")
TALK = ("message_completed", "tool_call_started", "tool_call_finished")  # what entries are made of
_NAMED = ("seq", "kind", "at", "tool")  # of a call, in a summary
_BEGINNINGS = ("agent_spawned", "agent_state_changed")  # a life begins with one of them
_ENDED = frozenset(state.value for state in AgentState if state.is_terminal)
_AT_A_TIME = 64  # events
_ASKED = ("tool", "command", "paths", "reason", "question", "options")


class EntryType(StrEnum):
    """The kinds of entries of a conversation."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    USER_MESSAGE = "user_message"


def build_tree(
    session_id: str,
    run_id: str | None,
    rows: Sequence[AgentRow],
    now: float,
    *,
    interrupted: bool = False,
    lost: Collection[str] = (),
    requests: Sequence[HumanRequest] = (),
    unwritten: Sequence[UsedByTurn] | None = None,
    changes: Iterable[ChangeRow] | None = None,
    more: Mapping[str, Mapping[str, Any]] | None = None,
) -> AgentTree:
    """Return the tree of agents from `rows` in order of creation, in linear time.

    If the session is `interrupted`, nobody owns it: unfinished agents show that as their state
    (derived, never stored), and nothing waits for a person. The same holds for `lost` agents, whose
    engine died. `unwritten` is the usage of running or just ended turns, told before the rows were
    read; None if only another process knows. Without `changes` the tree lacks changed files. `more`
    are further fields of each node.
    """
    own = _own(rows, unwritten or ())
    cut = own if interrupted else lost
    asked = _by_agent((request.agent_id, request) for request in requests)
    changed = _changed(rows, changes) if changes is not None else {}
    subtree = dict(own)
    children: dict[str, list[AgentNode]] = {agent: [] for agent in own}
    roots: list[AgentNode] = []
    for row in reversed(rows):  # an agent comes behind its parent
        agent, parent = row.descriptor.agent_id, row.descriptor.parent_id
        is_cut = agent in cut
        node = AgentNode(
            **_told(row, now, interrupted=is_cut),
            usage_self=_usage(own[agent]),
            usage_subtree=_usage(subtree[agent]),
            waits_for_user=() if is_cut else tuple(map(_waiting, asked.get(agent, ()))),
            children=tuple(reversed(children.pop(agent))),
            **changed.get(agent, {}),
            **(more or {}).get(agent, {}),
        )
        children.get(parent or "", roots).append(node)
        if parent in subtree:
            subtree[parent] += subtree[agent]
    return AgentTree(
        session=session_id,
        run=run_id,
        is_live=unwritten is not None,
        spent=_usage(total(own.values())),
        agents=tuple(reversed(roots)),
    )


def _own(rows: Sequence[AgentRow], unwritten: Sequence[UsedByTurn]) -> dict[str, Spent]:
    own = {row.descriptor.agent_id: row.spent for row in rows}
    heads = {row.descriptor.agent_id: row.head_turn_id for row in rows}
    for turn in unwritten:
        if turn.agent_id in own and heads[turn.agent_id] != turn.turn_id:
            own[turn.agent_id] += turn.spent
    return own


def _by_agent(values: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for agent, value in values:
        found.setdefault(agent, []).append(value)
    return found


def _usage(spent: Spent) -> Usage:
    return Usage(**spent.to_dict())


def _changed(
    rows: Sequence[AgentRow], changes: Iterable[ChangeRow]
) -> dict[str, Mapping[str, Any]]:
    own = _by_agent(
        (row.change.author.agent, row.change)
        for row in changes
        if row.change.author is not None and row.state != REJECTED
    )
    below = {row.descriptor.agent_id: own.get(row.descriptor.agent_id, [])[:] for row in rows}
    told: dict[str, Mapping[str, Any]] = {}
    for row in reversed(rows):
        agent, parent = row.descriptor.agent_id, row.descriptor.parent_id
        told[agent] = {
            "changes_self": _summed(own.get(agent, ())),
            "changes_subtree": _summed(below[agent]),
        }
        if parent in below:
            below[parent] += below[agent]
    return told


def _summed(changes: Sequence[FileChange]) -> ChangeCount:
    return ChangeCount(
        files=len({change.path for change in changes}),
        added=sum(change.added or 0 for change in changes),
        removed=sum(change.removed or 0 for change in changes),
    )


def _told(row: AgentRow, now: float, *, interrupted: bool) -> dict[str, Any]:
    agent = row.descriptor
    ended = agent.state.is_terminal
    return {
        "id": agent.agent_id,
        "name": agent.name,
        "run": agent.run_id,
        "parent": agent.parent_id,
        "role": agent.role.value,
        "provider": agent.provider,
        "model": agent.model,
        "next_model": None if row.chosen is None else row.chosen.name,
        "state": "interrupted" if interrupted and not ended else agent.state.value,
        "waiting_on": row.waiting_on,
        "depth": agent.depth,
        "elapsed_s": _elapsed(row, now, still_runs=not (ended or interrupted)),
        "last_tool": row.last_tool,
        "silent_s": None if ended or row.last_event_at is None else _since(row.last_event_at, now),
        **_evidence(row),
    }


def _waiting(request: HumanRequest) -> Waiting:
    told = {name: request.payload[name] for name in _ASKED if name in request.payload}
    values = {"request": request.request_id, "kind": request.kind, "since": request.opened_at}
    return msgspec.convert({**values, **told}, Waiting)


def _evidence(row: AgentRow) -> dict[str, Any]:
    result = row.result
    if result is None or not result.success or not row.descriptor.state.is_terminal:
        return {}
    return {
        "evidence": result.evidence,
        "evidence_gaps": tuple(result.evidence_gaps),
        "evidence_by": tuple(result.evidence_by),
    }


def _elapsed(row: AgentRow, now: float, *, still_runs: bool) -> float | None:
    end = row.ended_at if row.ended_at is not None else (now if still_runs else row.last_event_at)
    return None if row.started_at is None or end is None else _since(row.started_at, end)


def _since(start: float, end: float) -> float:
    return round(max(0.0, end - start), 3)


def conversation(events: Iterable[Event], *, numbered: bool = False) -> list[dict[str, Any]]:
    """Return one agent's events as entries of its conversation, oldest first.

    Each has `kind`, an EntryType, `at` in Unix seconds, and if `numbered` the `seq` of its event.
    TEXT, THINKING and USER_MESSAGE have `text`; TOOL_CALL has `tool`, `call`, `arguments`;
    TOOL_RESULT has `tool`, `call`, `status` and `text`: why it failed, and what it wrote. A
    USER_MESSAGE that repeats other entries, since the thread lacked them, says `again`.
    """
    found = Conversation(numbered=numbered)
    for event in events:
        found.add(event)
    return found.take()


class Conversation:
    """Builds entries of one agent's events, and knows the tools of open calls."""

    def __init__(self, *, numbered: bool = False) -> None:
        self._is_numbered = numbered
        self._entries: list[dict[str, Any]] = []
        self._tools: dict[str, str] = {}
        self._adders: Mapping[str, Callable[[Event], None]] = {
            "message_completed": self._message,
            "tool_call_started": self._call,
            "tool_call_finished": self._result,
        }

    def take(self) -> list[dict[str, Any]]:
        """Return the entries since the last call."""
        entries, self._entries = self._entries, []
        return entries

    def add(self, event: Event) -> None:
        """Take in the next event."""
        adder = self._adders.get(event.type)
        if adder is not None:
            adder(event)

    def _put(self, kind: EntryType, event: Event, **fields: Any) -> None:
        number = {"seq": event.seq} if self._is_numbered else {}
        self._entries.append({**number, "kind": kind.value, "at": event.ts, **fields})

    def _message(self, event: Event) -> None:
        text, thinking = event.data.get("text"), event.data.get("thinking")
        if event.data.get("role") != "assistant":
            again = {"again": True} if event.data.get("again") else {}
            self._put(EntryType.USER_MESSAGE, event, text=text or "", **again)
            return
        if thinking:
            self._put(EntryType.THINKING, event, text=thinking)
        if text:
            self._put(EntryType.TEXT, event, text=text)

    def _call(self, event: Event) -> None:
        call, tool = event.data["call"], event.data["tool"]
        self._tools[call] = tool
        arguments = event.data.get("arguments") or {}
        self._put(EntryType.TOOL_CALL, event, tool=tool, call=call, arguments=arguments)

    def _result(self, event: Event) -> None:
        data = event.data
        self._put(
            EntryType.TOOL_RESULT,
            event,
            tool=self._tools.pop(data["call"], None),
            call=data["call"],
            status=data.get("status"),
            text=call_text(data.get("result"), data.get("error")),
        )


def filter_detail(
    entries: Iterable[Mapping[str, Any]], detail_level: str
) -> list[Mapping[str, Any]]:
    """Return all entries ("full"), or texts and tool names ("summary")."""
    if detail_level == "full":
        return list(entries)
    if detail_level != "summary":
        raise ToolInputError(
            f"unknown detail level {detail_level!r}", hint=f"use one of {', '.join(DETAILS)}"
        )
    said = {EntryType.TEXT, EntryType.USER_MESSAGE}
    return [
        entry if entry["kind"] in said else {key: entry[key] for key in _NAMED if key in entry}
        for entry in entries
        if entry["kind"] in said or entry["kind"] == EntryType.TOOL_CALL
    ]


class ConversationStore(Struct, eq=False, dict=True):
    """The conversations of one session's agents, read from its ledger."""

    store: Store
    session_id: str

    async def now(self, agent_id: str) -> AgentNow:
        """Return an agent as a resume would take it over; see `Store.state`."""
        state = await self.store.state(self.session_id)
        return next(now for now in state.agents if now.agent.agent_id == agent_id)

    async def unread(self, agent_id: str) -> list[RoutedMessage]:
        """Return what the agent's present life has not read, in order of commit."""
        letters = await self.store.inbox(self.session_id)
        return [letter for letter in letters if letter.target == agent_id]

    def events(self, agent_id: str | None, after: int = 0) -> AsyncIterator[Event]:
        """Yield the events of an agent, or of all, after event `after`."""
        return self.store.events(self.session_id, after, agent=agent_id)

    async def born(self, agent_id: str) -> int:
        """Return the number of the event that began the agent's present life."""
        before, limit = None, 1
        while True:
            found = await self.store.last_events(
                self.session_id, agent_id, kinds=_BEGINNINGS, limit=limit, before=before
            )
            for event in reversed(found):
                if event.type == "agent_spawned" or event.data.get("from") in _ENDED:
                    return event.seq or 0
            if not found:
                return 0
            before, limit = found[0].seq, min(2 * limit, _AT_A_TIME)

    async def told(self, agent_id: str) -> list[Event]:
        """Return the events of an agent's conversation, with those it continues.

        These are the earlier events of the agent whose conversation it began with. A life that
        began a new conversation has only events since then, so reusing a child gets no more
        expensive.
        """
        begun = await self.store.last_events(
            self.session_id, agent_id, kinds={"conversation_begun"}, limit=1
        )
        if begun:
            after = (begun[0].seq or 1) - 1
            return await _collect(self.store.events(self.session_id, after, agent=agent_id))
        events = await _collect(self.events(agent_id))
        while events and (other := events[0].data.get("continues")) is not None:
            birth = events[0].seq or 0
            earlier = [one async for one in self.events(other) if (one.seq or 0) < birth]
            if not earlier:
                break
            events = [*earlier, *events]
        return events

    async def get_history(
        self, agent_id: str, detail_level: str = "full"
    ) -> list[Mapping[str, Any]]:
        """Return an agent's conversation as `conversation` and `filter_detail` shape it."""
        return filter_detail(conversation(await _collect(self.events(agent_id))), detail_level)

    @staticmethod
    def resolve_agent_id(text: str, rows: Sequence[AgentRow]) -> str:
        """Return the agent's id for an alias or id prefix; raise MessageRoutingError."""
        agents = [row.descriptor for row in rows]
        named = [agent.agent_id for agent in agents if agent.name == text]
        if named:
            return named[0]
        found = [agent for agent in agents if text and agent.agent_id.startswith(text)]
        if len(found) == 1:
            return found[0].agent_id
        if found:
            names = ", ".join(f"{agent.name} ({agent.agent_id})" for agent in found[:5])
            raise MessageRoutingError(
                f"{text!r} is the beginning of {len(found)} agent ids",
                hint=f"use a name or a longer prefix: {names}",
                code="ambiguous_agent",
            )
        raise MessageRoutingError(
            f"no agent is called {text!r}",
            hint=_nearest(text, [agent.name for agent in agents]),
            code="unknown_agent",
        )


def _nearest(text: str, names: Sequence[str]) -> str:
    import difflib

    close = difflib.get_close_matches(text, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
    return f"the agents are: {shown}" if names else "the session has no agents yet"


async def _collect(events: AsyncIterable[Event]) -> list[Event]:
    return [event async for event in events]
