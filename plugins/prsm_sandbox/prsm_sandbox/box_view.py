"""What a process in a box sees: the system's programs, its folder, and what its box names.

Nothing of the machine is there that is not mounted, so nothing has to be hidden. What a box asks
for is refused before anything starts where it could not be had, or would be something else than
its words say.
"""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prsm_core import ProcessError
from prsm_core.policies import is_within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core import Box

TEMP = "/tmp"  # noqa: S108 - an empty one of the box
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_KERNEL = ("/proc", "/dev", "/sys")
# Of /etc what programs need to run at all, and names of users, hosts and certificates.
_ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "timezone"),
    *("passwd", "group", "nsswitch.conf", "hosts", "host.conf", "protocols", "services"),
    *("ssl", "ca-certificates", "pki", "mime.types", "os-release", "debian_version"),
    "locale.alias",
)
_NETWORK_ETC = ("resolv.conf",)
LEAST_MEMORY = 16 * 2**20  # bytes; what starts a box would be killed with less
LEAST_CPUS = 0.01
LEAST_PIDS = 16


class Mount(Struct, frozen=True, kw_only=True):
    """One place inside; without a source it is an empty folder that is thrown away."""

    target: str
    source: str | None = None
    writable: bool = False


class BoxView(Struct, frozen=True, kw_only=True):
    """All that is inside; what lies within another comes after it.

    Attributes:
        links: The links of the top folder, as the machine's own: name and where it leads.
    """

    mounts: tuple[Mount, ...]
    links: tuple[tuple[str, str], ...] = ()
    cwd: str = "/"

    def outside(self, path: str) -> str | None:
        """Return the machine's path of what is at a path inside; None: it is the box's own."""
        for name, target in self.links:
            if is_within(path, f"/{name}"):
                return self.outside(os.path.normpath(f"/{target}{path[len(name) + 1 :]}"))
        return _source_of(path, self.mounts)

    def showing(self, file: str) -> BoxView:
        """Return a view with one file of the machine more, at its own path."""
        mount = Mount(target=file, source=os.path.realpath(file))
        return replace(self, mounts=_ordered((*self.mounts, mount)))


