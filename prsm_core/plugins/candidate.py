"""One plugin from discovery to a record: its import, hooks and fields, within a deadline."""

from __future__ import annotations

import inspect
import logging
import re
from threading import Thread
from typing import TYPE_CHECKING, Any

import pluggy
from msgspec import Struct, StructMeta, convert, field
from msgspec.structs import replace

from prsm_core import hookspecs
from prsm_core.distributions import CORE
from prsm_core.errors import PluginError
from prsm_core.executors import ExecutorSpec
from prsm_core.interfaces.files import WorkspaceFilesSpec
from prsm_core.interfaces.frontend import SCOPES, FrontendSpec
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.interfaces.scorer import ModelScorerSpec
from prsm_core.interfaces.sink import EventSinkSpec
from prsm_core.interfaces.tool import ToolContribution
from prsm_core.loop.interrupts import is_interrupt
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
    nearest,
    one_line,
    unknown,
)
from prsm_core.plugins.surroundings import undisturbed
from prsm_core.plugins.values import (
    COUNT,
    FLAG,
    MAPPING,
    POSITIVE,
    TEXT,
    TEXTS,
    WHOLE,
    Kind,
    first_problem,
    instance,
    maybe,
    one_of,
)
from prsm_core.policies.port import CommandPolicySpec
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.plugins.values import Table

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
        return convert(self, PluginRecord, from_attributes=True)

    def activated(self, seconds: float) -> Candidate:
        """Return it imported and asked, or rejected, also for taking more than `seconds`.

        Anything it raises but Ctrl-C rejects it. Its output goes to stderr. Built-ins have no
        deadline.
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
        for pin in self.core_pins:
            if not satisfies(__version__, pin):
                raise IncompatibleError(f"needs {CORE} {pin}; this is {__version__}")

    def _ask(self, hook: str, function: Callable[..., Any]) -> None:
        kind = HOOKS[hook]
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{hook} is async; hooks are plain functions")
        for spec in function():
            if isinstance(spec, PermissionCheckSpec | CommandPolicySpec):
                self.brings_checks = True  # whatever hook it came from
            if not isinstance(spec, kind):
                raise TypeError(f"{hook} gave a {type(spec).__name__}, not a {kind.__name__}")
            if (problem := first_problem(spec, RECORDS)) is not None:
                raise TypeError(problem)
            if (kind, spec.name) in self.specs:
                raise PluginError(f"{WORDS[kind]} {spec.name!r} is registered twice")
            self.specs[kind, spec.name] = spec


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (TypeError, re.error):
        return False
    return isinstance(value, str)


def _is_code(value: Any) -> bool:
    if not isinstance(value, str):
        return callable(value)
    module, colon, attribute = value.partition(":")
    return bool(module and colon and attribute)


_CODE = Kind('a function, a class, or text such as "package.module:attribute"', _is_code)
_SETTINGS = maybe(_CODE)  # a model, which is a class; the manager looks at what it is
_COMMON = {"name": TEXT, "summary": TEXT}
RECORDS: Table = {
    ProviderSpec: {
        **_COMMON,
        "factory": _CODE,
        "selectable": FLAG,
        "good_for": TEXT,
        "settings": _SETTINGS,
        "forget": maybe(_CODE),
        "program": FLAG,
        "handed": TEXTS,
        "server_names": Kind("a regular expression", _is_pattern),
        "reads_labels": TEXTS,
    },
    PermissionCheckSpec: {
        **_COMMON,
        "priority": WHOLE,
        "check": _CODE,
        "in_bypass": FLAG,
        "orchestration": FLAG,
        "timeout": POSITIVE,
        "level": maybe(one_of("none", "sandbox", "approval", "pre_tool")),
        "labels": TEXTS,
        "settings": _SETTINGS,
        "solo": maybe(_CODE),
    },
    CommandPolicySpec: {
        **_COMMON,
        "factory": _CODE,
        "timeout": POSITIVE,
        "project_checks": MAPPING,
    },
    ModelScorerSpec: {**_COMMON, "weight": POSITIVE, "score": _CODE, "settings": _SETTINGS},
    EventSinkSpec: {
        **_COMMON,
        "factory": _CODE,
        "kinds": maybe(TEXTS),
        "maxsize": COUNT,
        "overflow": one_of("drop_oldest", "drop_newest"),
        "settings": _SETTINGS,
        "unseen": maybe(TEXT),
        "reads_labels": TEXTS,
    },
    FrontendSpec: {
        **_COMMON,
        "interactive": FLAG,
        "priority": WHOLE,
        "factory": _CODE,
        "settings": _SETTINGS,
        "stays": FLAG,
        "scope": one_of(*SCOPES),
        "section": maybe(TEXT),
    },
    ToolContribution: {
        **_COMMON,
        "description": TEXT,
        "arguments": instance(StructMeta),
        "roles": TEXTS,
        "waits": FLAG,
        "parallel": FLAG,
        "handler": _CODE,
        "when": _CODE,
        "settings": _SETTINGS,
        "section": maybe(TEXT),
        "programs": FLAG,
        "labels": TEXT,
        "sends_messages": FLAG,
        "takes_messages": FLAG,
        "acts_outside": FLAG,
        "is_repeatable": FLAG,
        "reads_labels": TEXTS,
    },
    WorkspaceFilesSpec: {**_COMMON, "factory": _CODE, "care": maybe(_CODE)},
    ExecutorSpec: {**_COMMON, "factory": _CODE},
}


CHECKS = frozenset({"prsm_permission_checks", "prsm_command_policies"})


def brings_checks(plugin: object) -> bool | None:
    """Return whether a plugin has checks or a policy; None if an unknown hook may be either."""
    if any(callable(getattr(plugin, hook, None)) for hook in CHECKS):
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
    if CHECKS & meant:
        return True
    return None if None in meant else False


def implementations(plugin: object, name: str) -> list[tuple[str, Callable[..., Any]]]:
    """Return the plugin's (hook, function) pairs after pluggy has checked their signatures."""
    # A manager of its own: what pluggy left of a plugin it refused cannot touch another.
    manager = pluggy.PluginManager(hookspecs.hookspec.project_name)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, name)
    found = []
    for caller in manager.get_hookcallers(plugin) or ():
        for impl in caller.get_hookimpls():
            if caller.name not in HOOKS:
                if impl.optionalhook:
                    continue
                raise IncompatibleError(unknown("hook", caller.name, list(HOOKS)).message)
            if impl.wrapper or impl.hookwrapper:
                raise IncompatibleError(f"{caller.name} is a wrapper, which hooks cannot be")
            found.append((caller.name, impl.function))
    implemented = {hook for hook, _ in found}
    for hook in HOOKS:
        if hook not in implemented and callable(getattr(plugin, hook, None)):
            raise PluginError(f"{hook} is not marked with @hookimpl")
    return found
