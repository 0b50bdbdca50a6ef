"""Boxes: processes of agents in containers, with limits where the machine can hold them.

argv to argv, under the reaper shim as everything else. By runc, with the programs of the machine
and no image; where there is none by podman; else by bubblewrap, which shuts in and limits nothing.
Which it is, and what it cannot hold, is found out by a trial.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

import msgspec

from prsm_core.domain.boxes import Box
from prsm_core.domain.record import Record
from prsm_core.engine.processes import cgroups
from prsm_core.engine.processes.box_runtimes import (
    BWRAP,
    PODMAN,
    RUNC,
    RUNTIMES,
    BoxStart,
    bwrap_argv,
    find_runtime,
    podman_argv,
    runc_argv,
    runc_config,
)
from prsm_core.engine.processes.box_view import TEMP, box_view
from prsm_core.engine.processes.reaper_shim import MARK
from prsm_core.engine.processes.syscalls import build_filter, filter_file
from prsm_core.errors import ProcessError, ProviderNotAvailableError, PrsmError
from prsm_core.kit.environment import CERTIFICATES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from prsm_core.engine.processes.box_view import BoxView
    from prsm_core.engine.processes.bundles import Bundles
    from prsm_core.engine.processes.child import ChildProcess
    from prsm_core.engine.processes.launcher import ProcessLauncher

_log = logging.getLogger("prsm.engine")

TRIAL_SECONDS = 10.0
_TRIAL = Box(memory=64 * 2**20, cpus=0.5, pids=32)
# It copies what a program says; a thread for each processor would only be started.
_RUNC_ENV = {"GOMAXPROCS": "1"}
_SWAP_FILE = "memory.memsw.limit_in_bytes"  # of the first version; the second always has its own
HINT = "install runc (apt install runc), or start the agent without a box"


class BoxState(Record, frozen=True, kw_only=True):
    """What boxes are made with here.

    Attributes:
        runtime: `runc`, `podman` or `bwrap`; blank where there is none of them that works.
        holds: Which of the limits it can hold: `memory`, `cpus`, `pids`.
        reason: Why it is not a better one, or why it does not hold all; blank if it does.
    """

    runtime: str
    holds: frozenset[str] = frozenset()
    reason: str = ""

    def gaps(self, box: Box) -> tuple[str, ...]:
        """Return what of a box is not held here, each as a sentence."""
        if not self.runtime:
            return (f"there are no boxes here: {self.reason}",)
        loose = [name for name in box.limits if name not in self.holds]
        if not loose:
            return ()
        why = f": {self.reason}" if self.reason else ""
        return (f"{self.runtime} does not limit {', '.join(loose)} here{why}",)


class Containers:
    """Owns the boxes of an engine, and the trial of what makes them.

    Args:
        launcher: Starts them.
        bundles: Their folder.
        runtimes: What they may be made with, from the best.
    """

    def __init__(
        self, launcher: ProcessLauncher, bundles: Bundles, runtimes: Sequence[str] = RUNTIMES
    ) -> None:
        self._runtimes = runtimes
        self._launcher = launcher
        self._bundles = bundles
        self._state: BoxState | None = None
        self._trial = asyncio.Lock()

    async def examine(self) -> BoxState:
        """Find out, once, what boxes can be made with here and which limits it holds."""
        async with self._trial:
            if self._state is None:
                self._state = await self._examined()
        return self._state

    def close(self) -> None:
        """Leave nothing behind; what still runs is removed at its end."""
        self._bundles.close()

    async def start(
        self,
        argv: Sequence[str],
        *,
        name: str,
        box: Box,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ChildProcess:
        """Start argv in a box; its environment is that of other processes.

        A process that ended by a limit says so in the last line of `stderr_tail`. Raises
        ProcessError for a box that cannot be had, ProviderNotAvailableError where no box can be
        made here or the program is not in it.
        """
        state = await self.examine()
        if not state.runtime:
            raise ProviderNotAvailableError(
                f"{name} was not started: there are no boxes here: {state.reason}", hint=HINT
            )
        limits = {key: value for key, value in box.limits.items() if key in state.holds}
        order = _Order(argv=tuple(argv), name=name, box=box, limits=limits, cwd=cwd, env=env or {})
        return await self._start(state.runtime, order)

    async def _start(
        self, runtime: str, order: _Order, look: Callable[[str], None] | None = None
    ) -> ChildProcess:
        """Start a process; `look` is given the name of its box at its end, while that is there."""
        environ = self._launcher.environment(order.env)
        _require_runnable(order, environ)
        view = box_view(order.box, order.cwd, environ.get("HOME"))
        view = _with_program(order.name, order.argv[0], view, environ)
        view = _with_certificates(view, environ)
        if (temp := environ.get("TMPDIR")) is not None and view.outside(temp) is None:
            environ["TMPDIR"] = TEMP
        box_name, bundle = self._bundles.make()
        start = BoxStart(
            name=box_name,
            argv=order.argv,
            env={**environ, MARK: self._launcher.mark},  # as the shim sets it outside
            view=view,
            box=order.box,
            limits=order.limits,
        )

        def on_end(process: ChildProcess) -> None:
            if look is not None:
                look(box_name)
            self._ended(process, start)

        handed: list[int] = []
        try:
            _, *command = self._command(runtime, start, bundle, handed)
            return await self._launcher.start(
                (find_runtime(runtime) or runtime, *command),
                name=order.name,
                env=_RUNC_ENV if runtime == RUNC else environ,
                inherit=handed,
                on_end=on_end,
            )
        except BaseException:
            self._bundles.remove(box_name)
            raise
        finally:
            for descriptor in handed:
                os.close(descriptor)

    def _command(
        self, runtime: str, start: BoxStart, bundle: Path, handed: list[int]
    ) -> tuple[str, ...]:
        """Return the command line; what it takes over is added to `handed`."""
        if runtime == BWRAP:
            program = build_filter(network=start.box.network)
            if program is not None:
                handed.append(filter_file(program))
            return bwrap_argv(start, handed)
        root = str(self._bundles.root(start.view))
        if runtime == PODMAN:
            return podman_argv(start, root)
        config = runc_config(start, root, _ids(), swap=self._counts_swap())
        # In memory: among the variables are keys, which are written to no disk.
        handed.append(descriptor := os.memfd_create("prsm-box"))
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(msgspec.json.encode(config))
        (bundle / "config.json").symlink_to(f"/proc/self/fd/{descriptor}")
        return runc_argv(self._bundles.state(), str(bundle), start.name)

    def _counts_swap(self) -> bool:
        memory = self._bundles.parents.get("memory")
        return memory is None or (memory / _SWAP_FILE).exists()

    def _ended(self, process: ChildProcess, start: BoxStart) -> None:
        parents = self._bundles.parents
        process.told = describe_end(
            start.limits,
            kills=cgroups.kills_by_memory(parents, start.name),
            refusals=cgroups.refused_forks(parents, start.name),
        )
        self._bundles.remove(start.name)

    async def _examined(self) -> BoxState:
        reasons = []
        for runtime in self._runtimes:
            if find_runtime(runtime) is None:
                reasons.append(f"{runtime} is not installed")
                continue
            for limits in ({},) if runtime == BWRAP else (_TRIAL.limits, {}):
                holds, why = await self._try(runtime, limits)
                if holds is not None:
                    return BoxState(runtime=runtime, holds=holds, reason="; ".join(reasons))
                reasons.append(f"{runtime} {_fails(limits)}: {why}")
        return BoxState(runtime="", reason="; ".join(reasons))

    async def _try(
        self, runtime: str, limits: Mapping[str, float]
    ) -> tuple[frozenset[str] | None, str]:
        """Return which limits a trial box had, None and why not where there was none."""
        held: list[frozenset[str]] = []
        order = _Order(argv=("true",), name="trial of boxes", box=_TRIAL, limits=limits)
        try:
            process = await self._start(
                runtime,
                order,
                lambda name: held.append(cgroups.held_limits(self._bundles.parents, name)),
            )
        except PrsmError as error:  # an odd home, or a program that is none for this machine
            return None, error.message
        try:
            async with asyncio.timeout(TRIAL_SECONDS):
                code = await process.wait()
        except TimeoutError:
            return None, f"it did not end within {TRIAL_SECONDS:.0f} s"
        finally:
            process.kill()
        said = process.stderr_tail.strip()
        if code != 0:
            return None, said.rpartition("\n")[2] or f"it ended with {code}"
        if runtime == PODMAN:  # its groups are where it says; what it cannot set it tells
            return (frozenset() if said else frozenset(limits)), ""
        return held[0], ""


class _Order(Record, frozen=True, kw_only=True):
    """What is to be started."""

    argv: tuple[str, ...]
    name: str
    box: Box
    limits: Mapping[str, float]
    cwd: str | None = None
    env: Mapping[str, str] = msgspec.field(default_factory=dict)


def _require_runnable(order: _Order, environ: Mapping[str, str]) -> None:
    if any("\0" in text for text in (*order.argv, *environ, *environ.values())):
        raise ProcessError(
            f"{order.name} could not be started: an argument or variable holds a zero byte",
            hint="leave it out",
        )


def _fails(limits: Mapping[str, float]) -> str:
    return "cannot set limits here" if limits else "does not work here"


def describe_end(limits: Mapping[str, float], *, kills: int, refusals: int) -> str:
    """Return which limits of a box a process has met, blank if none; a line each."""
    lines = []
    if kills:
        size = limits.get("memory", 0) / 2**20
        lines.append(
            f"prsm: the box ran out of its memory of {size:.0f} MiB, and the kernel killed"
            f" {kills} of its processes: give it more memory"
        )
    if refusals:
        most = int(limits.get("pids", 0))
        lines.append(
            f"prsm: the box was at its limit of {most} processes and threads, and could not start"
            f" another one {refusals} times: give it more pids"
        )
    return "\n".join(lines)


def _ids() -> tuple[int, int] | None:
    return None if os.geteuid() == 0 else (os.geteuid(), os.getegid())


def _with_certificates(view: BoxView, environ: Mapping[str, str]) -> BoxView:
    """Return a view with the certificates that the environment names: else no server is trusted."""
    for place in filter(None, map(environ.get, CERTIFICATES)):
        file = os.path.normpath(place)
        if file.startswith("/") and os.path.exists(file) and view.outside(file) is None:  # noqa: PTH110
            view = view.showing(file)
    return view


def _with_program(name: str, program: str, view: BoxView, environ: Mapping[str, str]) -> BoxView:
    """Return a view with the program in it: its own file is shown where nothing else shows it.

    What it needs beside that is the box's to mount. Raises ProviderNotAvailableError where there
    is no such program.
    """
    if "/" in program:
        places = [os.path.normpath(f"{view.cwd}/{program}")] if program[0] != "/" else [program]
    else:
        folders = environ.get("PATH", os.defpath).split(os.pathsep)
        places = [f"{folder}/{program}" for folder in folders if folder.startswith("/")]
    for place in map(os.path.normpath, places):
        outside = view.outside(place)
        if outside is not None and os.path.lexists(outside):
            return view
        if os.path.isfile(place) and os.access(place, os.X_OK):  # noqa: PTH113
            return view.showing(place)
    raise ProviderNotAvailableError(
        f"{name}: cannot start {program}: there is no such program in the box",
        hint=f"Install {program}, or add the folder it is in to the box's mounts.",
    )
