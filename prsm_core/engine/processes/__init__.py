"""The engine's processes, each under a shim that ends its family with the engine."""
