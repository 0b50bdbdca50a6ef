"""Which commands an allow rule covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.policies import BUILDS, LOOK_UPS, RULE_CLASSES
from prsm_policy.builds import is_build
from prsm_policy.danger import command_danger
from prsm_policy.extent import is_more_to_do, stays_near
from prsm_policy.lookups import is_lookup
from prsm_policy.safe import program_name, sets_only_harmless
from prsm_policy.shell.find_nested import find_nested

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prsm_policy.places import Place
    from prsm_policy.rules import Rule
    from prsm_policy.shell import Command

_CLASSES: Mapping[Rule, Callable[[Command, Place], bool]] = {
    (LOOK_UPS,): is_lookup,
    (BUILDS,): is_build,
}


def is_allowed_by(rule: Rule, command: Command, place: Place) -> bool:
    """Return whether an allow rule covers a simple command.

    It covers exactly its words, and more words behind them if those are not dangerous and reach
    no further than the program itself.
    """
    if rule[0] in RULE_CLASSES:
        judge = _CLASSES.get(rule)
        return judge is not None and judge(command, place)
    size = len(rule)
    words = command.words
    if command.texts[:size] != rule or not all(word.known for word in words[:size]):
        return False
    if program_name(words[0]) is None or not sets_only_harmless(command):
        return False
    if command.writes or command.feeds:
        return False
    if len(words) == size:
        return not find_nested(command).reads_input  # it would run whatever it is fed
    if command_danger(command, place) is not None or _runs_others(command):
        return False
    if size > 1 and any(is_more_to_do(word, command) for word in words[size:]):
        return False
    return all(stays_near(word, command, place) for word in words[size:])


def _runs_others(command: Command) -> bool:
    nested = find_nested(command)
    return bool(nested.commands or nested.codes or nested.opaque or nested.reads_input)
