"""Budgets of a run and of each subtree: reserved before a launch, settled at the end.

A launch reserves one spawn, one turn and an estimate of that turn. A turn reserves its estimate
anew, is charged as its provider tells, and settles when it closes. A used-up limit refuses the next
launch and ends the turns that run; what was in flight may pass it. All acts are synchronous: what
one agent has reserved, no other can.

Amounts are whole numbers, tokens or billionths of a dollar, so that a reservation is given back to
the last bit.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from functools import lru_cache, reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.budgets import NO_LIMITS, Budget, BudgetKind
from prsm_core.domain.record import Record
from prsm_core.domain.usage import Provenance, Spent, total
from prsm_core.engine.state import UsedByTurn
from prsm_core.errors import BudgetExceededError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prsm_core.config.limits import PriceSettings
    from prsm_core.domain.agents import AgentDescriptor, SpawnRequest
    from prsm_core.domain.sessions import SessionState
    from prsm_core.domain.usage import TokenUsage
    from prsm_core.engine.journal.unit import Journal

    UsedUp = Callable[[BudgetExceededError], None]
    _Told = tuple[tuple[BudgetKind, int | None, Provenance], ...]


NANO = 1_000_000_000
METERED = (BudgetKind.TOKENS, BudgetKind.USD)  # known only as far as a provider tells


def to_units(kind: BudgetKind, amount: float) -> int:
    """Return an amount as a whole number."""
    return round(amount * NANO) if kind is BudgetKind.USD else int(amount)


def from_units(kind: BudgetKind, units: int) -> int | float:
    """Return the amount that `to_units` was given."""
    return units / NANO if kind is BudgetKind.USD else units


def to_limits(budget: Budget) -> dict[BudgetKind, int]:
    """Return the limits of a budget by kind."""
    limits = budget.to_dict()
    return {BudgetKind(name): to_units(BudgetKind(name), limits[name]) for name in limits}


class Part(Record, frozen=True, kw_only=True):
    """The subtree of an agent, with a budget of its own."""

    agent_id: str
    name: str
    limits: Budget


# An enum's member is looked up by code in Python: what each act asks for is named here.
KINDS = tuple(BudgetKind)
_TOKENS, _USD, _TURNS, _SPAWNS = KINDS


class Amounts(Record, frozen=True, gc=False):
    """Amounts by kind, as values that nearly all agents share."""

    tokens: int = 0
    usd: int = 0
    turns: int = 0
    spawns: int = 0

    def __getitem__(self, kind: BudgetKind) -> int:
        if kind is _TURNS:
            return self.turns
        if kind is _TOKENS:
            return self.tokens
        return self.usd if kind is _USD else self.spawns

    def plus(self, kind: BudgetKind, amount: int) -> Amounts:
        """Return the amounts with `amount` more of a kind."""
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
    """Return one mapping for all scopes with the same sources."""
    return MappingProxyType(dict(known))


class BudgetScope(Struct, eq=False):
    """One scope: its limits, what is used and reserved of them, and the scope around it.

    An act counts in the scope of its agent, in those around it that limit its kind, and in the run:
    nothing else is walked. Such a scope holds the numbers of all below it. Any other one holds
    those of its own agent; those below are added when somebody looks.
    """

    agent_id: str | None = None  # None is the run
    name: str = ""  # of that agent, for people
    parent: BudgetScope | None = None
    limits: Mapping[BudgetKind, int] = {}
    used: Amounts = NO_AMOUNTS
    reserved: Amounts = NO_AMOUNTS
    unknown: Amounts = NO_AMOUNTS  # turns that told nothing
    sources: Mapping[BudgetKind, Provenance] = {}
    told: frozenset[tuple[str, BudgetKind]] = frozenset()  # alerts, each given once
    stopped: frozenset[BudgetKind] = frozenset()  # used up, and who runs was told
    spent: Spent = _NOTHING_SPENT  # by turns that have ended
    children: list[BudgetScope] = []
    _limiting: tuple[BudgetScope, ...] = ()  # of the path, the nearest first
    _summing: Mapping[BudgetKind, tuple[BudgetScope, ...]] = {}  # those that sum
    _limited: Mapping[BudgetKind, tuple[tuple[BudgetScope, int], ...]] = {}

    def __post_init__(self) -> None:
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
        """Whether the numbers of a kind include all scopes below this one."""
        return self.parent is None or kind in self.limits

    def counting(self, kind: BudgetKind) -> tuple[BudgetScope, ...]:
        """Return the scopes in which an act of this one's agent counts, the run's last."""
        around = self._summing[kind]
        return around if around and around[0] is self else (self, *around)

    def add_used(self, kind: BudgetKind, amount: int) -> None:
        """Count an amount as used by this scope's agent, wherever it counts."""
        for scope in self.counting(kind):
            scope.used = scope.used.plus(kind, amount)

    def adopt(self, child: BudgetScope) -> None:
        """Add a scope right below this one."""
        self.children.append(child)

    def path(self) -> Iterator[BudgetScope]:
        """Yield the scope and those around it, the run's last."""
        scope: BudgetScope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def parts(self) -> Iterator[Part]:
        """Yield the subtrees of the path with limits of their own, the nearest first."""
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
        """Yield the scopes whose numbers of a kind add up to this one's."""
        rest = [self]
        while rest:
            scope = rest.pop()
            yield scope
            if not scope.is_summing(kind):
                rest += scope.children

    def limited(self, kind: BudgetKind) -> tuple[tuple[BudgetScope, int], ...]:
        """Return this scope and those around it with their limits of this kind."""
        return self._limited[kind]

    @property
    def is_limited(self) -> bool:
        """Whether this scope or one around it has a limit."""
        return bool(self._limiting)

    def comes_from(self, kind: BudgetKind, source: Provenance) -> None:
        """Note where the used number of a kind comes from."""
        if self.sources.get(kind) is not source:
            self.sources = _sources(frozenset({**self.sources, kind: source}.items()))

    def add_spent(self, spent: Spent) -> None:
        """Add what a turn of this scope's agent has used."""
        self.spent += spent
        run = self._summing[_TURNS][-1]
        if run is not self:
            run.spent += spent

    def spent_in_all(self) -> Spent:
        """Return what ended turns used, in this scope and all below it."""
        return self.spent if self.parent is None else total(scope.spent for scope in self.below())

    def room(self, kind: BudgetKind) -> int | None:
        """Return what is neither used nor reserved on the whole path; None without a limit."""
        rooms = [limit - p.used[kind] - p.reserved[kind] for p, limit in self.limited(kind)]
        return max(0, min(rooms)) if rooms else None

    def is_used_up(self, kind: BudgetKind) -> bool:
        """Whether this scope's own limit of this kind is reached."""
        return kind in self.limits and self.used[kind] >= self.limits[kind]

    def source(self, kind: BudgetKind) -> Provenance:
        """Return where the used number comes from; no use yet counts as measured."""
        sources = [each.sources[kind] for each in self.summands(kind) if kind in each.sources]
        if sources:
            return reduce(Provenance.combine, sources)
        return Provenance.UNKNOWN if self.unknown_turns(kind) else Provenance.MEASURED

    def unknown_turns(self, kind: BudgetKind) -> int:
        """Return how many turns told nothing of this kind."""
        return sum(each.unknown[kind] for each in self.summands(kind))

    def used_amount(self, kind: BudgetKind) -> int | float | None:
        """Return what is used; None if all of it is unknown."""
        known = self.source(kind) is not Provenance.UNKNOWN
        used = sum(each.used[kind] for each in self.summands(kind))
        return from_units(kind, used) if known else None

    def report(self) -> dict[str, dict[str, Any]]:
        """Return used, reserved, left and allowed amounts by kind, as JSON values."""
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
    """What a launch, or a running turn, holds of a scope and of those around it."""

    scope: BudgetScope
    reserved: Amounts = NO_AMOUNTS
    used: Amounts = NO_AMOUNTS  # told so far
    expected: Mapping[BudgetKind, int] = {}  # from measured turns
    spent: Spent = _NOTHING_SPENT  # by the turn so far

    def reserve(self, kind: BudgetKind, amount: int) -> None:
        """Reserve an amount in every scope in which it counts."""
        for scope in self.scope.counting(kind):
            scope.reserved = scope.reserved.plus(kind, amount)
        self.reserved = self.reserved.plus(kind, amount)

    def charge(self, kind: BudgetKind, amount: int, source: Provenance) -> None:
        """Count an amount as used where it counts, and take it off the reserve."""
        freed = min(amount, self.reserved[kind])
        self.reserved = self.reserved.plus(kind, -freed)
        self.used = self.used.plus(kind, amount)
        for scope in self.scope.counting(kind):
            scope.reserved = scope.reserved.plus(kind, -freed)
            scope.used = scope.used.plus(kind, amount)
            known = scope.sources.get(kind)
            scope.comes_from(kind, source if known is None else known.combine(source))

    def give_back(self) -> None:
        """Release all that is still reserved."""
        held, self.reserved = self.reserved, NO_AMOUNTS
        if held is NO_AMOUNTS:  # shared by all that hold nothing
            return
        for kind in KINDS:
            if amount := held[kind]:
                for scope in self.scope.counting(kind):
                    scope.reserved = scope.reserved.plus(kind, -amount)


