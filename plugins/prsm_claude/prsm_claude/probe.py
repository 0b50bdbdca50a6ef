"""Whether Claude Code is there, and whether it is a version this plugin was tested with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import claude_agent_sdk

from prsm_core.errors import ProcessError, ProviderNotAvailableError
from prsm_core.interfaces.deadline import deadline

if TYPE_CHECKING:
    from prsm_claude.config import ClaudeConfig
    from prsm_core.interfaces.provider import ProviderServices

OLDEST = (2, 1, 248)  # the first that takes a prompt as it is written
TESTED_FROM = (2, 1, 330)
TESTED_BELOW = (2, 2, 0)
TESTED = ">=2.1.330,<2.2"
INSTALL = "pip install claude-agent-sdk"
GAPS = (
    "a command that was allowed runs without a sandbox",
    "commands and MCP servers see the variable that holds the API key, where one is configured",
)
_SECONDS = 5.0
_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\S*")


def program(config: ClaudeConfig) -> tuple[str, ...]:
    """Return the command of the CLI: the configured one, or the one that comes with the SDK."""
    if config.command is not None:
        return config.command
    bundled = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    return (str(bundled),) if bundled.is_file() else ("claude",)


async def version(command: tuple[str, ...], services: ProviderServices) -> str | None:
    """Return what `--version` prints, None if it prints no version within five seconds.

    Raises ProviderNotAvailableError when the program is missing, cannot run, or is too old.
    """
    try:
        process = await services.start_process([*command, "--version"], name="claude --version")
    except ProviderNotAvailableError as error:
        hint = f"Install it with `{INSTALL}`, or set `command`."
        raise ProviderNotAvailableError(error.message, hint=hint) from error
    text = ""
    try:
        async with deadline(services, _SECONDS):
            process.close_stdin()
            async for line in process.lines():
                text = text or line.decode(errors="replace")
            await process.wait()
    except (TimeoutError, ProcessError):
        return None
    finally:
        process.kill()
    return checked(text)


def checked(text: str) -> str | None:
    """Return the version in a text, if any; raise ProviderNotAvailableError when it is too old."""
    found = _VERSION.search(text)
    if found is None:
        return None
    if _numbers(found) < OLDEST:
        raise ProviderNotAvailableError(
            f"claude {found[0]} is too old: this plugin needs {TESTED}",
            hint=f"Update it with `{INSTALL}`.",
        )
    return found[0]


def is_tested(found: str | None) -> bool:
    """Return whether a version is inside the tested range."""
    match = _VERSION.search(found or "")
    return match is not None and TESTED_FROM <= _numbers(match) < TESTED_BELOW


def _numbers(found: re.Match[str]) -> tuple[int, int, int]:
    return int(found[1]), int(found[2]), int(found[3])
