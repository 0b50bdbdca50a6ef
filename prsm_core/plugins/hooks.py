"""Which hooks a plugin implements, as far as it is marked and its signatures fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

from prsm_core import hookspecs
from prsm_core.errors import PluginError
from prsm_core.plugins.records import HOOKS, IncompatibleError, nearest, unknown

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKS = "prsm_permission_checks"


def brings_checks(plugin: object) -> bool | None:
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
