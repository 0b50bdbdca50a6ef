"""Whether Gemini CLI is there, and whether it is a version this plugin was tested with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.errors import ProcessError, ProviderNotAvailableError
from prsm_core.interfaces.deadline import deadline
from prsm_core.interfaces.npm import packaged_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.interfaces.provider import Process, ProviderServices

OLDEST = (0, 61)
TESTED_BELOW = (0, 62)
TESTED = ">=0.61,<0.62"
PACKAGE = "@google/gemini-cli"
INSTALL = f"npm install -g {PACKAGE}"
_MENTIONS = "files that the workspace's GEMINI.md mentions are read, unasked"
HEADLESS_GAPS = (
    "the system settings of Gemini CLI can switch its hooks off: a turn is then stopped, but only "
    "once its model has begun to speak",
    _MENTIONS,
)
ACP_GAPS = (
    "what is asked of a search, or of a tool of another MCP server, does not tell its arguments",
    _MENTIONS,
)
_SECONDS = 5.0
_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\S*")


async def version(
    command: tuple[str, ...], services: ProviderServices, env: Mapping[str, str]
) -> str | None:
    """Return what `--version` prints, None if it prints no version within five seconds.

    Where npm has installed the program its package tells the same at once: to start the whole
    program takes seconds of CPU, and more than five on a busy machine. Raises
    ProviderNotAvailableError when the program is missing, cannot run, or is too old.
    """
    try:
        process = await services.start_process(
            [*command, "--version"], name="gemini --version", env=env
        )
    except ProviderNotAvailableError as error:
        raise not_found(error) from error
    try:
        text = packaged_version(command, PACKAGE) or await _printed(process, services)
    except (TimeoutError, ProcessError):
        return None
    finally:
        await process.stop(grace=0)
    return checked(text)


async def _printed(process: Process, services: ProviderServices) -> str:
    """Return the first line that a process prints; raise TimeoutError after five seconds."""
    text = ""
    async with deadline(services, _SECONDS):
        process.close_stdin()
        async for line in process.lines():
            text = text or line.decode(errors="replace")
        await process.wait()
    return text


def not_found(error: ProviderNotAvailableError) -> ProviderNotAvailableError:
    """Return the error of a program that cannot be started, with a cure for this one."""
    hint = f"Install it with `{INSTALL}`, or set `command`."
    return ProviderNotAvailableError(error.message, hint=hint)


def checked(text: str) -> str | None:
    """Return the version in a text, if any; raise ProviderNotAvailableError when it is too old."""
    found = _VERSION.search(text)
    if found is None:
        return None
    if (int(found[1]), int(found[2])) < OLDEST:
        raise ProviderNotAvailableError(
            f"gemini {found[0]} is too old: this plugin needs {TESTED}",
            hint=f"Update it with `{INSTALL}`.",
        )
    return found[0]


def is_tested(found: str | None) -> bool:
    """Return whether a version is inside the tested range."""
    match = _VERSION.search(found or "")
    return match is not None and OLDEST <= (int(match[1]), int(match[2])) < TESTED_BELOW
