"""What one scope of a budget, the run or an agent with all below it, has and has used.

Amounts are whole numbers, tokens or billionths of a dollar, so that what was reserved is given
back to the last bit.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prsm_core.domain.budgets import Budget, BudgetKind
from prsm_core.domain.record import Record
from prsm_core.domain.sparing import NOTHING, push
from prsm_core.domain.usage import Provenance, Spent, total

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NANO = 1_000_000_000
METERED = (BudgetKind.TOKENS, BudgetKind.USD)  # known only as far as a provider tells


def to_units(kind: BudgetKind, amount: float) -> int:
    """Return an amount as a whole number, to count with."""
    return round(amount * NANO) if kind is BudgetKind.USD else int(amount)


def from_units(kind: BudgetKind, units: int) -> int | float:
    """Return the amount that `to_units` was given."""
    return units / NANO if kind is BudgetKind.USD else units


def to_limits(budget: Budget) -> dict[BudgetKind, int]:
    """Return the limits of a budget by kind; a kind without one is left out."""
    limits = budget.to_dict()
    return {BudgetKind(name): to_units(BudgetKind(name), limits[name]) for name in limits}


class Part(Record, frozen=True, kw_only=True):
    """A subtree with a budget of its own: that of an agent and all below it."""

    agent_id: str
    name: str
    limits: Budget


# An enum's member is looked up by code in Python: what each act asks for is named here.
KINDS = tuple(BudgetKind)
_TOKENS, _USD, _TURNS, _SPAWNS = KINDS


class Amounts(Record, frozen=True, gc=False):
    """Amounts by kind; values, so that nearly all agents share one of two."""

    tokens: int = 0
    usd: int = 0
    turns: int = 0
    spawns: int = 0

    def __getitem__(self, kind: BudgetKind) -> int:
        """Return the amount of a kind."""
        if kind is _TURNS:
            return self.turns
        if kind is _TOKENS:
            return self.tokens
        return self.usd if kind is _USD else self.spawns

    def plus(self, kind: BudgetKind, amount: int) -> Amounts:
        """Return them with so much more of a kind, or less."""
        if not amount:
            return self
        tokens, usd, turns, spawns = self.tokens, self.usd, self.turns, self.spawns
        if kind is _TURNS:
            turns += amount
        elif kind is _TOKENS:
            tokens += amount
        elif kind is _USD:
            usd += amount
        else:
            spawns += amount
        if tokens or usd or spawns or turns not in {0, 1}:
            return Amounts(tokens, usd, turns, spawns)
        return _ONE_TURN if turns else NO_AMOUNTS


NO_AMOUNTS = Amounts()
_ONE_TURN = Amounts(turns=1)  # what each agent has that has had its first, and told nothing
_NOTHING_SPENT = Spent()


@lru_cache(maxsize=64)
def _sources(known: frozenset[tuple[BudgetKind, Provenance]]) -> Mapping[BudgetKind, Provenance]:
    """Return where numbers come from, one mapping for all scopes with the same."""
    return MappingProxyType(dict(known))


class BudgetScope(Struct, eq=False):
    """One scope: its own limits, what is used and reserved of them, and the scope around it.

    An act counts in the scope of its agent, in those around it that limit what it uses, and in the
    run: nothing else is walked. Such a scope holds the numbers of all below it, any other one
    those of its own agent alone; what is below is added to them when somebody looks.
    """

    agent_id: str | None = None  # None is the run
    name: str = ""  # of that agent, for people
    parent: BudgetScope | None = None
    limits: Mapping[BudgetKind, int] = NOTHING
    used: Amounts = NO_AMOUNTS
    reserved: Amounts = NO_AMOUNTS
    unknown: Amounts = NO_AMOUNTS  # turns that told nothing
    sources: Mapping[BudgetKind, Provenance] = NOTHING
    told: frozenset[tuple[str, BudgetKind]] = frozenset()  # alerts, each given once
    stopped: frozenset[BudgetKind] = frozenset()  # used up, and who runs was told
    spent: Spent = _NOTHING_SPENT  # by turns that have ended
    children: Sequence[BudgetScope] = ()  # grows by `adopt`
    _limiting: tuple[BudgetScope, ...] = ()  # of the path, the nearest first
    _summing: Mapping[BudgetKind, tuple[BudgetScope, ...]] = NOTHING  # those that sum
    _limited: Mapping[BudgetKind, tuple[tuple[BudgetScope, int], ...]] = NOTHING

    def __post_init__(self) -> None:
        self.limits = self.limits or NOTHING
        parent = self.parent
        if parent is not None and not self.limits:  # most are like the scope around them
            self._limiting, self._summing = parent._limiting, parent._summing
            self._limited = parent._limited
            return
        around = parent._summing if parent is not None else dict.fromkeys(BudgetKind, ())
        self._limiting = (*((self,) if self.limits else ()), *(parent._limiting if parent else ()))
        self._summing = {
            kind: (self, *around[kind]) if self.is_summing(kind) else around[kind]
            for kind in BudgetKind
        }
        self._limited = {
            kind: tuple((one, one.limits[kind]) for one in scopes if kind in one.limits)
            for kind, scopes in self._summing.items()
        }

    def is_summing(self, kind: BudgetKind) -> bool:
        """Whether the numbers of a kind are those of all below this scope too."""
        return self.parent is None or kind in self.limits

    def counting(self, kind: BudgetKind) -> tuple[BudgetScope, ...]:
        """Return the scopes in which an act of this one's agent counts, the run's last."""
        around = self._summing[kind]
        return around if around and around[0] is self else (self, *around)

    def add_used(self, kind: BudgetKind, amount: int) -> None:
        """Count that much as used by this scope's agent, wherever it counts."""
        for scope in self.counting(kind):
            scope.used = scope.used.plus(kind, amount)

    def adopt(self, child: BudgetScope) -> None:
        """Have another scope right below this one."""
        self.children = push(self.children, child)

    def path(self) -> Iterator[BudgetScope]:
        """Yield the scope and those around it, the run's last."""
        scope: BudgetScope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def parts(self) -> Iterator[Part]:
        """Yield the subtrees of the path that have limits of their own, the nearest first."""
        for scope in self._limiting:
            if scope.agent_id is not None:
                amounts: dict[str, Any] = {
                    kind.value: from_units(kind, limit) for kind, limit in scope.limits.items()
                }
                yield Part(agent_id=scope.agent_id, name=scope.name, limits=Budget(**amounts))

    def below(self) -> Iterator[BudgetScope]:
        """Yield the scope and all below it."""
        rest = [self]
        while rest:
            scope = rest.pop()
            yield scope
            rest += scope.children

    def summands(self, kind: BudgetKind) -> Iterator[BudgetScope]:
        """Yield the scopes whose numbers of a kind add up to those of this one."""
        rest = [self]
        while rest:
            scope = rest.pop()
            yield scope
            if not scope.is_summing(kind):
                rest += scope.children

    def limited(self, kind: BudgetKind) -> tuple[tuple[BudgetScope, int], ...]:
        """Return this scope and those around it that have a limit of this kind, with that limit."""
        return self._limited[kind]

    @property
    def is_limited(self) -> bool:
        """Whether anything limits this scope: a limit of its own, or of one around it."""
        return bool(self._limiting)

    def comes_from(self, kind: BudgetKind, source: Provenance) -> None:
        """Note where the number used of a kind comes from."""
        if self.sources.get(kind) is not source:
            self.sources = _sources(frozenset({**self.sources, kind: source}.items()))

    def add_spent(self, spent: Spent) -> None:
        """Note what a turn of this scope's agent has used in all."""
        self.spent += spent
        run = self._summing[_TURNS][-1]
        if run is not self:
            run.spent += spent

    def spent_in_all(self) -> Spent:
        """Return what turns used that have ended, of this scope and of all below it."""
        return self.spent if self.parent is None else total(scope.spent for scope in self.below())

    def room(self, kind: BudgetKind) -> int | None:
        """Return what is neither used nor reserved on the whole path; None without a limit."""
        rooms = [limit - p.used[kind] - p.reserved[kind] for p, limit in self.limited(kind)]
        return max(0, min(rooms)) if rooms else None

    def is_used_up(self, kind: BudgetKind) -> bool:
        """Whether this very scope has a limit of this kind that is reached."""
        return kind in self.limits and self.used[kind] >= self.limits[kind]

    def source(self, kind: BudgetKind) -> Provenance:
        """Return where the number used comes from; that nothing was used yet is a fact."""
        sources = [each.sources[kind] for each in self.summands(kind) if kind in each.sources]
        if sources:
            return reduce(Provenance.combine, sources)
        return Provenance.UNKNOWN if self.unknown_turns(kind) else Provenance.MEASURED

    def unknown_turns(self, kind: BudgetKind) -> int:
        """Return how many turns told nothing of this kind."""
        return sum(each.unknown[kind] for each in self.summands(kind))

    def used_amount(self, kind: BudgetKind) -> int | float | None:
        """Return what is used, None when all of it is unknown."""
        known = self.source(kind) is not Provenance.UNKNOWN
        used = sum(each.used[kind] for each in self.summands(kind))
        return from_units(kind, used) if known else None

    def report(self) -> dict[str, dict[str, Any]]:
        """Return what is used, reserved, left and allowed by kind, as JSON values.

        `left` heeds the scopes around this one too. Limits that there are not are left out.
        """
        return {kind.value: self._report(kind) for kind in BudgetKind}

    def _report(self, kind: BudgetKind) -> dict[str, Any]:
        reserved = from_units(kind, sum(each.reserved[kind] for each in self.summands(kind)))
        line: dict[str, Any] = {"used": self.used_amount(kind), "reserved": reserved}
        left = self.room(kind)
        if left is not None:
            line["left"] = from_units(kind, left)
        if kind in self.limits:
            line["limit"] = from_units(kind, self.limits[kind])
        if kind in METERED:
            line["from"] = self.source(kind).value
        if unknown := self.unknown_turns(kind):
            line["unknown_turns"] = unknown
        return line


