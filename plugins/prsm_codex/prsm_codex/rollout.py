"""A thread as Codex keeps it on disk: the file that a resume is made from, line by line.

`thread/resume` tells less: it lacks answers that were injected, and may show one that Codex had not
saved for the model yet. The model gets the lines of the type `response_item`, and `aborted` for a
call without an output. A line may be torn if Codex was killed while it wrote. The next Codex ends
it before it writes another.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from os import SEEK_END
from typing import TYPE_CHECKING, Any

from prsm_core.kit import as_object, as_objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_CALLS = {  # what a call is, and what its output
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}
_OUTPUTS = frozenset(_CALLS.values())
_RECENT = 2**20  # bytes of a thread in which the calls of its last response are
_TURN_ENDS = frozenset({"task_complete", "turn_aborted"})
# What Codex writes itself for a call that got no answer.
_CUT_OFF = ("aborted", "dynamic tool call was cancelled before receiving a response")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A call of the model that has no output."""

    call_id: str
    tool: str
    output: str  # the type of what answers it


@dataclass(slots=True)
class Rollout:
    """What a thread holds.

    prompt_ids: The client's ids of all prompts that have one.
    prompts: The texts of prompts since the last turn that ended.
    all_prompts: The texts of all prompts.
    answered: The ids of all calls whose output is an answer.
    pending: The calls of the last turn without an output, by id, in order.
    said: The last message, if it ended the turn or is about to.
    """

    prompt_ids: set[str] = field(default_factory=set)
    prompts: set[str] = field(default_factory=set)
    all_prompts: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    pending: dict[str, PendingCall] = field(default_factory=dict)
    said: str | None = None
    _message: str | None = None  # the newest of the current response

    def add(self, line: bytes) -> None:
        """Take in a line. One that is torn or unknown is skipped."""
        try:
            record = as_object(json.loads(line))
        except (ValueError, RecursionError):
            return
        payload = as_object(record.get("payload"))
        match record.get("type"):
            case "response_item":
                self._item(payload)
            case "event_msg":
                self._event(payload)
            case "token_usage_record" if not self.pending:
                self.said = self._message  # a response without a call ends the turn
            case "compacted":
                self.pending.clear()

    def _item(self, item: Mapping[str, Any]) -> None:
        kind, call_id = str(item.get("type")), str(item.get("call_id"))
        is_said = kind == "message" and item.get("role") == "assistant"
        self._message = _text(item) if is_said else None
        self.said = None
        if kind in _CALLS:
            tool = str(item.get("name") or kind)
            self.pending[call_id] = PendingCall(call_id=call_id, tool=tool, output=_CALLS[kind])
        elif kind in _OUTPUTS:
            self.pending.pop(call_id, None)
            output = str(item.get("output"))
            if output not in _CUT_OFF and not output.startswith("aborted by user"):
                self.answered.add(call_id)

    def _event(self, event: Mapping[str, Any]) -> None:
        kind = str(event.get("type"))
        if kind in _TURN_ENDS:
            self.prompts.clear()
            self.pending.clear()
            said = event.get("last_agent_message")
            self.said = said if isinstance(said, str) and kind == "task_complete" else None
        elif kind == "task_started":
            self.said = None
        elif kind == "item_completed":
            item = as_object(event.get("item"))
            if item.get("type") == "UserMessage":
                self.prompt_ids.add(str(item.get("client_id")))
                self.prompts.add(_text(item))
                self.all_prompts.add(_text(item))


def _text(item: Mapping[str, Any]) -> str:
    texts = (part.get("text") for part in as_objects(item.get("content")))
    return "".join(text for text in texts if isinstance(text, str))


def find_item(file: Path, call_id: str, *, output: bool = False) -> Mapping[str, Any]:
    """Return a recent call of a thread, or its output; empty if there is none."""
    kinds = _OUTPUTS if output else _CALLS
    for record in _recent(file, call_id.encode()):
        item = as_object(record.get("payload"))
        if item.get("type") in kinds and item.get("call_id") == call_id:
            return item
    return {}


def find_usage(file: Path, call_id: str) -> Mapping[str, Any]:
    """Return the tokens of the response with a recent call; empty if it has not ended."""
    usage: Mapping[str, Any] = {}
    for record in _recent(file, call_id.encode(), b'"token_usage_record"'):
        item = as_object(record.get("payload"))
        if record.get("type") == "token_usage_record":
            usage = as_object(item.get("usage"))
        elif item.get("type") in _CALLS and item.get("call_id") == call_id:
            return usage
    return {}


def _recent(file: Path, *marks: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the newest lines of a thread that have one of the marks, last line first."""
    try:
        with file.open("rb") as lines:
            lines.seek(max(0, lines.seek(0, SEEK_END) - _RECENT))
            recent = lines.read().splitlines()
    except OSError:
        return
    for line in reversed(recent):
        if any(mark in line for mark in marks):
            with suppress(ValueError, RecursionError):
                yield as_object(json.loads(line))


def find(home: Path, thread_id: str) -> Path | None:
    """Return the file of a thread, if there is one."""
    if not thread_id.replace("-", "").isalnum():
        return None
    return next((home / "sessions").rglob(f"rollout-*-{thread_id}.jsonl"), None)


def read(file: Path) -> Rollout:
    """Return what a thread holds; raise OSError if its file cannot be read."""
    rollout = Rollout()
    with file.open("rb") as lines:
        for line in lines:
            rollout.add(line)
    return rollout
