"""Import strings: "package.module:attribute", resolved when what they name is used."""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any

from prsm_core.errors import PluginError
from prsm_core.loop.interrupts import is_interrupt
from prsm_core.plugins.printing import stdout_while_loading
from prsm_core.plugins.records import MORE_TIME, SlowPluginError, one_line
from prsm_core.plugins.surroundings import undisturbed


def load_object(reference: object, *, plugin: str, seconds: float | None = None) -> Any:
    """Return what "package.module:attribute" names; anything but text is returned as it is.

    Raises PluginError that names the plugin; SlowPluginError if its import takes more `seconds`.
    """
    if not isinstance(reference, str):
        return reference
    module, _, attribute = reference.partition(":")
    if not (module and attribute):
        raise PluginError(f"plugin {plugin}: {reference!r} is not written package.module:attribute")
    try:
        value: Any = sys.modules.get(module) or _imported(module, plugin, seconds)
        for part in attribute.split("."):
            value = getattr(value, part)
    except SlowPluginError:
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise PluginError(
            f"plugin {plugin}: cannot import {reference!r}: {one_line(error)}",
            hint=f"reinstall the plugin, or disable it: PRSM_DISABLED_PLUGINS={plugin}",
        ) from error
    return value


def _imported(module: str, plugin: str, seconds: float | None) -> Any:
    if seconds is None:
        with undisturbed(plugin), stdout_while_loading(plugin):
            return importlib.import_module(module)
    found: list[Any] = []

    def work() -> None:
        try:
            found.append((importlib.import_module(module), None))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            found.append((None, error))

    thread = threading.Thread(target=work, name=f"loading {plugin}", daemon=True)
    # By this thread: one that never comes back would keep stdout aside for ever.
    with undisturbed(plugin), stdout_while_loading(plugin, thread):
        thread.start()
        thread.join(seconds)
    if not found:
        why = f"plugin {plugin}: the import of {module} did not end within {seconds:g} s"
        raise SlowPluginError(why, hint=MORE_TIME)
    value, error = found[0]
    if error is not None:
        raise error
    return value
