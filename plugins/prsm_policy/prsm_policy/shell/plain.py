"""Reads the plainest texts without a grammar: words, and pipes and lists of them.

There bash does nothing but split: nothing is quoted but whole words, nothing is expanded, and no
output goes anywhere but with the other, or nowhere. The rest is left to the grammar.
"""

from __future__ import annotations

import re

from prsm_core.policies import word_set
from prsm_policy.shell.grammar import RESERVED
from prsm_policy.shell.script import Command, Reading
from prsm_policy.shell.words import Word

_MAX_LENGTH = 400  # characters
_BARE = r"(?!=)(?:[A-Za-z0-9_./,:@%+=-]|(?<=[A-Za-z0-9])~)++"
_QUOTED = r"'[^'`$<>\x00-\x1f\x7f-\U0010ffff]*'|\"[^\"\\`$<>\x00-\x1f\x7f-\U0010ffff]*\""
_NAME = r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*"
_QUIET = r"2>&1|[12&]?> ?/dev/null"
_COMMAND = rf"{_NAME}(?: (?:{_BARE}|{_QUOTED})(?![^ ;]))*+(?: (?:{_QUIET})(?![^ ;]))*+"
_TEXT = re.compile(rf"{_COMMAND}(?:(?: (?:\||&&|\|\|)|;) {_COMMAND})*+")
_PART = re.compile(rf"{_QUIET}|{_QUOTED}|[^ ;'\"]+|;")
_SEPARATORS = frozenset({"|", "&&", "||", ";"})
# The grammar knows more about these than that they are programs.
_SPECIAL = RESERVED | word_set("declare typeset export readonly local unset unsetenv")
_NOTHING: frozenset[str] = frozenset()


def read_plain(text: str) -> Reading | None:
    """Return what a text says, None unless it is of the plainest kind."""
    if len(text) > _MAX_LENGTH or not _TEXT.fullmatch(text):
        return None
    commands: list[Command] = []
    words: list[Word] = []
    is_piped = False
    for part in _PART.findall(text):
        if part in _SEPARATORS:
            is_pipe = part == "|"
            commands.append(Command(tuple(words), piped=is_piped or is_pipe, behind=is_piped))
            words, is_piped = [], is_pipe
        elif part[0] in "'\"":
            words.append(Word(part[1:-1]))
        elif ">" not in part:
            words.append(Word(part))
    commands.append(Command(tuple(words), piped=is_piped, behind=is_piped))
    if any(command.words[0].text in _SPECIAL for command in commands):
        return None
    return Reading(
        commands=tuple(commands),
        plain=True,
        functions=_NOTHING,
        variables=_NOTHING,
        evaluates=False,
    )
