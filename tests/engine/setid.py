"""Every way that a program may make a file setuid or setgid, run by a Python that all users start.

The system calls are made by number, so that no library stands in between.
"""

from __future__ import annotations

import platform
import shutil
import stat
import sys
from pathlib import Path

# The numbers of the calls, by kind of machine.
_NUMBERS = {
    "x86_64": {
        "open": 2, "creat": 85, "chmod": 90, "fchmod": 91, "mknod": 133, "openat": 257,
        "mknodat": 259, "fchmodat": 268,
    },
    "aarch64": {"mknodat": 33, "fchmod": 52, "fchmodat": 53, "openat": 56},
}  # fmt: skip
_COMMON = {"openat2": 437, "fchmodat2": 452}
# The system's own Python, which a box shows.
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin") or sys.executable
CALLS = {**_NUMBERS.get(platform.machine(), {}), **_COMMON}

_PROGRAM = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
name, number, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3], 8)
path = b"made-" + name.encode()
flags = os.O_CREAT | os.O_RDWR
os.umask(0)
def call(*args):
    if libc.syscall(number, *args) < 0:
        print(ctypes.get_errno())
if "chmod" in name:
    made = os.open(path, flags, 0o755)
if name == "open":
    call(path, flags, mode)
elif name == "creat":
    call(path, mode)
elif name == "openat":
    call(-100, path, flags, mode)
elif name == "openat2":
    call(-100, path, struct.pack("QQQ", flags, mode, 0), 24)
elif name == "chmod":
    call(path, mode)
elif name == "fchmod":
    call(made, mode)
elif name in ("fchmodat", "fchmodat2"):
    call(-100, path, mode, 0)
elif name == "mknod":
    call(path, 0o100000 | mode, 0)
elif name == "mknodat":
    call(-100, path, 0o100000 | mode, 0)
elif name == "tmpfile":
    call(-100, b".", os.O_TMPFILE | os.O_RDWR, mode)
"""


def set_id_command(python: str | Path, name: str, mode: int) -> str:
    """Return a command that makes a file of a mode by one system call and prints its error."""
    number = CALLS["openat" if name == "tmpfile" else name]
    return f"{python} -I - {name} {number} {mode:o} <<'END'\n{_PROGRAM}\nEND"


def set_id_files(folder: str | Path) -> dict[str, int]:
    """Return the files below a folder that are setuid or setgid, with their modes."""
    files = [path for path in Path(folder).rglob("*") if not path.is_dir()]
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in files}
    return {name: mode for name, mode in modes.items() if mode & 0o6000}
