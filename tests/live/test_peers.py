"""Second opinions from each vendor's real program, and threads that go on where they stopped."""

from __future__ import annotations

import importlib.util
import json

import pytest
import yaml
from prsm_testing.model_server import ModelServer

pytestmark = pytest.mark.live

MODELS = {
    "codex": "codex/scripted-1",
    "oneshot": "oneshot/scripted-1",
    "claude": "claude/claude-scripted-1",
    "gemini": "gemini/gemini-2.5-pro",
    "headless": "headless/gemini-2.5-pro",
}
FRUITS = dict(zip(MODELS, ("mango", "cherry", "apple", "quince", "plum"), strict=True))


def consulting() -> dict:
    """Return a master that asks each peer two questions in one thread."""
    steps = []
    for name, model in MODELS.items():
        first = {"question": f"[[lane:{name}]] Which fruit?", "peer": model}
        again = {"question": "And why that?", "thread_id": f"${{{name}.thread_id}}"}
        steps += [
            {"call": {"id": name, "tool": "consult_peer", "arguments": first}},
            {"call": {"id": f"{name}_why", "tool": "consult_peer", "arguments": again}},
        ]
    told = "; ".join(
        f"${{{name}.result.summary}} ${{{name}_why.result.summary}}" for name in MODELS
    )
    steps.append({"call": {"tool": "task_complete", "arguments": {"summary": told}}})
    return {"lanes": {"master": {"marker": "", "steps": steps}}}


def answering() -> dict:
    """Return peers whose second answer is given only to who shows them the first."""
    return {
        "lanes": {
            name: {
                "steps": [
                    {"say": fruit},
                    {"expect": ["Which fruit?", fruit, "And why that?"], "say": f"it is {name}'s"},
                ]
            }
            for name, fruit in FRUITS.items()
        }
    }


@pytest.mark.requirement("E54", "E74")
async def test_a_thread_with_each_vendors_peer_goes_on_where_it_stopped(prsm, gemini):
    if importlib.util.find_spec("claude_agent_sdk") is None:
        pytest.skip("claude-agent-sdk is not installed")
    key = {"api_key_env": "LIVE_TEST_KEY"}
    agents = prsm.workspace / "agents.yaml"
    agents.write_text(yaml.safe_dump(consulting()), encoding="utf-8")
    async with ModelServer(answering()) as server:
        codex = {"command": [prsm.codex], "base_url": server.base_url, **key}
        google = {"command": [gemini], "base_url": server.root_url, **key}
        prsm.write(
            {
                "defaults": {"provider": "script", "peer_models": list(MODELS.values())},
                "providers": {
                    "script": {"scenario": str(agents)},
                    "codex": codex,
                    "oneshot": {"kind": "codex", "backend": "exec", **codex},
                    "claude": {"base_url": server.root_url, **key},
                    "gemini": google,
                    "headless": {"kind": "gemini", "backend": "headless", **google},
                },
            }
        )
        code, out, err = await prsm.run_async("run", "--json", "Ask around")
        events = [json.loads(line) for line in out.splitlines()]
        assert code == 0, (events[-1:], err)
        assert server.failures == []
    assert events[-1]["summary"] == "; ".join(f"{FRUITS[name]} it is {name}'s" for name in MODELS)
    spawned = [event["provider"] for event in events if event["type"] == "agent_spawned"]
    assert spawned == ["script", *MODELS], "a thread is one agent"
    await prsm.until_gone()
    assert prsm.processes() == []
