"""What this distribution contributes: the provider `codex`."""

from collections.abc import Iterator

from prsm_core import ProviderSpec, hookimpl


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider. Its code is imported when it is used."""
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
