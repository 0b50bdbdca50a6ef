"""The command policy of a run: a plugin's, or one that asks about all. No failure allows."""

from __future__ import annotations

import re
from functools import cached_property, partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from prsm_core.domain.permissions import Ask, Deny
from prsm_core.errors import PluginError
from prsm_core.permissions.checks import VERDICTS
from prsm_core.plugins.guard import Guest, TooLateError, is_ours
from prsm_core.plugins.values import FLAG, TEXT, Kind, first_problem, instance, many, maybe
from prsm_core.policies.own_state import Trespass
from prsm_core.policies.port import CommandPart, CommandPolicy, Judgement, UnaskedError
from prsm_core.policies.trespass import NamedPaths, why_not_command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_core.policies.port import CommandPolicySpec, CommandRules, CommandSetting, Words

ONCE = ("once", "deny")  # where the same question must come again next time
_SEGMENTS = re.compile(r"[;&|\n]+")
_SIGNS = str.maketrans(dict.fromkeys("\"'`\\(){}<>$=", " "))


def command_policy(
    specs: Mapping[str, CommandPolicySpec], name: str, rules: Callable[[], CommandRules]
) -> CommandPolicy:
    """Return the policy of this name, built with the first command; one that asks without it."""
    spec = specs.get(name)
    if spec is None:
        return AskingPolicy(f"there is no command policy {name!r}: prsm install policy", rules)
    return GuestPolicy(spec, rules)


class AskingPolicy(CommandPolicy):
    """Asks about every command, whatever the mode; what a deny rule may be about is denied."""

    def __init__(self, why: str, rules: Callable[[], CommandRules]) -> None:
        self._ask = Ask(why, ONCE)
        self._build_rules = rules

    @cached_property
    def _given(self) -> CommandRules:
        return self._build_rules()

    @cached_property
    def _rules(self) -> dict[str, list[Words]]:
        rules = self._given
        return {"deny": [*rules.deny], "ask": [*rules.ask], "allow": [*rules.allow]}

    def judge(self, command: str, setting: CommandSetting) -> Judgement:
        """Return an Ask, or a Deny."""
        trespass = self.trespass(command, setting)
        if trespass is not None and trespass.is_unseen:
            return Judgement(verdict=Deny(trespass.reason))
        return Judgement(verdict=self.denied(command) or self._ask)

    def denied(self, command: str) -> Deny | None:
        """Return a Deny if a rule's words are in the text, in order: that is more than it means."""
        for segment in _SEGMENTS.split(command.replace("\\\n", "")):
            words = segment.translate(_SIGNS).split()
            for rule in self._rules["deny"]:
                if _may_be_about(rule, words):
                    return Deny(f"the rule deny {' '.join(rule)!r} forbids it")
        return None

    def trespass(self, command: str, setting: CommandSetting) -> Trespass | None:
        """Return why the paths that stand in a text are not for agents."""
        nothing = NamedPaths((), frozenset(), ())
        return why_not_command(command, nothing, (setting.folder,), self._given.own)

    def asked(self, command: str, setting: CommandSetting) -> Ask:
        """Return an Ask."""
        return self._ask

    def told(self) -> list[dict[str, Any]]:
        """Return the rules; those to allow do not hold here."""
        return [
            {"verdict": verdict, "words": list(words), "layer": None}
            for verdict, rules in self._rules.items()
            for words in rules
        ]

    def add(self, verdict: str, rule: str | Sequence[str]) -> None:
        """Let one more rule hold."""
        self._rules[verdict].append(tuple(rule.split() if isinstance(rule, str) else rule))


def _may_be_about(rule: Words, words: Sequence[str]) -> bool:
    names = [word.rpartition("/")[2] for word in words]
    program = rule[0].rpartition("/")[2]
    if program not in names:
        return False
    behind = iter(words[names.index(program) + 1 :])
    return all(word in behind for word in rule[1:])