def price_of(
    prices: Mapping[str, PriceSettings], provider: str, model: str
) -> PriceSettings | None:
    """Return the price of `provider/model`, else that of all the provider's models, if any."""
    return prices.get(f"{provider}/{model}", prices.get(provider))


def cost_of(price: PriceSettings, usage: TokenUsage) -> float | None:
    """Return what tokens cost in US dollars; None if input or output is unknown."""
    sent, answered = usage.input_tokens, usage.output_tokens
    if sent is None or answered is None:
        return None
    cached = min(usage.cached_input_tokens or 0, sent)
    of_cached = price.input if price.cached_input is None else price.cached_input
    spent = (sent - cached) * price.input + cached * of_cached + answered * price.output
    return spent / 1_000_000


WARN_PERCENT = 80
# What a turn is taken to use before any turn was measured; at most a tenth of the limit.
FIRST_TURN: Mapping[BudgetKind, int] = {
    BudgetKind.TOKENS: 10_000,
    BudgetKind.USD: to_units(BudgetKind.USD, 0.10),
}
_DEVISE = "do the work yourself, or finish with what there is; get_budget shows what is left"
_RAISE = {
    BudgetKind.TOKENS: "raise --budget-tokens or budgets.tokens",
    BudgetKind.USD: "raise --budget-usd or budgets.usd",
    BudgetKind.TURNS: "raise budgets.turns",
    BudgetKind.SPAWNS: "raise budgets.spawns",
}


