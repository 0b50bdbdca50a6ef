"""Finds plugins, quarantines the broken ones, and hands out what the others contribute.

A plugin is active as a whole or not at all. Of two plugins that register the same name neither
wins, except that a built-in one always keeps its name.
"""

from __future__ import annotations

from prsm_core.plugins.discovery import plugin_names
from prsm_core.plugins.manager import PluginManager
from prsm_core.plugins.objects import load_object
from prsm_core.plugins.records import PluginRecord, PluginState

__all__ = ["PluginManager", "PluginRecord", "PluginState", "load_object", "plugin_names"]
