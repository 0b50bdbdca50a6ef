"""Finds the package that serves tools to agents; a list of plugins to load cannot leave it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.distributions import TOOL_SERVERS, entry_points
from prsm_core.errors import PluginError, ProviderNotAvailableError
from prsm_core.plugins.records import one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core.domain.tools import McpEndpoint
    from prsm_core.interfaces.clock import Clock

    OpenEndpoint = Callable[..., AbstractAsyncContextManager[McpEndpoint]]
    Open = Callable[[Path, Clock], AbstractAsyncContextManager[OpenEndpoint]]


def tool_server() -> Open:
    """Return what opens a server of tools over MCP, at a socket and by the engine's clock.

    It gives an `OpenEndpoint`; see `engine.agents.life`. Raises ProviderNotAvailableError if no
    package brings one, PluginError if two do or the import fails.
    """
    points = sorted(entry_points(TOOL_SERVERS), key=lambda point: point.place)
    if not points:
        raise ProviderNotAvailableError(
            "its tools are handed over by MCP, which the package prsm-mcp brings: it is not "
            "installed",
            hint="prsm install mcp",
        )
    names = [point.distribution.name for point in points]
    if len(points) > 1:
        raise PluginError(
            f"{' and '.join(names)} both bring a server of tools, so neither is used",
            hint="uninstall one of them",
        )
    try:
        opens: Open = points[0].load()
    except Exception as error:
        raise PluginError(
            f"the server of tools of {names[0]} cannot be loaded: {one_line(error)}",
            hint=f"reinstall {names[0]}",
        ) from error
    return opens
