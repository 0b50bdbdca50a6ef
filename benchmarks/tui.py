"""tui: the screen of prsm-tui on a terminal, beside a bare one that draws the same lines."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import resource
import select
import subprocess
import sys
import termios
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Absent, Finding, compared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.harness import Plan

SIZE = (40, 120)  # rows, columns
STREAM_SECONDS, IDLE_SECONDS = 6.0, 10.0
KEYS, PAUSE_SECONDS = 40, 0.12  # keys that are typed, and between two
MESSAGES, HOUR, CROWD = 100_000, 500 * 3600, 1000
IMPORT = "import textual.app"
GOALS = {
    "first frame": 1.8,
    "streaming": 1.5,
    "delta": 200.0,
    "bytes": 60.0,
    "idle": 1.0,
    "open": 1.3,
    "open memory": 20.0,
    "hour": 10.0,
    "key": 50.0,
    "crowd": 2.0,
}


def measure(plan: Plan) -> Sequence[Finding | Absent]:
    """Measure the screen in all that people do with it for long."""
    if find_spec("prsm_tui") is None:
        return [Absent(benchmark="tui", case="a screen", why="prsm-tui is not installed")]
    return [
        _first_frame(plan),
        *_streaming(plan),
        _found("idle with 10 open agents, of a core", "%", _idle(plan), "idle"),
        *_opening(plan),
        _found("an hour of streaming, more", "MB", _hour(plan), "hour"),
        _found("1,000 agents, an event and its frame", "ms", _crowd(plan), "crowd"),
    ]


def _found(case: str, unit: str, value: float, goal: str) -> Finding:
    return Finding(benchmark="tui", case=case, unit=unit, value=value, goal=GOALS[goal])


def _first_frame(plan: Plan) -> Finding:
    return compared(
        "tui",
        "first frame, beside importing Textual",
        lambda: _process_ms(lambda: Screen("first", "0").result()),
        lambda: _process_ms(lambda: subprocess.run([sys.executable, "-c", IMPORT], check=True)),
        plan,
        goal=GOALS["first frame"],
        unit="ms",
    )


def _streaming(plan: Plan) -> Iterator[Finding]:
    """Stream to both screens in turn, and type meanwhile."""
    seconds = str(max(0.4, STREAM_SECONDS * plan.scale))
    pairs = [
        (Screen("stream", seconds).result(), Screen("bare", seconds).result())
        for _ in range(plan.pairs)
    ]
    costs = [(_delta(ours), _delta(bare)) for ours, bare in pairs]
    ours, bare = (median(each) for each in zip(*costs, strict=True))
    yield Finding(
        benchmark="tui",
        case="10 agents streaming, a delta",
        unit="µs",
        value=ours,
        reference=bare,
        ratio=median(one / other for one, other in costs),
        goal=GOALS["streaming"],
    )
    yield _found("10 agents streaming, a delta's CPU", "µs", ours, "delta")
    written = median(found["bytes"] / found["wall"] / 1000 for found, _ in pairs)
    yield _found("10 agents streaming, written a second", "kB", written, "bytes")
    with_keys = Screen("stream", str(max(0.4, PAUSE_SECONDS * plan.count(KEYS) + 1.5)))
    waits = with_keys.typed(plan.count(KEYS))
    _ = with_keys.result()
    late = quantiles(waits, n=20)[-1] if len(waits) > 1 else waits[0]
    yield _found("from a key to the screen meanwhile, p95", "ms", late, "key")


def _delta(found: dict[str, float]) -> float:
    return 1e6 * found["cpu"] / max(1.0, found["deltas"])


def _idle(plan: Plan) -> float:
    found = Screen("idle", str(max(0.4, IDLE_SECONDS * plan.scale))).result()
    return max(0.01, 100 * found["cpu"] / found["wall"])


def _opening(plan: Plan) -> Iterator[Finding]:
    from benchmarks.tui_ledger import write

    with TemporaryDirectory(prefix="prsm-benchmark-") as folder:
        amounts = {"full": plan.count(MESSAGES), "empty": 2}
        for name, amount in amounts.items():
            asyncio.run(write(Path(folder, name), amount))
        found: dict[str, list[dict[str, float]]] = {name: [] for name in amounts}
        for _ in range(plan.pairs):
            for name in amounts:
                found[name].append(Screen("opened", str(Path(folder, name))).result())
    full, empty = (
        {key: median(one[key] for one in found[name]) for key in ("cpu", "rss")} for name in amounts
    )
    yield Finding(
        benchmark="tui",
        case="opening 100,000 messages, beside two",
        unit="ms",
        value=full["cpu"],
        reference=empty["cpu"],
        ratio=full["cpu"] / empty["cpu"],
        goal=GOALS["open"],
    )
    more = max(0.01, full["rss"] - empty["rss"])
    yield _found("opening 100,000 messages, more", "MB", more, "open memory")


def _hour(plan: Plan) -> float:
    return Screen("hour", str(plan.count(HOUR))).result()["mb"]


def _crowd(plan: Plan) -> float:
    return Screen("crowd", str(plan.count(CROWD))).result()["ms"]


def _process_ms(run: Callable[[], Any]) -> float:
    """Return the CPU milliseconds of the processes that were run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


class Screen:
    """A program on a pseudo-terminal; what it draws is read, and seen by nobody."""

    def __init__(self, case: str, what: str) -> None:
        self._person, program = pty.openpty()
        termios.tcsetwinsize(program, SIZE)
        self._told, telling = os.pipe()
        argv = [sys.executable, "-m", "benchmarks.tui_screen", case, what, str(telling)]
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), program)
        env = {**os.environ, "TERM": "xterm-256color"}
        root = Path(__file__).resolve().parents[1]
        self._process = subprocess.Popen(
            argv, **streams, env=env, cwd=root, pass_fds=[telling], start_new_session=True
        )
        os.close(program)
        os.close(telling)
        self._written = b""

    def result(self) -> dict[str, float]:
        """Wait for its end; return what it measured."""
        while self._read(1.0):
            pass
        code = self._process.wait()
        with open(self._told, encoding="ascii") as told:  # noqa: PTH123 - a descriptor
            line = told.readline()
        os.close(self._person)
        if code or not line:
            raise RuntimeError(f"the program has failed ({code}): {self._written[-2000:]!r}")
        found: dict[str, float] = json.loads(line)
        return found

    def typed(self, count: int) -> Sequence[float]:
        """Type signs; return after how many milliseconds each was to be seen."""
        while b"?1049h" not in self._written or b"agent-0" not in self._written:
            if not self._read(10.0):
                raise RuntimeError(f"it has drawn nothing: {self._written[-2000:]!r}")
        waits = []
        for number in range(count):
            sign = chr(0x0430 + number % 32).encode()  # a letter that no agent says
            begin, self._written = time.perf_counter(), b""
            os.write(self._person, sign)
            while sign not in self._written:
                if not self._read(10.0):
                    raise RuntimeError(f"a key was not shown: {self._written[-2000:]!r}")
            waits.append(1000 * (time.perf_counter() - begin))
            self._pause(begin + PAUSE_SECONDS)
        return waits

    def _pause(self, end: float) -> None:
        while (left := end - time.perf_counter()) > 0:
            self._read(left)

    def _read(self, seconds: float) -> bool:
        """Read what there is; return whether there may be more."""
        if not select.select([self._person], [], [], seconds)[0]:
            return self._process.poll() is None
        try:
            chunk = os.read(self._person, 1 << 16)
        except OSError:  # its program has ended
            return False
        self._written = (self._written + chunk)[-(1 << 16) :]
        return True
