"""The executor that the configuration names, or why there is none."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError, ProviderNotAvailableError, PrsmError
from prsm_core.executors import ExecutorSpec, Trial
from prsm_core.plugins.guard import Guest

if TYPE_CHECKING:
    from prsm_core.config import Settings
    from prsm_core.engine.processes.launcher import ProcessLauncher
    from prsm_core.executors import Command, Executor, Run
    from prsm_core.plugins import PluginManager

# Bytes kept of each stream.
TRIAL_OUTPUT = 4096
# Errors that an executor may raise, as its interface says.
ANSWERS = (PrsmError,)
# What the settings name where nobody has chosen another.
DEFAULT = "sandbox"
GET = "prsm install sandbox"


class ChosenExecutor(Record, frozen=True, kw_only=True):
    """The executor of an engine.

    Attributes:
        spec: What registers it; None: there is none.
        reason: Why there is none.
        hint: How to get one.
    """

    spec: ExecutorSpec | None = None
    reason: str = "no executor was given"
    hint: str = GET

    def load(self) -> tuple[Executor, Guest]:
        """Return the executor, imported and made, and whom its errors are of.

        Raises PluginError for one that cannot be, ProviderNotAvailableError where there is none.
        """
        if self.spec is None:
            raise ProviderNotAvailableError(self.reason, hint=self.hint)
        guest = Guest.of(self.spec)
        factory = guest.load()
        with guest.calling("its factory"):
            executor: Executor = factory()
        return executor, guest


NO_EXECUTOR = ChosenExecutor()


def choose_executor(plugins: PluginManager, settings: Settings) -> ChosenExecutor:
    """Return the executor that the settings name.

    Without the default one commands run unconfined. Raises PluginError for another that is not
    there, and for one whose plugin is quarantined; ConfigError where there is none and the settings
    require a sandbox or boxes.
    """
    name = settings.sandbox.executor
    specs = plugins.collect(ExecutorSpec)
    if name in specs:
        return ChosenExecutor(spec=specs[name])
    if name != DEFAULT or any(record.name == name for record in plugins.quarantined):
        plugins.get(ExecutorSpec, name)
    owner = plugins.absent(ExecutorSpec).why(name)
    reason = "prsm-sandbox is not installed" if owner is None else owner.message
    hint = GET if owner is None else owner.hint or GET
    _check_required(settings, reason, hint)
    return ChosenExecutor(reason=reason, hint=hint)


def _check_required(settings: Settings, reason: str, hint: str) -> None:
    """Raise ConfigError where the settings require what no executor gives."""
    if settings.sandbox.mode == "require":
        raise ConfigError(f"sandbox.mode is require, and there is none: {reason}", hint=hint)
    if settings.box.agents:
        raise ConfigError(f"box.agents is true, and there are no boxes: {reason}", hint=hint)


def trial_run(launcher: ProcessLauncher) -> Run:
    """Return what runs trials by a launcher."""
    return partial(_run_trial, launcher)


async def _run_trial(
    launcher: ProcessLauncher, command: Command, name: str, seconds: float
) -> Trial:
    process = await launcher.capture(
        command.argv, name=name, limit=TRIAL_OUTPUT, env=command.env, inherit=command.inherit
    )
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        return Trial(code=None)
    finally:
        process.kill()
    return Trial(code=code, stdout=process.stdout, stderr=process.stderr)
