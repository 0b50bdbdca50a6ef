"""What this distribution contributes: the provider `alibaba`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import ProviderSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterator


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider; its code is imported when it is used."""
    yield ProviderSpec(
        name="alibaba",
        summary="Alibaba Model Studio (Qwen), over Codex or Claude Code.",
        good_for="Alibaba's Qwen models: coding",
        factory="prsm_alibaba.provider:build",
        settings="prsm_alibaba.provider:SETTINGS",
        forget="prsm_codex.forgetting:forget",
        selectable=False,  # only who has a key of the vendor's wants it,
        server_names=r"(?!prsm$)[A-Za-z0-9_-]+",
    )
