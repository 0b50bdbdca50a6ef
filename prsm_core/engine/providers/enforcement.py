"""Report what providers cannot enforce of the policy before their first turn, or refuse it.

The same goes for ignored model parameters and budgets that cannot end turns. A provider's word is
taken: its capabilities, and the gaps its probe names.

Each run reports where a person is less protected than their settings say: rules, boxes and budgets
that do not hold. Ignored parameters protect nobody, so they are reported once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.turns import Notice
from prsm_core.engine.providers.levels import (
    HINT,
    beyond_regions,
    check_level,
    describe_blind,
    describe_shortfall,
    needed_level,
    reaches,
)
from prsm_core.engine.spending import price_of
from prsm_core.engine.turns.context import describe_ignored
from prsm_core.errors import ProviderNotAvailableError, PrsmError
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from prsm_core.config import Settings
    from prsm_core.config.limits import PriceSettings
    from prsm_core.domain.budgets import Budget
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.spending import Part
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.interfaces.provider import ProviderCapabilities, ProviderStatus
    from prsm_core.kit.background import Background

_LATE = "only when a turn ends, so that one turn of each of its agents may pass the budget of"
_SOONEST = ("step", "turn", "none")
_NEVER = "perhaps not at all, so that its agents may pass the budget of"


class Enforcement:
    """Owns what is known of the providers' reach, and what of it was reported."""

    def __init__(
        self,
        providers: ProviderRegistry,
        settings: Settings,
        journal: Journal,
        background: Background,
        clock: Clock,
        parts_of: Callable[[str], Sequence[Part]] = lambda _: (),
        checks: Sequence[PermissionCheckSpec] = (),
    ) -> None:
        self._checks = [check for check in checks if check.level is not None]
        self._parts_of = parts_of  # the subtrees around an agent with a budget of their own
        self._providers = providers
        self._settings = settings
        self._permissions = settings.permissions
        self._limits, self._prices = settings.budgets.to_budget(), settings.budgets.prices
        self._journal = journal
        self._background = background
        self._clock = clock
        self._looks: dict[str, asyncio.Task[None]] = {}  # at providers, whoever waits for them
        self._mode = PermissionMode.DEFAULT
        self._known: dict[str, ProviderStatus | None] = {}  # None: it could not be probed
        self._told: set[tuple[str, ...]] = set()  # in this run: what, and of which provider
        self._stale: set[str] = set()  # those of them that an earlier run has looked at
        # Made when they are asked for, and anew once somebody was looked at.
        self._usable: frozenset[str] | None = None
        self._unseen: frozenset[str] | None = None
        self.refused: dict[str, str] = {}  # providers below permissions.require, and why

    async def survey(self, mode: PermissionMode, *leading: str) -> list[Notice]:
        """Return the notices on the `leading` providers before a run's first turn, in one line."""
        self._mode = mode
        self._told.clear()
        # Since an earlier run of the session somebody may have logged in.
        self._stale = set(self._known)
        self._usable = self._unseen = None
        await self._learn({*leading, *self._providers.statuses})
        box = self._settings.box.to_box()
        gaps = () if box is None else (await self._providers.boxes.examine()).gaps(box)
        return [*self._tell(*sorted(set(leading))), *_warnings(gaps)]

    async def admit(self, name: str, agent_id: str, labels: Collection[str] = frozenset()) -> None:
        """Report a provider that is new to the run, before an agent's session is opened.

        Checks on any of the agent's `labels` are reported if the provider does not show them
        everything. Raises ProviderNotAvailableError if it enforces less than is required.
        """
        if ("provider", name) not in self._told:
            await self._learn((name,))
            for notice in self._tell(name):
                await self._journal.fact("notice", agent_id, **notice.to_dict())
        for line in (*self.tell_parts(name, agent_id), *self._tell_checks(name, labels)):
            await self._journal.fact("notice", agent_id, level="warning", text=line)
        if name in self.refused:
            raise ProviderNotAvailableError(self.refused[name], hint=HINT)

    def tell_parts(self, name: str, agent_id: str) -> list[str]:
        """Return, once in a run, how an agent may pass the budgets of its subtrees."""
        parts = self._parts_of(agent_id)
        if not parts or not self._is_available(name):
            return []
        new = [part for part in parts if self._is_news("part", part.agent_id, name)]
        return [line for part in new if (line := self._describe_part(name, part))]

    def _tell_checks(self, name: str, labels: Collection[str]) -> list[str]:
        if not self._checks or not self._is_available(name):
            return []
        new = [
            check
            for check in self._checks
            if not check.labels.isdisjoint(labels) and self._is_news("check", check.name, name)
        ]
        capabilities, status = self._providers.capabilities(name), self._known[name]
        gaps = () if status is None else status.gaps
        lines = (describe_blind(check, name, capabilities, gaps) for check in new)
        return [line for line in lines if line]

    def _is_news(self, *what: str) -> bool:
        is_news = what not in self._told
        self._told.add(what)
        return is_news

    def describe_budget(self, name: str, agent_id: str) -> str:
        """Return what an agent's provider may spend beyond the agent's own budget."""
        own = [part for part in self._parts_of(agent_id) if part.agent_id == agent_id]
        return self._describe_part(name, own[0]) if own and self._is_available(name) else ""

    def _describe_part(self, name: str, part: Part) -> str:
        capabilities = self._providers.capabilities(name)
        return describe_metering(name, part.limits, capabilities, part.name, self._prices)

    @property
    def usable_now(self) -> frozenset[str]:
        """The providers that can start agents, of those looked at so far."""
        if self._usable is None:  # every spawn asks
            self._usable = frozenset(
                name for name in self._known if name not in self.refused and self._is_there(name)
            )
        return self._usable

    @property
    def unseen(self) -> frozenset[str]:
        """The providers that this run has not looked at yet."""
        if self._unseen is None:  # every answer to a call asks
            seen = self._known.keys() - self._stale
            self._unseen = frozenset(self._providers.offered) - seen
        return self._unseen

    def look_at_all(self) -> None:
        """Begin to look at all providers without waiting."""
        self._looking(self.unseen)

    @property
    def beyond_regions(self) -> dict[str, str]:
        """The usable providers whose agents may write beside a region unasked, and why."""
        found = {
            name: beyond_regions(self._providers.capabilities(name))
            for name in sorted(self.usable_now & self._providers.names)
            if not self._providers.is_external(name)
        }
        return {name: why for name, why in found.items() if why}

    def is_gone(self, name: str) -> bool:
        """Whether a provider was looked at and cannot start agents, policy aside."""
        return name in self._known and not self._is_there(name)

    async def usable(self, names: Iterable[str]) -> list[str]:
        """Return the providers that can start agents; each is probed once."""
        wanted = sorted(set(names))
        await self._learn(wanted)
        return [name for name in wanted if name not in self.refused and self._is_there(name)]

    async def look_around(self, seconds: float) -> None:
        """Wait until it is known which providers can start agents, or for `seconds`."""
        await first_of(self._clock, seconds, lambda: self._learn(self.unseen))

    def _is_there(self, name: str) -> bool:
        status = self._known.get(name)
        return status is not None and status.available and status.logged_in is not False

    def _is_available(self, name: str) -> bool:
        status = self._known.get(name)
        return status is not None and status.available

    async def _learn(self, names: Iterable[str]) -> None:
        if looks := self._looking(names):
            await asyncio.wait(looks)

    def _looking(self, names: Iterable[str]) -> set[asyncio.Task[None]]:
        """Return the probes of unknown providers, which continue even if nobody waits."""
        new = sorted(set(names) - (self._known.keys() - self._stale))
        for name in new:
            if name not in self._looks or self._looks[name].done():
                self._looks[name] = self._background.start(
                    self._look(name), name=f"probe of {name}"
                )
        return {self._looks[name] for name in new}

    async def _look(self, name: str) -> None:
        status = await self._probe(name)
        self._known[name] = status
        self._stale.discard(name)
        self.refused.pop(name, None)
        self._usable = self._unseen = None
        if status is None or self._providers.is_external(name):
            return  # the one has errors of its own, the other is not started here
        try:
            check_level(name, self._permissions, self._providers.capabilities(name), status)
        except ProviderNotAvailableError as error:
            self.refused[name] = error.message

    async def _probe(self, name: str) -> ProviderStatus | None:
        try:
            return self._providers.statuses.pop(name, None) or await self._providers.probe(name)
        except PrsmError:
            return None  # whoever uses it hears why

    def _tell(self, *names: str) -> list[Notice]:
        short = [name for name in names if self._shortfall(name)]
        odd = [notice for name in names for notice in self._odd(name)]
        return [*_warnings(self._summary(short)), *odd]

    def _odd(self, name: str) -> list[Notice]:
        self._told.add(("provider", name))
        if not self._is_available(name):
            # That needs no probe: it is told also of one that is slow to answer.
            return _warnings(self._metering(name))
        ignored = describe_ignored(name, self._settings, self._providers.capabilities(name))
        why = getattr(self._known[name], "reason", None)
        doubt = f"provider {name}: {why} (`prsm doctor` says more)" if why else ""
        told = [Notice("warning", text, once=True) for text in (ignored, doubt) if text]
        return [*told, *_warnings([*self._unboxed(name), *self._metering(name)])]

    def _unboxed(self, name: str) -> list[str]:
        capabilities = self._providers.capabilities(name)
        if capabilities.boxes or self._settings.box.to_box() is None:
            return []
        why = "" if capabilities.own_process else ", several of which share one process"
        return [
            f"provider {name} does not start its agents{why}, in boxes: no limit of `box` in the"
            " settings holds for them"
        ]

    def _metering(self, name: str) -> list[str]:
        if not self._is_news("budgets", name):
            return []
        capabilities = self._providers.capabilities(name)
        line = describe_metering(name, self._limits, capabilities, prices=self._prices)
        return [line] if line else []

    def _shortfall(self, name: str) -> str:
        if not self._is_available(name):
            return ""
        capabilities = self._providers.capabilities(name)
        return describe_shortfall(self._permissions, self._mode, capabilities, self._known[name])

    def _summary(self, names: Sequence[str]) -> list[str]:
        if not names:
            return []
        listed, ends = ", ".join(names), {self._outcome(name) for name in names}
        done = ends.pop() if len(ends) == 1 else "their agents run as far as they may"
        several = len(names) > 1
        return [
            f"provider{'s' * several} {listed} {'do' if several else 'does'} not enforce all of the"
            f" policy; {done} (`prsm providers` says what)"
        ]

    def _outcome(self, name: str) -> str:
        if name in self.refused:
            return "no agent is started on it"
        done = "its agents run all the same"
        capabilities = self._providers.capabilities(name)
        level, _ = needed_level(self._permissions, self._mode, asks_edits=capabilities.asks_edits)
        if self._permissions.require is None and not reaches(capabilities, level):
            done += f", unless you set permissions.require: {level}"
        return done


