"""kill: `prsm kill` from another process, and the end of a command that its agent runs."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import IO, TYPE_CHECKING

from benchmarks.harness import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.harness import Plan

GOAL_MS = 2000.0
LIMIT_SECONDS = 60.0
PRSM = [sys.executable, "-c", "import sys; from prsm_core.cli import main; sys.exit(main())"]
SLEEP = [b"sleep", b"1000"]
SCENARIO = """
lanes:
  master:
    steps:
      - call: {tool: spawn_child, arguments: {name: w1, prompt: Sleep., wait: true}}
      - say: It is over.
  w1:
    steps:
      - shell: sleep 1000
"""


def measure(plan: Plan) -> list[Finding]:
    """Kill agents whose command sleeps: how long the command line takes, and the sleep's end."""
    killed, gone = zip(*(kill_once() for _ in range(plan.pairs)), strict=True)
    return [
        Finding(benchmark="kill", case=case, unit="ms", value=median(values), goal=GOAL_MS)
        for case, values in (("prsm kill", killed), ("its sleep 1000 is gone", gone))
    ]


def kill_once() -> tuple[float, float]:
    """Return the wall milliseconds of `prsm kill`, and from its start to the sleep's end."""
    with tempfile.TemporaryDirectory() as folder, run_that_sleeps(Path(folder)) as sleeper:
        begin = time.perf_counter()
        with start(Path(folder), "kill", "w1") as kill:
            killed, gone = (1000 * (end - begin) for end in ends_of(kill.pid, sleeper))
        if kill.returncode:
            raise RuntimeError(f"prsm kill ended with {kill.returncode}")
    return killed, gone


@contextmanager
def run_that_sleeps(folder: Path) -> Iterator[int]:
    """Yield the process id of a sleep that an agent of a run has started."""
    Path(folder, "agents.yaml").write_text(SCENARIO, encoding="utf-8")
    options = ["--provider", "script", "--set", "providers.script.scenario=agents.yaml"]
    with start(folder, "run", "--json", "--on-ask", "allow", *options, "Go.") as run:
        try:
            if run.stdout is None:
                raise RuntimeError("the run has no output")
            until_asked(run.stdout)
            yield descendant(run.pid, SLEEP)
        finally:
            run.kill()


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a command line whose home and workspace are in a folder."""
    return subprocess.Popen(
        [*PRSM, *arguments],
        cwd=folder,
        env={**os.environ, "PRSM_HOME": str(folder / "home")},
        stdout=subprocess.PIPE,
        text=True,
    )


def until_asked(events: IO[str]) -> None:
    """Read a run's events up to the answer that lets the command run."""
    for line in events:
        if json.loads(line)["type"] == "permission_resolved":
            return
    raise RuntimeError("the run ended before its command began")


def descendant(pid: int, argv: list[bytes]) -> int:
    """Return the process below `pid` that runs `argv`, as soon as there is one."""
    limit = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < limit:
        below = {pid}
        for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
            with suppress(FileNotFoundError, ProcessLookupError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                if parent in below:
                    below.add(int(path.name))
                    if (path / "cmdline").read_bytes().split(b"\0")[:-1] == argv:
                        return int(path.name)
    raise RuntimeError(f"no process below {pid} runs {argv}")


def ends_of(*pids: int) -> list[float]:
    """Return when each process ended, by the clock of `perf_counter`."""
    ends: dict[int, float] = {}
    handles = {os.pidfd_open(pid): pid for pid in pids}
    while handles:
        ready, _, _ = select.select(list(handles), [], [], LIMIT_SECONDS)
        if not ready:
            raise RuntimeError(f"still alive: {sorted(handles.values())}")
        for handle in ready:
            ends[handles.pop(handle)] = time.perf_counter()
            os.close(handle)
    return [ends[pid] for pid in pids]
