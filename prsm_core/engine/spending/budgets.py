"""The budget ledger: what a run has used and reserved, and whether an agent may launch.

A launch reserves one spawn, one turn and an estimate of that turn; a turn reserves its estimate
anew, is charged as its provider tells, and settles when it closes. What is used up refuses the
next launch, and those whose turns run are told, so that these end; a limit may be passed by what
was in flight. All acts are synchronous: what one agent has reserved, no other can.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.budgets import NO_LIMITS, Budget, BudgetKind
from prsm_core.domain.record import Record
from prsm_core.domain.turns import (
    AssistantMessage,
    StepEnded,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
)
from prsm_core.domain.usage import Provenance, Spent, total
from prsm_core.engine.spending.scopes import (
    KINDS,
    METERED,
    BudgetScope,
    Hold,
    Part,
    from_units,
    to_limits,
    to_units,
)
from prsm_core.engine.state import UsedByTurn
from prsm_core.errors import BudgetExceededError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prsm_core.config.limits import PriceSettings
    from prsm_core.domain.agents import AgentDescriptor, SpawnRequest
    from prsm_core.domain.turns import ProviderEvent
    from prsm_core.domain.usage import TokenUsage
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.interfaces.clock import Clock

    UsedUp = Callable[[BudgetExceededError], None]
    _Told = tuple[tuple[BudgetKind, int | None, Provenance], ...]


def price_of(
    prices: Mapping[str, PriceSettings], provider: str, model: str
) -> PriceSettings | None:
    """Return the price of `provider/model`, else that of all models of the provider, if any."""
    return prices.get(f"{provider}/{model}", prices.get(provider))


def cost_of(price: PriceSettings, usage: TokenUsage) -> float | None:
    """Return what tokens cost, in US dollars; None where input or output is not known."""
    sent, answered = usage.input_tokens, usage.output_tokens
    if sent is None or answered is None:
        return None
    cached = min(usage.cached_input_tokens or 0, sent)
    of_cached = price.input if price.cached_input is None else price.cached_input
    spent = (sent - cached) * price.input + cached * of_cached + answered * price.output
    return spent / 1_000_000


WARN_PERCENT = 80
# What a turn is taken to use before any turn was measured; at most a tenth of the limit.
_TOKENS, _USD, _TURNS, _SPAWNS = KINDS
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
    """What is worth telling of a scope, once: it is `warned`, `exceeded` or `unmetered`.

    `unmetered` says that a limit holds and a provider does not tell what it counts.
    """

    what: str
    kind: BudgetKind
    scope: str | None  # the agent whose subtree it is; None is the run
    used: int | float | None
    reserved: int | float
    limit: int | float
    provenance: Provenance


class _Turn(Struct, eq=False):
    """A turn that runs: whose it is, what it holds, and who is told when that is used up."""

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
        """Forget everything: a new run has a budget of its own, all of it.

        With `let_turns_finish` no turn is told that what it draws on is used up.
        """
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
        """Reserve what an agent needs to begin: a spawn of its parent's, a turn, an estimate.

        Raises BudgetExceededError, and then nothing is reserved. An agent that began before in
        this run keeps its limits and what it has used.
        """
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
        """Launch an agent as it is described: the limits of its grant are its subtree's."""
        limits = agent.grant.budget
        self.launch(agent.agent_id, parent_id=agent.parent_id, name=agent.name, limits=limits)

    def adopt(
        self, agent: AgentDescriptor, *, turns: int, spent: Spent | None, spawns: int
    ) -> None:
        """Count what an agent did and used before this engine went on with its run.

        Parents come first. `turns` are those it has begun, `spent` is by those that are closed.
        """
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
        if scope.is_limited:
            with self._as_told():
                self._warn_of_all(scope)

    def charge(self, agent_id: str, spent: Spent) -> None:
        """Charge what was used for an agent beside its turns."""
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
        """Return the request with a budget that is not more than its parent has left."""
        if request.budget is None:
            return request
        return replace(request, budget=request.budget.within(self.room(request.parent_id)))

    def check_launches(self, parent_id: str, count: int) -> None:
        """Raise BudgetExceededError unless that many children could be launched right now."""
        parent = self._scope(parent_id)
        self._require(parent, _SPAWNS, count)
        self._check_turn(parent, count, "")

    def cancel(self, agent_id: str) -> None:
        """Undo a launch that was not written: there is no such agent."""
        _, spawner = self._launches.get(agent_id, (None, None))
        self.release(agent_id)
        if spawner is not None:
            spawner.add_used(_SPAWNS, -1)

    def release(self, agent_id: str) -> None:
        """Give back what an agent that has ended still holds; its open turn settles by itself."""
        hold, _ = self._launches.pop(agent_id, (None, None))
        if hold is not None:
            hold.give_back()

    def open_turn(self, agent_id: str, turn_id: str, used_up: UsedUp | None = None) -> None:
        """Reserve what the agent's next turn may use; raise BudgetExceededError if it may not.

        `used_up(error)` is called, once for each scope and kind, when tokens or dollars that the
        turn draws on are used up while it runs, by whichever turn.
        """
        own = self._scope(agent_id)
        hold = self._hold_turn(own, agent_id)
        self._turns[turn_id] = _Turn(agent_id, hold, used_up)
        self._ended.pop(agent_id, None)
        hold.charge(_TURNS, 1, Provenance.MEASURED)
        self._warn(own, _TURNS)

    def _hold_turn(self, own: BudgetScope, agent_id: str) -> Hold:
        """Return what the agent's next turn holds; raise BudgetExceededError if it may not begin.

        Where nothing limits it, that is what its launch holds.
        """
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
        """Open a turn that an earlier engine has left, with what it had used; see `open_turn`."""
        with self._as_told():
            self.open_turn(agent_id, turn_id, used_up)
            self.meter(turn_id, spent)

    @contextmanager
    def _as_told(self) -> Iterator[None]:
        """Take it that what is worth telling meanwhile was told: by the engine that died."""
        self._is_told = True
        try:
            yield
        finally:
            self._is_told = False

    def meter(self, turn_id: str, spent: Spent) -> None:
        """Charge a turn that runs with what it has used in all so far."""
        if (turn := self._turns.get(turn_id)) is not None:
            self._meter(turn.hold, spent, _told(spent))

    def _meter(self, hold: Hold, spent: Spent, all_told: _Told) -> None:
        hold.spent = spent
        for kind, told, source in all_told:
            if told is not None and told > hold.used[kind]:
                hold.charge(kind, told - hold.used[kind], source)
                self._charged(hold.scope, kind)

    def close_turn(self, turn_id: str, spent: Spent) -> None:
        """Settle a turn, once: what it used is charged, the rest of its estimate given back.

        What nobody told is charged as estimated if turns were measured before, else unknown. A cost
        that was reckoned by prices is corrected by the one that the provider tells at the end.
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
        """Give back what a turn holds that never began; nothing happens to one that settled."""
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
        """Return whether anything limits what an agent uses, now or later in this run."""
        return self._scope(agent_id).is_limited

    def parts_of(self, agent_id: str) -> list[Part]:
        """Return the subtrees around an agent that have a budget of their own, its own first."""
        scope = self._scope(agent_id)
        return list(scope.parts()) if scope.is_limited else []

    def report(self, agent_id: str) -> dict[str, Any]:
        """Return the numbers of the run and of the agent's subtree, as JSON values.

        `spent` tells in words what either has used, and what of it is unknown.
        """
        scopes = {"run": self.run, "subtree": self._scope(agent_id)}
        spent = {name: self._spent(scope).text for name, scope in scopes.items()}
        return {**{name: scope.report() for name, scope in scopes.items()}, "spent": spent}

    @property
    def spent(self) -> Spent:
        """What the run has used so far, the turns that run included."""
        return self._spent(self.run)

    def spent_by(self, agent_id: str) -> Spent:
        """Return what an agent and all below it have used so far; the run's for an unknown one."""
        return self._spent(self._scope(agent_id))

    @property
    def unwritten(self) -> tuple[UsedByTurn, ...]:
        """What turns have used that may be in no store yet: those that run, each agent's last."""
        running = (
            UsedByTurn(turn.agent_id, turn_id, turn.hold.spent)
            for turn_id, turn in self._turns.items()
        )
        return (*running, *self._ended.values())

    def _spent(self, scope: BudgetScope) -> Spent:
        """Return what was used in a scope, by turns that have ended and by those that run."""
        return total([scope.spent_in_all(), *(turn.hold.spent for turn in self._within(scope))])

    def _within(self, scope: BudgetScope) -> list[_Turn]:
        """Return the turns that run and draw on a scope."""
        return [turn for turn in self._turns.values() if scope in turn.hold.scope.path()]

    def _scope(self, agent_id: str | None) -> BudgetScope:
        return self.run if agent_id is None else self._scopes.get(agent_id, self.run)

    def _open(self, agent_id: str, name: str, parent: BudgetScope, limits: Budget) -> BudgetScope:
        """Return a new scope; a limit that one around it undercuts would only warn twice."""
        if limits == NO_LIMITS:  # as most
            return BudgetScope(agent_id, name, parent)
        own = {
            kind: limit
            for kind, limit in to_limits(limits).items()
            if all(limit < other for _, other in parent.limited(kind))
        }
        return BudgetScope(agent_id=agent_id, name=name, parent=parent, limits=own)

    def _check_turn(self, scope: BudgetScope, count: int, agent_id: str) -> None:
        """Raise BudgetExceededError unless there is room for that many first turns."""
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
        """Hold a turn and what it is expected to use, as far as there is room for it."""
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
        """Return what a turn may use, and whether measured turns say so."""
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
        """Tell of tokens or dollars that are nearly used up, or all used up."""
        self._warn(own, kind)
        for scope, _ in own.limited(kind):
            is_new = scope.is_used_up(kind) and kind not in scope.stopped
            if is_new and not self._lets_finish:
                scope.stopped |= {kind}
                self._tell("exceeded", scope, kind)
                self._stop(scope, kind)

    def _stop(self, scope: BudgetScope, kind: BudgetKind) -> None:
        """Tell the turns that draw on a scope that it is used up."""
        error = BudgetExceededError(_why(scope, kind), hint=_hint(scope, kind))
        for turn in self._within(scope):
            if turn.used_up is not None:
                turn.used_up(error)

    def _warn(self, own: BudgetScope, kind: BudgetKind) -> None:
        for scope, limit in own.limited(kind):
            if scope.used[kind] * 100 >= limit * WARN_PERCENT:
                self._tell("warned", scope, kind)

    def _warn_of_all(self, own: BudgetScope) -> None:
        """Tell of all that is nearly used up, or all used up, of a scope and those around it."""
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
    """Return what a turn told of each kind, None for what it did not tell."""
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
    """Write an alert to the journal; the event's agent is the subtree's, if any."""
    if alert.what == "unmetered":
        kind = alert.kind.value
        text = (
            f"a turn told nothing of its {kind}: the budget of {alert.limit} {kind} holds only as"
            " far as that is known"
        )
        journal.note("notice", alert.scope, level="warning", text=text)
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


