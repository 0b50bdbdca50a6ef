"""A private home for a vendor's program, with the user's login linked in."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def make_private(folder: Path) -> Path:
    """Make a folder, and those above it, for its owner alone; return it."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def write_private(files: Mapping[Path, str]) -> None:
    """Write texts, by path, for their owner alone; what was there before is replaced."""
    for path, text in files.items():
        make_private(path.parent)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)


def link_login(link: Path, login: Path | None) -> None:
    """Link a file of the user's login, which is never read, into a private home.

    Without such a file an old link goes. A file that is no link stays: it is a login made in this
    home. A link is replaced in one step: another program may read it just now.
    """
    wanted = login.resolve() if login is not None and login.exists() else None
    if not link.is_symlink():
        if wanted is not None:
            with suppress(FileExistsError):
                link.symlink_to(wanted)
    elif wanted is None:
        link.unlink(missing_ok=True)
    elif link.readlink() != wanted:
        beside = link.with_name(f".{link.name}-{secrets.token_hex(4)}")
        beside.symlink_to(wanted)
        beside.replace(link)
