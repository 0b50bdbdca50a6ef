"""What this distribution contributes: a check that holds agents to the states of their protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import PermissionCheckSpec, hookimpl

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
