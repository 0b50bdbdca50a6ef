"""What this distribution contributes: the provider `acp`, a kind for agents of any name."""

from collections.abc import Iterator

from prsm_core import ProviderSpec, hookimpl


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider. Its code is imported when it is used."""
    yield ProviderSpec(
        name="acp",
        summary="Any agent that speaks the Agent Client Protocol.",
        factory="prsm_acp.provider:build",
        settings="prsm_acp.config:SETTINGS",
        selectable=False,  # a section must say which agent
        server_names=r"(?!prsm$).+",
    )
