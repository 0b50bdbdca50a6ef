"""Bundles: the folder of an engine's boxes, and the end of what a box leaves in the machine.

A container of runc outlives its processes as a folder of state and as control groups. Those of an
engine lie in one folder beside the record of its processes, so that the next engine finds both.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from prsm_core.config import private_dir
from prsm_core.engine.processes import cgroups
from prsm_core.engine.processes.box_runtimes import RUNC
from prsm_core.engine.processes.table import ProcessIdentity, is_alive, process_identity
from prsm_core.errors import ProcessError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

DELETE_SECONDS = 10.0
_GROUPS = "groups"  # file: in which folders control groups were made
_STATE = "runc"  # folder: what runc knows of its containers
_PREFIX = "prsm-"
_BOXES = "boxes"  # folder of the state: in it one of each engine, named by its process
_SEPARATOR = "_"


class Bundles:
    """Owns the folder; it is made with the first box and gone with the last one.

    Args:
        state_dir: PRSM's own folder, in which it is.
    """

    def __init__(self, state_dir: Path) -> None:
        self._boxes = state_dir / _BOXES
        self._folder: Path | None = None
        self._numbers = itertools.count(1)
        self._running: set[str] = set()
        self._ended: set[str] = set()  # those that are not removed yet

    @cached_property
    def parents(self) -> Mapping[str, Path]:
        """The folders in which control groups are made, by controller."""
        return cgroups.own_parents()

    def make(self, links: Iterable[tuple[str, str]]) -> tuple[str, Path]:
        """Return the name of a new box and its folder, in which `rootfs` has these links."""
        folder = self._made()
        name = f"{_PREFIX}{os.getpid()}-{os.urandom(3).hex()}-{next(self._numbers)}"
        self._running.add(name)
        root = folder / name / "rootfs"
        root.mkdir(mode=0o755, parents=True)
        for link, target in links:
            (root / link).symlink_to(target)
        return name, folder / name

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
                _remove_bundle(self._folder / ended)
                self._ended.discard(ended)
        if not self._running and not self._ended:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _made(self) -> Path:
        if self._folder is None:
            own = process_identity(os.getpid())
            if own is None:
                raise ProcessError("this process is not in /proc", hint="prsm needs /proc")
            words = (str(own.pid), str(own.start_time), own.boot_id, os.urandom(3).hex())
            self._folder = private_dir(self._boxes / _SEPARATOR.join(words))
            note = msgspec.json.encode([str(path) for path in set(self.parents.values())])
            (self._folder / _GROUPS).write_bytes(note)
        return self._folder


def end_boxes(state_dir: Path) -> int:
    """Remove the boxes that dead engines have left; return how many they were."""
    found = [(folder, _names(folder)) for folder in _folders_of_the_dead(state_dir)]
    for folder, names in found:
        _remove_boxes(folder, names)
    return sum(len(names) for _, names in found)


def find_boxes(state_dir: Path) -> list[str]:
    """Return the names of boxes that dead engines have left; touches nothing."""
    return [name for folder in _folders_of_the_dead(state_dir) for name in _names(folder)]


def _folders_of_the_dead(state_dir: Path) -> Iterator[Path]:
    for folder in sorted((state_dir / _BOXES).glob("*")):
        pid, start_time, boot_id, *_ = [*folder.name.split(_SEPARATOR), "", "", ""]
        if not (pid.isdecimal() and start_time.isdecimal()):
            continue  # nothing of an engine's
        engine = ProcessIdentity(pid=int(pid), start_time=int(start_time), boot_id=boot_id)
        if not is_alive(engine):
            yield folder


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(f"{_PREFIX}*"))


def _remove_boxes(folder: Path, names: Iterable[str]) -> None:
    """Delete the containers of an engine, and its folder."""
    state, parents = folder / _STATE, _noted_parents(folder)
    for name in names:
        if (state / name).exists():
            _delete(state, name)
        cgroups.remove_groups(parents, name)
        _remove_bundle(folder / name)
    if not _names(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _delete(state: Path, name: str) -> None:
    """Have runc delete a container, whatever still runs in it.

    Where it does not, the groups are emptied and removed all the same.
    """
    if shutil.which(RUNC) is None:
        return
    argv = (RUNC, "--root", str(state), "delete", "--force", name)
    subprocess.run(argv, timeout=DELETE_SECONDS, capture_output=True, check=False)


def _noted_parents(folder: Path) -> list[Path]:
    try:
        return [Path(text) for text in msgspec.json.decode((folder / _GROUPS).read_bytes())]
    except (FileNotFoundError, msgspec.DecodeError):  # its engine died before it made any
        return []


def _remove_bundle(bundle: Path) -> None:
    """Remove a bundle, but for one in which something of the machine is still mounted."""
    mounts = Path("/proc/self/mountinfo").read_bytes()
    if bundle.name.encode() not in mounts:
        shutil.rmtree(bundle, ignore_errors=True)
