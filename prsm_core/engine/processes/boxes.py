"""Boxes of an engine: its executor says how programs start in them, the launcher starts them.

The boxes of an engine lie in one folder, named by the engine's process, so that the next engine
finds what a dead one has left.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.config import private_dir
from prsm_core.engine.processes.executor import ANSWERS, NO_EXECUTOR, trial_run
from prsm_core.engine.processes.reaper_shim import MARK
from prsm_core.engine.processes.table import ProcessIdentity, is_alive, process_identity
from prsm_core.errors import ProcessError
from prsm_core.executors import BoxHost, BoxProgram, BoxState
from prsm_core.kit.environment import CERTIFICATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.domain.boxes import Box
    from prsm_core.engine.processes.child import ChildProcess
    from prsm_core.engine.processes.executor import ChosenExecutor
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.executors import Boxes, Executor
    from prsm_core.plugins.guard import Guest

# The folder of the state in which each engine has one.
BOXES = "boxes"
# For a program that removes a box of a dead engine.
END_SECONDS = 10.0
_SEPARATOR = "_"


class ProgramBoxes(Struct, eq=False):
    """Starts programs, and owns the boxes of an engine. The first box loads the executor."""

    launcher: ProcessLauncher
    state_dir: Path
    executor: ChosenExecutor = NO_EXECUTOR
    _opened: tuple[Boxes, Guest] | None = None

    async def examine(self) -> BoxState:
        """Find out what boxes can be made with here and which limits it holds."""
        if self.executor.spec is None:
            return BoxState(runtime="", reason=f"{self.executor.reason} ({self.executor.hint})")
        boxes, guest = self._open()
        with guest.calling("examine", ANSWERS):
            return await boxes.examine()

    async def start(
        self,
        argv: Sequence[str],
        *,
        name: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        box: Box | None = None,
    ) -> ChildProcess:
        """Start argv, in a box if one is given; its environment is that of other processes.

        Raises ProcessError for a box that cannot be had, ProviderNotAvailableError where no box can
        be made here or the program is not in it.
        """
        if box is None:
            return await self.launcher.start(argv, name=name, cwd=cwd, env=env)
        boxes, guest = self._open()
        environ = {**self.launcher.environment(env), MARK: self.launcher.mark}
        program = BoxProgram(
            argv=tuple(argv),
            name=name,
            box=box,
            cwd=cwd,
            environ=environ,
            files=tuple(_certificates(environ)),
        )
        async with AsyncExitStack() as stack:
            with guest.calling("boxed", ANSWERS):
                command = await stack.enter_async_context(boxes.boxed(program))
            return await self.launcher.start(
                command.argv,
                name=name,
                env=command.env,
                inherit=command.inherit,
                on_end=None if command.on_end is None else partial(_tell_end, command.on_end),
            )

    def close(self) -> None:
        """Leave nothing behind; what still runs is removed at its end."""
        if self._opened is not None:
            self._opened[0].close()

    def _open(self) -> tuple[Boxes, Guest]:
        if self._opened is None:
            executor, guest = self.executor.load()
            host = BoxHost(
                make_folder=partial(_make_folder, self.state_dir),
                environ=lambda: {**self.launcher.environment(), MARK: self.launcher.mark},
                run=trial_run(self.launcher),
            )
            with guest.calling("open_boxes", ANSWERS):
                self._opened = executor.open_boxes(host), guest
        return self._opened


def end_left_boxes(state_dir: Path, executor: ChosenExecutor) -> int:
    """Remove the boxes that dead engines have left; return how many they were."""
    count = 0
    for folder, names, ended_by in _left(state_dir, executor):
        ended_by.end_left(folder, _run)
        count += len(names)
    return count


def find_left_boxes(state_dir: Path, executor: ChosenExecutor) -> list[str]:
    """Return the names of boxes that dead engines have left; touch nothing."""
    return [name for _, names, _ in _left(state_dir, executor) for name in names]


def _left(
    state_dir: Path, chosen: ChosenExecutor
) -> Iterator[tuple[Path, Sequence[str], Executor]]:
    for folder in _folders_of_the_dead(state_dir):
        if chosen.spec is not None:  # few engines have any: it is imported here
            executor, guest = chosen.load()
            with guest.calling("left_boxes", ANSWERS):
                names = executor.left_boxes(folder)
            yield folder, names, executor


def _folders_of_the_dead(state_dir: Path) -> Iterator[Path]:
    for folder in sorted((state_dir / BOXES).glob("*")):
        pid, start_time, boot_id, *_ = [*folder.name.split(_SEPARATOR), "", "", ""]
        if not (pid.isdecimal() and start_time.isdecimal()):
            continue  # nothing of an engine's
        engine = ProcessIdentity(pid=int(pid), start_time=int(start_time), boot_id=boot_id)
        if not is_alive(engine):
            yield folder


def _make_folder(state_dir: Path) -> Path:
    """Make a folder that is named by this process."""
    own = process_identity(os.getpid())
    if own is None:
        raise ProcessError("this process is not in /proc", hint="prsm needs /proc")
    words = (str(own.pid), str(own.start_time), own.boot_id, os.urandom(3).hex())
    return private_dir(state_dir / BOXES / _SEPARATOR.join(words))


def _run(argv: Sequence[str]) -> None:
    subprocess.run(argv, timeout=END_SECONDS, capture_output=True, check=False)


def _tell_end(on_end: Callable[[], str], process: ChildProcess) -> None:
    process.told = on_end()


def _certificates(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the certificates that the environment names: without them no server is trusted."""
    for place in filter(None, map(environ.get, CERTIFICATES)):
        file = os.path.normpath(place)
        if file.startswith("/") and os.path.exists(file):  # noqa: PTH110
            yield file
