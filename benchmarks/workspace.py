"""workspace: the CPU of snapshots, restores and scans of a large repository, disk and memory."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_files.changes.tracker import Tracker
from prsm_files.session.changes import APART_SECONDS
from prsm_files.session.git_process import HELPER, open_git
from prsm_files.shadow.git import Output
from prsm_files.shadow.worktree import Shadow

from benchmarks.harness import Finding, compared
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.kit.clocks import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.harness import Measure, Plan

FILES = 20_000
BYTES = 3_000  # of a file, about
EDITED = 300
SINCE = 30  # files written between a snapshot and the way back
LATER, FIRST, RESTORE, DISK = 1.3, 0.15, 0.6, 1.1  # goals
SCAN, NAMED, WAIT = 1.3, 0.15, 1.5
AGENTS, SECONDS = 10, 4  # agents that each have one call a second; seconds of that
CORES = 0.6  # of one, for the looks at what they change: twice of 0.3, when none came before calls
HELPER_BYTES = 12 * 2**20
MILLI, KIB = 1e3, 1024
_EXPENSIVE = 3  # pairs of what takes seconds
_ENV = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "b",
    "GIT_AUTHOR_EMAIL": "b@x",
    "GIT_COMMITTER_NAME": "b",
    "GIT_COMMITTER_EMAIL": "b@x",
}


def run_git(args: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: bytes = b"") -> Output:
    """Run git directly: the port of shadows."""
    done = subprocess.run(
        ["git", *args],
        cwd=cwd,
        env={"PATH": _ENV["PATH"], **env},
        input=stdin,
        capture_output=True,
        check=False,
    )
    return Output(done.returncode, done.stdout, done.stderr)


def measure(plan: Plan) -> list[Finding]:
    """Measure later and first snapshots, a restore, and the disk they take."""
    with tempfile.TemporaryDirectory() as folder:
        scene = _Scene(Path(folder), plan)
        few = type(plan)(pairs=min(plan.pairs, _EXPENSIVE), scale=plan.scale)
        return [
            _compared("a first snapshot, of a dirty tree", scene.first, scene.cold, few, FIRST),
            _compared("a later snapshot", scene.later, scene.add, plan, LATER),
            _compared("a restore of a dirty tree", scene.restore, scene.by_patch, plan, RESTORE),
            _compared("a scan after a shell call", scene.scan, scene.status, plan, SCAN),
            _compared("a scan that finds nothing", scene.idle_scan, scene.status, plan, SCAN),
            _compared("a call that names its file", scene.named, scene.status, plan, NAMED),
            _compared("a first call, until it is let in", scene.let_in, scene.waited, few, WAIT),
            scene.disk(),
            scene.many(),
            *asyncio.run(helper_memory()),
        ]


def _compared(case: str, subject: Measure, reference: Measure, plan: Plan, goal: float) -> Finding:
    return compared("workspace", case, subject, reference, plan, goal=goal, unit="ms")


def _cost(work: Callable[[], object]) -> float:
    """Return the CPU time of this process and its children in ms."""
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    children = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (time.process_time() - began + children) * MILLI


def _waited(work: Callable[[], object]) -> float:
    """Return the time that passes in ms."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * MILLI


