"""What `prsm providers --json` says of the real CLIs, logged in and not.

What it says where they are missing needs none of them: see tests/test_absent_clis.py.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.real_clis import configuration, find_clis

pytestmark = pytest.mark.live

NAMES = ("codex", "claude", "gemini", "minimax", "alibaba", "some-agent")
KEY = {"api_key_env": "LIVE_TEST_KEY"}
LOGINS = re.compile("ANTHROPIC_|CLAUDE_|CODEX_|DASHSCOPE_|GEMINI_|GOOGLE_|MINIMAX_|OPENAI_")
# Whoever wants more than the loopback server finds a door that is shut.
SHUT = {
    **dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:1"
    ),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"),
}
ENFORCEMENT = {**dict.fromkeys(NAMES, "pre_tool"), "gemini": "approval", "some-agent": "approval"}
LISTED = {
    "codex": {"gpt-5.5"},
    "claude": {"default", "opus", "sonnet"},
    "gemini": {"gemini-2.5-pro"},
    "minimax": {"MiniMax-M3"},
    "alibaba": {"qwen3.7-max"},
    "some-agent": {"gemini-2.5-pro"},
}


LOGIN = {  # the program by a name that can be typed: where it is not on the PATH, by its path
    "codex": "Run `{program} login`, or set `api_key_env`.",
    "claude": "Run `{program}` and log in, or set `api_key_env`.",
    "gemini": "Set GEMINI_API_KEY or `api_key_env`, or run `{program}` once and log in.",
    "minimax": "set MINIMAX_API_KEY to the API key, or change `api_key_env`",
    "alibaba": "set DASHSCOPE_API_KEY to the API key, or change `api_key_env`",
}


def section(name, clis, server):
    """Return a provider's section of the configuration; what lists its own models has no server."""
    # Claude's CLI looks for its vendor before it lists its models: for twenty seconds, in vain.
    env = {**SHUT, "ANTHROPIC_BASE_URL": server.root_url}
    told = {cli: {"command": [path], "env": env} for cli, path in clis.items()}
    if name in {"minimax", "alibaba"}:
        return told
    if name != "some-agent":
        return told[name]
    agent = {"kind": "acp", "agent": "gemini", **told["gemini"], "base_url": server.root_url}
    return {**agent, "command": [clis["gemini"], "--acp"]}


def but_waits(err):
    """Return what was told but what is waited for, which a slow program's user is told."""
    return [line for line in err.splitlines() if not line.startswith("prsm: waiting for ")]


async def row_of(prsm, name, clis, **common):
    """Return what the command says of a provider, for a user who has never logged in."""
    async with ModelServer({"lanes": {}}) as server:
        prsm.write({"providers": {name: {**section(name, clis, server), **common}}})
        user = prsm.home / "user"
        user.mkdir()
        kept = {key: value for key, value in prsm.env.items() if not LOGINS.match(key)}
        plugin = "acp" if name == "some-agent" else name
        prsm.env = {**kept, "HOME": str(user), "PRSM_PLUGINS": plugin}
        code, out, err = await prsm.run_async("providers", "--json")
        assert server.requests == []  # nobody's tokens are spent on it
    assert (code, but_waits(err)) == (0, [])
    [row] = json.loads(out)
    assert row["name"] == name
    await prsm.until_gone()
    return row


def printed(clis):
    """Return the versions that the CLIs print of themselves, as a provider of them tells them."""
    told = [
        subprocess.run([clis[cli], "--version"], capture_output=True, text=True, check=True).stdout
        for cli in sorted(clis)
    ]
    return ", ".join(re.findall(r"\d+\.\d+\.\d+\S*", " ".join(told)))


@pytest.mark.parametrize("name", NAMES)
async def test_with_a_key_a_provider_can_be_used(bare_prsm, name):
    clis = find_clis("gemini" if name == "some-agent" else name)
    row = await row_of(bare_prsm, name, clis, **KEY)
    assert (row["available"], row["reason"], row["hint"]) == (True, None, None)
    assert row["version"] == printed(clis)
    assert row["tested"]
    assert row["enforcement"] == ENFORCEMENT[name]
    assert row["logged_in"] is (None if name == "some-agent" else True)
    assert row["models_problem"] is None
    assert LISTED[name] <= {model["id"] for model in row["models"]}


@pytest.mark.parametrize("name", LOGIN)
async def test_without_a_login_the_version_is_told_and_what_to_do(bare_prsm, name):
    clis = find_clis(name)
    row = await row_of(bare_prsm, name, clis)
    assert (row["available"], row["logged_in"]) == (False, False)
    assert (row["models"], row["models_problem"]) == ([], None)
    program = clis.get(name) if shutil.which(name) is None else name
    assert row["hint"] == LOGIN[name].format(program=program)
    if name in {"minimax", "alibaba"}:
        assert row["reason"] == f"the environment variable {LOGIN[name].split()[1]} is not set"
    else:
        assert row["reason"] == f"{name} is not logged in"
        assert row["version"] == printed(clis)


@pytest.mark.parametrize("name", ["codex", "claude", "gemini"])
async def test_without_a_network_the_first_try_tells_how_long_that_goes_on(bare_prsm, name):
    clis = find_clis(name)
    with socket.socket() as held:  # a port at which nobody answers
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        nobody: Any = SimpleNamespace(root_url=url, base_url=f"{url}/v1")
        bare_prsm.write(configuration(name, clis, bare_prsm.home, nobody))
        tries = ("--set", "engine.retry_attempts=2")
        code, out, err = await bare_prsm.run_async("run", *tries, "Say hi")
    assert code == 1, (out, err)
    told = [line for line in err.splitlines() if "tries again" in line]
    assert len(told) >= 1
    assert re.search(r"\(attempt 1; gives up after \d more, \d+s of pauses at most\): ", told[0])
    _, out, _ = await bare_prsm.run_async("events", "--json")
    [first, *_] = [e for e in map(json.loads, out.splitlines()) if e["type"] == "retry_scheduled"]
    assert first["attempt"] == 1
    assert first["pauses_s"] > 0
