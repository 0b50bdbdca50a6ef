"""What people have allowed "always": one tool, or one exact command, for an agent's subtree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prsm_core.domain.permissions import PermissionContext, PermissionRequest


class Permit(Record, frozen=True, kw_only=True):
    """One grant: `command` is exact, None for a tool that is no shell."""

    agent_id: str
    tool: str
    command: str | None = None

    @classmethod
    def of(cls, agent_id: str, request: PermissionRequest, exact: Callable[[str], str]) -> Permit:
        """Return what "always" means as the answer to this request of an agent.

        `exact` returns the form of a command that is equal for equal ones.
        """
        if request.command is None:
            return cls(agent_id=agent_id, tool=request.tool)
        return cls(agent_id=agent_id, tool="Bash", command=exact(request.command))

    def to_dict(self) -> dict[str, Any]:
        """Return the grant as JSON values."""
        return {"agent_id": self.agent_id, "tool": self.tool, "command": self.command}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Permit:
        """Build a grant from the values of `to_dict`."""
        return cls(agent_id=data["agent_id"], tool=data["tool"], command=data.get("command"))


class Grants:
    """The grants of a session, shared by its agents; each holds for the subtree it was made for."""

    def __init__(self, permits: Iterable[Permit] = ()) -> None:
        self._permits = dict.fromkeys(permits)

    def add(self, agent_id: str, request: PermissionRequest, exact: Callable[[str], str]) -> Permit:
        """Remember that `request` is allowed for the agent and all below it."""
        permit = Permit.of(agent_id, request, exact)
        self._permits[permit] = None
        return permit

    def matches(
        self, request: PermissionRequest, context: PermissionContext, exact: Callable[[str], str]
    ) -> bool:
        """Return whether the request was granted to its agent or to one above it."""
        if not self._permits:
            return False
        own = Permit.of(request.agent_id, request, exact)
        lineage = dict.fromkeys((request.agent_id, *context.lineage))
        return any(replace(own, agent_id=agent_id) in self._permits for agent_id in lineage)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return all grants as JSON values, oldest first."""
        return [permit.to_dict() for permit in self._permits]
