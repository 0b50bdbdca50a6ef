"""Recorded commands, judged by other rules; and the rules that a person's approvals suggest.

Nothing is run. Commands are judged in their folder as it is today, so that one about files which
have gone since may be judged otherwise than it was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from prsm_core.domain.permissions import RULE_CLASSES, Allow, Ask
from prsm_core.permissions.allowed_by_rule import is_allowed_by
from prsm_core.permissions.builds import are_builds
from prsm_core.permissions.command_setting import CommandSetting
from prsm_core.permissions.danger import command_danger, script_danger
from prsm_core.permissions.lookups import are_lookups
from prsm_core.permissions.offers import allow_rule
from prsm_core.permissions.paths import Place
from prsm_core.permissions.secret_shapes import MARK
from prsm_core.shell import read_script

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from prsm_core.domain.agents import PermissionMode
    from prsm_core.domain.permissions import Verdict
    from prsm_core.permissions.policy import CommandPolicyStore
    from prsm_core.permissions.rules import Rule
    from prsm_core.shell import Command


class Outcome(StrEnum):
    """What became of a command in a recorded run."""

    RAN = "ran"  # unasked
    APPROVED = "approved"  # a person allowed it
    REFUSED = "refused"  # it was asked about, and nobody allowed it
    DENIED = "denied"  # by a rule or a mode, unasked


class Fate(StrEnum):
    """What becomes of a command by rules."""

    RUNS = "runs"
    ASKS = "asks"
    DENIED = "denied"


# What the same rules would do again: an approval or a refusal answers a question.
SAME = {
    Outcome.RAN: Fate.RUNS,
    Outcome.APPROVED: Fate.ASKS,
    Outcome.REFUSED: Fate.ASKS,
    Outcome.DENIED: Fate.DENIED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A command of a recorded run, as it was judged then; secrets in it are redacted.

    `by_person` says that a person decided, not a deadline or an absent terminal.
    """

    command: str
    mode: PermissionMode
    cwd: str
    workspace: str
    outcome: Outcome
    by_person: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What becomes of a command now that became something else then, and how often it was."""

    command: str
    outcome: Outcome
    fate: Fate
    reason: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A rule to allow, how often what it covers was approved, and all that it would have covered.

    `covered` are commands as they were recorded, with how often, the most frequent first.
    """

    rule: Rule
    approved: int
    covered: tuple[tuple[str, int], ...]


def replay(
    commands: Iterable[Recorded], policy: CommandPolicyStore, trusted: Collection[str] = ()
) -> tuple[Replayed, ...]:
    """Return what becomes of each different command now, in the order in which they came first.

    `trusted` are the workspaces that the user trusts.
    """
    found = []
    for recorded, times in Counter(commands).items():
        verdict = policy.decide(recorded.command, _setting(recorded, trusted))
        found.append(
            Replayed(
                command=recorded.command,
                outcome=recorded.outcome,
                fate=_fate(verdict),
                reason=verdict.reason,
                times=times,
            )
        )
    return tuple(found)


def suggest(
    commands: Sequence[Recorded],
    policy: CommandPolicyStore,
    trusted: Collection[str] = (),
    *,
    least: int = 3,
) -> tuple[Suggestion, ...]:
    """Return rules to allow for what a person approved `least` times or more, the most first.

    None is about what is dangerous, nor covers anything that a person refused.
    """
    counts = Counter(commands)
    candidates: dict[Rule, _Candidate] = {}
    for recorded, times in counts.items():
        if recorded.outcome is Outcome.APPROVED and recorded.by_person:
            for rule in set(_rules(recorded, policy, trusted)):
                candidates.setdefault(rule, _Candidate(rule)).approved += times
    wanted = [each for each in candidates.values() if each.approved >= least]
    for recorded, times in counts.items():
        for candidate in wanted:
            candidate.take(recorded, times)
    kept = [each.suggestion() for each in wanted if not each.is_refused]
    return tuple(sorted(kept, key=lambda each: (-each.approved, each.rule)))


@dataclass(slots=True)
class _Candidate:
    """A rule that may be suggested."""

    rule: Rule
    approved: int = 0
    is_refused: bool = False
    covered: Counter[str] = field(default_factory=Counter)

    def take(self, recorded: Recorded, times: int) -> None:
        """Note a recorded command if the rule covers a part of it."""
        if not any(is_allowed_by(self.rule, part, place) for part, place in _parts(recorded)):
            return
        self.covered[recorded.command] += times
        self.is_refused |= recorded.outcome is Outcome.REFUSED and recorded.by_person

    def suggestion(self) -> Suggestion:
        return Suggestion(
            rule=self.rule, approved=self.approved, covered=tuple(self.covered.most_common())
        )


def _setting(recorded: Recorded, trusted: Collection[str]) -> CommandSetting:
    return CommandSetting(
        mode=recorded.mode,
        cwd=recorded.cwd,
        workspace=recorded.workspace,
        trusted=recorded.workspace in trusted,
    )


def _fate(verdict: Verdict) -> Fate:
    if isinstance(verdict, Allow):
        return Fate.RUNS
    return Fate.ASKS if isinstance(verdict, Ask) else Fate.DENIED


def _rules(
    recorded: Recorded, policy: CommandPolicyStore, trusted: Collection[str]
) -> Iterator[Rule]:
    """Yield the rules by which a command would have run unasked; none where it is dangerous."""
    if MARK in recorded.command:
        return  # nobody knows what it was
    setting = _setting(recorded, trusted)
    parts = policy.open_parts(recorded.command, setting)
    place = Place.of(setting.cwd, setting.workspace)
    is_of_class = are_lookups(parts) or are_builds(parts)
    if not is_of_class and script_danger(read_script(recorded.command), place) is not None:
        return
    for part, where in parts:
        rule = allow_rule(part, where)
        if rule and (rule[0] in RULE_CLASSES or command_danger(part, where) is None):
            yield rule


def _parts(recorded: Recorded) -> Iterator[tuple[Command, Place]]:
    """Yield the simple commands of a text, each with its folder as far as that can be told."""
    place = Place.of(recorded.cwd, recorded.workspace)
    if place is not None:
        for command in read_script(recorded.command).commands:
            if command.words:
                yield command, place
