"""What this distribution contributes: the provider whose agents follow a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import ProviderSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable


@hookimpl
def prsm_providers() -> Iterable[ProviderSpec]:
    """Contribute `script`, whose agents follow a scenario; only who names it gets it."""
    yield ProviderSpec(
        name="script",
        summary="Agents that follow a scenario, for demonstrations and tests.",
        factory="prsm_demo.provider:build",
        selectable=False,
    )
