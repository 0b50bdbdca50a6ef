"""What an agent asks leave for, as requests of PRSM, and the option that answers; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_acp import tools
from prsm_core import PermissionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Json = Mapping[str, Any]

CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}


def selected(option: str) -> dict[str, Any]:
    """Return the answer that takes an option."""
    return {"outcome": {"outcome": "selected", "optionId": option}}


def find_option(options: Sequence[Json], kind: str) -> str | None:
    """Return the id of the first option of a kind: allow_once, reject_once …."""
    return next((str(o.get("optionId")) for o in options if o.get("kind") == kind), None)


def wanted(agent_id: str, call: Json, cwd: str) -> PermissionRequest:
    """Return the request for a tool call."""
    command = tools.command_of(call)
    return PermissionRequest(
        agent_id=agent_id,
        tool=tools.tool_name(call) if command is None else "Bash",
        arguments=tools.arguments_of(call),
        cwd=cwd,
        command=command,
        paths=() if command is not None else tools.paths_of(call),
        call_id=str(call["toolCallId"]) if call.get("toolCallId") else None,
    )
