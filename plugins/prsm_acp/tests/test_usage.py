"""Tokens and cost as differences."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_acp.events import UsageMeter
from prsm_acp.manifest import UsageFrom
from prsm_acp.manifests import read_gemini

from plugins.prsm_acp.tests.test_tools import JSON
from prsm_core.domain.usage import Provenance, TokenUsage

if TYPE_CHECKING:
    from prsm_core.domain.turns import UsageReported

USAGE: dict[str, int] = {
    "inputTokens": 100,
    "outputTokens": 10,
    "totalTokens": 110,
    "thoughtTokens": 3,
}


def sure(report: UsageReported | None) -> UsageReported:
    assert report is not None
    return report


def test_the_usage_of_a_turn_is_taken_as_it_is():
    report = sure(UsageMeter(UsageFrom.TURN).answered({"usage": USAGE}))
    assert report.usage == TokenUsage(
        input_tokens=100, output_tokens=10, total_tokens=110, reasoning_tokens=3
    )
    assert report.provenance is Provenance.MEASURED


def test_of_a_total_only_the_growth_counts():
    meter = UsageMeter(UsageFrom.SESSION)
    meter.answered({"usage": USAGE})
    more = {**USAGE, "inputTokens": 150, "totalTokens": 160}
    report = sure(meter.answered({"usage": more}))
    assert (report.usage.input_tokens, report.usage.output_tokens) == (50, 0)
    assert report.provenance is Provenance.REPORTED
    assert meter.answered({"usage": {**USAGE, "inputTokens": 1}}) is None


def test_gemini_tells_a_quota():
    counts = {"input_tokens": 400, "output_tokens": 35}
    reply = {"_meta": {"quota": {"token_count": counts}}, "usage": USAGE}
    report = sure(UsageMeter(UsageFrom.QUOTA).answered(reply))
    assert report.usage == TokenUsage(input_tokens=400, output_tokens=35)


def test_qwen_tells_each_response_with_a_piece_of_its_message():
    meter = UsageMeter(UsageFrom.CHUNKS)
    assert sure(meter.said({"_meta": {"usage": USAGE}})).usage.input_tokens == 100
    assert meter.said({"content": {"type": "text", "text": "x"}}) is None
    assert meter.answered({"usage": USAGE}) is None
    assert UsageMeter(UsageFrom.TURN).said({"_meta": {"usage": USAGE}}) is None


@pytest.mark.parametrize("source", UsageFrom)
def test_an_agent_that_tells_nothing_used_nothing_that_is_known(source):
    assert UsageMeter(source).answered({"stopReason": "end_turn"}) is None


def test_cost_is_the_growth_of_what_the_vendor_adds_up():
    meter = UsageMeter(UsageFrom.TURN)
    told = {"used": 5000, "size": 200_000, "cost": {"amount": 0.25, "currency": "USD"}}
    first = sure(meter.told(told))
    assert (first.cost_usd, first.context_used, first.context_window) == (0.25, 5000, 200_000)
    assert first.cost_provenance is Provenance.REPORTED
    assert first.usage == TokenUsage()
    second = sure(meter.told({**told, "cost": {"amount": 0.75, "currency": "USD"}}))
    assert second.cost_usd == 0.5
    other = sure(meter.told({**told, "cost": {"amount": 0.75, "currency": "EUR"}}))
    assert other.cost_usd is None


@given(JSON, JSON, st.sampled_from(UsageFrom))
def test_no_count_poisons_a_sum(told, other, source):
    meter = UsageMeter(source)
    reply = {"usage": {"inputTokens": told, "outputTokens": other}, "_meta": {"quota": told}}
    reports = [meter.answered(reply), meter.answered(reply), meter.said({"_meta": reply})]
    reports += [meter.told({"used": told, "cost": {"amount": other, "currency": "USD"}})] * 2
    for report in filter(None, reports):
        counts = [count for count in report.usage.to_dict().values() if count is not None]
        assert all(0 <= count <= 2**40 for count in counts)
        assert report.cost_usd is None or (report.cost_usd > 0 and math.isfinite(report.cost_usd))


def test_the_tokens_of_a_gemini_session_are_those_of_each_response_once(tmp_path):
    chats = tmp_path / ".gemini/tmp/work/chats"
    chats.mkdir(parents=True)
    response = {"id": "a", "type": "gemini", "tokens": {"input": 100, "output": 10}}
    records = [
        {"sessionId": "0123456789"},
        {"id": "u", "type": "user", "content": "x"},
        response,
        {**response, "toolCalls": []},
        {"id": "b", "type": "gemini", "tokens": {"input": 150, "output": -1}},
        {"id": "c", "type": "gemini", "tokens": "many"},
    ]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (chats / "session-2026-01-01T00-00-01234567.jsonl").write_text(text + '{"torn')
    (chats / "session-2026-01-01T00-00-76543210.jsonl").write_text(json.dumps(response))
    assert read_gemini(tmp_path, "0123456789") == {"input_tokens": 250, "output_tokens": 10}
    assert read_gemini(tmp_path, "../../x") == read_gemini(tmp_path, "99999999") == {}
