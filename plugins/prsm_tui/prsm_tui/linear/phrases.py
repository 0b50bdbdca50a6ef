"""A block of a transcript in words: a verb behind its agent's name, and text. Requests as lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.kit import first_line, format_duration
from prsm_tui.model import blocks
from prsm_tui.model.requests import LETTERS, PERMISSION, Request, parse_for_all, parse_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prsm_tui.model.session import Session

_LETTER = re.compile(r"\[(\w+)\]( ?)")
_SHORT = 200  # characters of a thought, of which the rest is told where it is asked for
_LONG_SECONDS = 1.0  # from which on it is worth telling how long something took


class Phrase(NamedTuple):
    """What comes behind a label: `verb` on the first line, and all lines."""

    verb: str
    lines: Sequence[str]


def phrase_of(block: blocks.Block) -> Phrase:
    """Return a block in words; a call as it begins."""
    match block:
        case blocks.Prompt():
            return Phrase(" is told", _lines(block.text))
        case blocks.Said():
            return Phrase(" says", _lines(block.text))
        case blocks.Thought():
            return Phrase(" thinks", [_thought(block)])
        case blocks.Call():
            return Phrase(
                f" calls {block.tool or 'a tool'}", [block.subject] if block.subject else []
            )
        case blocks.Plan():
            return Phrase(" plans", _plan(block))
        case blocks.Changed():
            return Phrase(f" has {block.kind or 'changed'}", [_changed(block)])
        case blocks.Asked():
            return Phrase(" asks", [block.text])
        case blocks.Note():
            lead = "" if block.level == "info" else f"{block.level}: "
            return Phrase("", [lead + line for line in _lines(block.text)])
        case blocks.Ending():
            return Phrase("", list(_ending(block)))
    return Phrase("", [type(block).__name__])


def end_of(call: blocks.Call) -> str:
    """Return how a call ended."""
    parts = [call.status]
    if call.exit_code:
        parts.append(f"exit code {call.exit_code}")
    if call.duration_s is not None and call.duration_s >= _LONG_SECONDS:
        parts.append(f"took {format_duration(call.duration_s)}")
    if call.result:
        parts.append(count(call.result.count("\n") + 1))
    return ", ".join(parts)


def whole(block: blocks.Call | blocks.Thought) -> Sequence[str]:
    """Return all that there is of what was told in one line."""
    if isinstance(block, blocks.Thought):
        return _lines(block.text)
    written = block.output.text if block.is_open else block.result
    lines = [f"argument {line}" for line in _lines(block.arguments)]
    return [*lines, *(f"result {line}" for line in _lines(written))] or ["nothing more"]


def count(lines: int) -> str:
    """Return how many lines, in words."""
    return "1 line" if lines == 1 else f"{lines} lines"


def _lines(text: str) -> Sequence[str]:
    return [line for line in text.strip("\n").split("\n") if line.strip()]


def _thought(block: blocks.Thought) -> str:
    text = block.text.strip()
    short = first_line(text, _SHORT)
    return short if short == text else f"{short} ({len(text):,} characters)"


def _plan(block: blocks.Plan) -> Sequence[str]:
    done = sum(status == "completed" for status, _ in block.entries)
    entries = [f"{status.replace('_', ' ') or 'open'}: {text}" for status, text in block.entries]
    return [f"{done} of {len(entries)} done", *entries]


def _changed(block: blocks.Changed) -> str:
    size = "" if block.added is None else f", {count(block.added)} more"
    size += f", {count(block.removed)} less" if block.removed else ""
    conflict = f"; conflict: {', '.join(block.others)} changed it, too" if block.others else ""
    return f"{block.path}{size}{conflict}"


def _ending(block: blocks.Ending) -> Sequence[str]:
    errors = [f"error: {line}" for line in _lines(block.error)]
    return [
        block.head,
        *errors,
        *(f"summary: {line}" for line in _lines(block.summary)),
        block.details,
    ]


def lines_of(request: Request, session: Session, now: float, count: int) -> Iterator[str]:
    """Yield all of a request, one of `count` that wait; `now` in Unix seconds."""
    agent = session.agents.get(request.agent)
    yield f"agent: {' / '.join(session.path_of(request.agent))}"
    if agent is not None:
        yield f"model: {agent.label}"
        if agent.task:
            yield f"task: {agent.task}"
    if request.expires_at is not None:
        yield f"time left: {format_duration(max(0.0, request.expires_at - now))}"
    choices = choices_of(request)
    if request.kind == PERMISSION:
        yield from request.lines
    else:  # its options are the choices
        yield from request.lines[: len(request.lines) - len(choices)]
    for number, choice in enumerate(choices, start=1):
        yield f"choice {number}: {choice}"
    if request.kind == PERMISSION and count > 1:
        yield f"for all {count} that wait: oo allows them once, dd denies them"
    yield _how(request, bool(choices))


def choices_of(request: Request) -> Sequence[str]:
    """Return the answers a request offers, in words, in the order of their numbers."""
    if request.kind != PERMISSION:
        return [str(option) for option in request.options]
    return [_word(LETTERS[option][1]) for option in _verdicts(request)]


def verdict_of(typed: str, request: Request, *, is_one_of_many: bool) -> tuple[str | None, bool]:
    """Return the verdict that was typed, None if it is unclear, and whether it is for all."""
    for_all = parse_for_all(typed) if is_one_of_many else None
    if for_all is not None:
        return for_all, True
    verdicts, word = _verdicts(request), typed.strip()
    if word.isascii() and word.isdigit():
        place = int(word) - 1 if len(word) < 4 else -1
        return (verdicts[place] if 0 <= place < len(verdicts) else None), False
    return parse_verdict(typed, request.options), False


def _verdicts(request: Request) -> Sequence[str]:
    return [option for option in LETTERS if option in request.options]


def _word(label: str) -> str:
    return _LETTER.sub(lambda found: "" if found[2] else found[1], label)


def _how(request: Request, has_choices: bool) -> str:
    if request.kind == PERMISSION:
        return "type the number of a choice, then Enter; /back leaves it open"
    some = "numbers" if request.takes_several else "the number"
    what = f"{some} of a choice, or a text" if has_choices else "a text"
    return f"type {what}, then Enter; /back leaves it open"