def _answers(what: str, kind: Kind) -> Any:
    """Return a method that asks the plugin's policy, which may wait for git to `judge`.

    A wrong or late answer raises PluginError.
    """
    fits, is_timed = kind.fits, what != "judge"

    def ask(self: GuestPolicy, *given: Any) -> Any:
        if self.failure is not None:
            raise self.failure
        method = getattr(self.policy, what)
        began = self.now()
        try:
            answer = method(*given)
        except BaseException as error:
            if is_ours(error):
                raise
            raise self.failed(what, error) from error
        if is_timed and self.now() - began > self.seconds:
            why = f"it did not end within {self.seconds:g} s"
            raise TooLateError(self.guest, what, why)
        if not fits(answer):
            problem = f"a {type(answer).__name__}, which is not {kind.words}"
            raise self.guest.wrong(f"gave for {what}", problem)
        return answer

    return ask


def _answers_or(what: str, kind: Kind, lost: object) -> Any:
    answer = _answers(what, kind)

    def ask(self: GuestPolicy, *given: Any) -> Any:
        try:
            return answer(self, *given)
        except PluginError:
            return lost

    return ask


def _notes(what: str) -> Any:
    answer = _answers(what, _ANYTHING)

    def note(self: GuestPolicy, *given: Any) -> None:
        try:
            answer(self, *given)
        except PluginError as error:
            self.failure = error

    return note


_WORDS = many(TEXT)
_ANYTHING = Kind("anything", lambda _answer: True)
_VERDICT = Kind("a verdict", lambda answer: first_problem(answer, VERDICTS) is None)
_JUDGEMENT = Kind(
    "a Judgement", lambda answer: isinstance(answer, Judgement) and _VERDICT.fits(answer.verdict)
)


def _verdict_or_none(kind: type) -> Kind:
    words = f"a {kind.__name__} or None"
    return Kind(words, lambda it: it is None or (isinstance(it, kind) and _VERDICT.fits(it)))


class GuestPolicy(CommandPolicy):
    """A plugin's policy: each answer is checked, and each failure named.

    A failure raises PluginError, by which the broker refuses the command; what only says that a
    command is harmless is denied instead. After a note that it could not take it decides nothing
    more.
    """

    def __init__(
        self,
        spec: CommandPolicySpec,
        rules: Callable[[], CommandRules],
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.now = now
        self.guest = Guest.of(spec)
        self.seconds = spec.timeout
        self.failure: PluginError | None = None
        self._rules = rules

    judge = _answers("judge", _JUDGEMENT)
    offered = _answers("offered", _VERDICT)
    denied = _answers("denied", _verdict_or_none(Deny))
    asked = _answers("asked", _verdict_or_none(Ask))
    trespass = _answers("trespass", maybe(instance(Trespass)))
    safe = _answers("safe", FLAG)
    stays_inside = _answers("stays_inside", FLAG)
    told = _answers("told", instance(list))
    add = _answers("add", _ANYTHING)
    exact = _answers("exact", TEXT)
    rules_for = _answers("rules_for", many(_WORDS))
    covers = _answers("covers", FLAG)
    only_reads = _answers_or("only_reads", FLAG, False)
    looks_up = _answers_or("looks_up", FLAG, False)
    parts = _answers_or("parts", maybe(many(instance(CommandPart))), None)
    programs = _answers_or("programs", _WORDS, ())
    note_edits = _notes("note_edits")
    note_command = _notes("note_command")

    @cached_property
    def policy(self) -> CommandPolicy:
        """The plugin's object, built with the first command."""
        build, rules = self.guest.load(), self._rules()
        with self.guest.calling("its factory"):
            policy = build(rules)
        if not isinstance(policy, CommandPolicy):
            problem = f"a {type(policy).__name__}, which is no CommandPolicy"
            raise self.guest.wrong("its factory gave", problem)
        return policy

    def failed(self, what: str, error: BaseException) -> BaseException:
        """Return what an error of the policy is raised as; a question stays one."""
        if isinstance(error, UnaskedError):
            return UnaskedError(partial(self._wait, error.ask))
        return self.guest.failed(what, error)

    def _wait(self, ask: Callable[[], object]) -> None:
        with self.guest.calling("its question"):
            ask()
