"""What the owner of a session holds before there is an engine: its lock, launcher and providers.

So a provider can begin what all of its sessions share while the engine is still imported.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from prsm_core.config import private_dir
from prsm_core.config.secrets import known_secrets
from prsm_core.domain.record import Record
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.engine.processes.boxes import end_left_boxes
from prsm_core.engine.processes.executor import NO_EXECUTOR
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.processes.orphans import recorded_processes
from prsm_core.engine.providers.registry import build_provider_registry
from prsm_core.kit.background import Background
from prsm_core.kit.clocks import Parting, first_of
from prsm_core.permissions import Redactor
from prsm_core.plugins.absent import PRESENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

    from prsm_core.config import Paths, Settings
    from prsm_core.engine.processes.executor import ChosenExecutor
    from prsm_core.engine.processes.orphans import ProcessRecord
    from prsm_core.engine.processes.table import ProcessIdentity
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import ProviderSpec
    from prsm_core.plugins.absent import Absent

    OnError = Callable[[str, Exception], None]
    OnStart = Callable[[int, int], None]

_log = logging.getLogger("prsm.engine")

BEGIN_SECONDS = 0.1  # for which a provider that begins is waited for, to start its program


class Made(Record, frozen=True):
    """Providers that are there before their engine.

    report_to: Has what fails in their tasks by surprise told to the engine from then on.
    """

    registry: ProviderRegistry
    background: Background  # their tasks
    report_to: Callable[[OnError], None]


class Owned(Record, frozen=True, kw_only=True):
    """What the owner of a session holds; all of it is let go of when `open_owned` is left."""

    lock: SessionLock
    launcher: ProcessLauncher
    made: Made
    state_dir: Path
    redactor: Redactor
    clock: Clock
    begun: asyncio.Event  # a process was started, or will not be soon
    parting: Parting

    async def prepare(self, provider: str | None, model: str | None) -> None:
        """Have the provider that a run is likely to choose begin; see `ProviderRegistry`.

        Return once its program starts, or it has begun without one. What is imported before that
        would hold it up: one thread runs at a time, and the program takes longest of all.
        """
        preparing = await self.made.registry.prepare(provider, model, self.made.background)
        if preparing is not None:
            preparing.add_done_callback(lambda _: self.begun.set())
            await first_of(self.clock, BEGIN_SECONDS, self.begun.wait)


@asynccontextmanager
async def open_owned(
    paths: Paths,
    settings: Settings,
    specs: Mapping[str, ProviderSpec],
    *,
    session: str,
    clock: Clock,
    leaders: tuple[ProcessIdentity, ...] = (),
    external: ProviderSpec | None = None,
    absent: Absent = PRESENT,
    executor: ChosenExecutor = NO_EXECUTOR,
) -> AsyncIterator[Owned]:
    """Become the owner of a session; raises SessionOwnedError when another process is."""
    surprises, begun, parting = _Surprises(), asyncio.Event(), Parting(clock)
    with (
        SessionLock.take(paths.state, session, since=clock.time(), leaders=leaders) as lock,
        _recorded(paths.state, executor) as processes,
    ):
        noting = _noting(processes.add, begun)
        async with (
            _make_launcher(paths, settings, clock, noting, parting) as launcher,
            Background(surprises, clock, parting) as background,
        ):
            redactor = Redactor((*known_secrets(settings, os.environ), lock.key))
            state_dir = private_dir(paths.state)
            registry = build_provider_registry(
                specs,
                settings,
                launcher=launcher,
                background=background,
                clock=clock,
                state_dir=state_dir,
                external=external,
                absent=absent,
                redactor=redactor,
                executor=executor,
            )
            try:
                yield Owned(
                    lock=lock,
                    launcher=launcher,
                    made=Made(registry, background, surprises.report_to),
                    state_dir=state_dir,
                    redactor=redactor,
                    clock=clock,
                    begun=begun,
                    parting=parting,
                )
            finally:
                await registry.aclose()


@contextmanager
def _recorded(state_dir: Path, executor: ChosenExecutor) -> Iterator[ProcessRecord]:
    """End what dead engines left behind, processes and boxes; keep a record of this one's."""
    with recorded_processes(state_dir) as record:
        if boxes := end_left_boxes(state_dir, executor):
            _log.warning("removed %d boxes that a dead engine had left behind", boxes)
        yield record


def _make_launcher(
    paths: Paths, settings: Settings, clock: Clock, on_start: OnStart, parting: Parting
) -> ProcessLauncher:
    return ProcessLauncher(
        clock,
        pass_env=settings.pass_env,
        workspace=paths.workspace,
        on_start=on_start,
        parting=parting,
        places=paths.marked_folders,
    )


def _noting(add: OnStart, begun: asyncio.Event) -> OnStart:
    """Return what adds a process that was started, and says that one was."""

    def on_start(pid: int, start_time: int) -> None:
        add(pid, start_time)
        begun.set()

    return on_start


class _Surprises:
    """Tells what fails by surprise to the log, until an engine is there to be told."""

    def __init__(self) -> None:
        self._on_error: OnError = _log_surprise

    def __call__(self, name: str, error: Exception) -> None:
        self._on_error(name, error)

    def report_to(self, on_error: OnError) -> None:
        self._on_error = on_error


def _log_surprise(name: str, error: Exception) -> None:
    _log.error("%s failed", name, exc_info=error)
