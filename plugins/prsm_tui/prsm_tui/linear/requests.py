"""What waits for a person: its lines, its choices by number, and what was typed for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.kit import format_duration
from prsm_tui.model.requests import (
    LETTERS,
    PERMISSION,
    Request,
    parse_for_all,
    parse_verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prsm_tui.model.session import Session

_LETTER = re.compile(r"\[(\w+)\]( ?)")


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
