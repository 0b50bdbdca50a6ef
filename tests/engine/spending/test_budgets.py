"""The budget ledger: reservations, limits of scopes, and numbers that say where they come from."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from prsm_core.domain.budgets import Budget, BudgetKind
from prsm_core.domain.usage import Provenance
from prsm_core.engine.spending import FIRST_TURN, BudgetLedger
from prsm_core.errors import AgentSpawnError, BudgetExceededError
from tests.engine.spending.ledgers import numbers, open_ledger, run_turn, used

TOKENS, USD, TURNS, SPAWNS = BudgetKind


def test_without_limits_everything_may_launch_and_is_counted():
    ledger, alerts = open_ledger()
    for number in range(50):
        ledger.launch(f"w{number}", parent_id="m")
        run_turn(ledger, f"w{number}", used(1000, 0.5))
    report = ledger.report("m")["run"]
    assert report["tokens"] == {"used": 50_000, "reserved": 0, "from": "measured"}
    assert (report["usd"]["used"], report["turns"]["used"], report["spawns"]["used"]) == (
        25.0,
        50,
        50,
    )
    assert alerts == []


@pytest.mark.requirement("F6")
def test_a_launch_reserves_and_what_comes_after_it_sees_that():
    ledger, _ = open_ledger(spawns=2)
    ledger.launch("a", parent_id="m")
    ledger.launch("b", parent_id="m")
    with pytest.raises(BudgetExceededError) as caught:
        ledger.launch("c", parent_id="m")
    assert isinstance(caught.value, AgentSpawnError)
    assert caught.value.code == "budget_exceeded"
    assert "2 spawns of 2 spawns" in caught.value.message
    assert numbers(ledger, kind="spawns") == (2, 0, 0)


def test_a_launch_that_was_not_written_gives_everything_back():
    ledger, _ = open_ledger(spawns=1, turns=2, tokens=1000)
    before = ledger.report("m")
    ledger.launch("a", parent_id="m")
    assert ledger.report("m") != before
    ledger.cancel("a")
    ledger.cancel("a")
    assert ledger.report("m") == before


def test_an_agent_that_ends_before_its_first_turn_gives_back_all_but_the_spawn():
    ledger, _ = open_ledger(spawns=5, turns=5, tokens=1000)
    ledger.launch("a", parent_id="m")
    ledger.release("a")
    ledger.release("a")
    assert numbers(ledger, kind="spawns") == (1, 0, 4)
    assert numbers(ledger, kind="turns") == (0, 1, 4)  # the master's own


@pytest.mark.requirement("U14")
def test_what_is_used_up_refuses_the_next_turn_and_the_next_spawn_but_ends_nothing():
    ledger, alerts = open_ledger(tokens=1000)
    ledger.launch("a", parent_id="m")
    ledger.open_turn("m", "t1")
    ledger.open_turn("a", "t2")
    ledger.meter("t2", used(700))
    ledger.meter("t1", used(500))
    ledger.close_turn("t2", used(900))
    assert numbers(ledger)[0] == 1400
    with pytest.raises(BudgetExceededError, match="1,400 tokens of 1,000 tokens used") as caught:
        ledger.open_turn("a", "t3")
    assert caught.value.hint == "raise --budget-tokens or budgets.tokens"
    with pytest.raises(BudgetExceededError):
        ledger.launch("b", parent_id="m")
    ledger.close_turn("t1", used(600))
    assert [(alert.what, alert.kind, alert.scope) for alert in alerts] == [
        ("warned", TOKENS, None),
        ("exceeded", TOKENS, None),
    ]
    assert numbers(ledger) == (1500, 0, 0)


@pytest.mark.parametrize(("spent", "told"), [(79, False), (80, True), (100, True)])
def test_the_warning_comes_at_eighty_percent(spent, told):
    ledger, alerts = open_ledger(tokens=100)
    run_turn(ledger, "m", used(spent))
    whats = ["warned"] * told + ["exceeded"] * (spent == 100)
    assert [alert.what for alert in alerts] == whats
    run_turn(ledger, "m", used(1)) if spent < 100 else None
    assert [alert.what for alert in alerts][:1] == ["warned"] * (told or spent + 1 >= 80)


def test_turns_that_may_finish_are_told_nothing_and_the_next_launch_tells():
    ledger, alerts = open_ledger()
    ledger.begin(Budget(tokens=100), let_turns_finish=True)
    ledger.launch("m")
    told: list[BudgetExceededError] = []
    ledger.open_turn("m", "t", told.append)
    ledger.meter("t", used(500))
    assert (told, [alert.what for alert in alerts]) == ([], ["warned"])
    with pytest.raises(BudgetExceededError):
        ledger.launch("a", parent_id="m")
    assert [alert.what for alert in alerts] == ["warned", "exceeded"]


def test_whoever_draws_on_what_is_used_up_is_told_once_for_each_kind():
    ledger, _ = open_ledger(tokens=100_000, usd=1.0)
    ledger.launch("a", parent_id="m", name="a", limits=Budget(tokens=1000))
    ledger.launch("b", parent_id="a", name="b")
    told = []
    for agent in "mab":
        ledger.open_turn(agent, agent, lambda error, who=agent: told.append((who, error.message)))
    ledger.meter("b", used(600))
    assert told == []
    ledger.meter("a", used(400))
    ledger.meter("a", used(500))
    why = "the budget of a and its children is used up: 1,000 tokens of 1,000 tokens used"
    assert [(who, text.split(", 0")[0]) for who, text in told] == [("a", why), ("b", why)]
    told.clear()
    ledger.meter("m", used(500, cost=1.0))
    assert [who for who, _ in told] == ["m", "a", "b"]


def test_usage_that_is_told_live_and_again_at_the_end_counts_once():
    ledger, _ = open_ledger(tokens=10_000)
    ledger.open_turn("m", "t")
    for so_far in (100, 250, 250, 400):
        ledger.meter("t", used(so_far, cost=so_far / 1000))
        assert ledger.spent.usage.known_total == numbers(ledger)[0] == so_far
    ledger.close_turn("t", used(400, cost=0.4))
    assert (numbers(ledger)[0], ledger.spent.cost_usd) == (400, 0.4)


def test_a_subtree_has_its_own_limit_and_warns_for_itself():
    ledger, alerts = open_ledger(tokens=100_000)
    ledger.launch("a", parent_id="m", name="a", limits=Budget(tokens=1000, spawns=1))
    ledger.launch("b", parent_id="a", name="b", limits=Budget(tokens=1000))
    run_turn(ledger, "b", used(900))
    run_turn(ledger, "a", used(200))
    with pytest.raises(BudgetExceededError, match="of a and its children"):
        ledger.open_turn("b", "again")
    with pytest.raises(BudgetExceededError):
        ledger.launch("c", parent_id="a")
    run_turn(ledger, "m", used(10))
    told = {(alert.what, alert.kind, alert.scope) for alert in alerts}
    assert told == {
        ("warned", TOKENS, "a"),  # b has the very limit of a, and says nothing for itself
        ("exceeded", TOKENS, "a"),
        ("warned", SPAWNS, "a"),
        ("exceeded", SPAWNS, "a"),
    }
    assert numbers(ledger, "b") == (900, 0, 0)
    assert numbers(ledger, "a") == (1100, 0, 0)
    assert numbers(ledger, "a", "run")[0] == 1110


def test_an_estimate_is_the_agents_last_turn_then_the_runs_mean_then_a_tenth_of_the_limit():
    ledger, _ = open_ledger(tokens=10_000)
    assert numbers(ledger)[1] == 1000
    run_turn(ledger, "m", used(600))
    ledger.launch("a", parent_id="m")
    assert numbers(ledger, "a")[1] == 600
    run_turn(ledger, "a", used(200))
    ledger.launch("b", parent_id="m")
    assert numbers(ledger, "b")[1] == 400
    ledger.open_turn("a", "t")
    assert numbers(ledger, "a")[1] == 200
    rich, _ = open_ledger(tokens=10**9)
    assert numbers(rich)[1] == FIRST_TURN[TOKENS]


def test_several_launches_at_once_are_checked_together():
    ledger, _ = open_ledger(tokens=1000, turns=4)
    ledger.open_turn("m", "t")
    ledger.check_launches("m", 3)
    with pytest.raises(BudgetExceededError):
        ledger.check_launches("m", 4)
    assert numbers(ledger, kind="turns") == (1, 0, 3)


@pytest.mark.requirement("U16")
def test_what_no_one_told_is_unknown_and_never_zero():
    ledger, alerts = open_ledger(usd=1.0)
    run_turn(ledger, "m", used(100))
    line = ledger.report("m")["run"]["usd"]
    assert (line["used"], line["from"], line["unknown_turns"]) == (None, "unknown", 1)
    assert [(alert.what, alert.kind, alert.used) for alert in alerts] == [("unmetered", USD, None)]
    run_turn(ledger, "m", used(100))
    assert len(alerts) == 1


def test_what_no_one_told_is_estimated_where_turns_were_measured():
    ledger, _ = open_ledger(tokens=10_000)
    run_turn(ledger, "m", used(600))
    run_turn(ledger, "m", used(None))
    line = ledger.report("m")["run"]["tokens"]
    assert (line["used"], line["from"]) == (1200, "estimated")
    assert ledger.spent.text == "tokens: 600 + unknown (1 turn), cost: unknown (2 turns)"


def test_a_sum_is_as_certain_as_its_least_certain_part():
    ledger, _ = open_ledger(tokens=10_000)
    ledger.launch("a", parent_id="m")
    run_turn(ledger, "a", used(5, source=Provenance.REPORTED))
    run_turn(ledger, "m", used(7))
    assert ledger.report("m")["subtree"]["tokens"]["from"] == "reported"
    run_turn(ledger, "m", used(0))
    assert numbers(ledger)[0] == 12


def test_a_new_run_forgets_all_and_late_news_of_the_old_one_is_ignored():
    ledger, _ = open_ledger(tokens=100)
    ledger.open_turn("m", "old")
    ledger.begin(Budget(tokens=50))
    ledger.launch("m")
    ledger.close_turn("old", used(1000))
    assert ledger.room("m") == Budget(tokens=45)


def test_a_turn_that_never_began_costs_nothing():
    ledger, _ = open_ledger(turns=3, tokens=100)
    ledger.open_turn("m", "t")
    ledger.drop_turn("t")
    ledger.drop_turn("t")
    assert ledger.room("m") == Budget(turns=3, tokens=100)


def test_dollars_are_given_back_to_the_last_bit():
    ledger, _ = open_ledger(usd=1.0)
    for turn in range(1, 30):
        run_turn(ledger, "m", used(1, 0.1 / 3 / turn))
    line = ledger.report("m")["run"]["usd"]
    assert line["reserved"] == 0
    assert line["used"] + line["left"] == 1.0


AMOUNT = st.none() | st.integers(0, 400)
LIMIT = st.none() | st.integers(0, 1500)


class Model:
    """An agent as the test knows it."""

    def __init__(self, name, parent, limits):
        self.name, self.parent, self.limits = name, parent, limits
        self.tokens = self.turns = self.spawns = 0
        self.turn = self.so_far = None
        self.is_stopped = False  # its turn was told that the budget is used up
        self.has_begun = False


class Run(RuleBasedStateMachine):
    """Agents that come, take turns and go, in any order, under limits of the run and of parts."""

    def __init__(self):
        super().__init__()
        self.agents = {}
        self.alerts = []
        self.count = 0
        self.crossed = None  # in flight as the run's limit was reached, with what they used before

    @property
    def live(self):
        return [agent for agent in self.agents.values() if agent.turn is None]

    @property
    def running(self):
        return [agent for agent in self.agents.values() if agent.turn is not None]

    def total(self, name="tokens"):
        return sum(getattr(agent, name) for agent in self.agents.values())

    def below(self, agent):
        """Return the agent and all its descendants."""
        found = [agent]
        for one in found:
            found += [other for other in self.agents.values() if other.parent is one]
        return found

    def is_over(self, agent):
        """Whether the tokens of the agent, or of one it stands under, are used up."""
        while agent is not None:
            limit = agent.limits.tokens
            if limit is not None and sum(one.tokens for one in self.below(agent)) >= limit:
                return True
            agent = agent.parent
        return False

    @precondition(lambda self: not self.agents)
    @rule(tokens=LIMIT, turns=st.none() | st.integers(0, 30), spawns=st.none() | st.integers(0, 8))
    def begin(self, tokens, turns, spawns):
        self.limits = Budget(tokens=tokens, turns=turns, spawns=spawns)
        self.ledger = BudgetLedger(self.limits, self.alerts.append)
        if tokens == 0 or turns == 0:
            with pytest.raises(BudgetExceededError):
                self.ledger.launch("0")
            self.limits = Budget()
            self.ledger.begin(self.limits)
            self.alerts.clear()
        self.ledger.launch("0")
        self.agents["0"] = Model("0", None, self.limits)

    @precondition(lambda self: self.agents)
    @rule(data=st.data(), tokens=LIMIT, spawns=st.none() | st.integers(0, 3), written=st.booleans())
    def spawn(self, data, tokens, spawns, written):
        parent = data.draw(st.sampled_from(list(self.agents.values())))
        self.count += 1
        name = str(self.count)
        limits = Budget(tokens=tokens, spawns=spawns)
        before = self.ledger.report(parent.name)
        room = self.ledger.room(parent.name)
        possible = 0 not in (room.tokens, room.turns, room.spawns, tokens)
        try:
            self.ledger.launch(name, parent_id=parent.name, limits=limits)
        except BudgetExceededError:
            assert not possible
            assert self.ledger.report(parent.name) == before
            return
        assert possible
        if not written:
            self.ledger.cancel(name)
            assert self.ledger.report(parent.name) == before
            return
        parent.spawns += 1
        self.agents[name] = Model(name, parent, limits)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), begins=st.booleans())
    def open_turn(self, data, begins):
        agent = data.draw(st.sampled_from(self.live))
        self.count += 1
        turn = f"t{self.count}"
        over = self.is_over(agent)
        agent.is_stopped = False
        try:
            self.ledger.open_turn(agent.name, turn, lambda _: setattr(agent, "is_stopped", True))
        except BudgetExceededError:
            assert over or self.limits.turns is not None
            return
        assert not over
        if not begins:
            self.ledger.drop_turn(turn)
            return
        agent.turn, agent.so_far = turn, None
        agent.turns += 1

    @precondition(lambda self: self.running)
    @rule(data=st.data(), more=st.integers(0, 400))
    def meter(self, data, more):
        agent = data.draw(st.sampled_from(self.running))
        self.note_crossing(more)
        agent.so_far = (agent.so_far or 0) + more
        agent.tokens += more
        self.ledger.meter(agent.turn, used(agent.so_far))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), more=st.integers(0, 400))
    def close_turn(self, data, more):
        agent = data.draw(st.sampled_from(self.running))
        self.note_crossing(more)
        agent.tokens += more
        final = used((agent.so_far or 0) + more)
        self.ledger.close_turn(agent.turn, final)
        self.ledger.close_turn(agent.turn, final)  # once
        self.ledger.drop_turn(agent.turn)
        agent.turn = None

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def end(self, data):
        """An agent ends and may be launched again later, as a restart does."""
        agent = data.draw(st.sampled_from(self.live))
        self.ledger.release(agent.name)
        self.ledger.release(agent.name)

    @precondition(lambda self: any(agent.parent for agent in self.live))
    @rule(data=st.data())
    def restart(self, data):
        agent = data.draw(st.sampled_from([agent for agent in self.live if agent.parent]))
        self.ledger.release(agent.name)
        try:
            self.ledger.launch(agent.name, parent_id=agent.parent.name)
        except BudgetExceededError:
            return
        agent.parent.spawns += 1

    def note_crossing(self, more):
        limit = self.limits.tokens
        if limit is not None and self.crossed is None and self.total() + more >= limit:
            self.crossed = [(agent, agent.tokens - (agent.so_far or 0)) for agent in self.running]

    @invariant()
    def subtrees_are_the_sums_of_their_agents(self):
        for agent in self.agents.values():
            report = self.ledger.report(agent.name)["subtree"]
            family = self.below(agent)
            for kind in ("tokens", "turns", "spawns"):
                assert report[kind]["used"] == sum(getattr(one, kind) for one in family), kind
                assert report[kind]["reserved"] >= 0

    @invariant()
    def no_more_is_used_than_was_in_flight(self):
        if not self.agents:
            return
        report = self.ledger.report("0")["run"]
        for kind, limit in (("turns", self.limits.turns), ("spawns", self.limits.spawns)):
            if limit is not None:  # these are known before they happen
                assert report[kind]["used"] + report[kind]["reserved"] <= limit
        if self.crossed is not None:
            over = self.total() - self.limits.tokens
            assert over <= sum(agent.tokens - before for agent, before in self.crossed)
        elif self.limits.tokens is not None:
            assert report["tokens"]["used"] <= self.limits.tokens

    @invariant()
    def turns_are_stopped_exactly_where_what_they_draw_on_is_used_up(self):
        for agent in self.running:
            assert agent.is_stopped == self.is_over(agent)

    @invariant()
    def what_was_told_live_counts_once(self):
        if self.agents:
            assert (self.ledger.spent.usage.known_total or 0) == self.total()

    @invariant()
    def alerts_come_once(self):
        keys = [(alert.what, alert.kind, alert.scope) for alert in self.alerts]
        assert len(keys) == len(set(keys))

    def teardown(self):
        """When all have ended nothing is reserved any more."""
        for agent in self.agents.values():
            self.ledger.release(agent.name)
            if agent.turn is not None:
                self.ledger.close_turn(agent.turn, used(agent.so_far))
        if self.agents:
            report = self.ledger.report("0")
            assert {line["reserved"] for line in report["run"].values()} == {0}


TestAnyRun = pytest.mark.requirement("U14", "F6")(Run.TestCase)
TestAnyRun.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
