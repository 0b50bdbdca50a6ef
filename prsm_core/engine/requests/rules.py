"""Keeps the rules that people's answers make: in force at once, and on disk for later runs."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING

from prsm_core.domain.permissions import RULE_ANSWERS
from prsm_core.errors import ConfigError
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.config.own_rules import OwnRules
    from prsm_core.domain.permissions import Ask
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.interfaces.clock import Clock
    from prsm_core.kit.background import Background
    from prsm_core.permissions import PermissionBroker

    Words = tuple[str, ...]

ANSWERS = ("once", "always", "allow_project", "allow_global", "deny", "deny_project", "deny_global")
SETTLE_SECONDS = 2.0  # how long the end of a run waits for its rules


class RuleKeeper:
    """Says which answers a request takes, and keeps the rules that some of them make.

    Args:
        own: Where rules are written; None: nobody can make any.
        broker: Is told of each new rule before anything else is decided.
        background: Runs what writes to disk.
        journal: Tells what was written, or why not; and whether a rule would hold a secret.
        clock: Bounds how long the end of a run waits for that.
    """

    def __init__(
        self,
        own: OwnRules | None,
        broker: PermissionBroker,
        background: Background,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._own = own
        self._broker = broker
        self._background = background
        self._journal = journal
        self._clock = clock
        self._writing: set[asyncio.Task[None]] = set()

    def answers(self, ask: Ask) -> tuple[str, ...]:
        """Return the answers that a request takes, in the order in which they are offered."""
        return tuple(answer for answer in ANSWERS if self._is_offered(answer, ask))

    def rules(self, ask: Ask) -> Mapping[str, Sequence[str]]:
        """Return, by verdict, the rules that the answers to a request make, as text."""
        made = {RULE_ANSWERS[name][0] for name in self.answers(ask) if name in RULE_ANSWERS}
        return {verdict: _texts(_rules(verdict, ask)) for verdict in sorted(made)}

    def keep(self, agent_id: str, answer: str, ask: Ask) -> None:
        """Let the rules of an answer hold from now on; most answers make none."""
        if answer not in RULE_ANSWERS or self._own is None:
            return
        verdict, project = RULE_ANSWERS[answer]
        rules = _rules(verdict, ask)
        for rule in rules:
            self._broker.add_rule(verdict, rule)
        work = self._write(self._own, agent_id, verdict, rules, project=project)
        task = self._background.start(work, name="keep a rule")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def settle(self) -> None:
        """Have told what became of the rules of a run that is about to end."""
        if tasks := set(self._writing):
            seconds = self._background.parting.most(SETTLE_SECONDS)
            await first_of(self._clock, seconds, lambda: asyncio.wait(tasks))

    def _is_offered(self, answer: str, ask: Ask) -> bool:
        if answer not in RULE_ANSWERS:
            return answer == "deny" or answer in ask.options
        verdict, project = RULE_ANSWERS[answer]
        rules = _rules(verdict, ask)
        if self._own is None or not rules or f"{verdict}_rule" not in ask.options:
            return False
        if verdict == "allow" and project and not self._own.may_allow_for_project:
            return False
        return all(self._journal.redact(text) == text for text in _texts(rules))

    async def _write(
        self, own: OwnRules, agent_id: str, verdict: str, rules: Sequence[Words], *, project: bool
    ) -> None:
        what = "; ".join(f"{verdict} {text}" for text in _texts(rules))
        try:
            path = await asyncio.to_thread(own.add, verdict, rules, project=project)
        except ConfigError as error:
            level, text = "error", f"{what}: holds for this run only: {error.message}"
        else:
            level, text = "info", f"{path}: added {what}"
        self._journal.tell("notice", agent_id, level=level, text=text)


def _rules(verdict: str, ask: Ask) -> tuple[Words, ...]:
    return ask.allow_rules if verdict == "allow" else ask.deny_rules


def _texts(rules: Sequence[Words]) -> list[str]:
    return [shlex.join(rule) for rule in rules]
