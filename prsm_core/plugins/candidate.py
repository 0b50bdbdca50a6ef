"""One plugin on its way from discovery to a record: its import and its hooks, within a deadline."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import TYPE_CHECKING, Any

import pluggy

from prsm_core import hookspecs
from prsm_core.errors import PluginError
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.plugins.fields import check_fields
from prsm_core.plugins.output import beside_stdout
from prsm_core.plugins.pins import core_version, satisfies
from prsm_core.plugins.records import (
    CORE,
    HOOKS,
    WORDS,
    IncompatibleError,
    Key,
    PluginRecord,
    PluginState,
    Spec,
    nearest,
    one_line,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable


CHECKS = "prsm_permission_checks"


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A plugin that was found; it counts as active until something speaks against it."""

    name: str
    distribution: str
    version: str
    load: Callable[[], object]
    is_builtin: bool = False
    core_pins: tuple[str, ...] = ()
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
        interrupts: list[KeyboardInterrupt] = []
        thread = Thread(target=attempt._attempt, args=[interrupts], daemon=True)
        with beside_stdout(self.name, thread):
            thread.start()
            thread.join(seconds)
        if thread.is_alive():
            # Nothing can end the thread. What it still finds out goes to a copy nobody reads.
            late = PluginError(f"did not answer within {seconds:g} s")
            self.hooks, self.specs = attempt.hooks, dict(attempt.specs)
            self.brings_checks = attempt.brings_checks
            self.reject(PluginState.BROKEN, late.message, late)
            return self
        if interrupts:
            raise interrupts[0]
        return attempt

    def _attempt(self, interrupts: list[KeyboardInterrupt]) -> None:
        try:
            self._activate()
        except KeyboardInterrupt as error:
            interrupts.append(error)

    def _activate(self) -> None:
        try:
            self._check_pins()
            plugin = self.load()
            self.brings_checks = _brings_checks(plugin)
            implementations = _implementations(plugin, self.name)
            self.hooks = tuple(sorted({hook for hook, _ in implementations}))
            for hook, function in implementations:
                self._ask(hook, function)
        except KeyboardInterrupt:
            raise
        except (IncompatibleError, pluggy.PluginValidationError) as error:
            self.reject(PluginState.INCOMPATIBLE, one_line(error), error)
        except BaseException as error:  # noqa: BLE001 - a plugin may even exit at its import
            self.reject(PluginState.BROKEN, one_line(error), error)

    def _check_pins(self) -> None:
        core = core_version()
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


def _brings_checks(plugin: object) -> bool | None:
    """Return whether what was imported means to contribute permission checks.

    None where it has a hook that this core does not know, and that looks like no other.
    """
    if callable(getattr(plugin, CHECKS, None)):
        return True
    marks = pluggy.PluginManager(hookspecs.hookspec.project_name)
    hooks = [
        options.get("specname") or name
        for name in dir(plugin)
        if (options := marks.parse_hookimpl_opts(plugin, name)) is not None
    ]
    # Without the prefix, which makes all of them look alike.
    known = {hook.removeprefix("prsm_"): hook for hook in HOOKS}
    meant = {known.get(nearest(hook.removeprefix("prsm_"), list(known)) or "") for hook in hooks}
    if CHECKS in meant:
        return True
    return None if None in meant else False


def _implementations(plugin: object, name: str) -> list[tuple[str, Callable[..., Any]]]:
    """Return the plugin's (hook, function) pairs after pluggy has checked their signatures."""
    # A manager of its own: what pluggy left of a plugin it refused cannot touch another.
    manager = pluggy.PluginManager(hookspecs.hookspec.project_name)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, name)
    implementations = []
    for caller in manager.get_hookcallers(plugin) or ():
        for impl in caller.get_hookimpls():
            if caller.name not in HOOKS:
                if impl.optionalhook:
                    continue
                raise IncompatibleError(unknown("hook", caller.name, list(HOOKS)).message)
            if impl.wrapper or impl.hookwrapper:
                raise IncompatibleError(f"{caller.name} is a wrapper, which hooks cannot be")
            implementations.append((caller.name, impl.function))
    implemented = {hook for hook, _ in implementations}
    for hook in HOOKS:
        if hook not in implemented and callable(getattr(plugin, hook, None)):
            raise PluginError(f"{hook} is not marked with @hookimpl")
    if not implementations:
        raise PluginError("implements no hook")
    return implementations
