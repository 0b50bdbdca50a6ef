"""What this distribution contributes: the provider `regions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import FrontendSpec, ProviderSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterator


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider; its code is imported when it is used."""
    yield ProviderSpec(
        name="regions",
        summary="A program that plans, and leads agents that each own a region of the tree.",
        good_for="one intent that several agents carry out side by side, each in its own folders",
        factory="prsm_regions.provider:build",
        settings="prsm_regions.section:SETTINGS",
        selectable=False,  # it has no model of its own
    )


@hookimpl
def prsm_frontends() -> Iterator[FrontendSpec]:
    """Contribute `extension`, for `prsm --ui extension`."""
    yield FrontendSpec(
        name="extension",
        summary="An editor leads runs of regions, by lines of JSON on stdin and stdout.",
        interactive=True,  # the person is at the editor
        priority=-100,
        factory="prsm_regions.extension.frontend:ExtensionFrontend",
        scope="hub",
    )
