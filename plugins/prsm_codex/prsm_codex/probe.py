"""Whether Codex is there, and whether it is a version this plugin was tested with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.errors import ProcessError, ProviderNotAvailableError
from prsm_core.interfaces.deadline import deadline

if TYPE_CHECKING:
    from prsm_core.interfaces.provider import ProviderServices

OLDEST = (0, 160)
TESTED_BELOW = (0, 175)
TESTED = ">=0.160,<0.175"
INSTALL = "npm install -g @openai/codex"
_SECONDS = 5.0
_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\S*")


async def version(command: tuple[str, ...], services: ProviderServices) -> str | None:
    """Return what `--version` prints, None if it prints no version within five seconds.

    Raises ProviderNotAvailableError when the program is missing, cannot run, or is too old.
    """
    try:
        process = await services.start_process([*command, "--version"], name="codex --version")
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
    if (int(found[1]), int(found[2])) < OLDEST:
        raise ProviderNotAvailableError(
            f"codex {found[0]} is too old: this plugin needs {TESTED}",
            hint=f"Update it with `{INSTALL}`.",
        )
    return found[0]


def is_tested(found: str | None) -> bool:
    """Return whether a version is inside the tested range."""
    match = _VERSION.search(found or "")
    return match is not None and OLDEST <= (int(match[1]), int(match[2])) < TESTED_BELOW
