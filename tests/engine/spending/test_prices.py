"""A budget in dollars on vendors that tell no cost in time: reckoned by the person's own prices."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.config.limits import BudgetSettings, PriceSettings
from prsm_core.domain.budgets import Budget
from prsm_core.domain.usage import Provenance, Spent, TokenUsage
from prsm_core.engine.providers.enforcement import describe_metering
from prsm_core.engine.spending import BudgetLedger, cost_of, price_of
from prsm_core.interfaces.provider import ProviderCapabilities

pytestmark = pytest.mark.requirement("U14", "U16")

PRICE = {"input": 10.0, "output": 50.0}  # a million in costs $10, so 1,000 in and 200 out $0.02
COUNTS = st.integers(0, 10**7)
AMOUNTS = st.floats(0.001, 1000)


async def go_on(agent, responses, cost=None):
    """Go on for ever; `cost` is told at the third response."""
    while True:
        responses[agent.name] += 1
        await agent.say(f"response {responses[agent.name]}")
        await agent.use(input_tokens=1000, output_tokens=200)
        if cost is not None and responses[agent.name] == 3:
            await agent.use(cost)
            return
        await agent.call("get_budget")


def budgets(**settings):
    return {"settings": {"budgets": settings}}


@pytest.mark.parametrize("name", ["script", "script/default"])
async def test_a_budget_in_dollars_ends_a_turn_at_its_next_step_by_the_users_prices(opened, name):
    responses: Counter[str] = Counter()

    async def master(agent):
        await go_on(agent, responses)

    async with opened(**budgets(usd=0.05, prices={name: PRICE})) as team:
        result = await team.run(master=master)
    assert responses["master"] == 3, "$0.06: the third one passed the limit"
    assert (result.status, result.exit_code) == ("failed", 1)
    assert "the budget of the run is used up: $0.06 of $0.05 used" in result.error
    assert result.spent.cost_text == "about $0.06"
    [turn] = team.ledger.events("turn_finished")
    assert (turn["cost_usd"], turn["provenance"]["cost"]) == (0.06, "estimated")


async def test_without_a_price_nothing_is_made_up(opened):
    responses: Counter[str] = Counter()

    async def master(agent):
        await go_on(agent, responses, cost=0.01)
        await agent.complete()

    async with opened(**budgets(usd=0.05, prices={"other": PRICE, "script/other": PRICE})) as team:
        result = await team.run(master=master)
    assert (result.status, result.spent.cost_text) == ("completed", "$0.01")


async def test_what_the_provider_tells_at_last_takes_the_place_of_what_was_reckoned(opened):
    responses: Counter[str] = Counter()

    async def master(agent):
        await go_on(agent, responses, cost=0.01)
        await agent.complete()

    async with opened(**budgets(usd=1.0, prices={"script": PRICE})) as team:
        result = await team.run(master=master)
        used = team.engine.budgets.report(team["master"].agent_id)["run"]["usd"]
    assert (result.spent.cost_text, result.spent.cost_from) == ("$0.01", Provenance.MEASURED)
    assert (used["used"], used["left"], used["reserved"]) == (0.01, 0.99, 0)


@given(COUNTS, COUNTS, COUNTS, AMOUNTS, AMOUNTS, st.none() | AMOUNTS)
def test_the_cost_of_a_sum_is_the_sum_of_the_costs(sent, answered, cached, a, b, c):
    price = PriceSettings(input=a, output=b, cached_input=c)
    usage = TokenUsage(
        input_tokens=sent, output_tokens=answered, cached_input_tokens=min(cached, sent)
    )
    cost = cost_of(price, usage)
    assert cost is not None
    assert cost_of(price, usage + usage) == pytest.approx(2 * cost)
    assert 0 <= cost <= (sent * max(a, c or 0) + answered * b) / 10**6 * (1 + 1e-9)


@given(st.lists(st.tuples(COUNTS, AMOUNTS), min_size=1, max_size=8))
def test_a_budget_is_charged_what_was_told_in_the_end_whatever_was_reckoned_before(turns):
    ledger = BudgetLedger(Budget(usd=10**9))
    ledger.launch("m")
    for number, (reckoned, told) in enumerate(turns):
        turn = f"t{number}"
        ledger.open_turn("m", turn)
        estimate = Spent.of_turn(TokenUsage(), reckoned / 100, cost_from=Provenance.ESTIMATED)
        ledger.meter(turn, estimate)
        ledger.close_turn(turn, Spent.of_turn(TokenUsage(), told))
    used = ledger.report("m")["run"]["usd"]
    assert used["used"] == pytest.approx(sum(told for _, told in turns), abs=1e-6)
    assert used["reserved"] == 0


@pytest.mark.parametrize("counts", [{}, {"input_tokens": 5}, {"total_tokens": 9}])
def test_tokens_of_unknown_kind_have_no_price(counts):
    assert cost_of(PriceSettings(input=1, output=1), TokenUsage(**counts)) is None


def test_a_models_own_price_goes_before_its_providers():
    given = {"a": PRICE, "a/x": {**PRICE, "input": 1.0}}
    prices = BudgetSettings.of({"prices": given}).prices
    assert price_of(prices, "a", "x") == PriceSettings(input=1.0, output=50.0)
    assert price_of(prices, "a", "y") == PriceSettings(input=10.0, output=50.0)
    assert price_of(prices, "b", "x") is None


@pytest.mark.parametrize("tokens", ["step", "turn", "none"])
def test_a_price_takes_away_the_warning_only_where_tokens_are_told_in_time(tokens):
    capabilities = ProviderCapabilities(tokens_told=tokens, cost_told="none")
    prices = BudgetSettings.of({"prices": {"x": PRICE}}).prices
    without = describe_metering("x", Budget(usd=2), capabilities)
    assert ("a price for x in budgets.prices" in without) == (tokens == "step")
    assert bool(describe_metering("x", Budget(usd=2), capabilities, prices=prices)) == (
        tokens != "step"
    )
