"""Which paths a file tool may read and write without asking."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.kit.filenames import fold_of
from prsm_core.permissions.own_state import own_state
from prsm_core.policies.names import protected_part, secret_part
from prsm_core.policies.within import has_second_name, is_within
from prsm_core.policies.written import environment_part, names_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.policies.own_state import OwnState


def why_not_write(path: str, cwd: str, workspace: str) -> str | None:
    """Return why a file tool may not write to a path without asking, None if it may.

    Links and `..` are resolved; the written path counts too: a link may be made after the decision.
    """
    if "\0" in path or path.startswith("~"):
        return f"{path!r} is not a path below the folder"
    folder = os.path.realpath(Path(workspace, cwd))
    for resolved in _meanings(path, folder):
        below = _below(resolved, workspace, folder)
        if (part := protected_part(below)) is not None:
            return f"{part} is protected"
        if (part := environment_part(below)) is not None:
            return f"{part} holds programs of the project's environment"
        if not is_within(resolved, folder):
            return f"{resolved} is outside {folder}"
    return None


def why_not_region(
    path: str,
    cwd: str,
    workspace: str,
    region: tuple[str, ...] | None,
    leased: Sequence[tuple[str, str]],
) -> str | None:
    """Return why regions forbid an agent to write a path; a second name may lie in another one."""
    if region is None and not leased:
        return None
    folder = os.path.realpath(Path(workspace, cwd))
    fold = fold_of(folder)
    for resolved in _meanings(path, folder):
        named = fold(resolved)
        if region is not None and not any(is_within(named, fold(own)) for own in region):
            return f"{resolved} is outside the agent's region, {', '.join(region)}"
        for other, owner in leased:
            if is_within(named, fold(other)):
                return f"{resolved} is in the region of {owner}"
        if has_second_name(resolved):
            return f"{resolved} has a second name (a hard link), maybe in another region"
    return None


def why_not_read(path: str, cwd: str, workspace: str, own: OwnState | None = None) -> str | None:
    """Return why a file tool may not read a path without asking, None if it may.

    PRSM's own state, by default by the environment, is secret but for what is handed to agents.
    """
    own = own or own_state()
    if "\0" in path:
        return f"{path!r} is not a path"
    folder = os.path.realpath(Path(workspace, cwd))
    for resolved in _meanings(path, folder):
        if (trespass := own.why_not(resolved)) is not None:
            return trespass.reason
        below = own.below_handed(resolved)
        below = _below(resolved, workspace, folder) if below is None else below
        if (part := secret_part(below)) is not None:
            return f"{part} may hold a secret"
    return None


def written_names(path: str, cwd: str, workspace: str) -> set[str]:
    """Return by which names of the project's environment a file counts as written."""
    folder = os.path.realpath(Path(workspace, cwd))
    below = (_below(each, workspace, folder) for each in _meanings(path, folder))
    return {name for each in below for name in names_of(each)}


def _meanings(path: str, folder: str) -> tuple[str, str]:
    absolute = Path(folder, path)
    return os.path.normpath(absolute), os.path.realpath(absolute)


def _below(path: str, workspace: str, folder: str) -> str:
    """Return a path relative to the workspace: where that itself lies says nothing."""
    for root in (os.path.realpath(workspace), folder):
        if is_within(path, root):
            return path[len(root) :]
    return path
