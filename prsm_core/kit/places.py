"""Where PRSM's own files lie: the one answer, for the core and for what a plugin keeps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core.interfaces.sink import EventSinkSpec


def state_folder() -> Path:
    """Return the folder of PRSM's state, which the environment decides; it need not exist.

    A check, tool or sink of a plugin keeps files there, in a folder of the plugin's name; a
    provider has `ProviderServices.state_dir`. Raises ConfigError if PRSM_HOME names what is no
    folder.
    """
    return own_folders(os.environ).state


class _OwnFolders(NamedTuple):
    """The folders of PRSM's own files; none need exist. `home` is the one that PRSM_HOME names."""

    config: Path
    data: Path
    state: Path
    trees: Path
    home: Path | None = None


def own_folders(environ: Mapping[str, str]) -> _OwnFolders:
    """Return PRSM's folders, by PRSM_HOME (ConfigError if it is no folder) or the platform."""
    if home := environ.get("PRSM_HOME"):
        root = own_home(home)
        return _OwnFolders(root, root / "data", root / "state", root / "trees", root)
    import platformdirs

    return _OwnFolders(
        platformdirs.user_config_path("prsm"),
        platformdirs.user_data_path("prsm"),
        platformdirs.user_state_path("prsm"),
        platformdirs.user_data_path("prsm-trees"),
    )


def unseen_folders(
    sinks: Iterable[EventSinkSpec], settings: Mapping[str, Any], environ: Mapping[str, str]
) -> list[Path]:
    """Return the folders of what sinks keep from all agents, by their settings."""
    state = own_folders(environ).state
    return [
        _written_to(state / spec.unseen, settings.get(spec.name)) for spec in sinks if spec.unseen
    ]


def _written_to(usual: Path, settings: Any) -> Path:
    path = settings.get("path") if hasattr(settings, "get") else getattr(settings, "path", None)
    return Path(path).expanduser().absolute() if path else usual


def own_home(home: str) -> Path:
    """Return the folder that PRSM_HOME names, which need not exist yet."""
    try:
        root = Path(home).expanduser().absolute()
        if root.is_dir() or not os.path.lexists(root):
            return root
        problem = "which is not a folder"
    except (OSError, RuntimeError) as error:  # no permission, nobody's home
        problem = f"which cannot be used: {reason_of(error)}"
    raise ConfigError(f"PRSM_HOME is {home}, {problem}", hint="set it to a folder, or unset it")


def reason_of(error: OSError | RuntimeError | ValueError) -> str:
    """Return why a path could not be followed, in words."""
    return str(getattr(error, "strerror", None) or error)
