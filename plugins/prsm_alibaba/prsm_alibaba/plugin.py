"""What this distribution contributes: the provider `alibaba`."""

from collections.abc import Iterator

from prsm_core import ProviderSpec, hookimpl


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider. Its code is imported when it is used."""
    yield ProviderSpec(
        name="alibaba",
        summary="Alibaba Model Studio (Qwen), over Codex or Claude Code.",
        good_for="Alibaba's Qwen models: coding",
        factory="prsm_alibaba.provider:build",
        settings="prsm_alibaba.provider:SETTINGS",
        forget="prsm_codex.forgetting:forget",
        selectable=False,  # only people with the vendor's key want it
        server_names=r"(?!prsm$)[A-Za-z0-9_-]+",
    )
