"""What this distribution contributes: the provider `gemini`."""

from collections.abc import Iterator

from prsm_core import ProviderSpec, hookimpl


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider. Its code is imported when it is used."""
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
