"""Built-ins, registered by the same hooks as plugins: console, json, the JSONL sink."""

BUILTINS = (("builtin", "prsm_core.builtin.plugin"),)  # name and module, for PluginManager.load
