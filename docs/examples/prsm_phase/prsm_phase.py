"""A tool and a check: an agent says what phase its work is in, and may edit in one of them alone.

`prsm run --label phases=yes …` starts an agent that has the tool `phase`. Its label `phase/now` is
set by the tool alone, so that the check can rely on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from prsm_core import Deny, PermissionCheckSpec, ToolContribution, ToolInputError, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core import PermissionContext, PermissionRequest, ToolCall

NEXT = {"read": "plan", "plan": "edit", "edit": "read"}


class Phase(Struct):
    """What the tool takes."""

    to: Literal["read", "plan", "edit"]


def is_in_phases(labels: Mapping[str, str]) -> bool:
    """Return whether an agent of these labels works in phases."""
    return "phases" in labels


async def phase(call: ToolCall) -> Mapping[str, Any]:
    """Move the calling agent to a phase; it is there once this is answered."""
    now = call.labels.get("phase/now", "read")
    if call.args["to"] != NEXT[now]:
        raise ToolInputError(f"you are in {now}", hint=f"the next phase is {NEXT[now]}")
    call.relabel({"phase/now": NEXT[now]})
    return {"phase": NEXT[now]}


async def edits_in_phase(request: PermissionRequest, context: PermissionContext) -> Deny | None:
    """Deny to change files in another phase than `edit`."""
    if request.tool not in {"Edit", "Write"} or not is_in_phases(context.labels):
        return None
    now = context.labels.get("phase/now", "read")
    return None if now == "edit" else Deny(f"you are in {now}: call phase until you are in edit")


@hookimpl
def prsm_tools() -> Iterable[ToolContribution]:
    """Contribute `phase`, for agents that work in phases."""
    yield ToolContribution(
        name="phase",
        summary="Moves an agent to the next phase of its work.",
        description="Go on to the next phase of your work: read, plan, edit, and read again.",
        arguments=Phase,
        roles=frozenset({"master", "worker"}),
        handler=phase,
        when=is_in_phases,
        reads_labels=frozenset({"phases"}),
        labels="phase",
    )


@hookimpl
def prsm_permission_checks() -> Iterable[PermissionCheckSpec]:
    """Contribute `phase`, which keeps files as they are until an agent may edit."""
    yield PermissionCheckSpec(
        name="phase",
        summary="Denies edits in another phase.",
        priority=50,
        check=edits_in_phase,
        in_bypass=True,
    )
