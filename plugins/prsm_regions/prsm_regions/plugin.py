"""What this distribution contributes: the provider `regions`, and a check of what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import FrontendSpec, PermissionCheckSpec, ProviderSpec, hookimpl

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
        settings="prsm_regions.config:SETTINGS",
        selectable=False,  # it has no model of its own
        program=True,
        reads_labels=frozenset({"effort"}),
    )


@hookimpl
def prsm_permission_checks() -> Iterator[PermissionCheckSpec]:
    """Contribute the check; it has no opinion on agents without a label of the provider's."""
    yield PermissionCheckSpec(
        name="region-reads",
        summary="Denies reading another agent's region, for its interface, where that is set.",
        priority=500,
        check="prsm_regions.execution:check",
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
