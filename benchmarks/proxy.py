"""proxy: from the start of the program to the first byte that comes through it, and its memory."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from prsm_mcp.bridge import Bridge
from prsm_mcp.server import load_mcp
from prsm_testing.doubles import RecordingHost

from benchmarks.harness import Finding, compared
from prsm_core.kit.clocks import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.harness import Plan
    from prsm_core.domain.tools import McpEndpoint

GOAL, GOAL_MS, GOAL_MB = 3.0, 60.0, 12.0
RUNS = 5  # processes of one measurement
START_SECONDS = 60.0
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "0"},
    },
}


def measure(plan: Plan) -> list[Finding]:
    """Compare the proxy with an interpreter that does nothing."""
    runs = plan.count(RUNS)
    with open_endpoint() as endpoint:
        ratio = compared(
            "proxy",
            "first byte",
            lambda: median(first_byte(endpoint)[0] for _ in range(runs)),
            lambda: median(nothing() for _ in range(runs)),
            plan,
            goal=GOAL,
            unit="ms",
        )
        _, kilobytes = first_byte(endpoint)
    return [
        ratio,
        Finding(
            benchmark="proxy",
            case="first byte, absolute",
            unit="ms",
            value=ratio.value,
            goal=GOAL_MS,
        ),
        Finding(benchmark="proxy", case="memory", unit="MB", value=kilobytes / 1024, goal=GOAL_MB),
    ]


def first_byte(endpoint: McpEndpoint) -> tuple[float, int]:
    """Return the milliseconds to the first byte, and the resident kilobytes by then."""
    begin = time.perf_counter()
    with subprocess.Popen(
        endpoint.argv, env=endpoint.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process has no pipes")
        process.stdin.write(json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        process.stdout.read(1)
        spent = time.perf_counter() - begin
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        process.communicate()
    [resident] = re.findall(r"VmRSS:\s+(\d+) kB", status)
    return 1000 * spent, int(resident)


def nothing() -> float:
    """Return the milliseconds of an interpreter that does nothing."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
    return 1000 * (time.perf_counter() - begin)


@contextmanager
def open_endpoint() -> Iterator[McpEndpoint]:
    """Yield the endpoint of a bridge that works in a thread of its own."""
    opened: list[McpEndpoint] = []
    is_open, stop, loops = threading.Event(), asyncio.Event(), []

    async def serve(folder: str) -> None:
        loops.append(asyncio.get_running_loop())
        async with (
            Bridge(Path(folder) / "bridge.sock", SystemClock()) as bridge,
            bridge.endpoint(RecordingHost(), "a1") as endpoint,
        ):
            await load_mcp()
            opened.append(endpoint)
            is_open.set()
            await stop.wait()

    with tempfile.TemporaryDirectory() as folder:
        thread = threading.Thread(target=lambda: asyncio.run(serve(folder)))
        thread.start()
        if not is_open.wait(START_SECONDS):
            raise RuntimeError("the bridge did not open")
        try:
            yield opened[0]
        finally:
            loops[0].call_soon_threadsafe(stop.set)
            thread.join()
