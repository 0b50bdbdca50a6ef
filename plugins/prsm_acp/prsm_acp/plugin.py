"""What this distribution contributes: the provider `acp`, a kind for agents of any name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import ProviderSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterator


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider; its code is imported when it is used."""
    yield ProviderSpec(
        name="acp",
        summary="Any agent that speaks the Agent Client Protocol.",
        factory="prsm_acp.provider:build",
        settings="prsm_acp.config:SETTINGS",
        selectable=False,  # it needs to be told which agent,
        server_names=r"(?!prsm$).+",
    )
