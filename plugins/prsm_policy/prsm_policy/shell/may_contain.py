"""Looks for the words of a rule in a text that cannot be read: it finds too much, never too little.

Its cost grows with the length of the text and nothing else.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_policy.shell.words import ansi_c

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_ESCAPES = 500  # of $'…' that are decoded
_MAX_TRIES = 500  # places that are looked at for one word
_QUOTES = b"'\"\\"
_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_IN_WORD = re.compile(rb"[A-Za-z0-9_.-]")
# Options with a command attached to them: env -Srm, su -crm.
_OPTION = re.compile(rb"(?:^|[^A-Za-z0-9_.-])-[A-Za-z]+$")


def may_contain(text: str, words: Sequence[str]) -> bool:
    """Return whether the words may stand in a text one after the other, however quoted.

    What stands between them does not count. The first is the name of a program.
    """
    data = _unquoted(text)
    if data is None:
        return True
    at = 0
    for position, word in enumerate(words):
        wanted = word.encode("utf-8", "surrogatepass").translate(None, _QUOTES)
        found = _find(data, wanted, at, is_program=position == 0)
        if found is None:
            return False
        at = found
    return True


@lru_cache(maxsize=4)
def _unquoted(text: str) -> bytes | None:
    """Return a text without its quotes, None if that would take long."""
    if "$'" in text:
        if text.count("$'") > _MAX_ESCAPES:
            return None
        text = _ANSI_C.sub(lambda match: ansi_c(match[1]).text, text)
    data = text.encode("utf-8", "surrogatepass").replace(b"\\\n", b"")
    return data.translate(None, _QUOTES)


def _find(data: bytes, wanted: bytes, start: int, *, is_program: bool) -> int | None:
    """Return where a word ends that stands alone; after many tries it counts as found."""
    end = start
    for _ in range(_MAX_TRIES):
        at = data.find(wanted, start)
        if at < 0:
            return None
        end = at + len(wanted)
        if not _IN_WORD.match(data, end) and _may_begin(data, at, is_program=is_program):
            return end
        start = at + 1
    return end


def _may_begin(data: bytes, at: int, *, is_program: bool) -> bool:
    if at == 0 or not _IN_WORD.match(data, at - 1):
        return True
    return is_program and _OPTION.search(data, max(0, at - 12), at) is not None
