"""What is said on stdin and stdout of the extension mode: a JSON object a line, each with a `type`.

In:

    {"type": "run", "intent": "…"}                            with "effort": low, medium or high
    {"type": "approve", "approved": true}                     the plan; with "request": a permission
    {"type": "answer", "request": "…", "text": "…"}           a question of an agent
    {"type": "retry", "subtask_indices": [1]}                 subtasks that failed; none: no retry
    {"type": "cancel"}

Out: `state`, `plan`, `progress`, `agent_tcp`, `result`, `error`, as `reading` and `frontend` make
them, and `permission` and `question`, which an agent asks of the person.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec

from prsm_core import ConfigError

LINE_LIMIT = 1 << 20  # bytes of one line that is read


class Run(msgspec.Struct, frozen=True, tag="run", forbid_unknown_fields=True):
    """Carry out an intent; without an effort that of the configuration holds."""

    intent: str
    effort: Literal["low", "medium", "high"] | None = None


class Approve(msgspec.Struct, frozen=True, tag="approve", forbid_unknown_fields=True):
    """Take the plan or refuse it; with `request`, what an agent asks to be allowed."""

    approved: bool
    request: str | None = None


class Reply(msgspec.Struct, frozen=True, tag="answer", forbid_unknown_fields=True):
    """Answer an agent's question."""

    request: str
    text: str


class Retry(msgspec.Struct, frozen=True, tag="retry", forbid_unknown_fields=True):
    """Try these subtasks again, by their index from 0."""

    subtask_indices: tuple[int, ...]


class Cancel(msgspec.Struct, frozen=True, tag="cancel", forbid_unknown_fields=True):
    """End the run."""


Command = Run | Approve | Reply | Retry | Cancel

_DECODER: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


def read_command(line: bytes) -> Command:
    """Read one line; raise ConfigError that says what of it is wrong."""
    try:
        command = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"this line is no command: {error}",
            hint='a command is such as {"type": "run", "intent": "…"}; there are run, approve,'
            " answer, retry and cancel",
            code="bad_command",
        ) from error
    if isinstance(command, Run) and not command.intent.strip():
        raise ConfigError("run has no intent", hint="say what is to be done", code="bad_command")
    return command


def write_message(message: dict[str, Any]) -> bytes:
    """Return a message as a line; what is no text of Unicode in it is replaced."""
    text = json.dumps(message, ensure_ascii=True, separators=(",", ":"))
    return text.encode() + b"\n"
