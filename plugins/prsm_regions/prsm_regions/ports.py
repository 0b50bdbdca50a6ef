"""What a program needs of the symbols of a workspace; what knows none answers so."""

from __future__ import annotations

from typing import Protocol


class Router(Protocol):
    """Answers what agents ask from beside their regions."""

    def register_agent(self, region: str, agent_id: str) -> None:
        """Note whose a region is."""
        ...

    def unregister_agent(self, agent_id: str) -> None:
        """Note that an agent is gone."""
        ...

    async def resolve(self, requesting_agent: str, symbol_name: str, context: str = "") -> str:
        """Return a signature or definition, or that there is none, with near names."""
        ...


class Outlines(Protocol):
    """Knows what regions hold, without the bodies."""

    def outline(self, region: str) -> str:
        """Return the outline of a region, relative to the workspace; blank where it is empty."""
        ...


class NoSymbols:
    """Stands in where no oracle is."""

    def register_agent(self, region: str, agent_id: str) -> None:
        """Do nothing."""

    def unregister_agent(self, agent_id: str) -> None:
        """Do nothing."""

    async def resolve(self, requesting_agent: str, symbol_name: str, context: str = "") -> str:
        """Say that it is not found."""
        return f"Symbol '{symbol_name}' not found in workspace symbol tree or active agents."

    def outline(self, region: str) -> str:
        """Return nothing."""
        return ""
