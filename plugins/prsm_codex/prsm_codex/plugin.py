"""What this distribution contributes: the provider `codex`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import ProviderSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterator


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider; its code is imported when it is used."""
    yield ProviderSpec(
        name="codex",
        summary="OpenAI Codex, by way of `codex app-server` or `codex exec`.",
        good_for="OpenAI's models: coding, commands",
        factory="prsm_codex.provider:build",
        settings="prsm_codex.config:SETTINGS",
        forget="prsm_codex.forgetting:forget",
        handed=("tmp",),
        server_names=r"(?!prsm$)[A-Za-z0-9_-]+",
    )