SETTLE_SECONDS = 1.0  # how long a turn that seems to be through may take to end by itself


class Allowance(Struct, eq=False):
    """Owns what one turn has told of its steps since it used up its budget."""

    clock: Clock
    _tells_steps: bool = False
    _calls: int = 0  # that had begun when the last step ended
    _is_between: bool = False  # a response is complete, and the next one has not begun
    _ends_by: float = math.inf  # the turn seems to be through: it has until then
    error: BudgetExceededError | None = None  # why it is to end

    def use_up(self, error: BudgetExceededError) -> None:
        """Take note that a budget of the turn is used up."""
        self.error = self.error or error

    def remaining(self) -> float:
        """Return the seconds until a turn that seems to be through is ended."""
        return self._ends_by - self.clock.now()

    def take(self, event: ProviderEvent, *, calls: int, is_calling: bool) -> bool:
        """Heed an event of the turn; return whether the turn is to end now.

        It has begun so many `calls`, the vendor's and ours; one is not answered if it `is_calling`.
        """
        match event:
            case StepEnded():
                has_called = is_calling or calls > self._calls
                self._tells_steps, self._is_between, self._calls = True, True, calls
                return self._step(has_called=has_called)
            case UsageReported():
                is_second = not self._tells_steps and self._ends_by < math.inf
                return self._step(has_called=is_calling or is_second)
            case ToolCallStarted():
                is_through = not self._tells_steps and self._ends_by < math.inf
                return self._goes_on() or (is_through and self.error is not None)
            case ToolCallFinished():
                return self.answered(is_calling=is_calling)
            case TextDelta() | ThinkingDelta() | AssistantMessage():
                goes_on = self._goes_on()
                self._is_between = False
                return goes_on
        return False

    def answered(self, *, is_calling: bool) -> bool:
        """Heed the answer of a call; return whether the turn is to end now."""
        return self._is_between and not is_calling and self.error is not None

    def settle(self) -> None:
        """Have the turn end soon, if its response is not complete before."""
        self._ends_by = min(self._ends_by, self.clock.now() + SETTLE_SECONDS)

    def _step(self, *, has_called: bool) -> bool:
        """Heed that the model may have taken a step."""
        if self.error is None:
            return False
        self.settle()
        return has_called

    def _goes_on(self) -> bool:
        """Heed what the model says; whether it is more than it may."""
        return self._is_between and self.error is not None
