"""Recorded commands, judged by other rules; and the rules that a person's approvals suggest.

Nothing is run. Commands are judged in their folder as it is today.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from prsm_core import Allow, Ask, Deny
from prsm_core.policies import CommandSetting
from prsm_policy.recorded import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from prsm_core.policies import CommandPolicy, Words
    from prsm_policy.recorded import Recorded

REDACTED = "[redacted]"  # what stands in a ledger for a secret


class Fate(StrEnum):
    """What becomes of a command by rules."""

    RUNS = "runs"
    ASKS = "asks"
    DENIED = "denied"


_FATES = {Allow: Fate.RUNS, Ask: Fate.ASKS, Deny: Fate.DENIED}
# What the same rules would do again: an approval or a refusal answers a question.
SAME = {
    Outcome.RAN: Fate.RUNS,
    Outcome.APPROVED: Fate.ASKS,
    Outcome.REFUSED: Fate.ASKS,
    Outcome.DENIED: Fate.DENIED,
}


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
    """A rule to allow, how often it would have been approved, and the commands it covers."""

    rule: Words
    approved: int
    covered: tuple[tuple[str, int], ...]


def replay(
    commands: Iterable[Recorded], policy: CommandPolicy, trusted: Collection[str] = ()
) -> tuple[Replayed, ...]:
    """Return what becomes of each different command now, in the order in which they came first."""
    rows = []
    for recorded, times in Counter(commands).items():
        verdict = policy.judge(recorded.command, _setting(recorded, trusted)).verdict
        rows.append(
            Replayed(
                command=recorded.command,
                outcome=recorded.outcome,
                fate=_FATES[type(verdict)],
                reason=verdict.reason,
                times=times,
            )
        )
    return tuple(rows)


def suggest(
    commands: Sequence[Recorded],
    policy: CommandPolicy,
    trusted: Collection[str] = (),
    *,
    least: int = 3,
) -> tuple[Suggestion, ...]:
    """Return rules to allow what a person approved `least` times, and nothing that one refused."""
    counts = Counter(commands)
    approved = Counter[tuple[str, ...]]()
    for recorded, times in counts.items():
        # Nobody knows what a redacted command was.
        is_approved = recorded.outcome is Outcome.APPROVED and recorded.by_person
        if is_approved and REDACTED not in recorded.command:
            for rule in set(policy.rules_for(recorded.command, _setting(recorded, trusted))):
                approved[rule] += times
    suggestions = [
        Suggestion(rule=rule, approved=times, covered=covered)
        for rule, times in approved.items()
        if times >= least and (covered := _covered(rule, counts, policy)) is not None
    ]
    return tuple(sorted(suggestions, key=lambda each: (-each.approved, each.rule)))


def _covered(
    rule: Words, counts: Counter[Recorded], policy: CommandPolicy
) -> tuple[tuple[str, int], ...] | None:
    """Return what a rule covers, the most frequent first; None if a person refused any of it."""
    covered = Counter[str]()
    for recorded, times in counts.items():
        if policy.covers(rule, recorded.command, _setting(recorded, ())):
            if recorded.outcome is Outcome.REFUSED and recorded.by_person:
                return None
            covered[recorded.command] += times
    return tuple(covered.most_common())


def _setting(recorded: Recorded, trusted: Collection[str]) -> CommandSetting:
    return CommandSetting(
        mode=recorded.mode,
        cwd=recorded.cwd,
        workspace=recorded.workspace,
        trusted=recorded.workspace in trusted,
    )
