"""Holds agents to what the state of their protocol lists, in every mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core import Deny, PermissionContext, PermissionRequest

STATE = "protocols/state"  # label: the state of an agent


async def check(request: PermissionRequest, context: PermissionContext) -> Deny | None:  # noqa: ARG001
    """Return no opinion on whoever has no protocol."""
    return None if STATE not in context.labels else None
