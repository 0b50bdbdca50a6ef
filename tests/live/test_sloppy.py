"""Sloppy models behind the real CLIs: empty answers, cut ones, arguments as text, ids used twice."""

from __future__ import annotations

import json

import pytest

from prsm_core.testing.model_server import ModelServer
from tests.live.real_clis import PROVIDERS, configuration, find_clis

pytestmark = pytest.mark.live
DONE = {"call": {"tool": "task_complete", "arguments": {"summary": "well"}}}
NAMES = [name for name in PROVIDERS if name != "acp"]  # that one is Gemini too
ENOUGH = 20  # answers: vendors ask again by themselves, too


@pytest.fixture(params=NAMES)
def runs(request, bare_prsm):
    """Run a master on a provider; return its exit code, stdout, stderr and events."""
    clis = find_clis(request.param)

    async def run(*steps, **lanes):
        lanes = {"master": {"marker": "", "steps": steps}, **lanes}
        async with ModelServer({"lanes": lanes}) as server:
            bare_prsm.write(configuration(request.param, clis, bare_prsm.home, server))
            code, out, err = await bare_prsm.run_async("run", "Do it.")
            assert server.failures == [], err
            run.requests = server.requests
        return code, out, err, await bare_prsm.ledger()

    run.vendor = request.param
    return run


def asked_again(events):
    """Return how often agents were asked again, as it was told."""
    notices = [one["text"] for one in events if one["type"] == "notice"]
    return [text[-8:] for text in notices if "asked again" in text]


TWICE = ["(1 of 2)", "(2 of 2)"]


@pytest.mark.parametrize("empty", [{"say": ""}, {"think": "Hm."}], ids=["empty", "thoughts"])
async def test_a_model_that_answers_nothing_is_asked_again_twice(runs, empty):
    code, _, err, events = await runs(*[empty] * ENOUGH)
    assert (code, "no result" in err) == (1, True), err
    assert asked_again(events) == TWICE
    assert len([one for one in events if one["type"] == "turn_finished"]) == 3


async def test_an_answer_that_was_cut_is_asked_again_twice(runs):
    if runs.vendor.startswith("gemini"):
        pytest.skip("Gemini CLI tells a cut answer as a whole one, where it has text")
    cut = [{"say": f"part {n} of", "incomplete": True} for n in range(ENOUGH)]
    code, _, err, events = await runs(*cut)
    assert code == 1, err
    assert asked_again(events) == TWICE
    assert len([one for one in events if one["type"] == "turn_finished"]) == 3
