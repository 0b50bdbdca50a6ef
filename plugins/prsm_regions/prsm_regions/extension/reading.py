"""What the events of a session mean to whoever leads it from an editor.

Everything that is told is read from events, so that it is the same for a run that was begun here
and for one that goes on after a crash. States stand in labels: of the orchestrator's agent its
TaskState, of each child that works on a subtask its SubtaskState and the subtask's index. What a
child of such a child uses counts for the subtask too, since labels are inherited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core import Spent
from prsm_regions.extension.feeds import tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_core import Event

STATE, SUBTASK, REGION, ROLE = (
    f"regions/{name}" for name in ("state", "subtask", "region", "role")
)
OVER = frozenset({"done", "completed", "cancelled"})  # states in which nothing is at work
PLANNING = "planner"  # whose part all is that no subtask had

Message = dict[str, Any]


@dataclass(slots=True)
class Subtask:
    """What is known of one subtask: its newest agent, and what all of its agents used."""

    index: int
    agent: str = ""
    status: str = "pending"
    summary: str = ""


@dataclass(slots=True)
class Reading:
    """A run, as its events tell it: fold them in order, pass on what comes of each."""

    run: str
    master: str = ""
    state: str = ""
    plan: str | None = None  # the open request that asks whether the plan is right
    retry: str | None = None  # the open request that asks whether to try again
    status: str = ""  # of the run, once it has finished
    _labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _subtasks: dict[int, Subtask] = field(default_factory=dict)
    _used: dict[str, Spent] = field(default_factory=dict)  # by part: "planner", "subtask 0"

    def fold(self, event: Event) -> list[Message]:
        """Return what the event tells."""
        if event.seq is None or event.run != self.run:
            return []
        read = _READERS.get(event.type)
        return [] if read is None else list(read(self, event))

    def label(self, agent: str, name: str) -> str:
        """Return a label of an agent; empty where it has none."""
        return self._labels.get(agent, {}).get(name, "")

    def works_on(self, agent: str) -> int | None:
        """Return the subtask that this agent was spawned for; None for all others."""
        for one in self._subtasks.values():
            if one.agent == agent:
                return one.index
        return None

    def result(self) -> Message:
        """Return how far the run has come: each subtask, and what was used."""
        return {
            "type": "result",
            "status": self.state if self.state in OVER else self.status or self.state,
            "subtask_results": [
                {
                    "subtask_index": one.index,
                    "agent_id": one.agent,
                    "status": one.status,
                    "summary": one.summary,
                    "cost": self._cost(f"subtask {one.index}"),
                }
                for _, one in sorted(self._subtasks.items())
            ],
            "cost": self._costs(),
        }

    def _spawned(self, event: Event) -> Iterator[Message]:
        agent, data = event.agent or "", event.data
        self._labels[agent] = dict(data.get("labels") or {})
        if data.get("parent") is None:
            self.master = self.master or agent
        elif data.get("parent") == self.master and (index := self._index(agent)) is not None:
            self._subtasks.setdefault(index, Subtask(index)).agent = agent
            yield from self._progress(index, self.label(agent, STATE) or "running")

    def _relabelled(self, event: Event) -> Iterator[Message]:
        agent = event.agent or ""
        self._labels[agent] = dict(event.data["labels"])
        if agent == self.master:
            yield from self._moved(self.label(agent, STATE))
        elif (index := self.works_on(agent)) is not None:
            yield from self._progress(index, self.label(agent, STATE))

    def _moved(self, state: str) -> Iterator[Message]:
        if not state or state == self.state:
            return
        self.state = state
        yield {"type": "state", "state": state}

    def _progress(self, index: int, status: str) -> Iterator[Message]:
        one = self._subtasks[index]
        if not status or status == one.status:
            return
        one.status = status
        yield {
            "type": "progress",
            "subtask_index": index,
            "agent_id": one.agent,
            "status": status,
        }

    def _called(self, event: Event) -> Iterator[Message]:
        index = self.works_on(event.agent or "")
        if index is not None and event.data.get("tool") == "task_complete":
            said = (event.data.get("arguments") or {}).get("summary")
            self._subtasks[index].summary = said if isinstance(said, str) else ""
        yield from ()

    def _used_some(self, event: Event) -> Iterator[Message]:
        usage, usd = event.data.get("usage") or {}, event.data.get("cost_usd")
        part = self._part(event.agent or "")
        used = Spent.from_dict({**usage, "cost_usd": usd})
        self._used[part] = self._used.get(part, Spent()) + used
        yield from ()

    def _asked(self, event: Event) -> Iterator[Message]:
        data, request = event.data.get("data") or {}, event.data["request"]
        kind = data.get("type") if event.agent == self.master else None
        if kind == "plan":
            self.plan = request
            for index in range(len(data.get("subtasks") or ())):
                self._subtasks.setdefault(index, Subtask(index))
            yield {
                "type": "plan",
                **{name: data[name] for name in data if name != "type"},
                "request": request,
            }
        elif kind == "retry":
            self.retry = request
            yield self.result()
        else:
            yield {
                "type": "question",
                "request": request,
                "agent_id": event.agent,
                "question": event.data["question"],
                "options": list(event.data.get("options") or ()),
            }

    def _answered(self, event: Event) -> Iterator[Message]:
        if event.data["request"] == self.plan:
            self.plan = None
        if event.data["request"] == self.retry:
            self.retry = None
        yield from ()

    def _permission(self, event: Event) -> Iterator[Message]:
        names = ("request", "tool", "command", "paths", "reason")
        told = {name: event.data.get(name) for name in names}
        yield {"type": "permission", "agent_id": event.agent, **told}

    def _finished(self, event: Event) -> Iterator[Message]:
        self.status = event.data["status"]
        if event.data.get("error"):
            yield {"type": "error", "message": _text(event.data["error"])}
        if self.status in {"killed", "interrupted"} and self.state not in OVER:
            yield from self._moved("cancelled")

    def _index(self, agent: str) -> int | None:
        said = self.label(agent, SUBTASK)
        return int(said) if said.isascii() and said.isdigit() and len(said) < 7 else None

    def _part(self, agent: str) -> str:
        index = self._index(agent)
        return (self.label(agent, ROLE) or PLANNING) if index is None else f"subtask {index}"

    def _cost(self, part: str) -> Message:
        return _cost_of(self._used.get(part, Spent()))

    def _costs(self) -> Message:
        total = _cost_of(sum(self._used.values(), Spent()))
        return {"parts": {part: self._cost(part) for part in sorted(self._used)}, **total}


def _cost_of(spent: Spent) -> Message:
    return {**tokens_of(spent), "usd": spent.cost_usd}


def _text(error: object) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


_READERS: dict[str, Any] = {
    "agent_spawned": Reading._spawned,
    "agent_labels_changed": Reading._relabelled,
    "tool_call_started": Reading._called,
    "turn_finished": Reading._used_some,
    "question_asked": Reading._asked,
    "question_answered": Reading._answered,
    "permission_requested": Reading._permission,
    "run_finished": Reading._finished,
}
