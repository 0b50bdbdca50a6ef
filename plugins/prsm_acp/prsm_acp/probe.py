"""Whether an agent's program is there, and whether it is a version that was tried."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.errors import ProcessError, ProviderNotAvailableError
from prsm_core.interfaces.deadline import deadline
from prsm_core.interfaces.npm import packaged_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_acp.manifest import Manifest
    from prsm_core.interfaces.provider import Process, ProviderServices

GAPS = (
    "the agent itself decides which of its tools it asks leave for",
    "tools that an agent of PRSM was not given are refused when they are asked for, not withheld",
)
_SECONDS = 4.0
_VERSION = re.compile(r"\b(\d+)\.(\d+)(?:\.\d+)?\S*")


async def version(
    argv: tuple[str, ...], manifest: Manifest, services: ProviderServices, env: Mapping[str, str]
) -> str | None:
    """Return what `--version` prints, None if it prints no version within four seconds.

    Where npm has installed the program its package tells the same at once: some take seconds of
    CPU to start. Raises ProviderNotAvailableError when the program is missing or cannot run.
    """
    try:
        process = await services.start_process(
            [*argv, "--version"], name=f"{manifest.name} --version", env=env
        )
    except ProviderNotAvailableError as error:
        hint = f"Install it: {manifest.install}." if manifest.install else "Set `command`."
        raise ProviderNotAvailableError(error.message, hint=hint) from error
    try:
        known = packaged_version(argv, manifest.package) if manifest.package else None
        text = known or await _printed(process, services)
    except (TimeoutError, ProcessError):
        return None
    finally:
        await process.stop(grace=0)
    found = _VERSION.search(text)
    return found[0] if found else None


async def _printed(process: Process, services: ProviderServices) -> str:
    """Return the first line that a process prints; raise TimeoutError after four seconds."""
    text = ""
    async with deadline(services, _SECONDS):
        process.close_stdin()
        async for line in process.lines():
            text = text or line.decode(errors="replace")
        await process.wait()
    return text


def is_tested(found: str | None, manifest: Manifest) -> bool:
    """Return whether a version is the one the manifest was tried with, but for its last number."""
    match, tried = _VERSION.search(found or ""), _VERSION.search(manifest.tested or "")
    return match is not None and tried is not None and match.groups() == tried.groups()
