"""Names of MCP servers that a provider in use cannot take, told before a run meets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.engine.providers.registry import configured_specs, refused_server
from prsm_core.interfaces.provider import ProviderSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.config import Settings
    from prsm_core.plugins import PluginManager


def refused_names(settings: Settings, plugins: PluginManager) -> Iterator[str]:
    """Yield a line for each name that a provider refuses.

    Those in use are the configured ones; where there are none, all that a run may choose.
    """
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
