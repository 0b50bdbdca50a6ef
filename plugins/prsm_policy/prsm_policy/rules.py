"""Rules on commands: the first words of a command, and how they are compared with one."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from prsm_core.policies import word_set
from prsm_policy.shell.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_policy.shell.script import Command

Rule = tuple[str, ...]
Rules = dict[str, list[Rule]]

_NO_RULE: Rule = ()
MAX_RULE = 16  # words
_MAX_STARTS = 64  # places behind options where the rest of a rule is looked for
# Global options of git that take the next word.
_GIT_VALUED = word_set(
    "-c -C --git-dir --work-tree --namespace --config-env --attr-source --super-prefix --exec-path"
)


class Match(IntEnum):
    """Whether a command begins with a rule's words; MAYBE where that is known only when it runs."""

    NO = 0
    MAYBE = 1
    YES = 2


def rule_words(rule: str | Sequence[str]) -> Rule:
    """Return the words of a rule, given as text or as words; ValueError for none or too many."""
    words = tuple(rule.split()) if isinstance(rule, str) else tuple(rule)
    if not words or len(words) > MAX_RULE or not all(words):
        raise ValueError(f"a rule has 1 to {MAX_RULE} words: {rule!r}")
    return words


def by_program(rules: Iterable[Rule]) -> Rules:
    """Return rules by the name of their program, without its path."""
    by_name: Rules = {}
    for rule in rules:
        by_name.setdefault(rule[0].rpartition("/")[2] or rule[0], []).append(rule)
    return by_name


def best_match(rules: Rules, command: Command) -> tuple[Match, Rule]:
    """Return how well the best rule matches a command, under any path and behind options."""
    best, best_rule = Match.NO, _NO_RULE
    name, words = command.name, command.words
    readings = [(name, words)]
    if name.startswith("git-"):
        readings.append(("git", (words[0], Word(name.removeprefix("git-")), *words[1:])))
    for program, words in readings:
        for rule in rules.get(program, ()):
            match = _match(rule[1:], words, is_git=program == "git")
            if match > best:
                best, best_rule = match, rule
    return best, best_rule


def concerns(rules: Rules, command: Command) -> bool:
    """Return whether any of the rules is on the program of a command."""
    return command.name in rules or command.name.startswith("git-")


def hidden_rule(rules: Rules, command: Command) -> Rule | None:
    """Return a rule whose words stand among the arguments of a command, None without one."""
    if rules.keys().isdisjoint(command.texts):
        return None
    for at, text in enumerate(command.texts):
        for rule in rules.get(text, ()) if at else ():
            if command.texts[at + 1 : at + len(rule)] == rule[1:]:
                return rule
    return None


def _match(rest: Rule, words: Sequence[Word], *, is_git: bool) -> Match:
    if not rest:
        return Match.YES
    starts = _starts(words, is_git=is_git)
    best = max(_compare(rest, words, start) for start in starts)
    return max(best, Match.MAYBE) if len(starts) >= _MAX_STARTS else best


def _starts(words: Sequence[Word], *, is_git: bool) -> set[int]:
    """Return where the rest of a rule may begin: behind options, which may take a value."""
    starts, at = {1}, 1
    while at < len(words) and len(starts) < _MAX_STARTS:
        if at in starts and words[at].may_be_option:
            takes_value = words[at].text in _GIT_VALUED if is_git else "=" not in words[at].text
            steps = {2} if is_git and takes_value else {1, 2} if takes_value else {1}
            starts |= {at + step for step in steps}
        at += 1
        if at > max(starts):
            break
    return starts


def _compare(rest: Rule, words: Sequence[Word], start: int) -> Match:
    match = Match.YES
    for at, wanted in enumerate(rest, start=start):
        if at >= len(words):
            return Match.NO
        if not words[at].known:
            match = Match.MAYBE
        elif words[at].text != wanted:
            return Match.NO
    return match
