"""Kills a program that writes to a ledger, soon after it has said that something is durable."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


async def run_until_killed(
    worker: Path, ledger: Path, name: str, acknowledgements: int
) -> list[str]:
    """Kill a worker soon after so many acknowledgements; return all it made, a line each."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(worker), str(ledger), name, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    lines: list[bytes] = []
    try:
        async with asyncio.timeout(60):
            while len(lines) < acknowledgements:
                line = await process.stdout.readline()
                assert line, f"worker {name} ended by itself"
                lines.append(line)
    finally:
        process.kill()
        lines += (await process.stdout.read()).splitlines(keepends=True)
        await process.wait()
    return [line.decode().strip() for line in lines if line.endswith(b"\n")]
