"""Control groups: where those of boxes lie, what they say of their limits, and their removal.

Both versions of the kernel's interface, and both at once. A box's groups lie below those of the
engine, so that what limits the engine limits its boxes too.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING

from prsm_core.policies import is_within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

UNIFIED = ""  # the controller of the second version's one hierarchy
_KILL_ROUNDS = 20  # what forks while it is killed takes more than one
# What a group was given, by limit and version: controller, file. A file of the first version holds
# the number, or -1; one of the second the word max first.
_FILES = {
    "memory": (("memory", "memory.limit_in_bytes"), (UNIFIED, "memory.max")),
    "cpus": (("cpu", "cpu.cfs_quota_us"), (UNIFIED, "cpu.max")),
    "pids": (("pids", "pids.max"), (UNIFIED, "pids.max")),
}
_KILLS = (("memory", "memory.oom_control", "oom_kill"), (UNIFIED, "memory.events", "oom_kill"))
_REFUSALS = (("pids", "pids.events", "max"), (UNIFIED, "pids.events", "max"))


def own_parents() -> dict[str, Path]:
    """Return the folder in which groups of boxes are made, by controller; those that there are."""
    own = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    return find_parents(own, mounts)


def find_parents(own: str, mounts: str) -> dict[str, Path]:
    """Return what `own_parents` does, from the texts of /proc/self/cgroup and mountinfo."""
    places = dict(_places(own))
    found: dict[str, Path] = {}
    for controllers, top, folder in _mounted(mounts):
        for controller in controllers & places.keys():
            place = places[controller]
            below = os.path.relpath(place, top) if is_within(place, top) else "."
            found.setdefault(controller, Path(os.path.normpath(f"{folder}/{below}")))
    return found


def _places(own: str) -> Iterator[tuple[str, str]]:
    """Yield controllers and the place of this process in their hierarchy."""
    for line in own.splitlines():
        number, controllers, place = line.split(":", 2)
        if number == "0":
            # A group with processes in it can have no limited ones below it.
            yield UNIFIED, os.path.dirname(place)  # noqa: PTH120 - a path of no file system
        else:
            for name in controllers.split(","):
                yield name.removeprefix("name="), place


def _mounted(mounts: str) -> Iterator[tuple[set[str], str, str]]:
    """Yield the controllers of each hierarchy, which part of it is mounted, and where."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        fields = before.split(" ")
        if kind == "cgroup2":
            yield {UNIFIED}, fields[3], fields[4]
        elif kind == "cgroup":
            names = {name.removeprefix("name=") for name in options.split(",")}
            yield names, fields[3], fields[4]


def held_limits(parents: Mapping[str, Path], name: str) -> frozenset[str]:
    """Return which limits a group of this name really has: `memory`, `cpus`, `pids`."""
    return frozenset(
        limit
        for limit, places in _FILES.items()
        if any(_is_number(_read(parents, name, *place)) for place in places)
    )


def _is_number(text: str) -> bool:
    word = text.partition(" ")[0].strip()
    return word.isdecimal() and int(word) < 2**60


def kills_by_memory(parents: Mapping[str, Path], name: str) -> int:
    """Return how many processes of a group the kernel killed for its memory."""
    return _count(parents, name, _KILLS)


def refused_forks(parents: Mapping[str, Path], name: str) -> int:
    """Return how often a group was refused one process more."""
    return _count(parents, name, _REFUSALS)


def _count(parents: Mapping[str, Path], name: str, places: Iterable[tuple[str, str, str]]) -> int:
    for controller, file, key in places:
        for line in _read(parents, name, controller, file).splitlines():
            word, _, number = line.partition(" ")
            if word == key:
                return int(number)
    return 0


def _read(parents: Mapping[str, Path], name: str, controller: str, file: str) -> str:
    if controller not in parents:
        return ""
    try:
        return (parents[controller] / name / file).read_text(encoding="ascii")
    except OSError:  # no such group, or its kernel keeps no such file
        return ""


def remove_groups(parents: Iterable[Path], name: str) -> bool:
    """Kill what is in the groups of this name, remove them; return whether none is left."""
    folders = [parent / name for parent in dict.fromkeys(parents)]
    for _ in range(_KILL_ROUNDS):
        folders = [folder for folder in folders if not _is_removed(folder)]
        if not folders:
            return True
        for folder in folders:
            _kill_members(folder)
    return False


def _is_removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # somebody is in it still
        return False
    return True


def _kill_members(folder: Path) -> None:
    with suppress(OSError):  # it was removed meanwhile
        for pid in (folder / "cgroup.procs").read_text(encoding="ascii").split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), SIGKILL)
