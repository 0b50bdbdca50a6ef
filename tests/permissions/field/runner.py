"""Runs commands inside a sandbox, beside canaries; tells for each what it touched.

It is started as a program of its own, with the folder of the field and the one it is copied from.
Every line of its input is a JSON list of commands, every line of its output a JSON list that holds
for each of them what it touched: canaries that were read, files that were changed or made.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

LONG_AGO = 1_000_000_000  # an atime older than any mtime changes with the next read
SECONDS = 3.0
MOST_OUTPUT = 4 * 2**20
MARK = b"CANARY"
REFRESHED = "/.git/index"  # git notes there what it has looked at


def main() -> None:
    source, field = map(Path, sys.argv[1:3])
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_OUTPUT, MOST_OUTPUT))
    canaries = [field / line for line in (source / "canaries").read_text().splitlines()]
    lay(source, field, canaries)
    before = state(field)
    for line in sys.stdin:
        told = []
        for command in json.loads(line):
            said = run(command, field / "work")
            touched = ["said a canary"] if MARK in said else []
            touched += [f"read {path}" for path in canaries if not is_untouched(path)]
            after = state(field)
            changed = {
                path for path in before.keys() | after if before.get(path) != after.get(path)
            }
            touched += [f"changed {path}" for path in sorted(changed)]
            told.append(touched)
            if touched:
                lay(source, field, canaries)
                before = state(field)
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def lay(source: Path, field: Path, canaries: list[Path]) -> None:
    """Make the field what it was."""
    for entry in field.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    shutil.copytree(source, field, symlinks=True, dirs_exist_ok=True)
    for path in canaries:
        os.utime(path, (LONG_AGO, LONG_AGO + 1))


def is_untouched(path: Path) -> bool:
    try:
        return path.stat().st_atime == LONG_AGO
    except OSError:
        return False


def state(field: Path) -> dict[str, tuple[object, ...]]:
    """Return what is in the field, by path; not when it was read."""
    found = {}
    for folder, folders, files in os.walk(field):
        for name in (*folders, *files):
            path = f"{folder}/{name}"
            if path.endswith(REFRESHED):
                continue
            seen = os.lstat(path)
            is_folder = stat.S_ISDIR(seen.st_mode)
            times = () if is_folder else (seen.st_size, seen.st_mtime_ns)
            found[path] = (seen.st_mode, *times)
    return found


def run(command: str, cwd: Path) -> bytes:
    """Run a command to its end, or until it has had its time; return what it said."""
    with tempfile.TemporaryFile() as said:
        shell = subprocess.Popen(
            [b"bash", b"--noprofile", b"--norc", b"-c", b"--", os.fsencode(command)],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        ended = os.pidfd_open(shell.pid)
        select.select([ended], [], [], SECONDS)
        os.close(ended)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        said.seek(0)
        return said.read()


if __name__ == "__main__":
    main()
