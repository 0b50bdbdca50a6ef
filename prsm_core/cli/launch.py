"""What the options before the command say; light, because every start of `prsm` imports it."""

from __future__ import annotations


class Launch:
    """The context object of all commands."""

    def __init__(self, *, debug: bool = False, load_plugins: bool = True) -> None:
        self.debug = debug
        self.load_plugins = load_plugins
