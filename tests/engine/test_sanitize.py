"""Whatever a provider says, the run goes on and the ledger can be written."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.permissions import Question
from prsm_core.domain.turns import TextDelta, UsageReported
from prsm_core.domain.usage import TokenUsage
from prsm_core.kit.sanitize import CUT, MAX_COUNT, MAX_DEPTH, sanitize
from prsm_core.store.codec import encode
from tests.engine.harness import failed

ODD_TEXTS = ["half \ud83d a pair", "zero \0 byte", "\x1b]52;c;eA==\x07"]
CHARACTERS = st.characters(codec=None, exclude_categories=())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(CHARACTERS),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(CHARACTERS), inner),
    max_leaves=20,
)


@given(JSON)
def test_every_value_can_be_written_afterwards(value):
    kept = sanitize(value)
    assert json.loads(encode(kept).encode()) == kept
    assert sanitize(kept) == kept


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists))
def test_what_is_fit_already_stays_as_it_is(value):
    assert sanitize(value) == value
    delta = TextDelta(str(value))
    assert sanitize(delta) is delta


def test_half_a_pair_is_replaced_and_a_whole_one_is_kept():
    assert sanitize("a\ud83db") == "a\ufffdb"
    assert sanitize("\ud83d\ude00") == "\N{GRINNING FACE}"
    assert sanitize(Question(text="\ud83d?", options=("\ude00",))) == Question(
        text="\ufffd?", options=("\ufffd",)
    )


def test_what_is_nested_too_deep_is_cut():
    deep: list = []
    for _ in range(500):
        deep = [deep]
    text = encode(sanitize(deep))
    assert text.count("[") == MAX_DEPTH + CUT.count("[")
    assert "nested too deep" in text


@pytest.mark.parametrize("count", [-1, MAX_COUNT + 1, 10**30])
def test_a_count_that_is_none_is_unknown(count):
    usage = TokenUsage(input_tokens=7, total_tokens=count)
    assert sanitize(UsageReported(usage)) == UsageReported(TokenUsage(input_tokens=7))


@pytest.mark.parametrize("cost", [-0.5, math.nan, math.inf])
def test_a_cost_that_is_none_is_unknown(cost):
    assert sanitize(UsageReported(TokenUsage(), cost)) == UsageReported(TokenUsage())


@pytest.mark.parametrize("text", ODD_TEXTS)
@pytest.mark.parametrize("place", ["message", "delta", "tool", "call", "summary"])
async def test_odd_text_from_a_provider_ends_nothing(opened, text, place):
    async with opened() as team:

        async def master(agent):
            if place == "message":
                await agent.say(text)
            elif place == "delta":
                await agent.begin_to_say(text)
            elif place == "tool":
                await agent.start_tool(command=text)
                await agent.end_tool(result=text, error=text)
            elif place == "call":
                await agent.refused("check_child_status", child_id=text)
            await agent.complete(text if place == "summary" else "done")

        result = await team.run("do it", master=master)
        assert result.status == "completed"


@pytest.mark.parametrize("text", ODD_TEXTS)
async def test_an_odd_error_of_a_provider_fails_its_agent_alone(opened, text):
    async with opened() as team:

        async def master(agent):
            await agent.spawn(name="odd")
            [result] = await agent.collect()
            await agent.complete(result["error"])

        async def odd(agent):
            raise failed(text)

        result = await team.run("do it", master=master, odd=odd)
        assert result.status == "completed"
        assert result.summary == sanitize(text)


async def test_a_failed_agent_s_reason_holds_no_secret(opened):
    async with opened() as team:

        async def master(agent):
            raise failed("the key sk-live-0123456789abcdef0123 is wrong")

        result = await team.run("do it", master=master)
        assert result.error == "the key [redacted] is wrong"


@pytest.mark.parametrize("count", [-5, 2**62, 10**30])
async def test_a_mad_count_does_not_poison_the_totals(opened, count):
    async with opened() as team:

        async def master(agent):
            await agent.use(total_tokens=count, input_tokens=1)
            await agent.use(total_tokens=10, cost_usd=math.inf)
            await agent.complete()

        result = await team.run("do it", master=master)
        assert result.status == "completed"
        assert (result.usage.input_tokens, result.usage.total_tokens) == (1, 11)
