"""Finds plugins, quarantines the broken ones, and hands out what the others contribute.

A plugin is active whole or not at all: whatever goes wrong with it, nothing of it is used, the
error is kept for `prsm plugins` and for whoever asks for it by name, and the rest go on. Of two
plugins that register the same name neither wins, except that a built-in one always keeps its
name.

records     what a plugin is and may give       discovery   which plugins there are
candidate   imports one and asks its hooks      pins        which core it was written for
manager     what became of all of them          objects     import strings
guard       calls what plugins have registered
values      … and what values must be
surroundings  what is the process's own         needed      what a run must have
settings    how objects get theirs              printing    what they print
absent      why something is not there      tool_server  how tools get to command lines
"""

from __future__ import annotations

from prsm_core.plugins.discovery import plugin_names
from prsm_core.plugins.manager import PluginManager
from prsm_core.plugins.objects import load_object
from prsm_core.plugins.records import PluginRecord, PluginState

__all__ = ["PluginManager", "PluginRecord", "PluginState", "load_object", "plugin_names"]
