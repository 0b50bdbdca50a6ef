"""A real vendor's CLI in a real container with limits: its turn, and what is left of it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from prsm_testing import until

from tests.engine.boxes import needs_runc
from tests.live.real_clis import KEY
from tests.live.test_tree import play

pytestmark = [pytest.mark.live, needs_runc]

TASK = "look where you are"
MIB = 2**20
LIMITS = {"memory_mib": 1536, "pids": 100, "cpus": 1.5}


def lanes(*steps):
    """Have a worker play these steps; a master has no shell."""
    master = [
        call("spawn_child", prompt="task of w1", name="w1", wait=True),
        call("task_complete", summary="done"),
    ]
    told = {"m": {"marker": TASK, "steps": master}}
    return {"lanes": {**told, "w": {"marker": "task of w1", "steps": list(steps)}}}


def call(tool, **arguments):
    return {"call": {"tool": tool, "arguments": arguments}}


def configure(prsm, gemini, server, backend):
    """Have agents run in boxes, which see the folder of the CLI beside the system."""
    place = next(p for p in Path(gemini).parents if p.name == "node_modules").parent
    box = {"agents": True, "network": True, "mounts": {str(place): str(place)}, **LIMITS}
    section = {"command": [gemini], "base_url": server.root_url, "backend": backend, **KEY}
    prsm.write({"box": box, "providers": {"gemini": section}})


def limit(pid, *names):
    """Return the first of these limits that the control groups of a process have."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        root = Path("/sys/fs/cgroup", *([controllers] if controllers else []))
        for name in names:
            found = root / path.lstrip("/") / name
            if found.is_file():
                return found.read_text().strip()
    raise AssertionError(f"no {names} of {pid}")


@pytest.mark.requirement("A11", "A16")
@pytest.mark.parametrize("backend", ["headless", "acp"])
async def test_the_real_gemini_makes_its_turn_in_a_container_with_limits(
    bare_prsm, gemini, backend
):
    steps = (
        {"shell": "hostname; ls /work /root 2>&1; echo hi > made.txt; touch /usr/mine"},
        {"expect": ["box", "ead-only file system"], **call("task_complete", summary="seen")},
    )
    async with play(lanes(*steps)) as server:
        configure(bare_prsm, gemini, server, backend)
        code, out, err = await bare_prsm.run_async(
            *("run", "--provider", "gemini", "--trust", "--on-ask", "allow", "--json", TASK)
        )
    assert code == 0, out + err
    assert (bare_prsm.workspace / "made.txt").read_text() == "hi\n"
    assert "does not limit" not in out + err
    assert bare_prsm.processes() == []


@pytest.mark.requirement("A11", "A16")
@pytest.mark.parametrize("backend", ["headless", "acp"])
async def test_nothing_of_a_boxed_gemini_is_left_once_its_engine_is_killed(
    bare_prsm, gemini, backend
):
    steps = (
        {"shell": "sleep 1000 > /dev/null 2>&1 & echo begun"},
        {"expect": ["begun"], "hang": True},
    )
    async with play(lanes(*steps)) as server:
        configure(bare_prsm, gemini, server, backend)
        process = await bare_prsm.start(
            *("run", "--provider", "gemini", "--trust", "--on-ask", "allow", "--json", TASK),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await until(lambda: len(server.requests) == 3, timeout_s=60)
        boxed = [pid for pid in bare_prsm.processes() if is_boxed(pid)]
        assert boxed
        told = {(limit(pid, "pids.max"), limit(pid, *MEMORY)) for pid in boxed}
        assert told == {(str(LIMITS["pids"] + 1), str(LIMITS["memory_mib"] * MIB))}
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        await bare_prsm.until_gone()
    assert bare_prsm.processes() == []


MEMORY = ("memory.max", "memory.limit_in_bytes")


def is_boxed(pid):
    """Whether a process sees other processes than the machine's."""
    own, of_it = (Path("/proc", str(one), "ns/pid").readlink() for one in (os.getpid(), pid))
    return own != of_it
