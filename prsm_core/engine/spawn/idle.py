"""Which ended children are free for another task: found by what it needs, not one by one."""

from __future__ import annotations

from collections import defaultdict
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

from prsm_core.domain.agents import AgentState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.engine.state import AgentRecord

_REUSABLE = frozenset({AgentState.COMPLETED, AgentState.FAILED})

Fit: TypeAlias = tuple[object, ...]


class IdleChildren:
    """Owns the ended children that wait for another task, oldest first.

    A child is free once its parent has read its result: before, the parent does not know.
    """

    def __init__(self) -> None:
        # By parent, then by the message that holds the result; with the life that ended.
        self._unread: defaultdict[str, dict[str, tuple[AgentRecord, int]]] = defaultdict(dict)
        self._free: defaultdict[Fit, list[tuple[int, int, AgentRecord]]] = defaultdict(list)

    def ended(self, record: AgentRecord, *, unread: str | None) -> None:
        """Take note of an end; `unread` is the message that its parent has to read first."""
        parent = record.descriptor.parent_id
        if parent is None or record.state not in _REUSABLE:
            return
        if unread is None:
            self.put_back(record)
        else:
            self._unread[parent][unread] = (record, record.incarnation)

    def read(self, parent_id: str, messages: Iterable[str]) -> None:
        """Take note of messages that a parent has read."""
        unread = self._unread.get(parent_id, {})
        for message in messages if unread else ():
            if message in unread:
                self._free_again(*unread.pop(message))

    def hold(self, record: AgentRecord, *, unread: str) -> None:
        """Have an ended child wait again until its parent has read its result."""
        free = self._free.get(_fit_of(record.descriptor), [])
        if any(one is record for _, _, one in free):
            free[:] = [entry for entry in free if entry[2] is not record]
            heapify(free)
            self.ended(record, unread=unread)

    def forget_unread(self, parent_id: str) -> None:
        """Take note that a parent has a new life, whose mailbox is empty."""
        for record, incarnation in self._unread.pop(parent_id, {}).values():
            self._free_again(record, incarnation)

    def pick(self, wanted: AgentDescriptor) -> AgentRecord | None:
        """Take out and return a child that fits, if there is one; `put_back` what is not used."""
        free = self._free.get(_fit_of(wanted))
        while free:
            _, incarnation, record = heappop(free)
            # It may have been restarted by its name since, or relabelled, or have a profile.
            is_same = record.incarnation == incarnation and not record.has_profile
            if is_same and record.descriptor.labels == wanted.labels:
                return record
        return None

    def _free_again(self, record: AgentRecord, incarnation: int) -> None:
        if record.incarnation == incarnation:  # else it was restarted by its name meanwhile
            self.put_back(record)

    def put_back(self, record: AgentRecord) -> None:
        """Let a child that has ended be picked."""
        heappush(self._free[_fit_of(record.descriptor)], (record.birth, record.incarnation, record))


def _fit_of(agent: AgentDescriptor) -> Fit:
    """Return what two agents must have in common for one to take the other's task."""
    who = (agent.parent_id, agent.role, agent.provider, agent.model)
    may = (agent.cwd, agent.tools, agent.mode, agent.grant, frozenset(agent.mcp_servers))
    return (*who, *may, frozenset(agent.labels.items()))
