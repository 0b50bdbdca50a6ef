"""Tells whether a script of sed does more than edit text."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_SCRIPT = 2_000  # characters; a longer one may do anything
_ADDRESS = r"(?:[0-9]+(?:~[0-9]+)?|\$|\+[0-9]+|/(?:[^/\\\n]|\\.)*+/[IM]?)"
_STATEMENT = re.compile(
    rf"""[\s;]*+
    (?:{_ADDRESS}(?:,\s*{_ADDRESS})?)?\s*!?\s*
    (?: s(?P<by>[^\w\s\\])(?:(?!(?P=by))[^\\]|\\.)*+(?P=by)(?:(?!(?P=by))[^\\]|\\.)*+(?P=by)
        (?P<flags>[a-zA-Z0-9]*)
      | y(?P<y>[^\w\s\\])(?:(?!(?P=y))[^\\]|\\.)*+(?P=y)(?:(?!(?P=y))[^\\]|\\.)*+(?P=y)
      | [{{}}dDgGhHnNpPxz=]
      | [qQlL]\s*[0-9]*
      | [btT:]\s*[\w.-]*
      | [aic](?:\\\n|\s|\\)?[^\n]*
      | \#[^\n]*
      | $
    )[ \t]*(?=[;}}\n{{#]|$|[a-zA-Z=])""",
    re.VERBOSE | re.DOTALL,
)
_EXPRESSIONS = frozenset({"-e", "--expression", "-ne", "-ie", "-Ee", "-re"})
_RUNS = frozenset("ewE")


def may_run(script: str) -> bool:
    """Return whether a script may run programs or write files; what is not understood may."""
    if len(script) > _MAX_SCRIPT:
        return True
    at = 0
    while at < len(script):
        match = _STATEMENT.match(script, at)
        if match is None or not _RUNS.isdisjoint(match["flags"] or ""):
            return True
        if match.end() == at:
            return False
        at = match.end()
    return False


def scripts_of(arguments: Sequence[str]) -> list[str]:
    """Return the scripts in the arguments of sed."""
    scripts = [after for before, after in pairwise(arguments) if before in _EXPRESSIONS]
    scripts += [text.partition("=")[2] for text in arguments if text.startswith("--expression=")]
    scripts += [text[2:] for text in arguments if text.startswith("-e") and len(text) > 2]
    if scripts:
        return scripts
    return [text for text in arguments if text and not text.startswith("-")][:1]
