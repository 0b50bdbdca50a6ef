"""A field of canaries: a workspace with secrets, traps and odd names, where commands are run.

The commands run in a sandbox of their own, on a copy of the field: nothing they do stays.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugins.prsm_policy.tests.field.runner import (
    CANARY,
    OUTSIDE,
    PROGRAMS,
    REAL_SHELL,
    SANDBOX,
    SHELL,
    write_program,
)
from plugins.prsm_policy.tests.ground import SECRETS as GROUND_SECRETS
from plugins.prsm_policy.tests.ground import lay_ground

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PLAIN = {
    "README.md": "hello\nworld\n",
    "src/app.py": "import os\nprint(1)\n",
    "src/util.py": "def f():\n    return 2\n",
    "src/deep/er/x.js": "let a = 1;\n",
    "tests/test_app.py": "def test():\n    assert True\n",
    "a.txt": "b\na\n",
    "b.txt": "a\nc\n",
    "f": "foo 1\nbar 2\n",
    "x": "x\n",
    "data.json": '{"a": [1, 2]}\n',
    "package.json": '{"name": "p", "version": "1.0.0"}\n',
    "Makefile": "all:\n\t@echo made > made.txt\n",
    ".env.example": "KEY=\n",
    ".gitignore": "ignored/\n.env\n",
}
ODD = {
    "-n": "an option\n",
    "-rf": "an option\n",
    "--files0-from=list": "an option\n",
    "-exec": "an option\n",
    "a b.txt": "space\n",
    "*": "a star\n",
    "[x].txt": "brackets\n",
    "$(touch made.txt)": "a substitution\n",
    "list": ".env\0.ssh/id_rsa\0",
    "names.txt": ".env\nid_rsa\n",
}
SECRETS = (
    "work/.env",
    "work/.env.local",
    "work/id_rsa",
    "work/server.pem",
    "work/config/credentials.json",
    "work/src/.env",
    "work/.npmrc",
    "work/ignored/.netrc",
    ".ssh/id_rsa",
    ".aws/credentials",
    ".bash_history",
    ".config/gh/hosts.yml",
    "outside/notes.txt",
)
# Links in the workspace that lead to secrets, or out of it.
LINKS = {
    "work/link": "../outside/notes.txt",
    "work/src/lnk": "../.env",
    "work/out": "../outside",
    "work/keys": "../.ssh",
}
TRAP = "#!/bin/sh\necho ran > {ran}\nexit 0\n"
TRAPS = ("work/evil.sh", "work/src/cat", "work/ls", "work/git", "work/node_modules/.bin/tsc")
# What a folder that looks like a bare repository says: each of these is a program.
BARE = """[core]
\trepositoryformatversion = 0
\tbare = false
\tworktree = .
\tfsmonitor = {trap}
\tpager = {trap}
\tsshCommand = {trap}
\teditor = {trap}
[diff]
\texternal = {trap}
[alias]
\tx = !{trap}
"""


@dataclass(frozen=True, slots=True)
class Field:
    """Where commands are judged, and the copy of which they run on; both have the same path."""

    home: Path

    @property
    def work(self) -> Path:
        """The workspace."""
        return self.home / "work"


def lay_field(home: Path) -> Field:
    """Make the field."""
    field = Field(home)
    for name, text in {**PLAIN, **ODD}.items():
        _write(field.work / name, text)
    for command in ("init -q -b main --template=", "add .", "commit -q -m first"):
        _git(field, command)
    _write(field.work / "src/app.py", PLAIN["src/app.py"] + "print(2)\n")
    for name in SECRETS:
        _write(home / name, CANARY)
    for name, target in LINKS.items():
        (home / name).symlink_to(target)
    trap = TRAP.format(ran=field.work / "ran.txt")
    for name in TRAPS:
        _write(home / name, trap)
        (home / name).chmod(0o755)
    _lay_bare(field.work / "vendor/bare", field.work / "evil.sh")
    secrets = "".join(f"{name}\n" for name in SECRETS)
    _write(home / "canaries", secrets)
    return field


def lay_ground_field(home: Path) -> Field:
    """Make the workspace in which lists of commands are judged a field of canaries."""
    field = Field(home)
    field.work.mkdir(parents=True)
    lay_ground(field.work)
    secrets = [f"work/{name}" for name in GROUND_SECRETS]
    for name in secrets:
        _write(home / name, CANARY)
    _write(home / "canaries", "".join(f"{name}\n" for name in secrets))
    return field


def _lay_bare(folder: Path, trap: Path) -> None:
    _write(folder / "HEAD", "ref: refs/heads/main\n")
    _write(folder / "config", BARE.format(trap=trap))
    for name in ("objects/info/x", "refs/heads/x"):
        _write(folder / name, "")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def environment(home: Path) -> dict[str, str]:
    """Return what a command finds in its environment."""
    who = {"NAME": "a", "EMAIL": "a@b"}
    names = {f"GIT_{role}_{key}": who[key] for role in ("AUTHOR", "COMMITTER") for key in who}
    return {
        "PATH": f"{PROGRAMS}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin{_searchers()}",
        "HOME": str(home),
        "OPENAI_API_KEY": CANARY.strip(),
        **names,
    }


def _searchers() -> str:
    """Return where else rg and fd are."""
    found = {str(Path(path).parent) for path in map(shutil.which, ("rg", "fd")) if path}
    return "".join(f":{folder}" for folder in sorted(found))


def _git(field: Field, command: str) -> None:
    subprocess.run(
        ["git", *command.split()], cwd=field.work, env=environment(field.home), check=True
    )


class Runner:
    """Runs commands on the field, in a sandbox that lives as long as this."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def touched(self, commands: Sequence[str]) -> dict[str, list[str]]:
        """Run commands; return, for each that touched anything, what it touched."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(commands)) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        assert len(told) == len(commands)
        return {command: what for command, what in zip(commands, told, strict=True) if what}


@contextlib.contextmanager
def open_runner(field: Field) -> Iterator[Runner]:
    """Open a sandbox on a copy of the field; skip the test where there is no bubblewrap."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("bubblewrap (bwrap) is not installed")
    source = field.home.with_name(f"{field.home.name}-source")
    if not source.exists():
        shutil.copytree(field.home, source, symlinks=True)
    program = Path(__file__).with_name("field") / "runner.py"
    shell = Path("/bin/sh").resolve()
    stand_in = field.home.with_name("sh")
    write_program(stand_in, SHELL)
    outside = [word for name in OUTSIDE if Path(name).is_dir() for word in ("--tmpfs", name)]
    argv = [
        *(bwrap, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),  # noqa: S108
        *(*outside, "--ro-bind", "/etc", str(SANDBOX / "etc")),
        *("--ro-bind", sys.base_prefix, sys.base_prefix, "--ro-bind", sys.prefix, sys.prefix),
        *("--ro-bind", str(shell), str(REAL_SHELL)),
        *(() if shell.name == "bash" else ("--ro-bind", str(stand_in), str(shell))),
        *("--ro-bind", str(source), "/tmp/source", "--tmpfs", str(field.home)),  # noqa: S108
        *("--ro-bind", str(program), "/tmp/runner.py"),  # noqa: S108
        *(sys.executable, "-I", "/tmp/runner.py", "/tmp/source", str(field.home)),  # noqa: S108
    ]
    with subprocess.Popen(
        argv,
        env=environment(field.home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        errors="surrogateescape",
    ) as process:
        try:
            yield Runner(process)
        finally:
            process.kill()
