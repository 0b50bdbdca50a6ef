"""One plugin on its way from discovery to a record: its import and its hooks, within a deadline."""

from __future__ import annotations

import inspect
import logging
from threading import Thread
from typing import TYPE_CHECKING, Any

import pluggy
from msgspec import Struct, field
from msgspec.structs import replace

from prsm_core.distributions import CORE
from prsm_core.errors import PluginError
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.loop.interrupts import is_interrupt
from prsm_core.plugins.fields import check_fields
from prsm_core.plugins.hooks import brings_checks, implementations
from prsm_core.plugins.pins import satisfies
from prsm_core.plugins.printing import stdout_while_loading
from prsm_core.plugins.records import (
    HOOKS,
    WORDS,
    IncompatibleError,
    Key,
    PluginRecord,
    PluginState,
    SlowPluginError,
    Spec,
    one_line,
)
from prsm_core.plugins.surroundings import undisturbed
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class Candidate(Struct, kw_only=True):
    """A plugin that was found; it counts as active until something speaks against it."""

    name: str
    distribution: str
    version: str
    load: Callable[[], object]
    is_builtin: bool = False
    core_pins: tuple[str, ...] = ()
    brings_parts: bool = False  # by entry points beside this one; see PARTS
    state: PluginState = PluginState.ACTIVE
    hooks: tuple[str, ...] = ()
    specs: dict[Key, Spec] = field(default_factory=dict)
    error: str | None = None
    failure: BaseException | None = None
    brings_checks: bool | None = None  # see PluginRecord

    def reject(self, state: PluginState, reason: str, failure: BaseException | None = None) -> None:
        """Use nothing of it, for this reason."""
        self.state = state
        self.error = reason
        self.failure = failure

    def record(self) -> PluginRecord:
        """Return what became of it."""
        return PluginRecord(
            name=self.name,
            distribution=self.distribution,
            version=self.version,
            state=self.state,
            hooks=self.hooks,
            error=self.error,
            brings_checks=self.brings_checks,
        )

    def activated(self, seconds: float) -> Candidate:
        """Return it imported and asked, or rejected: also when that takes more than `seconds`.

        Whatever it raises but Ctrl-C rejects it. What it prints meanwhile, or too late, goes to
        stderr. Built-ins have no deadline: they need no thread.
        """
        attempt = replace(self, specs={})
        if self.is_builtin:
            attempt._activate()
            return attempt
        thread = Thread(target=attempt._activate, name=f"loading {self.name}", daemon=True)
        # What ends the process at once cannot be caught: this is the last that is seen then.
        _log.debug("plugin %s of %s %s is loaded", self.name, self.distribution, self.version)
        with undisturbed(self.name), stdout_while_loading(self.name, thread):
            thread.start()
            thread.join(seconds)
        if thread.is_alive():
            # Nothing can end the thread. What it still finds out goes to a copy nobody reads.
            late = SlowPluginError(f"did not answer within {seconds:g} s")
            self.hooks, self.specs = attempt.hooks, dict(attempt.specs)
            self.brings_checks = attempt.brings_checks
            self.reject(PluginState.SLOW, late.message, late)
            return self
        return attempt

    def _activate(self) -> None:
        try:
            self._check_pins()
            plugin = self.load()
            self.brings_checks = brings_checks(plugin)
            found = self._implementations(plugin)
            self.hooks = tuple(sorted({hook for hook, _ in found}))
            for hook, function in found:
                self._ask(hook, function)
        except (IncompatibleError, pluggy.PluginValidationError) as error:
            self.reject(PluginState.INCOMPATIBLE, one_line(error), error)
        except BaseException as error:  # a plugin may even exit at its import
            if is_interrupt(error):
                raise
            self.reject(PluginState.BROKEN, one_line(error), error)

    def _implementations(self, plugin: object) -> list[tuple[str, Callable[..., Any]]]:
        found = implementations(plugin, self.name)
        if not (found or self.brings_parts):
            raise PluginError("implements no hook")
        return found

    def _check_pins(self) -> None:
        core = __version__
        for pin in self.core_pins:
            if not satisfies(core, pin):
                raise IncompatibleError(f"needs {CORE} {pin}; this is {core}")

    def _ask(self, hook: str, function: Callable[..., Any]) -> None:
        kind = HOOKS[hook]
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{hook} is async; hooks are plain functions")
        for spec in function():
            if isinstance(spec, PermissionCheckSpec):
                self.brings_checks = True  # whatever hook it came from
            if not isinstance(spec, kind):
                raise TypeError(f"{hook} gave a {type(spec).__name__}, not a {kind.__name__}")
            check_fields(spec)
            if (kind, spec.name) in self.specs:
                raise PluginError(f"{WORDS[kind]} {spec.name!r} is registered twice")
            self.specs[kind, spec.name] = spec
