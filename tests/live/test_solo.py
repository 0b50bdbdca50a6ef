"""A master of a real program does one small task itself: it edits, checks, and completes."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from prsm_testing.model_server import ModelServer

from tests.live.real_clis import configuration, find_clis
from tests.live.test_modes import GEMINI, NEW, write

pytestmark = [pytest.mark.live, pytest.mark.requirement("U31")]

MARKER = "Fix the small thing"
CHECK = {"shell": "cat made.txt"}
DONE = {"call": {"tool": "task_complete", "arguments": {"summary": "fixed and checked"}}}
REQUESTS = 3
BYTES_RATIO = 1.1


def edit(name):
    return write("gemini-acp" if name in GEMINI | {"gemini"} else name, "made.txt")


def lone(*steps):
    return {"lanes": {"solo": {"marker": MARKER, "steps": [*steps]}}}


def sent(server):
    """Return the bytes of all requests, as they came."""
    return sum(int(request.headers["content-length"]) for request in server.requests)


@pytest.mark.parametrize("name", ["codex", "claude", "gemini", "gemini-headless"])
async def test_one_edit_and_one_test_take_one_agent(bare_prsm, name):
    clis = find_clis(name)
    async with ModelServer(lone(edit(name), CHECK, DONE, {"hang": True})) as server:
        bare_prsm.write(configuration(name, clis, bare_prsm.home, server))
        code, out, err = await bare_prsm.run_async("run", MARKER, "--solo")
        assert (code, out) == (0, "fixed and checked\n"), err
        assert server.failures == []
    assert (bare_prsm.workspace / "made.txt").exists()
    tree = json.loads(bare_prsm.run("tree", "--json").stdout)
    [master] = tree["agents"]
    assert (master["role"], master["children"]) == ("master", [])


@pytest.mark.parametrize("name", ["codex", "claude", "gemini"])
async def test_a_rule_to_deny_and_plan_mode_hold_for_it(bare_prsm, name):
    clis = find_clis(name)
    denied = {"shell": "tee denied.txt < /dev/null"}
    steps = lone(edit(name), denied, DONE, {"hang": True})
    async with ModelServer(steps) as server:
        config = configuration(name, clis, bare_prsm.home, server)
        bare_prsm.write({**config, "permissions": {"deny": ["tee"]}})
        code, _, err = await bare_prsm.run_async("run", MARKER, "--solo", "--mode", "bypass")
        assert code == 0, err
    assert (bare_prsm.workspace / "made.txt").exists()
    assert not (bare_prsm.workspace / "denied.txt").exists()
    (bare_prsm.workspace / "made.txt").unlink()
    async with ModelServer(steps) as server:
        bare_prsm.write(configuration(name, clis, bare_prsm.home, server))
        await bare_prsm.run_async("run", MARKER, "--solo", "--mode", "plan")
    assert list(bare_prsm.workspace.iterdir()) == []


@pytest.mark.parametrize("name", ["codex", "claude", "gemini"])
async def test_a_resume_after_its_engine_died_keeps_it_solo(bare_prsm, name):
    clis = find_clis(name)
    async with ModelServer(lone(edit(name), {"hang": True})) as server:
        bare_prsm.write(configuration(name, clis, bare_prsm.home, server))
        running = await bare_prsm.start("run", MARKER, "--solo")
        await server.wait_for_requests(2)
        running.kill()
        await running.wait()
        await bare_prsm.until_gone()
    assert (bare_prsm.workspace / "made.txt").exists()
    (bare_prsm.workspace / "made.txt").unlink()
    async with ModelServer(lone(edit(name), CHECK, DONE, {"hang": True})) as server:
        bare_prsm.write(configuration(name, clis, bare_prsm.home, server))
        code, out, err = await bare_prsm.run_async("resume")
        assert (code, out) == (0, "fixed and checked\n"), err
        assert server.failures == []
    assert "--solo" in err
    assert (bare_prsm.workspace / "made.txt").exists()


async def codex_alone(codex, folder, server, steps):
    """Do the same by `codex exec`."""
    home, workspace = folder / "codex", folder / "alone"
    home.mkdir()
    workspace.mkdir()
    table = {"name": "loopback", "base_url": server.base_url, "env_key": "LIVE_TEST_KEY"}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    (home / "config.toml").write_text(
        'model = "scripted-1"\nmodel_provider = "loopback"\ncheck_for_update_on_startup = false\n'
        f'[analytics]\nenabled = false\n[model_providers.loopback]\n{lines}wire_api = "responses"\n'
    )
    argv = ["exec", "--skip-git-repo-check", "-s", "workspace-write", "--disable", "plugins", steps]
    env = {**os.environ, "CODEX_HOME": str(home), "LIVE_TEST_KEY": "loopback"}
    process = await asyncio.create_subprocess_exec(
        codex, *argv, cwd=workspace, env=env, stdin=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0
    assert (workspace / "made.txt").exists()


async def test_it_sends_no_more_than_codex_alone(prsm, codex, report):
    steps = ({"patch": NEW.format("made.txt")}, CHECK)
    async with ModelServer(lone(*steps, {"say": "fixed and checked"})) as bare:
        await codex_alone(codex, prsm.home, bare, MARKER)
    async with ModelServer(lone(*steps, DONE, {"hang": True})) as ours:
        prsm.configure(ours.base_url)
        code, _, err = await prsm.run_async("run", MARKER, "--solo")
        assert code == 0, err
    ratio = sent(ours) / sent(bare)
    report(
        f"--solo: {len(ours.requests)} requests, {sent(ours)} bytes; codex exec: "
        f"{len(bare.requests)}, {sent(bare)}: {ratio:.2f}x"
    )
    assert len(bare.requests) == REQUESTS
    assert len(ours.requests) == REQUESTS
    assert ratio <= BYTES_RATIO
