"""Why a change was made: what its agent said or thought before the call, if it gives a reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LOOKED_AT = 10  # entries before a call
LONGEST = 300  # characters of a reason
# What a text that gives a reason speaks of, and how much that says.
SCORES: Mapping[str, int] = {
    **dict.fromkeys(("fix", "bug"), 3),
    **dict.fromkeys(("improve", "prevent", "because", "so that", "avoid", "instead"), 2),
    **dict.fromkeys(("error", "fail", "broken", "wrong", "missing", "need", "should"), 1),
    **dict.fromkeys(("add", "remove", "rename", "refactor", "support", "ensure", "update"), 1),
}
_WORDS = {word: re.compile(rf"\b{word}", re.IGNORECASE) for word in SCORES}
_SAID = frozenset({"text", "thinking"})
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class Reason(Struct, frozen=True, gc=False):
    """Why; `kind` is text or thinking, and `score` how much it speaks of reasons."""

    text: str
    kind: str
    score: int
    seq: int | None = None  # of the event that says it


def find_reason(entries: Iterable[Mapping[str, Any]], call: str) -> Reason | None:
    """Return why a call was made; None where nothing before it gives a reason.

    `entries` are those of the agent's conversation, oldest first. Of what was said or thought in
    the last of them before the call that counts which scores most, and of alike ones the newest.
    """
    all_ = list(entries)
    calls = [
        place
        for place, entry in enumerate(all_)
        if entry["kind"] == "tool_call" and entry.get("call") == call
    ]
    if not calls:
        return None
    last = calls[-1]  # vendors use an id again in a later turn
    best: Reason | None = None
    for entry in reversed(all_[max(0, last - LOOKED_AT) : last]):
        if entry["kind"] not in _SAID:
            continue
        for sentence in _SENTENCE.split(entry["text"].strip()):
            points = score(sentence)
            if points and (best is None or points > best.score):
                best = Reason(sentence[:LONGEST], entry["kind"], points, entry.get("seq"))
    return best


def score(text: str) -> int:
    """Return how much a text speaks of reasons."""
    return sum(SCORES[word] for word, pattern in _WORDS.items() if pattern.search(text))
