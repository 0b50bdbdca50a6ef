"""Built-ins, registered as plugins are: console, json, the JSONL sink, the script provider."""

BUILTINS = (("builtin", "prsm_core.builtin.plugin"),)  # name and module, for PluginManager.load
