"""Makes folders that are gone after use; where there is no place for one, the cure is told."""

from __future__ import annotations

from tempfile import TemporaryDirectory

from prsm_core.errors import ConfigError


def temporary_folder(prefix: str) -> TemporaryDirectory[str]:
    """Return a new folder, to be used as a context; raises ConfigError where none can be made."""
    try:
        return TemporaryDirectory(prefix=prefix)
    except OSError as error:
        raise ConfigError(
            f"no temporary folder can be made: {error.strerror or error}",
            hint="TMPDIR names another folder for temporary files",
            code="no_temp",
        ) from error
