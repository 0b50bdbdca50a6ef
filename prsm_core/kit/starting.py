"""What keeps a vendor's program from beginning its work, told as an error."""

from __future__ import annotations

from pathlib import Path

from prsm_core.errors import ProcessError, ProviderNotAvailableError


def proxy_missing(program: str, seconds: float) -> ProviderNotAvailableError:
    """Return the error of a CLI whose proxy did not connect within so many seconds."""
    return ProviderNotAvailableError(
        f"{program} did not start the server of its orchestration tools within {seconds:g} s; "
        "it would have worked without them",
        hint=f"look whether {program} may start MCP servers, and at its own log",
    )


def require_folder(name: str, folder: str | None) -> None:
    """Raise ProcessError when the folder that a program is to work in is not there."""
    if folder is not None and not Path(folder).is_dir():
        raise ProcessError(
            f"{name} was not started: there is no folder {folder}",
            hint="its working folder was removed or never existed; give one that exists",
        )