def _ordered(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    return tuple(sorted(mounts, key=lambda mount: PurePosixPath(mount.target).parts))


def box_view(box: Box, cwd: str | None, home: str | None) -> BoxView:
    """Return what a process in `cwd`, which it may write, sees in a box. Raises ProcessError."""
    _check_limits(box)
    folder = None if cwd is None else os.path.realpath(cwd)
    writable = _writable(box, folder)
    system, links = _system(network=box.network)
    mounts = {mount.target: mount for mount in (*system, Mount(target=TEMP))}
    for path in writable:
        mounts[path] = Mount(target=path, source=path, writable=True)
    for inside, path in box.mounts.items():
        _check_whole(inside, "mounts")
        if os.path.realpath(inside) == path and any(is_within(inside, place) for place in SYSTEM):
            continue  # it is there already
        _check_mount(inside, path, writable)
        mounts[inside] = Mount(target=inside, source=path)
    if home is not None and _is_free(home, mounts):
        mounts[home] = Mount(target=home)
    ordered = _ordered(mounts.values())
    for place, mount in enumerate(ordered):
        _check_place(mount, ordered[:place])
    return BoxView(mounts=ordered, links=links, cwd=folder or "/")


def _check_limits(box: Box) -> None:
    least = {"memory": LEAST_MEMORY, "cpus": LEAST_CPUS, "pids": LEAST_PIDS}
    for name, value in box.limits.items():
        if not value >= least[name] or value == float("inf"):
            raise _refusal(f"{name} is {value}", f"give {least[name]} or more, or no limit")


def _writable(box: Box, folder: str | None) -> tuple[str, ...]:
    for path in box.writable:
        _check_outside(path, "writable")
    paths = sorted({*box.writable, *((folder,) if folder else ())})
    for path in paths:
        if path == "/" or any(is_within(path, place) for place in (*_KERNEL, "/etc")):
            raise _refusal(f"{path} cannot be writable in a box", "name a folder of your own")
        if path in (*SYSTEM, TEMP):
            raise _refusal(f"{path} cannot be writable in a box", "name a folder in it")
    return tuple(paths)


def _check_mount(inside: str, path: str, writable: tuple[str, ...]) -> None:
    _check_outside(path, "mounts")
    what = f"nothing can be mounted at {inside}"
    if inside == "/" or any(is_within(inside, place) for place in (*SYSTEM, *_KERNEL)):
        raise _refusal(f"{what}: that is the system's", "choose a place such as /mnt/NAME")
    if inside in (TEMP, "/etc"):
        raise _refusal(f"{what}: that is the box's own", f"choose a place such as {inside}/NAME")
    for folder in writable:
        if is_within(inside, folder) and inside != path:
            why = f"{what}: the box may write {folder}"
            raise _refusal(why, "choose a place such as /mnt/NAME")


def _check_whole(path: str, name: str) -> None:
    if not path.startswith("/"):
        raise _refusal(f"{name}: {path!r} is no whole path", "begin it with /")
    if "\0" in path or path != os.path.normpath(path) or path.startswith("//"):
        plain = os.path.normpath(path.replace("\0", "")).replace("//", "/", 1)
        raise _refusal(f"{name}: {path!r} is not plain", f"write {plain}")


def _check_outside(path: str, name: str) -> None:
    _check_whole(path, name)
    if not os.path.lexists(path):
        raise _refusal(f"{name}: there is no {path}", "make it first, or leave it out of the box")
    if (real := os.path.realpath(path)) != path:
        raise _refusal(f"{name}: {path} is a link, or lies behind one", f"name {real} itself")
    if stat.S_ISCHR(mode := os.lstat(path).st_mode) or stat.S_ISBLK(mode):
        raise _refusal(f"{name}: {path} is a device", "a box has none of the machine's")


def _check_place(mount: Mount, earlier: tuple[Mount, ...]) -> None:
    """Refuse a mount within another one that has no such place: it cannot be made there."""
    place = _source_of(mount.target, earlier)
    if place is None or mount.source == place:
        return
    if os.path.realpath(place) != place or not os.path.exists(place):  # noqa: PTH110
        raise _refusal(
            f"nothing can be mounted at {mount.target}: there is no {place}",
            "make it first, or choose a place outside of what else is mounted",
        )


def _is_free(home: str, mounts: dict[str, Mount]) -> bool:
    """Return whether a home is a place of its own: not the system's, nor one that is mounted."""
    if not home.startswith("/") or home in ("/", TEMP) or home != os.path.normpath(home):
        return False
    places = (*SYSTEM, *_KERNEL, "/etc")
    return not any(is_within(home, place) for place in (*places, TEMP, *mounts))


@cache
def _system(*, network: bool) -> tuple[tuple[Mount, ...], tuple[tuple[str, str], ...]]:
    """Return the read-only mounts of the machine's programs, and links of the top folder."""
    mounts, links = [], []
    for path in SYSTEM:
        if os.path.islink(path):  # noqa: PTH114 - as the others here
            links.append((path[1:], os.readlink(path)))  # noqa: PTH115
        elif os.path.isdir(path):  # noqa: PTH112
            mounts.append(Mount(target=path, source=path))
    files = (Path("/etc", name) for name in (*_ETC, *(_NETWORK_ETC if network else ())))
    there = [str(file) for file in files if file.exists()]
    mounts += [Mount(target=file, source=os.path.realpath(file)) for file in there]
    return tuple(mounts), tuple(links)


def _source_of(path: str, mounts: tuple[Mount, ...]) -> str | None:
    """Return what of the machine is at a path, by the innermost of the mounts."""
    for mount in reversed(mounts):
        if is_within(path, mount.target):
            if mount.source is None:
                return None
            return os.path.normpath(f"{mount.source}/{path[len(mount.target) :]}")
    return None


def _refusal(message: str, cure: str) -> ProcessError:
    return ProcessError(f"this box cannot be had: {message}", hint=cure)
