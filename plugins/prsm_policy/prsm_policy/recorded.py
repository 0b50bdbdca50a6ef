"""Reads the commands that agents ran from the ledger, and what became of each."""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import PermissionMode
from prsm_core.commands import open_ledger, open_session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core import Event, Store
    from prsm_core.files import AgentDescriptor

_ALLOWING = frozenset({"once", "always", "allow_project", "allow_global"})
_PERSON = "user"  # who answered; others do so in a person's place
_DENIED = "denied"  # how a vendor's own tool ends
_REFUSAL = "not permitted: "  # how run_bash does


class Outcome(StrEnum):
    """What became of a command in a recorded run."""

    RAN = "ran"  # unasked
    APPROVED = "approved"  # a person allowed it
    REFUSED = "refused"  # it was asked about, and nobody allowed it
    DENIED = "denied"  # by a rule or a mode, unasked


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A command of a recorded run, and whether a person decided on it; secrets are redacted."""

    command: str
    mode: PermissionMode
    cwd: str
    workspace: str
    outcome: Outcome
    by_person: bool = False


async def read_recorded(workspace: str, prefixes: Sequence[str]) -> list[Recorded]:
    """Return the commands of sessions of a repository in order; of all where none is named.

    Raises StoreError where there is no ledger, no such session, or more than one.
    """
    commands: list[Recorded] = []
    for prefix in prefixes:
        async with open_session(workspace, prefix) as (store, session):
            commands += await _of_session(store, session.session_id, session.workspace)
    if not prefixes:
        async with open_ledger(workspace) as store:
            for session in reversed(await store.sessions()):
                commands += await _of_session(store, session.session_id, session.workspace)
    return commands


async def _of_session(store: Store, session: str, workspace: str) -> list[Recorded]:
    agents = {row.descriptor.agent_id: row.descriptor for row in await store.agents(session)}
    reading = _Reading()
    async for event in store.events(session):
        reading.take(event)
    return [
        _recorded(entry, agents[entry.agent], workspace)
        for entry in reading.entries
        if entry.agent in agents
    ]


@dataclass(slots=True)
class _Entry:
    """A command as its events tell of it, bit by bit."""

    agent: str
    command: str
    cwd: str | None = None
    is_called: bool = False  # its call was told of
    request: str | None = None
    answer: str | None = None
    by: str = ""
    is_denied: bool = False


class _Reading:
    """Joins the calls of a session with the requests that were made for them.

    No event names both. They belong together where agent and command are the same, the first
    with the first; either may come before the other.
    """

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self._calls: dict[str, _Entry] = {}
        self._requests: dict[str, _Entry] = {}
        self._uncalled: defaultdict[tuple[str, str], deque[_Entry]] = defaultdict(deque)
        self._unasked: defaultdict[tuple[str, str], deque[_Entry]] = defaultdict(deque)

    def take(self, event: Event) -> None:
        data, agent = event.data, event.agent or ""
        if event.type == "tool_call_started":
            self._start(agent, str(data.get("call")), data.get("arguments") or {})
        elif event.type == "tool_call_finished":
            self._finish(self._calls.pop(str(data.get("call")), None), data)
        elif event.type == "permission_requested" and isinstance(data.get("command"), str):
            self._ask(agent, str(data.get("request")), data["command"])
        elif event.type == "permission_resolved":
            entry = self._requests.pop(str(data.get("request")), None)
            if entry is not None:
                entry.answer, entry.by = str(data.get("verdict")), str(data.get("by"))

    def _start(self, agent: str, call: str, arguments: Mapping[str, object]) -> None:
        command, cwd = arguments.get("command"), arguments.get("cwd")
        if not isinstance(command, str) or not command.strip():
            return
        waiting = self._uncalled[agent, command]
        entry = waiting.popleft() if waiting else self._new(agent, command)
        entry.is_called = True
        entry.cwd = cwd if isinstance(cwd, str) else None
        self._calls[call] = entry
        if entry.request is None:
            self._unasked[agent, command].append(entry)

    def _finish(self, entry: _Entry | None, data: Mapping[str, object]) -> None:
        if entry is None:
            return
        is_refusal = str(data.get("error")).startswith(_REFUSAL)
        entry.is_denied = data.get("status") == _DENIED or is_refusal
        with suppress(ValueError):
            self._unasked[entry.agent, entry.command].remove(entry)

    def _ask(self, agent: str, request: str, command: str) -> None:
        waiting = self._unasked[agent, command]
        entry = waiting.popleft() if waiting else self._new(agent, command)
        entry.request = request
        self._requests[request] = entry
        if not entry.is_called:
            self._uncalled[agent, command].append(entry)

    def _new(self, agent: str, command: str) -> _Entry:
        self.entries.append(entry := _Entry(agent, command))
        return entry


def _recorded(entry: _Entry, agent: AgentDescriptor, workspace: str) -> Recorded:
    return Recorded(
        command=entry.command,
        mode=PermissionMode(agent.mode),
        cwd=str(Path(agent.cwd, entry.cwd or "")),
        workspace=workspace,
        outcome=_outcome(entry),
        by_person=entry.by == _PERSON,
    )


def _outcome(entry: _Entry) -> Outcome:
    if entry.answer in _ALLOWING:
        return Outcome.APPROVED
    if entry.request is not None:
        return Outcome.REFUSED
    return Outcome.DENIED if entry.is_denied else Outcome.RAN
