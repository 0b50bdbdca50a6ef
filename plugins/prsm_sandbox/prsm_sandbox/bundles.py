"""Bundles: the folder of an engine's boxes, and the end of what a box leaves in the machine.

A container of runc outlives its processes as a folder of state and as control groups. Those of an
engine lie in one folder beside the record of its processes, so that the next engine finds both.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from prsm_sandbox import cgroups
from prsm_sandbox.box_runtimes import RUNC, find_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prsm_sandbox.box_view import BoxView

_GROUPS = "groups"  # file: in which folders control groups were made
_STATE = "runc"  # folder: what runc knows of its containers
_PREFIX = "prsm-"
_ROOT = "root-"  # begin of a folder: the top one of some boxes


class Bundles:
    """Owns the folder; it is made with the first box, and gone with the last one once closed.

    Boxes that have the same places in them share a top folder, in which these stand empty: to make
    them and to remove them takes the kernel longer than all else.
    """

    def __init__(self, make_folder: Callable[[], Path]) -> None:
        self._make_folder = make_folder
        self._folder: Path | None = None
        self._numbers = itertools.count(1)
        self._running: set[str] = set()
        self._ended: set[str] = set()  # those that are not removed yet
        self._is_closed = False

    @cached_property
    def parents(self) -> Mapping[str, Path]:
        """The folders in which control groups are made, by controller."""
        return cgroups.own_parents()

    def new_name(self) -> str:
        """Return a name for a box that no other has."""
        return f"{_PREFIX}{os.getpid()}-{os.urandom(3).hex()}-{next(self._numbers)}"

    def make(self, name: str) -> Path:
        """Make the folder of a new box."""
        folder = self._made() / name
        self._running.add(name)
        folder.mkdir(mode=0o700)
        return folder

    def root(self, view: BoxView) -> Path:
        """Return the top folder of boxes with such a view; runc makes its places in it."""
        places = [*(mount.target for mount in view.mounts), *map(list, view.links)]
        word = hashlib.sha256(msgspec.json.encode(places)).hexdigest()[:16]
        root = self._made() / f"{_ROOT}{word}"
        if not root.is_dir():
            root.mkdir(mode=0o755)
            for link, target in view.links:
                (root / link).symlink_to(target)
        return root

    def state(self) -> str:
        """Return the folder that runc is told to keep its state in."""
        return str(self._made() / _STATE)

    def remove(self, name: str) -> None:
        """Remove what is left of a box whose process has ended.

        Should something live in it still, because a shim was killed, it goes with a later one, or
        with the next engine's start.
        """
        if self._folder is None:
            return
        self._running.discard(name)
        self._ended.add(name)
        for ended in sorted(self._ended):
            if cgroups.remove_groups(self.parents.values(), ended):
                shutil.rmtree(self._folder / _STATE / ended, ignore_errors=True)
                shutil.rmtree(self._folder / ended, ignore_errors=True)
                self._ended.discard(ended)
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Remove the folder once the last box in it has ended."""
        self._is_closed = True
        if self._folder is not None and not self._running and not self._ended:
            _remove_folder(self._folder)
            self._folder = None

    def _made(self) -> Path:
        if self._folder is None:
            self._folder = self._make_folder()
            note = msgspec.json.encode([str(path) for path in set(self.parents.values())])
            (self._folder / _GROUPS).write_bytes(note)
        return self._folder


def left_boxes(folder: Path) -> list[str]:
    """Return the names of the boxes that a dead engine left in its folder; touch nothing."""
    return sorted(path.name for path in folder.glob(f"{_PREFIX}*"))


def end_left(folder: Path, run: Callable[[Sequence[str]], object]) -> None:
    """Delete the boxes that a dead engine left in its folder, and the folder.

    Runc deletes a container, whatever still runs in it. Where it does not, the groups are emptied
    and removed all the same.
    """
    state, parents = folder / _STATE, _noted_parents(folder)
    program = find_runtime(RUNC)
    for name in left_boxes(folder):
        if program is not None and (state / name).exists():
            run((program, "--root", str(state), "delete", "--force", name))
        cgroups.remove_groups(parents, name)
    _remove_folder(folder)


def _noted_parents(folder: Path) -> list[Path]:
    try:
        return [Path(text) for text in msgspec.json.decode((folder / _GROUPS).read_bytes())]
    except (FileNotFoundError, msgspec.DecodeError):  # its engine died before it made any
        return []


def _remove_folder(folder: Path) -> None:
    """Remove the folder of an engine, unless something of the machine is still mounted in it."""
    mounts = Path("/proc/self/mountinfo").read_bytes()
    if folder.name.encode() not in mounts:
        shutil.rmtree(folder, ignore_errors=True)
