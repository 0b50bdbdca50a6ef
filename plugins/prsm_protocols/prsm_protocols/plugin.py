"""What this distribution contributes: a check that holds agents to the states of their protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import PermissionCheckSpec, ProviderSpec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterator


@hookimpl
def prsm_permission_checks() -> Iterator[PermissionCheckSpec]:
    """Contribute the check; it has no opinion on agents without a protocol."""
    yield PermissionCheckSpec(
        name="protocol-states",
        summary="Denies what the state of an agent's protocol does not list.",
        priority=400,
        check="prsm_protocols.enforcing:check",
        in_bypass=True,
        orchestration=True,
    )


@hookimpl
def prsm_providers() -> Iterator[ProviderSpec]:
    """Contribute the provider `program`; its code is imported when it is used."""
    yield ProviderSpec(
        name="program",
        summary="Any program as an agent: prompted on stdin, it acts by the command aism.",
        good_for="work that a script or another agent's CLI does, by a protocol",
        factory="prsm_protocols.program.provider:build",
        settings="prsm_protocols.program.section:SETTINGS",
        selectable=False,  # it has no model of its own
        program=True,
    )
