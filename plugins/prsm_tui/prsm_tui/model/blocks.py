"""What a transcript is made of. A block is drawn again when its `version` has changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core.kit import escape_exact, first_line
from prsm_tui.model.spoken import Spoken, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_ENDED = {"completed": "is completed", "failed": "has failed", "killed": "was killed"}


@dataclass(slots=True, kw_only=True)
class Block:
    """One thing in a transcript.

    Attributes:
        seq: The number of the event that it is of; None while it is not committed.
        at: When, in Unix seconds.
    """

    seq: int | None = None
    at: float = 0.0
    version: int = field(default=0, compare=False)

    def change(self) -> None:
        """Note that it has to be drawn again."""
        self.version += 1


@dataclass(slots=True, kw_only=True)
class Prompt(Block):
    """What the agent was told to do."""

    text: str = ""


@dataclass(slots=True, kw_only=True)
class Said(Block):
    """What the agent says; it still does unless it `is_whole`."""

    text: str = ""
    is_whole: bool = True


@dataclass(slots=True, kw_only=True)
class Thought(Block):
    """What the agent thinks; it still does unless it `is_whole`."""

    text: str = ""
    is_whole: bool = True


@dataclass(slots=True, kw_only=True)
class Call(Block):
    """A tool call; `status` is `runs` until it has ended, `waits` while a person is asked."""

    call: str = ""
    tool: str = ""
    subject: str = ""
    arguments: str = ""
    status: str = "runs"
    result: str = ""
    duration_s: float | None = None
    exit_code: int | None = None
    child: str | None = field(default=None, compare=False)  # the agent that it has spawned
    ended: int | None = field(default=None, compare=False)  # the number of the event of its end
    output: Spoken = field(default_factory=Spoken, compare=False)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.status in {"runs", "waits"}

    def close(self, told: Mapping[str, Any]) -> None:
        """End it, by the fields of the event that told of it."""
        self.ended = told.get("seq")
        self.status = shown(told.get("status") or "completed")
        self.result = shown(told.get("result"))
        self.duration_s = told.get("duration_s")
        self.exit_code = told.get("exit_code")
        self.change()


@dataclass(slots=True, kw_only=True)
class Plan(Block):
    """A plan: of each entry its status and its text."""

    entries: Sequence[tuple[str, str]] = ()


@dataclass(slots=True, kw_only=True)
class Changed(Block):
    """A file that is another now."""

    path: str = ""
    kind: str = ""
    added: int | None = None
    removed: int | None = None
    others: Sequence[str] = ()  # who else is on the file
    is_unsure: bool = False  # a person may have changed it


@dataclass(slots=True, kw_only=True)
class Asked(Block):
    """A permission or a question, and how it ended; open while `outcome` is blank."""

    request: str = ""
    text: str = ""
    outcome: str = ""


@dataclass(slots=True, kw_only=True)
class Note(Block):
    """Something worth telling; `level` is info, warning or error."""

    level: str = "info"
    text: str = ""


@dataclass(slots=True, kw_only=True)
class Ending(Block):
    """How a run ended."""

    status: str = ""
    summary: str = ""
    error: str = ""
    details: str = ""

    @property
    def head(self) -> str:
        """The status as a sentence."""
        word, _, evidence = self.status.partition(" ")
        return f"the run {_ENDED.get(word, f'was {word}')} {evidence}".rstrip()


_TELLING = (
    *("command", "file_path", "path", "pattern", "query", "url"),
    *("question", "response", "status", "summary", "name", "prompt"),
)
_LONGEST = 400  # characters of a subject: it is cut to the screen where it is drawn


def call_of(seq: int | None, at: float, told: Mapping[str, Any]) -> Call:
    """Return a call that begins, by an event or by an entry of a history."""
    arguments = told.get("arguments")
    arguments = arguments if isinstance(arguments, dict) else {}
    return Call(
        seq=seq,
        at=at,
        call=str(told.get("call")),
        tool=escape_exact(str(told.get("tool") or "")),
        subject=subject_of(arguments),
        arguments=_as_text(arguments),
    )


def subject_of(arguments: Mapping[str, Any]) -> str:
    """Return the argument that says best what a call is about; blank for none."""
    texts = {key: value for key, value in arguments.items() if isinstance(value, str) and value}
    telling = [texts[key] for key in _TELLING if key in texts] or list(texts.values())
    return first_line(telling[0], _LONGEST) if telling else ""


def child_of(result: str) -> str | None:
    """Return the agent that a result of `spawn_child` names."""
    try:
        told = json.loads(result)
    except ValueError:
        return None
    agent = told.get("agent_id") if isinstance(told, dict) else None
    return agent if isinstance(agent, str) else None


def _as_text(arguments: Mapping[str, Any]) -> str:
    parts = [
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
    ]
    return shown("\n".join(parts))
