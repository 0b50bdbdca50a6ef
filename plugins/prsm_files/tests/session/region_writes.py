"""Twenty writes into another's region, each as a file tool, a shell or a link would do it.

The region is the folder `src`, which has the file `kept`, and the file `one.py`. Each write changes
something of it where nothing keeps it from that.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

REGION = ("src", "one.py")
HELD = (*REGION, "later.py")  # the last is not there yet


@dataclass(frozen=True)
class FileWrite:
    """A write that a file tool says the path of; `names` is the argument that has it, if any."""

    tool: str
    path: str
    names: str = ""

    def request(self, cwd):
        """Return paths and arguments, as a vendor tells them."""
        path = self.path.replace("@", cwd)
        return ((), {self.names: path}) if self.names else ((path,), {})

    def do(self, cwd):
        """Write, as the vendor's tool would once it may."""
        place = Path(cwd, self.path.replace("@", cwd))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("another's\n")


FILES = (
    FileWrite("Write", "src/new.py"),
    FileWrite("Edit", "@/src/kept"),
    FileWrite("MultiEdit", "area/../src/kept"),
    FileWrite("NotebookEdit", "src/book.ipynb", "notebook_path"),
    FileWrite("Edit", "one.py", "file_path"),
    FileWrite("Write", "later.py"),
    FileWrite("Write", "area/way/through.py"),  # a link to the folder
    FileWrite("Edit", "area/file"),  # a link to the file
)
COMMANDS = (
    "echo x > src/kept",
    "cp area/own src/kept",
    "echo x | tee -a one.py",
    "sed -i s/kept/x/ src/kept",
    'python3 -c \'open("src/kept", "a").write("x")\'',
    "touch later.py",
    "make",
    "ln -s ../src area/late && echo x > area/late/kept",
    "ln src/kept area/hard && echo x > area/hard",
    "chmod +x src/kept",
    "git checkout -q HEAD~1 -- src/kept",
    "rm -rf src one.py && mkdir src",
)
WRITES = (*FILES, *COMMANDS)
assert len(WRITES) == 20

# Every rule that could let a write through.
ALLOWING = {
    "allow": [
        "echo",
        "cp",
        "tee",
        "sed",
        "python3",
        "touch",
        "make",
        "ln",
        "chmod",
        "git",
        "mkdir",
    ],
    "tools": {"Bash": "allow", "Write": "allow", "Edit": "allow", "MultiEdit": "allow"},
}


def git(folder, *args):
    who = ("-c", "user.name=n", "-c", "user.email=e@x")
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)


def prepare(folder):
    """Make a repository with the region, what leads into it, and two commits of a file of it."""
    for name in ("src", "area"):
        (folder / name).mkdir()
    git(folder, "init", "-q", "-b", "main")
    for text in ("first\n", "kept\n"):
        (folder / "src" / "kept").write_text(text)
        (folder / "one.py").write_text("one\n")
        (folder / "area" / "own").write_text("own\n")
        (folder / "Makefile").write_text("all:\n\techo made > src/made\n")
        for link, target in (("way", "../src"), ("file", "../src/kept")):
            if not (folder / "area" / link).is_symlink():
                (folder / "area" / link).symlink_to(target)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", text.strip())


def region_of(folder):
    """Return each byte of the region in a tree."""
    found = {}
    for name in HELD:
        top = Path(folder, name)
        inside = sorted(top.rglob("*")) if top.is_dir() else [top] * os.path.lexists(top)
        for path in inside:
            if not path.is_dir():
                found[str(path.relative_to(folder))] = (path.lstat().st_mode, path.read_bytes())
    return found


def run(command, cwd):
    """Run a command as a vendor's own shell does, without any sandbox."""
    subprocess.run(["bash", "-c", command], cwd=cwd, capture_output=True, check=False, timeout=60)
