"""What this distribution contributes: the provider `gemini`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import ProviderSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterator


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider; its code is imported when it is used."""
    yield ProviderSpec(
        name="gemini",
        summary="Google's Gemini CLI, over ACP or one process per turn.",
        good_for="Google's models: large contexts, coding",
        factory="prsm_gemini.provider:build",
        settings="prsm_gemini.config:SETTINGS",
        # The last is where Gemini CLI puts the results of tools that are too long for its model.
        handed=("agents/*/tmp", "agents/*/.gemini/tmp/*/tool-outputs"),
        server_names=r"(?!prsm$).+",
    )
