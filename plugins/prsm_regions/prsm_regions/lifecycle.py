"""How a task, and each of its subtasks, goes on: the states, and which may follow which."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

from prsm_core import Machine

S = TypeVar("S", bound=StrEnum)


class TaskState(StrEnum):
    """The nine states of a task; COMPLETED and CANCELLED are its end, and DONE until a retry."""

    IDLE = "idle"
    DECOMPOSING = "decomposing"
    CONFIRMING = "confirming"
    SPAWNING = "spawning"
    RUNNING = "running"
    DONE = "done"  # all subtasks have ended, and some have failed
    COMPLETED = "completed"  # all subtasks succeeded
    CANCELLED = "cancelled"
    RETRYING = "retrying"


class SubtaskState(StrEnum):
    """The six states of a subtask."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    PARTIAL = "partial"
    RETRYING = "retrying"


FINISHED = frozenset({TaskState.DONE, TaskState.COMPLETED, TaskState.CANCELLED})
TO_RETRY = frozenset({SubtaskState.FAILED, SubtaskState.PARTIAL})

_FORWARD = {
    TaskState.IDLE: {TaskState.DECOMPOSING},
    TaskState.DECOMPOSING: {TaskState.CONFIRMING},
    TaskState.CONFIRMING: {TaskState.SPAWNING},
    TaskState.SPAWNING: {TaskState.RUNNING},
    TaskState.RUNNING: {TaskState.DONE, TaskState.COMPLETED},
    TaskState.DONE: {TaskState.RETRYING},
    TaskState.RETRYING: {TaskState.RUNNING},
}
TASK_MACHINE: Machine[TaskState] = Machine(
    "task",
    {
        state: targets | (set() if state in FINISHED else {TaskState.CANCELLED})
        for state, targets in _FORWARD.items()
    },
)
_ENDS = {SubtaskState.COMPLETED, SubtaskState.FAILED, SubtaskState.PARTIAL}
SUBTASK_MACHINE: Machine[SubtaskState] = Machine(
    "subtask",
    {
        SubtaskState.PENDING: {SubtaskState.RUNNING},
        SubtaskState.RUNNING: _ENDS,
        **{state: {SubtaskState.RETRYING} for state in TO_RETRY},
        SubtaskState.RETRYING: {SubtaskState.RUNNING},
    },
)


class Lifecycle(Generic[S]):
    """Owns the state of one task or subtask, and why it did not succeed."""

    def __init__(self, machine: Machine[S], state: S) -> None:
        self._machine = machine
        self.state = state
        self.error: str | None = None

    def go(self, state: S, error: str | None = None) -> None:
        """Be in another state; raise InvalidTransitionError, changing nothing, where none may."""
        self._machine.validate(self.state, state)
        self.state, self.error = state, error
