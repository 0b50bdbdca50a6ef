"""Finds settings that are well formed but name what is not there."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from prsm_core.cli.checkup.finding import Finding, warning
from prsm_core.config.explain import nearest
from prsm_core.domain.tools import NATIVE_TOOLS, ORCHESTRATION_TOOLS
from prsm_core.engine.providers.registry import configured_specs, refused_server
from prsm_core.engine.spawn import default_cwd
from prsm_core.errors import ConfigError
from prsm_core.interfaces.provider import ProviderSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_core.config import Paths, Settings
    from prsm_core.config.document import KeyPath
    from prsm_core.config.schema import McpServerSettings
    from prsm_core.plugins import PluginManager
    from prsm_core.policies.port import CommandPolicy


TOOLS = NATIVE_TOOLS | ORCHESTRATION_TOOLS


def check_values(settings: Settings, paths: Paths, commands: CommandPolicy) -> Iterator[Finding]:
    """Yield a warning for each value that names what is not there."""
    for path, problem in find_mistakes(settings, str(paths.workspace), commands):
        where = settings.place_of(path)
        yield warning("config", f"{where}: {problem}" if where else problem, "correct it there")


def find_mistakes(
    settings: Settings, workspace: str, commands: CommandPolicy
) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key and what is wrong with its value."""
    try:
        default_cwd(settings, workspace)
    except ConfigError as error:
        yield ("defaults", "cwd"), error.message
    for name, gate in settings.gates.items():
        for program in commands.programs(gate.command):
            if shutil.which(program) is None:
                key = ("gates", name, "command")
                yield key, f"gates.{name} runs {program}, which is not on the PATH"
    yield from _servers(settings.mcp_servers, ("mcp_servers",))
    yield from _tools(settings.permissions.tools, ("permissions", "tools"))
    for name, expert in settings.experts.items():
        yield from _servers(expert.mcp_servers, ("experts", name, "mcp_servers"))
        yield from _tools(expert.tools or (), ("experts", name, "tools"))


def _servers(
    servers: Mapping[str, McpServerSettings], path: KeyPath
) -> Iterator[tuple[KeyPath, str]]:
    for name, server in servers.items():
        search = server.env.get("PATH", os.environ.get("PATH"))
        if server.command is not None and shutil.which(server.command, path=search) is None:
            key = (*path, name, "command")
            yield key, f"MCP server {name} runs {server.command}, which cannot be found"


def _tools(
    names: Mapping[str, object] | tuple[str, ...], path: KeyPath
) -> Iterator[tuple[KeyPath, str]]:
    """Yield names that resemble a tool of PRSM but are none; others may be a vendor's."""
    for index, name in enumerate(names):
        meant = "" if name in TOOLS or name.startswith("mcp__") else nearest(name, TOOLS)
        if meant:
            key = index if isinstance(names, tuple) else name
            yield (*path, key), f"{name} is no tool{meant}"


def refused_names(settings: Settings, plugins: PluginManager) -> Iterator[str]:
    """Yield a line for each server name that a provider refuses: one configured, else any."""
    specs = configured_specs(plugins.collect(ProviderSpec), settings)
    named = {name for name in (*settings.providers, settings.defaults.provider) if name}
    used = [
        spec
        for name, spec in sorted(specs.items())
        if name in named or (not named and spec.selectable)
    ]
    places = [("mcp_servers",), *(("experts", name, "mcp_servers") for name in settings.experts)]
    for place in places:
        section = settings if len(place) == 1 else settings.experts[place[1]]
        for server in section.mcp_servers:
            for spec in used:
                if why := refused_server(spec, server):
                    where = settings.place_of((*place, server))
                    yield f"{f'{where}: ' if where else ''}{'.'.join(place)}: {why}"
