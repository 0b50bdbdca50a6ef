"""Where the shadows of folders lie, and worktrees of agents; git is not run."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core import ConfigError
from prsm_core.files import STRAYS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from prsm_core.files import RepoIdentity


LOCK_SECONDS = 30.0  # for another process
INTENT = "intent.json"  # there from before a restore writes its first file until after its last
OWED = "owed.json"  # there while what a restore was a part of is not done
ACT = "act.json"  # there from before an act writes its first file until it is in the list of acts
SHADOWS = "shadows"  # the folder of all shadows, in that of the state
PRUNE = "prune"  # there while content is to be removed that no snapshot needs any more

_LOOK_SECONDS = 0.02


class Where(Struct, frozen=True):
    """The folders of worktrees; agents work in `trees`, and do not see the state."""

    state: Path
    trees: Path

    def repository(self, key: str) -> Path:
        """Return the folder of what is known of a repository's worktrees, by its `key`."""
        return self.state / "worktrees" / key

    def repository_keys(self) -> list[str]:
        """Return the repositories that have, or had, worktrees."""
        return [folder.name for folder in sorted(self.repository("").glob("*/"))]

    def place(self, key: str, tree_id: str) -> Path:
        """Return the folder of what is known of one worktree."""
        return self.repository(key) / tree_id

    def find(self, folder: str) -> tuple[str, str] | None:
        """Return repository and id of the worktree that a folder is in; None: it is in none."""
        try:
            parts = Path(os.path.normpath(folder)).relative_to(self.trees).parts
        except ValueError:
            return None
        return (parts[0], parts[1]) if len(parts) > 1 else None

    def top(self, folder: str) -> str | None:
        """Return the top of the worktree that a folder is in; None: it is in none."""
        found = self.find(folder)
        return None if found is None else str(self.trees.joinpath(*found))


def place_of(identity: RepoIdentity, state: Path) -> Path:
    """Return the folder of a working tree's shadow."""
    name = hashlib.sha256(os.fsencode(identity.root)).hexdigest()[:12]
    return state / SHADOWS / identity.key / name


def stray_notes(place: Path, root: str) -> tuple[Path, str]:
    """Return folder and name of a note on new files beside a person's; `root` may be a pattern."""
    return place.parents[2] / STRAYS, f"{place.parent.name}.{place.name}.{root}"


def forget(state: Path, snapshots: Collection[str], *, wait_seconds: float = LOCK_SECONDS) -> int:
    """Forget the names of snapshots of any folder, without git; their content goes later."""
    gone = set()
    for place in sorted(state.glob("shadows/*/*")):
        names = [ref for one in snapshots for ref in place.glob(f"roots/*/git/refs/prsm/{one}")]
        if names:
            with folder_lock(place, wait_seconds):
                (place / PRUNE).touch(mode=0o600)
                for ref in names:
                    ref.unlink(missing_ok=True)
                    gone.add(ref.name)
    return len(gone)


@contextmanager
def folder_lock(place: Path, wait_seconds: float) -> Iterator[None]:
    """Hold the lock of a shadow; the folder is made. Raises ConfigError where another keeps it."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"{place}: cannot be written: {error.strerror}",
            hint="PRSM_HOME names another folder for all state",
        ) from error
    with os.fdopen(descriptor, "rb") as file:
        until = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > until:
                    raise ConfigError(
                        "another process is at work on the snapshots of this folder",
                        hint="let it finish, then try again",
                    ) from error
            time.sleep(_LOOK_SECONDS)
        yield


_ID_BYTES = 4
