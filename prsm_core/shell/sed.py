"""Tells whether a script of sed does more than edit text."""

from __future__ import annotations

import re
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
_RUNS = frozenset("ewE")
_VALUED = frozenset("efl")


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
    return _read(arguments)[0]


def reads_file(arguments: Sequence[str]) -> bool:
    """Return whether sed is told to read a script from a file."""
    return _read(arguments)[1]


def _read(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Return the scripts, and whether there is one in a file."""
    scripts: list[str] = []
    operands: list[str] = []
    has_file = False
    rest = list(reversed(arguments))
    while rest:
        text = rest.pop()
        if text == "--":
            operands += reversed(rest)
            break
        kind, value = _option(text)
        if kind is None:
            operands.append(text)
        elif kind in _VALUED:
            value = value or (rest.pop() if rest else "")
            scripts += [value] if kind == "e" else []
            has_file = has_file or kind == "f"
    return (scripts if scripts or has_file else operands[:1]), has_file


def _option(text: str) -> tuple[str | None, str]:
    """Return the letter of an option that takes a value with that value; None for an operand."""
    if text.startswith("--"):
        name, _, value = text[2:].partition("=")
        found = (each[0] for each in ("expression", "file", "line-length") if each.startswith(name))
        return next(found, ""), value
    if not text.startswith("-") or text == "-":
        return None, ""
    for at, letter in enumerate(text[1:], start=2):
        if letter in "efli":
            return letter, text[at:]
    return "", ""
