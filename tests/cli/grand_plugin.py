"""A plugin with an interactive frontend of high priority."""

from __future__ import annotations

from prsm_core import FrontendSpec, hookimpl


@hookimpl
def prsm_frontends():
    yield FrontendSpec(
        name="grand",
        summary="Nothing to see.",
        interactive=True,
        priority=90,
        factory="nowhere:Nothing",
    )
