"""What this distribution contributes: the frontend `tui`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import FrontendSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterator


@hookimpl
def prsm_frontends() -> Iterator[FrontendSpec]:
    """Contribute the screen of one session; Textual is imported when it opens."""
    yield FrontendSpec(
        name="tui",
        summary="A screen of one session: the tree, each agent, what waits for you.",
        interactive=True,
        priority=5,  # below the console: `prsm run` opens it where --ui names it
        factory="prsm_tui.frontend:TuiFrontend",
        settings="prsm_tui.settings:TuiSettings",
        stays=True,
    )
