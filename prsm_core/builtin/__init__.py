"""Built-ins, registered by the same hooks as plugins: console, json, the JSONL sink."""
