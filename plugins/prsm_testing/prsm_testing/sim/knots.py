"""Deadlocks by the definition: who is blocked, on whom, and the least fixpoint, by brute force.

Written from the rules of waiting, not from the engine's wait graph, which it is there to check.
Only a wait of a tool that is unknown here is taken from the engine's word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentState
from prsm_core.domain.messages import MessageType
from prsm_core.messaging.waits import ANYONE

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.engine import OrchestrationEngine
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.call import Call

_WAITING = frozenset(
    {AgentState.WAITING_FOR_PARENT, AgentState.WAITING_FOR_CHILD, AgentState.WAITING_FOR_EXPERT}
)
_NEWS = frozenset(
    {MessageType.QUESTION, MessageType.TASK_RESULT, MessageType.USER_PROMPT, MessageType.PEER}
)
_FROM_CHILD = frozenset({MessageType.QUESTION, MessageType.TASK_RESULT})


@dataclass(frozen=True, slots=True)
class SeenWait:
    """One wait: what it is, whether something ends it now, and who else can end it."""

    what: str
    ready: bool
    targets: tuple[str, ...]
    timed: bool = False  # ready because the caller set a limit; nothing need be there


@dataclass(frozen=True, slots=True)
class Beginnings:
    """What the ledger alone knows: the correlation of each question, the start of each life."""

    asked: Mapping[str, str]  # call of an agent -> correlation id
    numbers: Mapping[str, int]  # message -> its place among all
    lives: Mapping[str, int]  # agent -> how many messages there were when its life began


class Observer:
    """Sees who waits for what, by the records and the mailboxes."""

    def __init__(self, engine: OrchestrationEngine, beginnings: Beginnings) -> None:
        self._manager = engine.manager
        self._graph = engine.detector.graph
        self._beginnings = beginnings
        self._router = engine.router
        self._peers = engine.peers

    def blocked(self) -> dict[str, list[SeenWait]]:
        """Return the waits of all agents that do nothing but wait."""
        found: dict[str, list[SeenWait]] = {}
        for record in self._manager.roster.records():
            if record.state not in _WAITING or record.is_condemned:
                continue  # whoever was chosen to end a knot is about to end
            waits = self._waits(record)
            if waits is not None:
                found[record.agent_id] = waits
        return found

    def _waits(self, record: AgentRecord) -> list[SeenWait] | None:
        lives = self._manager.lives
        task, session = lives.task_of(record.agent_id), lives.session_of(record.agent_id)
        if task is None or task.done() or task.cancelling() or session is None:
            return None  # about to begin, or to end
        turn = session.turn
        if turn is not None and turn.calls.open:
            if not turn.is_blocked():
                return None
            return [self._wait_of(record, call) for call in turn.calls.open]
        blocks_now = record.agent_id in self._graph.blocked  # and sleeps next
        if not blocks_now and not self._router.is_awaited(record.agent_id):
            return None  # back-off, in line for a slot, opening or closing a session
        if record.claimed_result is not None:
            return [self._end_of(child) for child in record.live_children.values()]
        return [self._any_message(record)]

    def _wait_of(self, record: AgentRecord, call: Call) -> SeenWait:
        match call.name:
            case "ask_parent":
                return self._answer(record, call)
            case "wait_for_message" if "token" not in call.args:
                timed = bool(call.args.get("timeout") or call.args.get("timeout_seconds"))
                if call.args.get("all"):
                    return self._all_results(record, timed=timed)
                return self._any_message(record, timed=timed)
            case "message_next":
                return self._what_a_peer_writes(record, call)
            case "spawn_child" | "restart_child" | "consult_expert":
                return self._child(record, call.spawned_session_label or "")
        wait = call.wait
        if wait is None:
            raise RuntimeError(f"{call.name} waits for nothing")
        timed = bool(call.args.get("timeout") or call.args.get("timeout_seconds"))
        targets = [target for target in wait.targets() if target != ANYONE]
        if ANYONE in wait.targets():
            targets += self._others(record)
        return SeenWait(call.name, wait.ready(), tuple(targets), timed)

    def _answer(self, record: AgentRecord, call: Call) -> SeenWait:
        parent = self._manager.roster.get(record.descriptor.parent_id or "")
        asked = self._beginnings.asked.get(f"{record.agent_id} {call.turn_id} {call.id}")
        is_there = any(
            message.type is MessageType.ANSWER and message.correlation_id == asked
            for message in self._router.unread(record.agent_id)
        )
        return SeenWait("an answer", is_there or parent.is_over, (parent.agent_id,))

    def _what_a_peer_writes(self, record: AgentRecord, call: Call) -> SeenWait:
        unread = self._router.unread(record.agent_id)
        others, timed = self._others(record), "seconds" in call.args
        is_there = any(message.type is MessageType.PEER for message in unread) or not others
        is_there = is_there or self._peers.is_given_up(record.agent_id)
        return SeenWait("what a peer writes", is_there or timed, others, timed and not is_there)

    def _others(self, record: AgentRecord) -> tuple[str, ...]:
        """Return who else may write, by the engine's word."""
        return tuple(agent for agent in self._peers.senders if agent != record.agent_id)

    def _child(self, record: AgentRecord, label: str) -> SeenWait:
        child = next(
            agent
            for agent in (self._manager.roster.get(child_id) for child_id in record.children)
            if agent.label == label
        )
        numbers, since = self._beginnings.numbers, self._beginnings.lives[child.agent_id]
        is_there = any(
            message.source == child.agent_id
            and message.type in _FROM_CHILD
            and numbers[message.message_id] >= since
            for message in self._router.unread(record.agent_id)
        )
        return SeenWait("a child", is_there or child.has_ended, (child.agent_id,))

    def _end_of(self, child: AgentRecord) -> SeenWait:
        return SeenWait("a child's end", child.has_ended, (child.agent_id,))

    def _any_message(self, record: AgentRecord, *, timed: bool = False) -> SeenWait:
        parent_id = record.descriptor.parent_id
        roster = self._manager.roster
        targets = [child for child in record.children if not roster.get(child).has_ended]
        is_there = (
            any(_is_news(record, m) for m in self._router.unread(record.agent_id))
            or bool(record.notes.reminders)
            or (parent_id is None and not targets)
        )
        if parent_id is not None and not roster.get(parent_id).has_ended:
            targets.append(parent_id)
        if not record.takes_messages:
            targets += self._others(record)
        return SeenWait("a message", is_there or timed, tuple(targets), timed and not is_there)

    def _all_results(self, record: AgentRecord, *, timed: bool) -> SeenWait:
        """Return a wait that the same agents may end, and a result alone does not."""
        roster, unread = self._manager.roster, self._router.unread(record.agent_id)
        others = (m for m in unread if m.type is not MessageType.TASK_RESULT)
        is_there = (
            any(_is_news(record, message) for message in others)
            or bool(record.notes.reminders)
            or all(roster.get(child).has_ended for child in record.children)
        )
        targets = self._any_message(record).targets
        return SeenWait("all results", is_there or timed, targets, timed and not is_there)


def _is_news(record: AgentRecord, message: RoutedMessage) -> bool:
    if message.type is MessageType.QUESTION:
        return message.correlation_id in record.questions
    if message.type is MessageType.PEER and record.takes_messages:
        return False
    return message.type in _NEWS


def find_knot(blocked: Mapping[str, Iterable[SeenWait]], alive: Container[str]) -> frozenset[str]:
    """Return the blocked agents that are not live: the complement of the least fixpoint.

    `alive` are all agents that have not ended.
    """
    stuck = dict(blocked)
    while True:
        freed = [
            agent
            for agent, waits in stuck.items()
            if all(
                wait.ready or any(t in alive and t not in stuck for t in wait.targets)
                for wait in waits
            )
        ]
        if not freed:
            return frozenset(stuck)
        for agent in freed:
            del stuck[agent]
