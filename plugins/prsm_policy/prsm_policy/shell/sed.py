"""Tells whether a script of sed does more than edit text, whichever sed reads it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_policy.shell.agreed import WIDE, regex_body

if TYPE_CHECKING:
    from collections.abc import Sequence

# Characters. A longer script may do anything.
_MAX_SCRIPT = 2_000

# The grammar of scripts that every sed cuts into the same commands, none of which does more than
# edit text. A comment has its own line: some take it for a part of the label before it.
_LINE = rf"(?:[0-9]+(?:~[0-9]+)?|\$|/{regex_body('/')}++/[IM]?)"
_WHERE = rf"(?P<where>(?:{_LINE}(?:[ \t]*,[ \t]*(?:{_LINE}|[+~][0-9]+))?)?[ \t]*!?)[ \t]*"
_BODY, _Y_BODY = regex_body("(?P=by)"), regex_body("(?P=y)")
_EDIT = re.compile(
    rf"""(?:[ \t\n;]|(?<![^\n])\#[A-Za-z0-9 ,.:=-]*+(?=\n|\Z))*+
    (?:\Z|{_WHERE}
    (?:(?P<opens>\{{)
    | (?:(?P<closes>\}})
      | [=dDgGhHnNpPxzl]
      | [qQ][ \t]*[0-9]*
      | [aic](?:[ \t]*\\\n|[ \t]*\\?)(?=[ \t]*\S)(?:[\t !"$-:<-\[\]-|~]|{WIDE})+(?=\n|\Z)
      | [tT][ \t]*[A-Za-z0-9_]*
      | b[ \t]*(?P<jump>[A-Za-z0-9_]*)
      | :[A-Za-z_][A-Za-z0-9_]*
      | s(?P<by>[/|,:@!%\#]){_BODY}*+(?P=by){_BODY}*+(?P=by)[gpiImM0-9]*+
      | y(?P<y>[/|,:@!%\#]){_Y_BODY}++(?P=y){_Y_BODY}++(?P=y)
      )[ \t]*(?=[;\n}}]|\Z)
    ))""",
    re.VERBOSE,
)
_LABEL = re.compile(r"(?:^|[;{}\n])\s*:")


def only_edits(script: str) -> bool:
    """Return whether a script does no more than edit text, for every sed."""
    if len(script) > _MAX_SCRIPT:
        return False
    at = 0
    # For each block that is open, whether an address says when it is entered.
    blocks: list[bool] = []
    while at < len(script):
        edit = _EDIT.match(script, at)
        if edit is None:
            return False
        at = edit.end()
        is_chosen = bool(edit["where"])
        if edit["opens"]:
            blocks.append(is_chosen)
        elif edit["closes"]:
            if is_chosen or not blocks:
                return False
            blocks.pop()
        elif edit["jump"] and not (is_chosen or any(blocks)):
            # A jump to a label that nothing decides about may go on for ever.
            return False
    return not blocks


def only_edits_in_sandbox(script: str) -> bool:
    """Return whether GNU sed's sandbox leaves a script nothing to do but edit."""
    return len(script) <= _MAX_SCRIPT and _LABEL.search(script) is None


# What follows asks less: whether a script surely runs no program and writes no file.
def _statement(bracket: str) -> re.Pattern[str]:
    """Return a pattern of one statement whose patterns may hold `bracket`."""
    part = rf"(?:{bracket}|(?!(?P=by))[^\\\[]|\\.)*+"
    slash = bracket.replace("(?P=by)", "/")
    line = rf"(?:[0-9]+(?:~[0-9]+)?|\$|\+[0-9]+|/(?:{slash}|[^/\\\n\[]|\\.)*+/[IM]?)"
    return re.compile(
        rf"""[\s;]*+
        (?:{line}(?:,\s*{line})?)?\s*!?\s*
        (?: s(?P<by>[^\w\s\\]){part}(?P=by)(?:(?!(?P=by))[^\\]|\\.)*+(?P=by)
            (?P<flags>[a-zA-Z0-9]*)
          | y(?P<y>[^\w\s\\])(?:(?!(?P=y))[^\\]|\\.)*+(?P=y)(?:(?!(?P=y))[^\\]|\\.)*+(?P=y)
          | [{{}}dDgGhHnNpPxz=]
          | [qQlL]\s*[0-9]*
          | [btT:]\s*[\w.-]*
          | [aic](?:\\\n|\s|\\)?[^\n]*
          | (?<![^\s;{{])\#[^\n]*
          | $
        )[ \t]*(?=[;}}\n{{#]|$|[a-zA-Z=])""",
        re.VERBOSE | re.DOTALL,
    )


_ITEM = r"(?:\[:[a-z]+:\]|\\[A-Za-z]|(?!(?P=by))[^\]\[\\])"
# A bracket expression that ends at the same place for every sed, and one that may not.
_SURE = _statement(rf"\[\^?{_ITEM}++\]")
_UNSURE = _statement(r"\[")
_MAY_BE_COMMAND = re.compile(r"(?:^|[^A-Za-z\\])[gpiIM0-9]*[ \t]*[eErRwW]")
_RUNS = frozenset("ewE")
_VALUED = frozenset("efl")


def may_run(script: str) -> bool:
    """Return whether a script may run programs or write files; what is not understood may."""
    if len(script) > _MAX_SCRIPT:
        return True
    if _reads_through(script, _SURE):
        return False
    return not _reads_through(script, _UNSURE) or _MAY_BE_COMMAND.search(script) is not None


def _reads_through(script: str, statement: re.Pattern[str]) -> bool:
    """Return whether a script consists of statements, none of which runs or writes."""
    at = 0
    while at < len(script):
        match = statement.match(script, at)
        if match is None or not _RUNS.isdisjoint(match["flags"] or ""):
            return False
        if match.end() == at:
            return True
        at = match.end()
    return True


def scripts_of(arguments: Sequence[str]) -> list[str]:
    """Return the scripts in the arguments of sed."""
    return _read(arguments)[0]


def reads_file(arguments: Sequence[str]) -> bool:
    """Return whether sed is told to read a script from a file."""
    return _read(arguments)[1]


def _read(arguments: Sequence[str]) -> tuple[list[str], bool]:
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