class Hold(Struct, eq=False):
    """What a launch, or a turn that runs, holds of a scope and of those around it."""

    scope: BudgetScope
    reserved: Amounts = NO_AMOUNTS
    used: Amounts = NO_AMOUNTS  # told so far
    expected: Mapping[BudgetKind, int] = NOTHING  # from measured turns
    spent: Spent = _NOTHING_SPENT  # by the turn so far

    def reserve(self, kind: BudgetKind, amount: int) -> None:
        """Set aside that much more, in every scope in which it counts."""
        for scope in self.scope.counting(kind):
            scope.reserved = scope.reserved.plus(kind, amount)
        self.reserved = self.reserved.plus(kind, amount)

    def charge(self, kind: BudgetKind, amount: int, source: Provenance) -> None:
        """Count that much as used where it counts; it comes off what is reserved."""
        freed = min(amount, self.reserved[kind])
        self.reserved = self.reserved.plus(kind, -freed)
        self.used = self.used.plus(kind, amount)
        for scope in self.scope.counting(kind):
            scope.reserved = scope.reserved.plus(kind, -freed)
            scope.used = scope.used.plus(kind, amount)
            known = scope.sources.get(kind)
            scope.comes_from(kind, source if known is None else known.combine(source))

    def give_back(self) -> None:
        """Let go of all that is still reserved."""
        held, self.reserved = self.reserved, NO_AMOUNTS
        if held is NO_AMOUNTS:  # shared by all that hold nothing
            return
        for kind in KINDS:
            if amount := held[kind]:
                for scope in self.scope.counting(kind):
                    scope.reserved = scope.reserved.plus(kind, -amount)
