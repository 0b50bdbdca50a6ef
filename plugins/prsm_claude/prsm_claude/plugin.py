"""What this distribution contributes: the provider `claude`."""

from collections.abc import Iterator

from prsm_core import ProviderSpec, hookimpl


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider. Its code is imported when it is used."""
    yield ProviderSpec(
        name="claude",
        summary="Claude Code, by way of claude-agent-sdk.",
        good_for="Anthropic's models: planning, coding, review",
        factory="prsm_claude.provider:build",
        settings="prsm_claude.config:SETTINGS",
        # Where Claude Code puts the results of tools that are too long for its model.
        handed=("claude-home/projects/*/*/tool-results",),
        server_names=r"(?!prsm$).+",
    )
