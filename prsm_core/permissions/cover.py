"""Which commands an allow rule covers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.permissions.danger import command_danger
from prsm_core.permissions.safe import program_name, sets_only_harmless
from prsm_core.permissions.shell.opening import open_command

if TYPE_CHECKING:
    from prsm_core.permissions.paths import Place
    from prsm_core.permissions.rules import Rule
    from prsm_core.permissions.shell import Command, Word

# Options that may name programs, configurations or places nobody thought of when the rule was made.
_FAR_REACHING = re.compile(
    r"--?(?:[a-z]+-)*(?:exec|shell|command|cmd|program|script|hooks?|eval|pager|editor|config"
    r"|userconfig|globalconfig|rc|rcfile|conf|plugins?|preload|require|import|loader|wrapper"
    r"|compiler|interpreter|helper|prefix|cwd|registry|proxy|exec-path|node-options|toolchain"
    r"|init-file|makefile|directory|rulesdir|rootdir)(?:=.*)?",
    re.DOTALL,
)
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[:+?]?=")


def covers(rule: Rule, command: Command, place: Place) -> bool:
    """Return whether an allow rule covers a simple command.

    It covers exactly its words, and more words behind them if those are not dangerous and reach
    no further than the program itself.
    """
    size = len(rule)
    words = command.words
    if command.texts[:size] != rule or not all(word.known for word in words[:size]):
        return False
    if program_name(words[0]) is None or not sets_only_harmless(command):
        return False
    if command.writes or command.feeds:
        return False
    if len(words) == size:
        return not open_command(command).reads_input  # it would run whatever it is fed
    if command_danger(command, place) is not None or _runs_others(command):
        return False
    return all(map(_stays_near, words[size:]))


def _runs_others(command: Command) -> bool:
    opened = open_command(command)
    return bool(opened.commands or opened.codes or opened.opaque or opened.reads_input)


def _stays_near(word: Word) -> bool:
    if not word.exact or _FAR_REACHING.fullmatch(word.text):
        return False
    return not (_ASSIGNS.match(word.text) or (word.glob and word.may_be_option))
