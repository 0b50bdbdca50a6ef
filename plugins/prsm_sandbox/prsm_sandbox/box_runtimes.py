"""The runtimes of boxes: what runc, podman and bubblewrap are told, from what a box sees.

Pure but for its bundle's folder, which `Bundles` owns. Runc is given a configuration, the others
options. Inside, a small shell is the first process: the kernel lets no signal through to a first
process that has not asked for it, and somebody must bury whatever its program leaves behind.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prsm_sandbox.syscalls import FAMILIES, MAKES_FILE, SET_ID_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_core import Box
    from prsm_sandbox.box_view import BoxView, Mount

RUNC, PODMAN, BWRAP = "runc", "podman", "bwrap"
RUNTIMES = (RUNC, PODMAN, BWRAP)  # from the best
CPU_PERIOD_US = 100_000
# The exit code of a program that a signal ended is 128+n, as the reaper shim's. A signal that comes
# while the shell waits ends that wait, and no more: it waits again for what still runs. What is in
# a shell's background has no input unless it is given as another file.
_FIRST = """\
trap 'exit 143' TERM; trap 'exit 130' INT
exec 3<&0
"$@" <&3 3<&- &
child=$!
exec <&- 3<&- >&- 2>&-
trap 'kill -TERM $child' TERM; trap 'kill -INT $child' INT
wait $child; code=$?
while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
exit $code
"""
FIRST = ("/bin/sh", "-c", _FIRST, "box")
_OWN_PIDS = 1  # that shell
_CLONE_NEWUSER = 0x10000000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_MOST_FAMILIES = 64  # more than there are


def find_runtime(name: str) -> str | None:
    """Return the program of a runtime; many users have no folder of the system's on PATH."""
    folders = (os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin")
    return shutil.which(name, path=os.pathsep.join(folders))


class BoxStart(Struct, frozen=True, kw_only=True):
    """One process to be started in a box.

    Attributes:
        name: Of the container and its control groups; letters, digits and dashes.
        env: All of its variables.
        limits: Those that are to be set.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    view: BoxView
    box: Box
    limits: Mapping[str, float]


def runc_argv(root: str, bundle: str, name: str) -> tuple[str, ...]:
    """Return what runs a bundle; its state and its groups are kept, to be read at its end."""
    return (RUNC, "--root", root, "run", "--keep", "--bundle", bundle, name)


def runc_config(start: BoxStart, root: str, ids: tuple[int, int] | None, *, swap: bool) -> Any:
    """Return the configuration of a bundle for runc.

    Args:
        start: The process.
        root: The folder that becomes the top one.
        ids: The user and group who run it without being root, whom it then takes for root.
        swap: Whether the kernel counts swap: it is then no way around the memory's limit.
    """
    names = ["pid", "ipc", "uts", "mount", *([] if start.box.network else ["network"])]
    linux: dict[str, Any] = {
        "namespaces": [{"type": name} for name in names],
        "resources": _resources(start.limits, swap=swap),
        "seccomp": _seccomp(network=start.box.network),
        "maskedPaths": [f"/proc/{name}" for name in _MASKED],
        "readonlyPaths": [f"/proc/{name}" for name in _READ_ONLY],
    }
    if ids is not None:
        linux["namespaces"].append({"type": "user"})
        for key, number in zip(("uidMappings", "gidMappings"), ids, strict=True):
            linux[key] = [{"containerID": 0, "hostID": number, "size": 1}]
    return {
        "ociVersion": "1.0.2",
        "hostname": "box",
        "root": {"path": root, "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": [*FIRST, *start.argv],
            "env": [f"{name}={value}" for name, value in start.env.items()],
            "cwd": start.view.cwd,
            "capabilities": {},
            "noNewPrivileges": True,
        },
        "mounts": [*_kernel_mounts(), *map(_runc_mount, start.view.mounts)],
        "linux": linux,
    }


_MASKED = ("acpi", "asound", "kcore", "keys", "latency_stats", "timer_list", "sched_debug", "scsi")
_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")


def _kernel_mounts() -> Iterator[dict[str, Any]]:
    plain = ["nosuid", "noexec", "nodev"]
    yield {"destination": "/proc", "type": "proc", "source": "proc", "options": plain}
    options = ["nosuid", "strictatime", "mode=755", "size=64k"]
    yield {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": options}
    options = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]
    yield {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": options}
    options = [*plain, "mode=1777"]
    yield {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": options}  # noqa: S108


def _runc_mount(mount: Mount) -> dict[str, Any]:
    if mount.source is None:
        kind, source = "tmpfs", "tmpfs"
        options = ["nosuid", "nodev", f"mode={_mode(mount)}"]
    else:
        kind, source = "bind", mount.source
        options = ["rbind", "rprivate", "nosuid", "nodev", "rw" if mount.writable else "ro"]
    return {"destination": mount.target, "type": kind, "source": source, "options": options}


def _mode(mount: Mount) -> str:
    return "1777" if mount.target == "/tmp" else "700"  # noqa: S108 - the box's own


def _resources(limits: Mapping[str, float], *, swap: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"devices": [{"allow": False, "access": "rwm"}]}
    if "memory" in limits:
        found["memory"] = {"limit": int(limits["memory"])}
        if swap:
            found["memory"]["swap"] = int(limits["memory"])
    if "cpus" in limits:
        quota = max(1000, round(limits["cpus"] * CPU_PERIOD_US))  # the kernel takes no less
        found["cpu"] = {"quota": quota, "period": CPU_PERIOD_US}
    if "pids" in limits:
        found["pids"] = {"limit": int(limits["pids"]) + _OWN_PIDS}
    return found


def _seccomp(*, network: bool) -> dict[str, Any]:
    """Return the filter of system calls, by names; see `syscalls`, which has it by numbers."""
    rules = [
        _refused(["keyctl", "add_key", "request_key", "setns"], _EPERM),
        _refused(["clone3", "io_uring_setup", "openat2"], _ENOSYS),
        _refused(["clone", "unshare"], _EPERM, _has(0, _CLONE_NEWUSER)),
        *_no_set_id(),
    ]
    if not network:
        others = (family for family in range(_MOST_FAMILIES) if family not in FAMILIES)
        rules += [
            _refused(["socket"], _EAFNOSUPPORT, {"index": 0, "value": family, "op": "SCMP_CMP_EQ"})
            for family in others
        ]
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}


def _no_set_id() -> Iterator[dict[str, Any]]:
    """Yield what refuses to make a file setuid or setgid; each call by the place of its mode."""
    for bit in SET_ID_BITS:
        for names, place in _SET_MODE:
            yield _refused(names, _EPERM, _has(place, bit))
        for name, place in _OPEN:
            for flag in MAKES_FILE:
                yield _refused([name], _EPERM, _has(place, flag), _has(place + 1, bit))


_SET_MODE = (
    (["chmod", "fchmod", "creat", "mknod"], 1),
    (["fchmodat", "fchmodat2", "mknodat"], 2),
)
_OPEN = (("open", 1), ("openat", 2))


def _has(place: int, bit: int) -> dict[str, Any]:
    """Return the condition that an argument has a bit."""
    return {"index": place, "value": bit, "valueTwo": bit, "op": "SCMP_CMP_MASKED_EQ"}


def _refused(names: list[str], error: int, *args: dict[str, Any]) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error}
    return {**rule, "args": list(args)} if args else rule


def podman_argv(start: BoxStart, root: str) -> tuple[str, ...]:
    """Return the command line of podman; the variables are those that podman itself is given."""
    return (
        *(PODMAN, "run", "--rm", "-i", "--name", start.name, "--read-only"),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
        *("--network", "host" if start.box.network else "none"),
        *_podman_limits(start.limits),
        *(word for mount in start.view.mounts for word in _podman_mount(mount)),
        *(word for name in start.env for word in ("--env", name)),
        *("--workdir", start.view.cwd, "--rootfs", root, *FIRST, *start.argv),
    )


def _podman_limits(limits: Mapping[str, float]) -> Iterator[str]:
    if "memory" in limits:
        size = f"{int(limits['memory'])}b"
        yield from ("--memory", size, "--memory-swap", size)
    if "cpus" in limits:
        yield from ("--cpus", f"{limits['cpus']:g}")
    if "pids" in limits:
        yield from ("--pids-limit", str(int(limits["pids"]) + _OWN_PIDS))


def _podman_mount(mount: Mount) -> tuple[str, str]:
    if mount.source is None:
        fields = ["type=tmpfs", f"dst={mount.target}", f"tmpfs-mode={_mode(mount)}"]
    else:
        access = "false" if mount.writable else "true"
        fields = ["type=bind", f"src={mount.source}", f"dst={mount.target}", f"ro={access}"]
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)  # a comma in a path is quoted so
    return ("--mount", text.getvalue())


def bwrap_argv(start: BoxStart, filters: Sequence[int] = ()) -> tuple[str, ...]:
    """Return the command line of bubblewrap, which limits nothing; it hands its variables on."""
    return (
        *(BWRAP, "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--cap-drop", "ALL", "--hostname", "box"),
        *(() if start.box.network else ("--unshare-net",)),
        *(word for descriptor in filters for word in ("--seccomp", str(descriptor))),
        *("--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"),
        *(word for name, target in start.view.links for word in ("--symlink", target, f"/{name}")),
        *(word for mount in start.view.mounts for word in _bwrap_mount(mount)),
        *("--remount-ro", "/", "--chdir", start.view.cwd, "--", *start.argv),
    )


def _bwrap_mount(mount: Mount) -> tuple[str, ...]:
    if mount.source is None:
        return ("--perms", _mode(mount).zfill(4), "--tmpfs", mount.target)
    return ("--bind" if mount.writable else "--ro-bind", mount.source, mount.target)
