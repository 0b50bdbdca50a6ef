"""What a rebuilt history says was called: where a script that lost its thread goes on.

A model that is told its conversation anew does not do again what it reads that it has done. So a
script skips the steps of its lane that the history shows as done, and copies from their answers.
What was not answered it does again, as a model would.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from prsm_core.kit import unquote
from prsm_demo.script.templates import plain_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core import AgentMessage
    from prsm_demo.script.steps import Call, Step

_CALLED = re.compile(
    r"\[I called (?P<tool>\"[^\n]*?\") with [^\n]*; \w+:\n(?P<text>.*)\]", re.DOTALL
)
OVERFLOW = "context_length_exceeded"  # the code of an error: the prompt is too long
_NATIVE = {"shell": ("Bash",), "edit": ("Edit", "Write")}

_Done = tuple[str, str]  # tool and answer of a call


def steps_done(
    steps: Sequence[Step], history: Iterable[AgentMessage]
) -> tuple[int, list[tuple[Call, str]]]:
    """Return how many steps a rebuilt history shows as done, and their calls with the answers.

    A step with calls was done if each has an answer, one that only says something if that was said,
    and one that refuses a prompt as too long if the history was summarised since.
    """
    history = list(history)
    is_summarised = any(message.role == "system" for message in history)
    said = [message.content for message in history if message.role == "assistant"]
    called = [_CALLED.fullmatch(text) for text in said]
    calls = [(json.loads(one["tool"]), unquote(one["text"])) for one in called if one]
    texts = [text for text in said if not text.startswith("[I called ")]
    answered: list[tuple[Call, str]] = []
    for number, step in enumerate(steps):
        if is_summarised and step.error is not None and step.error.code == OVERFLOW:
            continue
        was_said = step.say is not None and _take_text(step.say, texts)
        took = _take(step, calls)
        if took is None or not (step.calls or was_said):
            return number, answered
        answered += took
    return len(steps), answered


def _take_text(say: str, texts: list[str]) -> bool:
    """Take a text of a step out of those that were said; whether it is there."""
    wanted = re.compile(".*".join(map(re.escape, plain_parts(say))), re.DOTALL)
    place = next((n for n, text in enumerate(texts) if wanted.fullmatch(text)), None)
    if place is not None:
        del texts[: place + 1]
    return place is not None


def _take(step: Step, rest: list[_Done]) -> list[tuple[Call, str]] | None:
    """Take the answers of a step's calls out of the rest; None where one is missing."""
    took, left = [], list(rest)
    for call in step.calls:
        names = _NATIVE.get(call.kind, (call.tool,))
        place = next((n for n, (tool, _) in enumerate(left) if tool in names), None)
        if place is None:
            return None
        took.append((call, left.pop(place)[1]))
    rest[:] = left
    return took
