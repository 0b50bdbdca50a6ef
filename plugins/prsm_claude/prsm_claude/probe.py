"""Which Claude Code there is, and which versions of it this plugin works with."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import VersionRange

if TYPE_CHECKING:
    from prsm_claude.config import ClaudeConfig

VERSIONS = VersionRange(
    program="claude",
    oldest=(2, 1, 248),  # the first that takes a prompt as it is written
    tested_from=(2, 1, 330),
    below=(2, 2, 0),
    install="pip install claude-agent-sdk",
)
GAPS = (
    "a command that was allowed runs without a sandbox",
    "commands and MCP servers see the variable that holds the API key, where one is configured",
)


def program(config: ClaudeConfig) -> tuple[str, ...]:
    """Return the command of the CLI: the configured one, or the one that comes with the SDK.

    The SDK is looked for and never imported.
    """
    if config.command is not None:
        return config.command
    sdk = find_spec("claude_agent_sdk")
    places = () if sdk is None else sdk.submodule_search_locations or ()
    bundled = (Path(place, "_bundled", "claude") for place in places)
    return next(((str(path),) for path in bundled if path.is_file()), ("claude",))
