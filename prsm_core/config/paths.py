"""Where the configuration and the state lie, and where skills may."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError
from prsm_core.kit.places import own_folders, reason_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

# The files that configure PRSM: each may end in .yaml or in .yml, and there is one of them.
CONFIG, MODELS, POLICY = "config", "models", "policy"
STEMS = (CONFIG, MODELS, POLICY)

_FOR_OTHERS = stat.S_IWGRP | stat.S_IWOTH


# Folders of skills, below a workspace as below the user's home, as the vendors have them.
SKILLS = (".agents/skills", ".claude/skills", ".codex/skills", ".gemini/skills")
HOME = "~/"  # what the path of a skill of the user begins with


class SkillPlaces(Record, frozen=True, kw_only=True):
    """Where skills are looked for. Nothing of an untrusted workspace is read."""

    workspace: str
    home: str | None  # None: it is not known
    trusted: bool

    def roots(self) -> Iterator[tuple[str, str]]:
        """Yield the folders that are trusted, and what the paths of skills below begin with."""
        if self.trusted:
            yield self.workspace, ""
        if self.home is not None:
            yield self.home, HOME

    def folders(self) -> Iterator[str]:
        """Yield the folders of skills that there may be."""
        for root, _ in self.roots():
            yield from (f"{root}/{folder}" for folder in SKILLS)


class Paths(Record, frozen=True, kw_only=True):
    """Files and folders of one workspace; none of them need exist.

    Attributes:
        data: What must last: ledgers, trust.
        state: What a machine may lose: locks, sockets, homes of vendor programs.
        trees: The worktrees of agents.
    """

    user_config: Path
    user_models: Path
    workspace: Path
    workspace_config: Path
    workspace_models: Path
    data: Path
    state: Path
    trees: Path

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """The folders that tell one PRSM of this user from another."""
        return (self.user_config.parent, self.data, self.state)

    @property
    def marked_folders(self) -> tuple[Path, ...]:
        """The folders whose files the agents of an engine may not change by a command."""
        return (*self.own_folders, self.workspace_dir)

    @property
    def user_agents(self) -> Path:
        """The user's folder of experts in markdown."""
        return self.user_config.parent / "agents"

    @property
    def workspace_dir(self) -> Path:
        """The workspace's own configuration folder, `.prism`."""
        return self.workspace_config.parent


def resolve_paths(workspace: Path, environ: Mapping[str, str]) -> Paths:
    """Return the paths for a workspace: under PRSM_HOME, else by the platform's conventions.

    Raises:
        ConfigError: PRSM_HOME names what is no folder, a folder of configuration or state can be
            changed by another user, or the workspace cannot be found.
    """
    config, data, state, trees, _ = own_folders(environ)
    for folder in (config, data, state, trees):
        _check_own(folder)
    try:
        workspace = workspace.expanduser().resolve()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            _ = workspace.lstat()  # whoever needs what is there says so; the name alone is asked
    except (OSError, RuntimeError, ValueError) as error:  # nobody's home, a loop of links, a \0
        raise ConfigError(
            f"the workspace {workspace} cannot be found: {reason_of(error)}",
            hint="name another folder",
        ) from error
    return Paths(
        user_config=find_file(config, CONFIG),
        user_models=find_file(config, MODELS),
        workspace=workspace,
        workspace_config=find_file(workspace / ".prism", CONFIG),
        workspace_models=find_file(workspace / ".prism", MODELS),
        data=data,
        state=state,
        trees=trees,
    )


def ledger_path(paths: Paths, identity: str) -> Path:
    """Return the ledger of a repository, by the `key` of its identity."""
    return paths.data / "ledgers" / identity / "ledger.db"


def written_path(paths: Paths) -> Path:
    """Return where it stands what agents may have written of the project's environment."""
    name = hashlib.sha256(os.fsencode(paths.workspace)).hexdigest()[:32]
    return paths.data / "written" / name


def user_home() -> str | None:
    """Return the user's home folder; None where the system knows of none."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.expanduser raises where there is none
    return home if os.path.isabs(home) else None  # noqa: PTH117 - of a text


def private_dir(path: Path) -> Path:
    """Create a folder and its missing parents for this user alone. Raises ConfigError."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be created: {error.strerror}",
            hint="PRSM_HOME names another folder for all state",
        ) from error
    if not path.is_dir():
        raise ConfigError(f"{path}: is not a folder")
    return path


def cannot_be_read(path: Path | str, error: OSError) -> ConfigError:
    """Return the error of a file or folder that the system does not let us read."""
    return ConfigError(
        f"{path}: cannot be read: {error.strerror}", hint="allow reading it, or move it away"
    )


def temp_notice(paths: Paths, environ: Mapping[str, str]) -> str | None:
    """Return a notice if state would lie in the temporary folder and PRSM_HOME is not set.

    Temporary files are swept, and the sandboxes of vendors let agents write there.
    """
    if environ.get("PRSM_HOME"):
        return None
    try:
        temp = Path(tempfile.gettempdir()).resolve()
    except OSError:  # none can be written to, so it is not the place of anything
        return None
    if not paths.data.resolve().is_relative_to(temp):
        return None
    return f"{paths.data}: state lies in the temporary folder; PRSM_HOME names a better place"


def _check_own(folder: Path) -> None:
    """Refuse a folder that others can change: what lies in it decides what runs, for root too."""
    try:
        found, link = folder.stat(), folder.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot_be_read(folder, error) from error
    user, name = os.geteuid(), shlex.quote(str(folder))
    if found.st_uid != user or link.st_uid not in {user, 0}:
        owner = found.st_uid if found.st_uid != user else link.st_uid
        raise ConfigError(
            f"{folder}: belongs to another user (uid {owner}), who could change what PRSM runs",
            hint=f"set PRSM_HOME to a folder of your own, or take this one: chown -h {user} {name}",
        )
    if found.st_mode & _FOR_OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        raise ConfigError(
            f"{folder}: other users can write to it (mode {mode:04o}) and change what PRSM runs",
            hint=f"chmod 700 {name}",
        )


def spellings(stem: str) -> tuple[str, str]:
    """Return the names that a file may have; the first is that of one that is made."""
    return f"{stem}.yaml", f"{stem}.yml"


def _choose_name(stem: str, there: Container[str]) -> str:
    usual, other = spellings(stem)
    return other if other in there and usual not in there else usual


def find_file(folder: Path, stem: str) -> Path:
    """Return where a file of a folder is, or would be made; raises nothing if there are two."""
    return folder / _choose_name(stem, _names_in(folder, stem))


def require_one(folder: Path, stem: str, there: Container[str] | None = None) -> str:
    """Return a file's name; raise ConfigError if both spellings exist.

    `there` are the names in the folder, if known.
    """
    names = _names_in(folder, stem) if there is None else there
    if all(name in names for name in spellings(stem)):
        usual, other = (folder / name for name in spellings(stem))
        raise ConfigError(
            f"{usual} and {other}: both are there, and one alone would be read",
            hint="put what holds into one of them, and remove the other",
        )
    return _choose_name(stem, names)


def _names_in(folder: Path, stem: str) -> set[str]:
    return {name for name in spellings(stem) if os.path.lexists(folder / name)}
