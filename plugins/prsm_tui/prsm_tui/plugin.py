"""What this distribution contributes: the frontend `tui`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import FrontendSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterator


@hookimpl
def prsm_frontends() -> Iterator[FrontendSpec]:
    """Contribute the screens of one session and of many; Textual is imported when one opens."""
    yield FrontendSpec(
        name="tui",
        summary="A screen of one session: the tree, each agent, what waits for you.",
        interactive=True,
        priority=5,  # below the console: `prsm run` opens it where --ui names it
        factory="prsm_tui.hub_frontend:TuiFrontend",
        settings="prsm_tui.settings:TuiSettings",
        stays=True,
    )
    yield FrontendSpec(
        name="sessions",
        summary="A screen of all sessions: what needs you, what works, what is done.",
        interactive=True,
        priority=20,  # what `prsm` alone opens
        factory="prsm_tui.hub_frontend:SessionsFrontend",
        section="tui",
        stays=True,
        scope="hub",
    )
