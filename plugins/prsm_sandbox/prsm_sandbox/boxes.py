"""Boxes: processes of agents in containers, with limits where the machine can hold them.

argv to argv, under the reaper shim as everything else. By runc, with the programs of the machine
and no image; where there is none by podman; else by bubblewrap, which shuts in and limits nothing.
Which it is, and what it cannot hold, is found out by a trial.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from prsm_core import Box, ProcessError, ProviderNotAvailableError, PrsmError
from prsm_core.executors import BoxProgram, BoxState, Command
from prsm_sandbox import cgroups
from prsm_sandbox.box_runtimes import (
    BWRAP,
    PODMAN,
    RUNC,
    BoxStart,
    bwrap_argv,
    find_runtime,
    podman_argv,
    runc_argv,
    runc_config,
)
from prsm_sandbox.box_view import TEMP, box_view
from prsm_sandbox.syscalls import build_filter, filter_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.executors import BoxHost
    from prsm_sandbox.box_view import BoxView
    from prsm_sandbox.bundles import Bundles

TRIAL_SECONDS = 10.0
_TRIAL = Box(memory=64 * 2**20, cpus=0.5, pids=32)
# It copies what a program says; a thread for each processor would only be started.
_RUNC_ENV = {"GOMAXPROCS": "1"}
_SWAP_FILE = "memory.memsw.limit_in_bytes"  # of the first version; the second always has its own
HINT = "install runc (apt install runc), or start the agent without a box"


class Containers:
    """Owns the boxes of an engine, and the trial of what makes them: `runtimes`, from the best."""

    def __init__(self, host: BoxHost, bundles: Bundles, runtimes: Sequence[str]) -> None:
        self._runtimes = runtimes
        self._host = host
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

    @asynccontextmanager
    async def boxed(self, program: BoxProgram) -> AsyncIterator[Command]:
        """Lend out what starts a program in a box; it has started when this is left.

        One that met a limit has that added to its stderr. Raises ProcessError for a box that cannot
        be had, ProviderNotAvailableError where no box can be made here or the program is not in it.
        """
        state = await self.examine()
        if not state.runtime:
            raise ProviderNotAvailableError(
                f"{program.name} was not started: there are no boxes here: {state.reason}",
                hint=HINT,
            )
        limits = {key: size for key, size in program.box.limits.items() if key in state.holds}
        start = self._started(program, limits)
        with self._made(state.runtime, start) as command:
            yield msgspec.structs.replace(command, on_end=partial(self._ended, start))

    def _started(self, program: BoxProgram, limits: Mapping[str, float]) -> BoxStart:
        """Return the process to start, once it is clear that it can run in its box."""
        environ = dict(program.environ)
        _require_runnable(program)
        view = box_view(program.box, program.cwd, environ.get("HOME"))
        view = _with_program(program.name, program.argv[0], view, environ)
        for file in program.files:
            if view.outside(file) is None:
                view = view.showing(file)
        if (temp := environ.get("TMPDIR")) is not None and view.outside(temp) is None:
            environ["TMPDIR"] = TEMP
        return BoxStart(
            name=self._bundles.new_name(),
            argv=program.argv,
            env=environ,
            view=view,
            box=program.box,
            limits=limits,
        )

    @contextmanager
    def _made(self, runtime: str, start: BoxStart) -> Iterator[Command]:
        """Make a box and lend out what starts it; it is removed again where that fails."""
        inherit: list[int] = []
        try:
            bundle = self._bundles.make(start.name)
            _, *words = self._argv(runtime, start, bundle, inherit)
            yield Command(
                argv=(find_runtime(runtime) or runtime, *words),
                env=_RUNC_ENV if runtime == RUNC else start.env,
                inherit=tuple(inherit),
            )
        except BaseException:
            self._bundles.remove(start.name)
            raise
        finally:
            for descriptor in inherit:
                os.close(descriptor)

    def _argv(
        self, runtime: str, start: BoxStart, bundle: Path, inherit: list[int]
    ) -> tuple[str, ...]:
        """Return the command line; the files that it takes over are added to `inherit`."""
        if runtime == BWRAP:
            program = build_filter(network=start.box.network)
            if program is not None:
                inherit.append(filter_file(program))
            return bwrap_argv(start, inherit)
        root = str(self._bundles.root(start.view))
        if runtime == PODMAN:
            return podman_argv(start, root)
        ids = None if os.geteuid() == 0 else (os.geteuid(), os.getegid())
        memory = self._bundles.parents.get("memory")
        swap = memory is None or (memory / _SWAP_FILE).exists()
        config = runc_config(start, root, ids, swap=swap)
        # In memory: among the variables are keys, which are written to no disk.
        inherit.append(descriptor := os.memfd_create("prsm-box"))
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(msgspec.json.encode(config))
        (bundle / "config.json").symlink_to(f"/proc/self/fd/{descriptor}")
        return runc_argv(self._bundles.state(), str(bundle), start.name)

    def _ended(self, start: BoxStart) -> str:
        """Remove a box whose program has ended; return which of its limits it has met."""
        parents = self._bundles.parents
        text = describe_end(
            start.limits,
            kills=cgroups.kills_by_memory(parents, start.name),
            refusals=cgroups.refused_forks(parents, start.name),
        )
        self._bundles.remove(start.name)
        return text

    async def _examined(self) -> BoxState:
        reasons = []
        for runtime in self._runtimes:
            if find_runtime(runtime) is None:
                reasons.append(f"{runtime} is not installed")
                continue
            for limits in ({},) if runtime == BWRAP else (_TRIAL.limits, {}):
                holds, why = await self._try(runtime, limits)
                if holds is not None:
                    return self._state_of(runtime, holds, reasons)
                fails = "cannot set limits here" if limits else "does not work here"
                reasons.append(f"{runtime} {fails}: {why}")
        return self._state_of("", frozenset(), reasons)

    def _state_of(self, runtime: str, holds: frozenset[str], reasons: list[str]) -> BoxState:
        return BoxState(
            runtime=runtime,
            holds=holds,
            reason="; ".join(reasons),
            is_wanting=find_runtime(RUNC) is not None and holds != _TRIAL.limits.keys(),
        )

    async def _try(
        self, runtime: str, limits: Mapping[str, float]
    ) -> tuple[frozenset[str] | None, str]:
        """Return which limits a trial box had, None and why not where there was none."""
        environ = self._host.environ()
        program = BoxProgram(argv=("true",), name="trial of boxes", box=_TRIAL, environ=environ)
        try:
            start = self._started(program, limits)
            with self._made(runtime, start) as command:
                trial = await self._host.run(command, program.name, TRIAL_SECONDS)
                held = cgroups.held_limits(self._bundles.parents, start.name)
        except PrsmError as error:  # an odd home, or a program that is none for this machine
            return None, error.message
        self._bundles.remove(start.name)
        if trial.code is None:
            return None, f"it did not end within {TRIAL_SECONDS:.0f} s"
        errors = trial.stderr.strip()
        if trial.code != 0:
            return None, errors.rpartition("\n")[2] or f"it ended with {trial.code}"
        if runtime == PODMAN:  # its groups are where it says; what it cannot set it tells
            return (frozenset() if errors else frozenset(limits)), ""
        return held, ""


def _require_runnable(program: BoxProgram) -> None:
    environ = program.environ
    if any("\0" in text for text in (*program.argv, *environ, *environ.values())):
        raise ProcessError(
            f"{program.name} could not be started: an argument or variable holds a zero byte",
            hint="leave it out",
        )


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


def _with_program(name: str, program: str, view: BoxView, environ: Mapping[str, str]) -> BoxView:
    """Return a view with the program in it: its own file is shown where nothing else shows it.

    What else it needs is the box's to mount. Raises ProviderNotAvailableError: there is none.
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