class _Scene:
    """A repository, dirty in the same way each time, and two shadows of it."""

    def __init__(self, base: Path, plan: Plan) -> None:
        self._base = base
        self._folder = base / "work"
        self._random = random.Random(1)  # noqa: S311 - content
        self._numbers = itertools.count(1)
        self._edited = plan.count(EDITED)
        self._files = [f"d{n // 25}/m{n}.txt" for n in range(plan.count(FILES))]
        for name in self._files:
            self._write(name)
        self._git("init", "-q")
        self._git("add", "-A")
        self._git("commit", "-qm", "all")
        self._dirty()
        self._shadow = self._new("state")
        self._add("warm")
        self._tracker: Tracker | None = None

    def _write(self, name: str) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._random.randbytes(BYTES // 2).hex().encode())

    def _dirty(self) -> None:
        for name in self._files[: self._edited]:
            self._write(name)
            self._write(f"new/{name}")

    def _write_some(self) -> None:
        for name in self._files[:: max(1, len(self._files) // SINCE)]:
            self._write(name)

    def _git(self, *args: str, **env: str) -> bytes:
        done = subprocess.run(
            ["git", *args], cwd=self._folder, env=_ENV | env, capture_output=True, check=True
        )
        return done.stdout

    def _new(self, name: str) -> Shadow:
        return Shadow(
            run_git,
            self._folder,
            self._base / name,
            environ=_ENV,
            now=lambda: float(next(self._numbers)),
            new_id=lambda: f"{next(self._numbers):08x}",
        )

    def first(self) -> float:
        """Take the first snapshot of a dirty tree."""
        cost = _cost(self._new("fresh").take)
        shutil.rmtree(self._base / "fresh")
        return cost

    def cold(self) -> float:
        """Store the same in a git directory that knows nothing."""
        cost = _cost(lambda: self._add("cold"))
        shutil.rmtree(self._base / "cold")
        return cost

    def _add(self, name: str) -> None:
        place = str(self._base / name)
        if not Path(place).exists():
            self._git("init", "-q", "--bare", place)
        where = {"GIT_DIR": place, "GIT_WORK_TREE": str(self._folder)}
        self._git("add", "-A", **where)
        self._git("write-tree", **where)

    def later(self) -> float:
        """Take a snapshot after one file was written."""
        self._shadow.take()
        self._write(self._files[-1])
        return _cost(self._shadow.take)

    def add(self) -> float:
        """Store the same by `git add` and `git write-tree`."""
        self._add("warm")
        self._write(self._files[-1])
        return _cost(lambda: self._add("warm"))

    def restore(self) -> float:
        """Go back to a snapshot of a dirty tree, one of the files of the moment taken before."""
        taken = self._shadow.take()
        self._write_some()
        return _cost(lambda: self._shadow.restore(taken.id))

    def by_patch(self) -> float:
        """Go back by a checkout, a clean, a patch and a copy."""
        patch, kept = self._base / "patch", self._base / "kept"
        patch.write_bytes(self._git("diff", "--binary", "HEAD"))
        shutil.copytree(self._folder / "new", kept)
        self._write_some()

        def back() -> None:
            self._git("checkout", "-q", "HEAD", "--", ".")
            self._git("clean", "-qfd")
            self._git("apply", str(patch))
            shutil.copytree(kept, self._folder / "new")

        cost = _cost(back)
        shutil.rmtree(kept)
        return cost

    def scan(self) -> float:
        """Find what a call has changed: a few files, one of them new."""
        tracker = self._tracked()
        self._write(self._files[-1])
        self._write(self._files[-2])
        self._write(f"made/{next(self._numbers)}")
        return _cost(lambda: tracker.settle(tracker.scan()))

    def idle_scan(self) -> float:
        """Find that nothing has changed."""
        tracker = self._tracked()
        return _cost(tracker.scan)

    def named(self) -> float:
        """Keep one file as it is, before a call that names it."""
        tracker, name = self._tracked(), self._files[next(self._numbers) % len(self._files)]
        return _cost(lambda: tracker.observe([name]))

    def many(self) -> Finding:
        """Look at what ten agents change who each have one call a second, half by name.

        What an engine does in a second of that: a look before and one behind each call that names
        its file, a scan before each other one, and one when a quarter of a second has passed since
        the last. Each finds what calls have changed. The time is that of the CPU: that others are
        at work on it changes little.
        """
        tracker, costs = self._tracked(), []
        for _ in range(SECONDS):
            cost, looked = 0.0, 0.0
            for number in range(AGENTS):
                now = number / AGENTS
                name = self._files[next(self._numbers) % len(self._files)]
                if number % 2 == 0 or now >= looked + APART_SECONDS:
                    cost += _cost(lambda: tracker.settle(tracker.scan()))
                    looked = now
                if number % 2:
                    cost += _cost(lambda name=name: tracker.observe([name]))  # type: ignore[misc]
                self._write(name)
                if number % 2:
                    cost += _cost(lambda name=name: tracker.observe([name]))  # type: ignore[misc]
            costs.append(cost / MILLI)
        return Finding(
            benchmark="workspace",
            case=f"looks at {AGENTS} agents of a call a second",
            unit="cores",
            value=min(costs),
            goal=CORES,
        )

    def _tracked(self) -> Tracker:
        if self._tracker is None:
            self._tracker = self._new_tracker("benchmark")
            self._tracker.begin()
        self._tracker.settle(self._tracker.scan())
        return self._tracker

    def _new_tracker(self, name: str) -> Tracker:
        return Tracker(
            self._shadow,
            name,
            tick=lambda: next(self._numbers),
            new_id=lambda: f"{next(self._numbers):08x}",
        )

    def let_in(self) -> float:
        """Wait as the first call of a session does, behind the snapshot of its prompt."""
        self._shadow.take()
        return _waited(self._new_tracker(f"session {next(self._numbers)}").begin)

    def waited(self) -> float:
        """Wait for git to tell what differs."""
        return _waited(lambda: self._git("status", "--porcelain", "-z", "-uall"))

    def status(self) -> float:
        """Ask git what differs."""
        return _cost(lambda: self._git("status", "--porcelain", "-z", "-uall"))

    def disk(self) -> Finding:
        """Compare what one snapshot of a dirty tree takes with what was changed, and one index."""
        self._new("disk").take()
        place = self._base / "disk"
        taken = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        (index,) = place.rglob("git/index")
        changed = self._git("status", "--porcelain", "-z", "-uall").split(b"\0")
        names = [os.fsdecode(one[3:]) for one in changed if one]
        dirty = sum((self._folder / name).stat().st_size for name in names)
        base = float(dirty + 2 * index.stat().st_size)
        return Finding(
            benchmark="workspace",
            case="disk, of changes, our index, the person's",
            unit="bytes",
            value=float(taken),
            reference=base,
            ratio=taken / base,
            goal=DISK,
        )


async def helper_memory() -> list[Finding]:
    """Return what the process takes that runs git for an engine, once it has run some."""
    clock = SystemClock()
    async with ProcessLauncher(clock) as launcher, open_git(launcher, clock) as git:
        env = {"GIT_CONFIG_NOSYSTEM": "1"}
        for _ in range(SECONDS):
            await asyncio.to_thread(git, ["version"], cwd="/", env=env)
        taken = _memory_of(HELPER)
    return [
        Finding(
            benchmark="workspace",
            case=f"memory of the helper that runs git, {kind}",
            unit="bytes",
            value=float(size),
            goal=HELPER_BYTES,
        )
        for kind, size in taken.items()
    ]


def _memory_of(program: Path) -> Mapping[str, int]:
    """Return the memory of the process that runs a program under our shim, in bytes.

    That is what is resident, and its share of it: the pages of the interpreter are everybody's.
    """
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _word(entry, 3) == str(program) and _is_below_us(entry):
            lines = (entry / "smaps_rollup").read_text("ascii").splitlines()[1:]
            sizes = dict(line.split()[:2] for line in lines)
            return {kind.upper(): int(sizes[f"{kind}:"]) * KIB for kind in ("Rss", "Pss")}
    raise LookupError(f"no process of ours runs {program}")


def _word(process: Path, number: int) -> str:
    try:
        words = (process / "cmdline").read_text("utf-8", "replace").split("\0")
    except OSError:  # it has ended
        return ""
    return words[number] if len(words) > number else ""


def _is_below_us(process: Path) -> bool:
    """Return whether this process has started what started a process."""
    return _parent(Path("/proc", str(_parent(process)))) == os.getpid()


def _parent(process: Path) -> int:
    return int((process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