class BudgetAlert(Record, frozen=True, kw_only=True):
    """An alert for a scope, given once: `warned`, `exceeded`, or `unmetered` by its provider."""

    what: str
    kind: BudgetKind
    scope: str | None  # the agent whose subtree it is; None is the run
    used: int | float | None
    reserved: int | float
    limit: int | float
    provenance: Provenance


class _Turn(Struct, eq=False):
    agent_id: str
    hold: Hold
    used_up: UsedUp | None


class BudgetLedger:
    """Owns the numbers of one run."""

    def __init__(
        self, limits: Budget = NO_LIMITS, on_alert: Callable[[BudgetAlert], None] = lambda _: None
    ) -> None:
        self._on_alert = on_alert
        self._is_told = False  # what is found is no news
        self.begin(limits)

    def begin(self, limits: Budget, *, let_turns_finish: bool = False) -> None:
        """Start a run with a whole budget; with `let_turns_finish` no turn is ended by it."""
        self.run = BudgetScope(limits=to_limits(limits))
        self._lets_finish = let_turns_finish
        self._scopes: dict[str, BudgetScope] = {}
        # By agent, until its first turn: what it holds, and whose spawn it is.
        self._launches: dict[str, tuple[Hold, BudgetScope | None]] = {}
        self._turns: dict[str, _Turn] = {}  # those that run, by their id
        self._ended: dict[str, UsedByTurn] = {}  # each agent's last, until its next one
        self._last: dict[tuple[str, BudgetKind], int] = {}  # an agent's last measured turn
        self._measured: Counter[BudgetKind] = Counter()  # turns
        self._totals: Counter[BudgetKind] = Counter()  # of those turns

    def launch(
        self,
        agent_id: str,
        *,
        parent_id: str | None = None,
        name: str = "",
        limits: Budget = NO_LIMITS,
    ) -> None:
        """Reserve a spawn, a turn and an estimate; raise BudgetExceededError, reserving nothing."""
        parent = self._scope(parent_id)
        spawner = None if parent_id is None else parent
        known = self._scopes.get(agent_id)
        scope = known or self._open(agent_id, name, parent, limits)
        if spawner is not None:
            self._require(spawner, _SPAWNS, 1)
        self._check_turn(scope, 1, agent_id)
        if known is None:
            self._scopes[agent_id] = scope
            parent.adopt(scope)
        self._launches[agent_id] = self._reserve(scope, agent_id), spawner
        if spawner is not None:
            spawner.add_used(_SPAWNS, 1)
            self._warn(spawner, _SPAWNS)

    def launch_agent(self, agent: AgentDescriptor) -> None:
        """Launch an agent as described: the limits of its grant are its subtree's."""
        limits = agent.grant.budget
        self.launch(agent.agent_id, parent_id=agent.parent_id, name=agent.name, limits=limits)

    def take_over(self, state: SessionState, agents: Iterable[AgentDescriptor]) -> None:
        """Count what all `agents` of a session did and used in its newest run, parents first."""
        run_id = state.runs[-1].run_id
        spawned = Counter(now.agent.parent_id for now in state.agents if now.agent.run_id == run_id)
        for now, agent in zip(state.agents, agents, strict=True):
            turns, spawns = now.turns - (now.open_turn is not None), spawned[agent.agent_id]
            self.adopt(agent, turns=turns, spent=now.spent, spawns=spawns)

    def adopt(
        self, agent: AgentDescriptor, *, turns: int, spent: Spent | None, spawns: int
    ) -> None:
        """Count the `turns` begun and `spent` by closed ones before this engine, parents first."""
        parent = self._scope(agent.parent_id)
        scope = self._open(agent.agent_id, agent.name, parent, agent.grant.budget)
        self._scopes[agent.agent_id] = scope
        parent.adopt(scope)
        if turns:
            scope.add_used(_TURNS, turns)
        if spawns:
            scope.add_used(_SPAWNS, spawns)
        if spent is not None:
            scope.add_spent(spent)
            self._count_spent(scope, _told(spent))
            untold = (_TOKENS, spent.turns_without_tokens), (_USD, spent.turns_without_cost)
            for kind, count in untold:
                for each in scope.counting(kind):
                    each.unknown = each.unknown.plus(kind, count)
        if scope.is_limited:
            with self._as_told():
                self._warn_of_all(scope)

    def charge(self, agent_id: str, spent: Spent) -> None:
        """Charge usage for an agent beside its turns."""
        scope, all_told = self._scope(agent_id), _told(spent)
        scope.add_spent(spent)
        self._count_spent(scope, all_told)
        for kind, told, _ in all_told:
            if told is not None:
                self._charged(scope, kind)

    def _count_spent(self, scope: BudgetScope, all_told: _Told) -> None:
        for kind, told, source in all_told:
            for each in scope.counting(kind) if told is not None else ():
                each.used = each.used.plus(kind, told or 0)
                each.comes_from(kind, source)

    def clamp(self, request: SpawnRequest) -> SpawnRequest:
        """Return the request with a budget within what its parent has left."""
        if request.budget is None:
            return request
        return replace(request, budget=request.budget.within(self.room(request.parent_id)))

    def check_launches(self, parent_id: str, count: int) -> None:
        """Raise BudgetExceededError unless `count` children could be launched now."""
        parent = self._scope(parent_id)
        self._require(parent, _SPAWNS, count)
        self._check_turn(parent, count, "")

    def cancel(self, agent_id: str) -> None:
        """Undo a launch that was not written."""
        _, spawner = self._launches.get(agent_id, (None, None))
        self.release(agent_id)
        if spawner is not None:
            spawner.add_used(_SPAWNS, -1)

    def release(self, agent_id: str) -> None:
        """Give back what an ended agent still holds; its open turn settles by itself."""
        hold, _ = self._launches.pop(agent_id, (None, None))
        if hold is not None:
            hold.give_back()

    def open_turn(self, agent_id: str, turn_id: str, used_up: UsedUp | None = None) -> None:
        """Reserve what the agent's next turn may use; raise BudgetExceededError if it may not.

        `used_up(error)` is called once for each scope and kind when tokens or dollars that the
        running turn draws on are used up, by whichever turn.
        """
        own = self._scope(agent_id)
        hold = self._hold_turn(own, agent_id)
        self._turns[turn_id] = _Turn(agent_id, hold, used_up)
        self._ended.pop(agent_id, None)
        hold.charge(_TURNS, 1, Provenance.MEASURED)
        self._warn(own, _TURNS)

    def _hold_turn(self, own: BudgetScope, agent_id: str) -> Hold:
        """Return the hold of the agent's next turn, or its unlimited launch's; else raise."""
        if not own.is_limited and (launched := self._launches.pop(agent_id, None)) is not None:
            return launched[0]
        self.release(agent_id)
        for kind in METERED:  # what others merely reserve does not stop an agent that lives
            for scope, _ in own.limited(kind):
                if scope.is_used_up(kind):
                    self._refuse(scope, kind, _hint(scope, kind))
        for scope, limit in own.limited(_TURNS):
            if scope.used[_TURNS] + scope.reserved[_TURNS] >= limit:
                self._refuse(scope, _TURNS, _hint(scope, _TURNS))
        return self._reserve(own, agent_id)

    def go_on(self, agent_id: str, turn_id: str, spent: Spent, used_up: UsedUp | None) -> None:
        """Open a turn of an earlier engine with its usage so far; see `open_turn`."""
        with self._as_told():
            self.open_turn(agent_id, turn_id, used_up)
            self.meter(turn_id, spent)

    @contextmanager
    def _as_told(self) -> Iterator[None]:
        """Suppress alerts: the engine that died has given them."""
        self._is_told = True
        try:
            yield
        finally:
            self._is_told = False

    def meter(self, turn_id: str, spent: Spent) -> None:
        """Charge a running turn with its total usage so far."""
        if (turn := self._turns.get(turn_id)) is not None:
            self._meter(turn.hold, spent, _told(spent))

    def _meter(self, hold: Hold, spent: Spent, all_told: _Told) -> None:
        hold.spent = spent
        for kind, told, source in all_told:
            if told is not None and told > hold.used[kind]:
                hold.charge(kind, told - hold.used[kind], source)
                self._charged(hold.scope, kind)

    def close_turn(self, turn_id: str, spent: Spent) -> None:
        """Settle a turn, once: charge what it used, give back the rest of its estimate.

        What nobody told is charged as estimated if turns were measured before, else it is unknown.
        A cost estimated by prices is corrected by the provider's own at the end.
        """
        turn = self._turns.get(turn_id)
        if turn is None:
            return
        hold, all_told = turn.hold, _told(spent)
        self._meter(hold, spent, all_told)
        if self._turns.pop(turn_id, None) is None:  # whoever was told of an alert has settled it
            return
        self._ended[turn.agent_id] = UsedByTurn(turn.agent_id, turn_id, spent)
        hold.scope.add_spent(spent)
        for kind, told, source in all_told:
            if told is None:
                self._settle_untold(hold, kind)
                continue
            if told < hold.used[kind]:
                hold.charge(kind, told - hold.used[kind], source)
            for scope in hold.scope.counting(kind):  # a turn that told zero is known too
                scope.comes_from(kind, scope.sources.get(kind, source))
            self._last[turn.agent_id, kind] = told
            self._measured[kind] += 1
            self._totals[kind] += told
        hold.give_back()

    def drop_turn(self, turn_id: str) -> None:
        """Give back what a turn holds that never began; no-op for a settled one."""
        turn = self._turns.pop(turn_id, None)
        if turn is None:
            return
        hold = turn.hold
        hold.give_back()
        hold.scope.add_used(_TURNS, -hold.used[_TURNS])

    def room(self, agent_id: str | None = None) -> Budget:
        """Return what is neither used nor reserved; None where nothing limits the agent."""
        rooms = {kind: self._scope(agent_id).room(kind) for kind in BudgetKind}
        left: dict[str, Any] = {
            kind.value: from_units(kind, room) for kind, room in rooms.items() if room is not None
        }
        return Budget(**left)

    def is_limited(self, agent_id: str) -> bool:
        """Return whether anything limits an agent's usage in this run."""
        return self._scope(agent_id).is_limited

    def parts_of(self, agent_id: str) -> list[Part]:
        """Return the subtrees around an agent with a budget of their own, its own first."""
        scope = self._scope(agent_id)
        return list(scope.parts()) if scope.is_limited else []

    def report(self, agent_id: str) -> dict[str, Any]:
        """Return the numbers of the run and of the agent's subtree, as JSON values and words."""
        scopes = {"run": self.run, "subtree": self._scope(agent_id)}
        spent = {name: self._spent(scope).text for name, scope in scopes.items()}
        return {**{name: scope.report() for name, scope in scopes.items()}, "spent": spent}

    @property
    def spent(self) -> Spent:
        """What the run has used so far, running turns included."""
        return self._spent(self.run)

    def spent_by(self, agent_id: str) -> Spent:
        """Return what an agent and all below it have used; the run's for an unknown one."""
        return self._spent(self._scope(agent_id))

    @property
    def unwritten(self) -> tuple[UsedByTurn, ...]:
        """The usage that may be in no store yet: running turns, and each agent's last."""
        running = (
            UsedByTurn(turn.agent_id, turn_id, turn.hold.spent)
            for turn_id, turn in self._turns.items()
        )
        return (*running, *self._ended.values())

    def _spent(self, scope: BudgetScope) -> Spent:
        return total([scope.spent_in_all(), *(turn.hold.spent for turn in self._within(scope))])

    def _within(self, scope: BudgetScope) -> list[_Turn]:
        return [turn for turn in self._turns.values() if scope in turn.hold.scope.path()]

    def _scope(self, agent_id: str | None) -> BudgetScope:
        return self.run if agent_id is None else self._scopes.get(agent_id, self.run)

    def _open(self, agent_id: str, name: str, parent: BudgetScope, limits: Budget) -> BudgetScope:
        """Return a new scope without limits that one around it undercuts: they would warn twice."""
        if limits == NO_LIMITS:  # as most
            return BudgetScope(agent_id, name, parent)
        own = {
            kind: limit
            for kind, limit in to_limits(limits).items()
            if all(limit < other for _, other in parent.limited(kind))
        }
        return BudgetScope(agent_id=agent_id, name=name, parent=parent, limits=own)

    def _check_turn(self, scope: BudgetScope, count: int, agent_id: str) -> None:
        if not scope.is_limited:
            return
        self._require(scope, _TURNS, count)
        for kind in METERED:
            self._require(scope, kind, (count - 1) * self._estimate(scope, kind, agent_id)[0] + 1)

    def _require(self, own: BudgetScope, kind: BudgetKind, amount: int) -> None:
        for scope, limit in own.limited(kind):
            if limit - scope.used[kind] - scope.reserved[kind] < amount:
                self._refuse(scope, kind, _DEVISE)

    def _reserve(self, scope: BudgetScope, agent_id: str) -> Hold:
        hold = Hold(scope)
        hold.reserve(_TURNS, 1)
        for kind in METERED if scope.is_limited else ():  # else an estimate is of no use
            room = scope.room(kind)
            amount, is_measured = self._estimate(scope, kind, agent_id)
            if is_measured:
                hold.expected = {**hold.expected, kind: amount}
            if room is not None:
                hold.reserve(kind, min(room, amount))
        return hold

    def _estimate(self, scope: BudgetScope, kind: BudgetKind, agent_id: str) -> tuple[int, bool]:
        last = self._last.get((agent_id, kind))
        if last is not None:
            return last, True
        if self._measured[kind]:
            return self._totals[kind] // self._measured[kind], True
        tenths = [limit // 10 for _, limit in scope.limited(kind)]
        return min([FIRST_TURN[kind], *tenths]), False

    def _settle_untold(self, hold: Hold, kind: BudgetKind) -> None:
        scopes = [scope for scope, _ in hold.scope.limited(kind)]
        if scopes and kind in hold.expected and not hold.used[kind]:
            hold.charge(kind, hold.expected[kind], Provenance.ESTIMATED)
            self._charged(hold.scope, kind)
        else:
            for scope in hold.scope.counting(kind):
                scope.unknown = scope.unknown.plus(kind, 1)
        for scope in scopes:
            self._tell("unmetered", scope, kind)

    def _charged(self, own: BudgetScope, kind: BudgetKind) -> None:
        self._warn(own, kind)
        for scope, _ in own.limited(kind):
            is_new = scope.is_used_up(kind) and kind not in scope.stopped
            if is_new and not self._lets_finish:
                scope.stopped |= {kind}
                self._tell("exceeded", scope, kind)
                self._stop(scope, kind)

    def _stop(self, scope: BudgetScope, kind: BudgetKind) -> None:
        error = BudgetExceededError(_why(scope, kind), hint=_hint(scope, kind))
        for turn in self._within(scope):
            if turn.used_up is not None:
                turn.used_up(error)

    def _warn(self, own: BudgetScope, kind: BudgetKind) -> None:
        for scope, limit in own.limited(kind):
            if scope.used[kind] * 100 >= limit * WARN_PERCENT:
                self._tell("warned", scope, kind)

    def _warn_of_all(self, own: BudgetScope) -> None:
        for kind in KINDS:
            self._warn(own, kind)
            for scope, _ in own.limited(kind):
                if kind in METERED and scope.is_used_up(kind):
                    self._tell("exceeded", scope, kind)

    def _tell(self, what: str, scope: BudgetScope, kind: BudgetKind) -> None:
        if (what, kind) in scope.told:
            return
        scope.told |= {(what, kind)}
        if self._is_told:
            return
        alert = BudgetAlert(
            what=what,
            kind=kind,
            scope=scope.agent_id,
            used=scope.used_amount(kind),
            reserved=from_units(kind, scope.reserved[kind]),
            limit=from_units(kind, scope.limits[kind]),
            provenance=scope.source(kind),
        )
        self._on_alert(alert)

    def _refuse(self, scope: BudgetScope, kind: BudgetKind, hint: str) -> NoReturn:
        self._tell("exceeded", scope, kind)
        raise BudgetExceededError(_why(scope, kind), hint=hint)


def _told(spent: Spent) -> _Told:
    tokens, cost = spent.usage.known_total, spent.cost_usd
    usd = None if cost is None else to_units(_USD, cost)
    return (_TOKENS, tokens, spent.tokens_from), (_USD, usd, spent.cost_from)


def _hint(scope: BudgetScope, kind: BudgetKind) -> str:
    return _RAISE[kind] if scope.agent_id is None else f"give {scope.name} more when it is spawned"


def _why(scope: BudgetScope, kind: BudgetKind) -> str:
    whose = "the run" if scope.agent_id is None else f"{scope.name} and its children"
    limit, used = _amount(kind, scope.limits[kind]), _amount(kind, scope.used[kind])
    text = f"the budget of {whose} is used up: {used} of {limit} used"
    held = scope.reserved[kind]
    return f"{text}, {_amount(kind, held)} reserved" if held else text


def _amount(kind: BudgetKind, units: int) -> str:
    amount = from_units(kind, units)
    return f"${amount:g}" if kind is _USD else f"{amount:,} {kind.value}"


def tell_alert(journal: Journal, alert: BudgetAlert) -> None:
    """Write an alert to the journal, under the subtree's agent if any."""
    if alert.what == "unmetered":
        kind = alert.kind.value
        text = (
            f"a turn told nothing of its {kind}: the budget of {alert.limit} {kind} holds only as"
            " far as that is known"
        )
        journal.warn(alert.scope, text)
        return
    journal.note(
        f"budget_{alert.what}",
        alert.scope,
        kind=alert.kind.value,
        used=alert.used,
        limit=alert.limit,
        reserved=alert.reserved,
        scope="run" if alert.scope is None else "subtree",
        provenance=alert.provenance.value,
    )
