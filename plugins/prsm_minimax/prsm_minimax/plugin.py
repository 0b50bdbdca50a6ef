"""What this distribution contributes: the provider `minimax`."""

from collections.abc import Iterator

from prsm_core import ProviderSpec, hookimpl


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider. Its code is imported when it is used."""
    yield ProviderSpec(
        name="minimax",
        summary="MiniMax, over Codex or Claude Code.",
        good_for="MiniMax's models: coding",
        factory="prsm_minimax.provider:build",
        settings="prsm_minimax.provider:SETTINGS",
        forget="prsm_codex.forgetting:forget",
        selectable=False,  # only people with the vendor's key want it
        server_names=r"(?!prsm$)[A-Za-z0-9_-]+",
    )
