"""Hostile programs, and how the tests of processes wait for what they do."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path

from prsm_core.engine.processes.table import is_alive, process_identity

DEADLINE = 20.0  # seconds; far above what anything here takes on an idle machine
POLL = 0.01

IGNORES_TERM = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
while True: signal.pause()
"""
# Forks twice, leads a session of its own, drops its environment; the program waits until it runs.
DAEMON = """
import os, signal, sys
ready, running = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.set_inheritable(running, True)
        script = "import os, signal; signal.signal(15, signal.SIG_IGN)\\n"
        script += f"print(os.getpid(), flush=True); os.close({running})\\n"
        script += "while True: signal.pause()"
        os.execve(sys.executable, [sys.executable, "-c", script], {})
    os._exit(0)
os.close(running)
os.read(ready, 1)
"""
STAYS = "signal.pause()\n"
LEAVES = "sys.exit(9)\n"

ENGINE = """
import asyncio, sys
from prsm_core.kit.clocks import SystemClock
from prsm_core.engine.processes.launcher import ProcessLauncher, install_child_watcher

async def main():
    async with ProcessLauncher(SystemClock()) as launcher:
        first = await launcher.start([sys.executable, "-c", sys.argv[1]], name="first")
        second = await launcher.start([sys.executable, "-c", sys.argv[2]], name="second")
        async for line in first.lines():
            print(first.pid, int(line), flush=True)
            break
        async for line in second.lines():
            print(second.pid, int(line), flush=True)
        await first.wait()

install_child_watcher()
asyncio.run(main())
"""


def python(program):
    return [sys.executable, "-c", program]


async def until(condition, what):
    """Wait for a condition that no event tells of."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"still not so after {DEADLINE:.0f} s: {what}"
        await asyncio.sleep(POLL)


def state_of(pid):
    """Return the state of a process as the kernel's letter: S sleeps, T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def sockets_of(pid):
    """Return how many sockets a process has open."""
    return sum("socket" in str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir())


async def gone(*pids):
    for pid in pids:
        identity = process_identity(pid)
        if identity is not None:
            await until(lambda identity=identity: not is_alive(identity), f"{pid} has ended")


async def first_line(process):
    async for line in process.lines():
        return line
    raise AssertionError(f"no line from {process.name}: {process.stderr_tail}")


async def collect(process):
    return [line async for line in process.lines()]


def zombies():
    """Return the pids of this process's children that nobody has waited for."""
    text = Path("/proc/self/task").glob("*/children")
    pids = [pid for path in text for pid in path.read_text().split()]
    states = {}
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            states[pid] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return [pid for pid, state in states.items() if state == "Z"]
