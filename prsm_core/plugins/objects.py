"""Import strings: "package.module:attribute", resolved when what they name is used."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from prsm_core.errors import PluginError
from prsm_core.loop.interrupts import is_interrupt
from prsm_core.plugins.printing import stdout_while_loading
from prsm_core.plugins.records import one_line
from prsm_core.plugins.surroundings import undisturbed


def load_object(reference: object, *, plugin: str) -> Any:
    """Return what "package.module:attribute" names; anything but text is returned as it is.

    Raises PluginError that names the plugin.
    """
    if not isinstance(reference, str):
        return reference
    module, _, attribute = reference.partition(":")
    if not (module and attribute):
        raise PluginError(f"plugin {plugin}: {reference!r} is not written package.module:attribute")
    try:
        value: Any = sys.modules.get(module) or _imported(module, plugin)
        for part in attribute.split("."):
            value = getattr(value, part)
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise PluginError(
            f"plugin {plugin}: cannot import {reference!r}: {one_line(error)}",
            hint=f"reinstall the plugin, or disable it: PRSM_DISABLED_PLUGINS={plugin}",
        ) from error
    return value


def _imported(module: str, plugin: str) -> Any:
    with undisturbed(plugin), stdout_while_loading(plugin):
        return importlib.import_module(module)
