"""A person and three agents in one folder, and what PRSM does to its files afterwards.

Each line has a mark that tells who wrote it. What an agent's tool does not explain is never booked
as certainly the agent's, and whatever PRSM writes over comes back by `undo`, byte for byte.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import stat
import subprocess
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from plugins.prsm_files.tests.session.hands import Hand

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_core.engine.door.local import LocalApp

WORKERS = ("w1", "w2", "w3")
PATHS = ("a", "b", "d/c", "d/e.txt", "new/n")
STEPS = 5
PERSON = "person"


def furnish(folder: Path) -> None:
    """Fill a folder with a repository whose person has edits that nobody committed."""
    git = partial(subprocess.run, cwd=folder, check=True, capture_output=True)
    for name in ("a", "b", "d/c"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"base:{name}:{n}\n" for n in range(12)))
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    git(["git", "init", "-q"])
    git(["git", "add", "-A"])
    who = ("-c", "user.name=p", "-c", "user.email=p@example.com")
    git(["git", *who, "commit", "-qm", "begin"])
    (folder / "a").write_text((folder / "a").read_text() + f"{PERSON}:0\n")
    (folder / "kept.bin").write_bytes(bytes(range(256)))
    (folder / "own.log").write_text(f"{PERSON}:1\n")
    (folder / "link").symlink_to("kept.bin")


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of every file and link, but for git's own."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if name.parts[0] == ".git" or (path.is_dir() and not path.is_symlink()):
            continue
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        found[str(name)] = (path.lstat().st_mode, content)
    return found


def lines_of(text: bytes | None) -> list[str]:
    """Return the lines of a content."""
    return [] if text is None else text.decode("utf-8", "surrogateescape").splitlines()


def marks(contents) -> set[str]:
    """Return the marks of a person's lines in some contents, whoever formatted them."""
    found = re.compile(rb"^\s*person:(\d+)\s*$", re.MULTILINE)
    return {mark.decode() for _, content in contents.values() for mark in found.findall(content)}


class Town:
    """What agents and the person do to the files, each by chance of its own."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.marks = count(2)
        self.app: LocalApp | None = None
        self.whole: set[str] = set()  # calls that replace all of a file
        self.removed: dict[str, set[str]] = {}  # lines that each agent's edits took, by its name
        self.at_work = asyncio.Event()

    def chance(self, who: str) -> random.Random:
        return random.Random(f"{self.seed}{who}")

    def put(self, path: str, data: bytes) -> None:
        """Write a file at once, as editors do; who stands in the way has gone."""
        file = self.folder / path
        if file.is_dir():
            shutil.rmtree(file)
        for above in reversed(file.parents):
            if above.is_relative_to(self.folder) and above.exists() and not above.is_dir():
                above.unlink()
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.folder.parent / f"beside-{next(self.marks)}"
        beside.write_bytes(data)
        if file.exists() and not file.is_symlink():
            beside.chmod(stat.S_IMODE(file.stat().st_mode))
        beside.replace(file)

    def read(self, path: str) -> list[str]:
        file = self.folder / path
        return lines_of(file.read_bytes()) if file.is_file() else []

    async def work(self, agent) -> None:
        """Be an agent: tools that say what they write, and commands that do not."""
        chance, hand = self.chance(agent.name), Hand(agent, self.folder)
        for _ in range(STEPS):
            self.at_work.set()
            await pause(chance)
            path = chance.choice(PATHS)
            if chance.random() < 0.5:
                await self._edit(chance, hand, agent.name, path)
            else:
                await self._command(chance, hand, agent.name)
        await agent.complete()

    async def _edit(self, chance, hand, who, path) -> None:
        """Replace a line by a tool that names both, or write a new file."""
        lines = self.read(path)
        new = f"{who}:{next(self.marks)}"
        if not lines:
            given = {"file_path": path, "content": f"{new}\n"}
            call = hand.call("Write", paths=(path,), arguments=given)
            self.whole.add(call.id)
            async with call:
                if not self.read(path):
                    self.put(path, f"{new}\n".encode())
            return
        old = chance.choice(lines)
        keeps = chance.random() < 0.6
        given = {
            "file_path": path,
            "old_string": f"{old}\n",
            "new_string": f"{old}\n{new}\n" if keeps else f"{new}\n",
        }
        async with hand.call("Edit", paths=(path,), arguments=given):
            now = "".join(f"{line}\n" for line in self.read(path))
            if given["old_string"] in now:
                if not keeps:
                    self.removed.setdefault(who, set()).add(old)
                changed = now.replace(given["old_string"], given["new_string"], 1)
                self.put(path, changed.encode("utf-8", "surrogateescape"))

    async def _command(self, chance, hand, who) -> None:
        """Do by a command what no tool explains."""
        command = chance.choice(("echo at once", "some command"))  # the other one is asked about
        async with hand.call("Bash", command=command):
            await pause(chance)
            chance.choice((self._format, self._checkout, self._move, self._remove, self._add))(
                chance, who
            )
            await pause(chance)

    def _format(self, chance, _) -> None:
        path = chance.choice(PATHS)
        if lines := self.read(path):
            text = "".join(f"{line.rstrip()} \n" for line in lines)
            self.put(path, text.encode("utf-8", "surrogateescape"))

    def _checkout(self, chance, _) -> None:
        name = chance.choice(("a", "b", "d/c", "."))
        git = ("git", "checkout", "-q", "--", name)
        subprocess.run(git, cwd=self.folder, check=False, capture_output=True)

    def _move(self, chance, _) -> None:
        old, new = chance.sample(PATHS, 2)
        if (self.folder / old).is_file() and not (self.folder / new).is_dir():
            (self.folder / new).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / old).replace(self.folder / new)

    def _remove(self, chance, _) -> None:
        shutil.rmtree(self.folder / chance.choice(("d", "new")), ignore_errors=True)

    def _add(self, chance, who) -> None:
        self.put(chance.choice(PATHS), f"{who}:{next(self.marks)}\n".encode())

    def save(self, chance) -> None:
        """Save a file as the person: a line more, a new file, other bits, other bytes."""
        what = chance.random()
        if what < 0.7:
            path = chance.choice((*PATHS, "notes.md", "own.log"))
            lines = self.read(path)
            lines.insert(chance.randint(0, len(lines)), f"{PERSON}:{next(self.marks)}")
            text = "".join(f"{line}\n" for line in lines)
            self.put(path, text.encode("utf-8", "surrogateescape"))
        elif what < 0.8:
            self.put("kept.bin", bytes(chance.randbytes(64)))
        elif what < 0.9 and (self.folder / "run.sh").exists():
            (self.folder / "run.sh").chmod(chance.choice((0o644, 0o755)))
        else:
            (self.folder / "link").unlink(missing_ok=True)
            (self.folder / "link").symlink_to(f"place-{next(self.marks)}")

    async def be_a_person(self) -> None:
        """Save files whatever agents do, and let them go on once they ask."""
        chance, app = self.chance(PERSON), self.app
        assert app is not None
        await self.at_work.wait()
        while True:
            await pause(chance)
            if chance.random() < 0.2:
                self.save(chance)
            for asked in await app.requests.open():
                if chance.random() < 0.5:
                    self.save(chance)  # while a permission waits
                await app.requests.resolve(asked.request, "once")


async def pause(chance: random.Random) -> None:
    """Let others go on for a while."""
    for _ in range(chance.randint(0, 30)):
        await asyncio.sleep(0)
    if chance.random() < 0.3:
        await asyncio.to_thread(lambda: None)
