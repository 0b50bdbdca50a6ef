"""What this distribution contributes: the frontend for people at any terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import FrontendSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable


@hookimpl
def prsm_frontends() -> Iterable[FrontendSpec]:
    """Contribute `console`, which shows a run line by line."""
    yield FrontendSpec(
        name="console",
        summary="Progress on stderr, the summary on stdout, questions on the terminal.",
        interactive=True,
        priority=10,
        factory="prsm_console.console:ConsoleFrontend",
    )
