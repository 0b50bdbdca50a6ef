"""The command policy: what a shell command needs, by rules and by what is known to be safe.

Only plain text made of known words is ever allowed. Which other commands are dangerous cannot be
told yet, so everything unknown is asked about, in BYPASS too; there a few ordinary commands that
write are allowed as if the user had made rules for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import ASK_OPTIONS, Allow, Ask, Deny
from prsm_core.permissions.paths import Place
from prsm_core.permissions.plain import SimpleCommand, Word, split_plain, word_set
from prsm_core.permissions.safe import all_acceptable, is_safe, program_name, sets_only_harmless
from prsm_core.permissions.scan import MAX_RULE, commands_in, commands_of, matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prsm_core.domain.permissions import Verdict

Rule = tuple[str, ...]

ORDINARY = (("touch",), ("mkdir",), ("make",), ("npm", "ci"), ("npm", "install"), ("npm", "run"))

# A rule for one of these covers exactly its words: what else it is told can do anything.
_DANGEROUS = word_set(
    "rm rmdir dd mkfs shred truncate chmod chown chgrp kill pkill killall shutdown reboot halt"
    " poweroff sudo su doas pkexec crontab at systemctl service mount umount iptables nft useradd"
    " passwd visudo curl wget nc ncat socat ssh scp sftp rsync telnet ftp eval exec source . trap"
    " sh bash dash zsh ksh fish env xargs find fd parallel watch timeout time nice nohup setsid"
    " stdbuf command builtin strace ltrace script expect python python3 node deno bun perl ruby php"
    " lua awk gawk sed ed vi vim nvim emacs tar zip unzip git-receive-pack docker podman kubectl"
    " npx uvx bunx pipx codex claude gemini prsm prism psql mysql sqlite3 dropdb redis-cli mongo"
    " gdb ln install tee export alias set unset declare read mapfile printf test bind enable"
)
_QUIET = word_set("-q -v -vv --quiet --verbose")
_GIT_HARMLESS = _QUIET | word_set(
    "-m -a -am -u -s --all --message --set-upstream --signoff --tags --no-edit"
)
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[:+?]?=")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSetting:
    """What the verdict on a command depends on beside its text."""

    mode: PermissionMode
    cwd: str
    workspace: str
    trusted: bool


def rule_words(rule: str | Sequence[str]) -> Rule:
    """Return the words of a rule, given as text or as words; ValueError for none or too many."""
    words = tuple(rule.split()) if isinstance(rule, str) else tuple(rule)
    if not words or len(words) > MAX_RULE or not all(words):
        raise ValueError(f"a rule has 1 to {MAX_RULE} words: {rule!r}")
    return words


class CommandPolicyStore:
    """The rules of all layers; deny beats ask beats allow, and safe commands need no rule.

    A rule is the first words of a command. `workspace_allow` holds only where the user trusts the
    workspace it came from; ask and deny rules of an untrusted workspace are rules like any other.
    """

    def __init__(
        self,
        allow: Iterable[str | Sequence[str]] = (),
        ask: Iterable[str | Sequence[str]] = (),
        deny: Iterable[str | Sequence[str]] = (),
        *,
        workspace_allow: Iterable[str | Sequence[str]] = (),
    ) -> None:
        self._allow = tuple(map(rule_words, allow))
        self._workspace_allow = tuple(map(rule_words, workspace_allow))
        self._ask = tuple(map(rule_words, ask))
        self._deny = tuple(map(rule_words, deny))

    def denied(self, command: str) -> Deny | None:
        """Return a Deny when a deny rule matches a command anywhere in the text."""
        rule = _found(self._deny, command)
        return Deny(f"the rule deny {' '.join(rule)!r} forbids it") if rule else None

    def asked(self, command: str) -> Ask | None:
        """Return an Ask when a rule wants one, or when a deny rule might be evaded."""
        rule = _found(self._ask, command)
        if rule:
            return Ask(f"the rule ask {' '.join(rule)!r} wants it", ("once", "deny"))
        if self._deny and not _is_resolved(split_plain(command)):
            return Ask("it cannot be told which programs it runs", ("once", "deny"))
        return None

    def safe(self, command: str, setting: CommandSetting) -> bool:
        """Return whether the command is plain and each part of it safe."""
        return self._acceptable(command, setting, ())

    def allowed(self, command: str, setting: CommandSetting) -> bool:
        """Return whether each part of a plain command is safe or covered by an allow rule."""
        rules = self._allow + (self._workspace_allow if setting.trusted else ())
        if setting.mode is PermissionMode.BYPASS:
            rules += ORDINARY
        return self._acceptable(command, setting, rules)

    def decide(self, command: str, setting: CommandSetting) -> Verdict:
        """Return the verdict on a command by the policy alone."""
        denied = self.denied(command)
        if denied is not None:
            return denied
        in_plan = setting.mode is PermissionMode.PLAN
        if in_plan and not self.safe(command, setting):
            return Deny("plan mode runs safe commands only")
        asked = self.asked(command)
        if asked is not None:
            return asked
        if in_plan or self.allowed(command, setting):
            return Allow("safe, or allowed by a rule")
        return Ask("it is not known to be safe", ASK_OPTIONS)

    def _acceptable(self, command: str, setting: CommandSetting, rules: Sequence[Rule]) -> bool:
        commands = split_plain(command)
        place = Place.of(setting.cwd, setting.workspace)
        if not commands or place is None:
            return False

        def is_acceptable(part: SimpleCommand, where: Place) -> bool:
            return is_safe(part, where, trusted=setting.trusted) or any(
                _covers(rule, part, where) for rule in rules
            )

        return all_acceptable(commands, place, is_acceptable)


def _found(rules: Sequence[Rule], command: str) -> Rule | None:
    if not rules:
        return None
    commands = split_plain(command)
    found = commands_in(command) if commands is None else commands_of(commands)
    for words in found:
        for rule in rules:
            if matches(rule, words):
                return rule
    return None


def _is_resolved(commands: Sequence[SimpleCommand] | None) -> bool:
    return commands is not None and not any(
        command.words[0].glob or command.words[0].tilde for command in commands
    )


def _covers(rule: Rule, command: SimpleCommand, place: Place) -> bool:
    """Return whether an allow rule covers a simple command.

    Beyond its own words it covers arguments that are ordinary, and few options: others may name
    programs, configurations or places that nobody thought of when the rule was made.
    """
    size = len(rule)
    if command.texts[:size] != rule or not sets_only_harmless(command):
        return False
    if program_name(command.words[0]) is None:
        return False
    rest = command.words[size:]
    if rule[0] in _DANGEROUS or (rule[0] == "git" and size == 1):
        return not rest
    return _is_harmless_rest(rest, place, is_git=rule[0] == "git")


def _is_harmless_rest(rest: Sequence[Word], place: Place, *, is_git: bool) -> bool:
    options = _GIT_HARMLESS if is_git else _QUIET
    is_message = False
    for position, word in enumerate(rest):
        if word.text == "--" and not is_git:
            return all(place.is_writable(passed) for passed in rest[position + 1 :])
        if is_message:
            is_message = False
        elif word.text in options:
            is_message = word.text in {"-m", "-am", "--message"}
        elif word.may_be_option or not _is_harmless_operand(word, place, is_git=is_git):
            return False
    return True


def _is_harmless_operand(word: Word, place: Place, *, is_git: bool) -> bool:
    # git: +x forces, :x deletes, a::b names a program that talks for git.
    if is_git and (word.text[:1] in {"+", ":"} or "::" in word.text):
        return False
    return not _ASSIGNS.match(word.text) and place.is_writable(word)
