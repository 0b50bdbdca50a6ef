"""Runs commands inside a sandbox, beside canaries; tells for each what it touched.

It is started as a program of its own, with the folder of the field and the one it is copied from.
Every line of its input is a JSON list of commands, every line of its output a JSON list that holds
for each of them what it touched: canaries that were read, files that were changed or made, programs
that were started. Commands run in batches; one that touched anything is run again command by
command, each on a field that nothing has touched.
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
import time
from pathlib import Path

LONG_AGO = 1_000_000_000  # an atime older than any mtime changes with the next read
SECONDS = 3.0
AT_ONCE = 8
BATCH = 64
MOST_OUTPUT = 4 * 2**20
CANARY = "CANARY-7c1f\n"
# What the output of a command tells of it.
MARKS = {
    b"CANARY": "said a canary",
    b"Read-only file system": "wrote where nothing is to be written",
    b"Network is unreachable": "reached for the network",
    b"name resolution": "reached for the network",
    b"Could not resolve": "reached for the network",
}
# Folders outside of the field that anyone may write to here; some of it is secret.
OUTSIDE = ("/etc", "/root", "/home", "/srv", "/opt", "/mnt", "/media", "/var/spool")
OUTSIDE_SECRETS = ("/etc/shadow", "/root/.ssh/id_rsa", "/root/.netrc")
SANDBOX = Path("/tmp/canaries")  # noqa: S108 - of the sandbox alone
NOTE = SANDBOX / "ran"
PROGRAMS = SANDBOX / "bin"
REAL_SHELL = SANDBOX / "dash"
NOWHERE = SANDBOX / "nowhere"  # what is copied to a folder that begins empty
# Programs that nothing harmless starts; of some it does with a word that only asks something.
STARTED = (
    "rm rmdir unlink shred dd truncate mkfs kill pkill killall sudo su doas chmod chown mount"
    " umount crontab at systemctl curl wget nc ncat socat ssh scp sftp rsync telnet tee cp mv"
    " ln install touch mkdir mktemp patch zip vi vim ed nano less more man watch"
    " parallel script python python3 node perl ruby php lua sh bash zsh dash npm npx pnpm yarn"
    " bun deno pip pip3 uv uvx poetry pipx cargo rustc go java mvn gradle make gcc cc docker"
    " podman kubectl gh claude codex gemini prsm sqlite3 psql mysql"
)
ASKS = "--version|-version|-V|-v|--help|version|ls|list|ll|la|show|freeze|env|-n"
SHIM = """#!/bin/bash
case $1 in {asks}) exit 0;; esac
echo "{name} $*" >> {note}
"""
# It stands in for /bin/sh, by which `system`, `popen` and git run a text.
SHELL = f"""#!/bin/bash
case $1 in -c|-ec) echo "sh $*" >> {NOTE};; esac
exec -a sh {REAL_SHELL} "$@"
"""
GIT_INDEX = frozenset({"index"})  # git notes there what it has looked at


class Ground:
    """The field and the folders around it."""

    def __init__(self, source: Path, field: Path) -> None:
        self.field = field
        self.sources = {field: source, **{Path(name): NOWHERE for name in OUTSIDE}}
        self.sources[Path("/etc")] = SANDBOX / "etc"
        self.sources = {root: each for root, each in self.sources.items() if root.is_dir()}
        names = (source / "canaries").read_text().splitlines()
        self.canaries = [*(field / name for name in names), *map(Path, OUTSIDE_SECRETS)]
        for root, each in self.sources.items():
            if each.is_dir():
                copy_readable(each, root)
        self.before: dict[str, tuple[object, ...]] = {}
        self.settle()

    def settle(self) -> None:
        """Let the canaries be untouched, and what is there be what was there."""
        for path in self.canaries:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(CANARY)
            os.utime(path, (LONG_AGO, LONG_AGO + 1))
        NOTE.unlink(missing_ok=True)
        self.before = self.state()

    def repair(self) -> None:
        """Make all what it was before anything was touched."""
        for name in sorted(self.changed()):
            path = Path(name)
            if not path.is_symlink() and path.is_dir() and name in self.before:
                continue  # each file of it that has changed has a path of its own
            remove(path)
            root = next(root for root in self.sources if path.is_relative_to(root))
            copy(self.sources[root] / path.relative_to(root), path)
        self.settle()

    def changed(self) -> set[str]:
        """Return the paths of what is other than it was."""
        after = self.state()
        return {p for p in self.before.keys() | after if self.before.get(p) != after.get(p)}

    def touched(self) -> list[str]:
        """Return what was touched since it was laid."""
        found = [f"read {path}" for path in self.canaries if not is_untouched(path)]
        changed = {path for path in self.changed() if Path(path).name not in GIT_INDEX}
        # A file that came and went changes its folder: that is named only if nothing in it is.
        above = {str(folder) for path in changed for folder in Path(path).parents}
        found += [f"changed {path}" for path in sorted(changed - above)]
        if NOTE.exists():
            found += [f"started {line}" for line in NOTE.read_text().splitlines()]
        return found

    def state(self) -> dict[str, tuple[object, ...]]:
        """Return what is there, by path; not when it was read."""
        found: dict[str, tuple[object, ...]] = {}
        for root in self.sources:
            device = root.stat().st_dev
            for folder, folders, files in os.walk(root):
                is_of_git = "HEAD" in files or "/objects" in folder
                for name in (*folders, *files):
                    path = f"{folder}/{name}"
                    seen = os.lstat(path)
                    if seen.st_dev != device:
                        folders.remove(name)
                        continue
                    is_folder = stat.S_ISDIR(seen.st_mode)
                    is_noisy = is_folder and (is_of_git or Path(path, "HEAD").exists())
                    times = () if is_noisy else (seen.st_size, seen.st_mtime_ns)
                    found[path] = (seen.st_mode, *times)
        return found


def main() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_OUTPUT, MOST_OUTPUT))
    lay_programs()
    ground = Ground(*map(Path, sys.argv[1:3]))
    for line in sys.stdin:
        commands = json.loads(line)
        told = [
            each
            for start in range(0, len(commands), BATCH)
            for each in run_batch(ground, commands[start : start + BATCH])
        ]
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def run_batch(ground: Ground, commands: list[str]) -> list[list[str]]:
    """Run commands at once; return for each what it touched."""
    said = run(commands, ground.field / "work")
    whole = ground.touched()
    if not whole and not any(said):
        return said
    ground.repair()
    if len(commands) == 1:
        return [[*said[0], *whole]]
    half = len(commands) // 2
    told = [*run_batch(ground, commands[:half]), *run_batch(ground, commands[half:])]
    # Blame the first command where only all of them together touched something.
    return told if any(told) else [[*said[0], *whole, "together with others"], *told[1:]]


def run(commands: list[str], cwd: Path) -> list[list[str]]:
    """Run commands to their end, or until they have had their time; return what each said."""
    return [
        each
        for start in range(0, len(commands), AT_ONCE)
        for each in run_some(commands[start : start + AT_ONCE], cwd)
    ]


def run_some(commands: list[str], cwd: Path) -> list[list[str]]:
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        shells = [
            subprocess.Popen(
                [b"/bin/bash", b"--noprofile", b"--norc", b"-c", b"--", os.fsencode(command)],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            for command, output in zip(commands, outputs, strict=True)
        ]
        deadline = time.monotonic() + SECONDS
        for shell in shells:
            ended = os.pidfd_open(shell.pid)
            select.select([ended], [], [], max(0.0, deadline - time.monotonic()))
            os.close(ended)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        for output in outputs:
            output.seek(0)
        return [marks_of(output.read()) for output in outputs]


def marks_of(said: bytes) -> list[str]:
    return list(dict.fromkeys(what for mark, what in MARKS.items() if mark in said))


def lay_programs() -> None:
    """Make programs that note that they are started; they come first in PATH."""
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    for name in STARTED.split():
        write_program(PROGRAMS / name, SHIM.format(asks=ASKS, name=name, note=NOTE))
    write_program(PROGRAMS / "sleep", "#!/bin/bash\nexit 0\n")


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def copy(source: Path, target: Path) -> None:
    if source.is_dir() and not source.is_symlink():
        copy_readable(source, target)
    elif source.is_symlink() or source.exists():
        shutil.copy2(source, target, follow_symlinks=False)


def copy_readable(source: Path, target: Path) -> None:
    """Copy a folder, but for what may not be read and what is secret."""

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if is_left_out(Path(folder, name))]

    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=left_out)


def is_left_out(path: Path) -> bool:
    if path.is_symlink():
        return False
    return not os.access(path, os.R_OK) or "shadow" in path.name or path.match("*/ssl/private")


def is_untouched(path: Path) -> bool:
    try:
        return path.stat().st_atime == LONG_AGO
    except OSError:
        return False


if __name__ == "__main__":
    main()
