"""What real programs send for two siblings is alike up to their names: a cache serves both."""

from __future__ import annotations

import re
from itertools import takewhile

import pytest
from prsm_testing.model_server import ModelServer

from prsm_core.domain.agents import OWN_PART
from tests.live.real_clis import PRESETS, PROVIDERS, configuration, find_clis

pytestmark = pytest.mark.live

# Gemini tells where it may keep notes: in its home, which is each agent's own.
HOME = re.compile(r"/agents/[^/]+/")
PROMPTED = ("instructions", "system", "systemInstruction", "input", "messages", "contents")
DONE = {"call": {"tool": "task_complete", "arguments": {"summary": "done"}}}
WAIT = {"call": {"tool": "wait_for_message", "arguments": {"all": True}}}
CHILDREN = [{"prompt": f"[[lane:{name}]] Go.", "name": name} for name in ("first", "second")]
SPAWN = {"call": {"tool": "spawn_children_parallel", "arguments": {"children": CHILDREN}}}
LANES = {
    "master": {"marker": "Have it done", "steps": [SPAWN, WAIT, DONE, {"hang": True}]},
    "first": {"steps": [DONE, {"hang": True}]},
    "second": {"steps": [DONE, {"hang": True}]},
}


def texts_in(value):
    """Yield the texts of a part of a request in order, without the ids of what holds them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from () if key in {"id", "internal_chat_message_metadata"} else texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)


def prompt_of(body):
    """Return what a model reads beside its tools, in its order."""
    return "\n".join(text for name in PROMPTED for text in texts_in(body.get(name)))


def shared_by(one, other):
    """Return the beginning that two texts have in common."""
    pairs = zip(one, other, strict=False)
    return "".join(letter for letter, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@pytest.mark.parametrize("name", [*PROVIDERS, *PRESETS])
async def test_siblings_are_prompted_alike_up_to_their_names(bare_prsm, name, report):
    clis = find_clis(name)
    async with ModelServer({"lanes": LANES}) as server:
        bare_prsm.write(configuration(name, clis, bare_prsm.home, server))
        code, _, err = await bare_prsm.run_async("run", "Have it done", "--on-ask", "allow")
        assert code == 0, err
        firsts = {request.lane: request.body for request in reversed(server.requests)}
    one, other = firsts["first"], firsts["second"]
    texts = [prompt_of(body) for body in (one, other)]
    alike = len(shared_by(*texts))
    report(f"siblings on {name}: {alike} of {len(texts[0])} characters are alike")
    shared = shared_by(*(HOME.sub("/agents/OWN/", text) for text in texts))
    assert one.get("tools") == other.get("tools")
    assert shared.endswith(OWN_PART), shared[-400:]