def _warnings(lines: Iterable[str]) -> list[Notice]:
    return [Notice("warning", line) for line in lines]


def describe_metering(
    name: str,
    limits: Budget,
    capabilities: ProviderCapabilities,
    whose: str = "",
    prices: Mapping[str, PriceSettings] = {},
) -> str:
    """Return what a provider may spend beyond a budget, for people; blank if nothing.

    A provider that reports each response is ended at its next step, and not mentioned. `whose`
    names the budget's subtree; blank is the run. With a price for all models of the provider its
    cost is known as soon as its tokens are.
    """
    parts, of = [], f"{whose} and its children, " if whose else ""
    if limits.tokens is not None and capabilities.tokens_told != "step":
        parts.append(f"its tokens {_how(capabilities.tokens_told)} {of}{limits.tokens:,} tokens")
    cost_told = capabilities.cost_told
    if price_of(prices, name, "") is not None:
        cost_told = min(cost_told, capabilities.tokens_told, key=_SOONEST.index)
    if limits.usd is not None and cost_told != "step":
        parts.append(f"its cost {_how(cost_told)} {of}${limits.usd:g}{_advice(name, capabilities)}")
    return f"provider {name} tells {'; and '.join(parts)}" if parts else ""


def _advice(name: str, capabilities: ProviderCapabilities) -> str:
    helps = capabilities.tokens_told == "step"
    return f" (a price for {name} in budgets.prices holds it by an estimate)" if helps else ""


def _how(told: str) -> str:
    return _LATE if told == "turn" else _NEVER
