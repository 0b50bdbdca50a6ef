"""Built-ins, registered as plugins are: json, the JSONL sink."""

BUILTINS = (("builtin", "prsm_core.builtin.plugin"),)  # name and module, for PluginManager.load
