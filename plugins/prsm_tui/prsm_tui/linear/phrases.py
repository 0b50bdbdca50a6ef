"""A block of a transcript in words: a verb behind the name of its agent, and lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prsm_core.kit import first_line, format_duration
from prsm_tui.model.blocks import (
    Asked,
    Block,
    Call,
    Changed,
    Ending,
    Note,
    Plan,
    Prompt,
    Said,
    Thought,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHORT = 200  # characters of a thought, of which the rest is told where it is asked for
_LONG_SECONDS = 1.0  # from which on it is worth telling how long something took
_ENDED = {"completed": "is completed", "failed": "has failed", "killed": "was killed"}


class Phrase(NamedTuple):
    """What comes behind a label: `verb` on the first line, and all lines."""

    verb: str
    lines: Sequence[str]


def phrase_of(block: Block) -> Phrase:
    """Return a block in words; a call as it begins."""
    match block:
        case Prompt():
            return Phrase(" is told", _lines(block.text))
        case Said():
            return Phrase(" says", _lines(block.text))
        case Thought():
            return Phrase(" thinks", [_thought(block)])
        case Call():
            return Phrase(
                f" calls {block.tool or 'a tool'}", [block.subject] if block.subject else []
            )
        case Plan():
            return Phrase(" plans", _plan(block))
        case Changed():
            return Phrase(f" has {block.kind or 'changed'}", [_changed(block)])
        case Asked():
            return Phrase(" asks", [block.text])
        case Note():
            lead = "" if block.level == "info" else f"{block.level}: "
            return Phrase("", [lead + line for line in _lines(block.text)])
        case Ending():
            return Phrase("", list(_ending(block)))
    return Phrase("", [type(block).__name__])


def end_of(call: Call) -> str:
    """Return how a call ended."""
    parts = [call.status]
    if call.exit_code:
        parts.append(f"exit code {call.exit_code}")
    if call.duration_s is not None and call.duration_s >= _LONG_SECONDS:
        parts.append(f"took {format_duration(call.duration_s)}")
    if call.result:
        parts.append(count(call.result.count("\n") + 1))
    return ", ".join(parts)


def whole(block: Call | Thought) -> Sequence[str]:
    """Return all that there is of what was told in one line."""
    if isinstance(block, Thought):
        return _lines(block.text)
    written = block.output.text if block.is_open else block.result
    lines = [f"argument {line}" for line in _lines(block.arguments)]
    return [*lines, *(f"result {line}" for line in _lines(written))] or ["nothing more"]


def count(lines: int) -> str:
    """Return how many lines, in words."""
    return "1 line" if lines == 1 else f"{lines} lines"


def _lines(text: str) -> Sequence[str]:
    return [line for line in text.strip("\n").split("\n") if line.strip()]


def _thought(block: Thought) -> str:
    text = block.text.strip()
    short = first_line(text, _SHORT)
    return short if short == text else f"{short} ({len(text):,} characters)"


def _plan(block: Plan) -> Sequence[str]:
    done = sum(status == "completed" for status, _ in block.entries)
    entries = [f"{status.replace('_', ' ') or 'open'}: {text}" for status, text in block.entries]
    return [f"{done} of {len(entries)} done", *entries]


def _changed(block: Changed) -> str:
    size = "" if block.added is None else f", {count(block.added)} more"
    size += f", {count(block.removed)} less" if block.removed else ""
    conflict = f"; conflict: {', '.join(block.others)} changed it, too" if block.others else ""
    return f"{block.path}{size}{conflict}"


def _ending(block: Ending) -> Sequence[str]:
    word, _, evidence = block.status.partition(" ")
    head = f"the run {_ENDED.get(word, f'was {word}')} {evidence}".rstrip()
    errors = [f"error: {line}" for line in _lines(block.error)]
    return [head, *errors, *(f"summary: {line}" for line in _lines(block.summary)), block.details]
