"""What agents ask for from beside their regions, as they say it in their own words."""

from __future__ import annotations

import re
from dataclasses import dataclass

# "I need the type signature of AuthValidator from /core/src/auth", and its kin.
_WHAT = (
    r"(?:type signature|signature|type|definition|interface|field|member|parameter|declaration)s?"
)
_NAME = r"[`'\"]?(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*)(?:\(\))?[`'\"]?"
_FROM = (
    r"(?:\s*,?\s*\(?(?:from|in|of|at|defined in|which is in)\s+"
    r"[`'\"]?(?P<where>[\w./@~-]*[/.][\w./@~-]*)[`'\"]?\)?)?"
)
_ASKED = re.compile(rf"\b{_WHAT}\s+(?:of|for)\s+(?:the\s+)?(?:{_WHAT}\s+)?{_NAME}{_FROM}")
_IS_NEED = re.compile(
    r"\b(?:need|needs|want|require|describe|tell me|give me|what (?:is|are)|which (?:is|are))\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.?!])\s+|\n+")
_PLAIN = frozenset({"the", "a", "an", "this", "that", "it", "its", "my", "your", "each", "all"})
MOST = 10  # of one text


@dataclass(frozen=True, slots=True)
class SymbolRequest:
    """A symbol that is asked for, and what was said about where it is."""

    name: str
    context: str = ""


def find_requests(text: str) -> tuple[SymbolRequest, ...]:
    """Return the symbols that a text asks for, each once, at most ten.

    Only a sentence that says that something is needed asks for anything.
    """
    found: dict[str, SymbolRequest] = {}
    for sentence in _SENTENCE.split(text):
        if not _IS_NEED.search(sentence):
            continue
        for asked in _ASKED.finditer(sentence):
            name, where = asked["name"], asked["where"] or ""
            if name.lower() not in _PLAIN:
                found.setdefault(name, SymbolRequest(name, where.rstrip(".") or sentence.strip()))
    return tuple(found.values())[:MOST]
