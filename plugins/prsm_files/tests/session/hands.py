"""A folder whose changes are told, and what agents do to its files: what tests of changes share."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from functools import partial
from itertools import count

import pytest
from prsm_files.shadow.opening import Shadows
from prsm_files.shadow.worktree import Shadow
from prsm_testing import doubles

from prsm_core.domain.permissions import PermissionRequest
from tests.engine.harness import DEADLINE, open_team

until = partial(doubles.until, timeout_s=DEADLINE)  # what nothing tells of

NEEDS_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def folder(tmp_path):
    """A workspace that is a repository with a file."""
    work = tmp_path / "workspace"
    work.mkdir()
    git = partial(subprocess.run, cwd=work, check=True, capture_output=True)
    git(["git", "init", "-q"])
    (work / "a").write_text("".join(f"line {n}\n" for n in range(20)))
    return work


class CountedShadows(Shadows):
    """Shadows whose clock counts what asks for the time."""

    def open(self, git, folder):
        numbers = count(1)
        return Shadow(
            git,
            folder,
            self._state,
            environ=os.environ,
            now=lambda: float(next(numbers)),
            new_id=lambda: os.urandom(4).hex(),
        )


@pytest.fixture
def opened(tmp_path, folder):
    shadows = CountedShadows(state=tmp_path / "state", data=tmp_path / "data")
    return partial(open_team, tmp_path, shadows=shadows, on_ask="allow")


def put(path, text):
    """Write a file at once, as editors do: whoever looks meanwhile sees all of it, or nothing."""
    beside = path.parent.parent / f"{path.name}.new"
    beside.write_text(text)
    beside.replace(path)


class Hand:
    """What an agent does to files as its vendor's tools would: permitted, done, ended."""

    def __init__(self, agent, folder):
        self.agent, self.folder = agent, folder
        self.calls = count(1)

    async def write(self, name, text):
        """Write a file by a tool that names it, and says what it will hold."""
        given = {"file_path": name, "content": text}
        async with self.call("Write", paths=(name,), arguments=given):
            put(self.folder / name, text)

    async def edit(self, name, old, new):
        """Replace a text in a file by a tool that names both."""
        given = {"file_path": name, "old_string": old, "new_string": new}
        async with self.call("Edit", paths=(name,), arguments=given):
            put(self.folder / name, (self.folder / name).read_text().replace(old, new, 1))

    async def shell(self, work):
        """Do something by a command."""
        async with self.call("Bash", command="some command") as call:
            await work() if asyncio.iscoroutinefunction(work) else work()
        return call.id

    def call(self, tool, *, is_told_first=False, **asked):
        id_ = f"{self.agent.name}-{next(self.calls)}"
        return _Call(self.agent, tool, id_, asked, is_told_first=is_told_first)


class _Call:
    def __init__(self, agent, tool, id_, asked, *, is_told_first):
        self.agent, self.tool, self.id, self.asked = agent, tool, id_, asked
        self.is_told_first = is_told_first

    async def __aenter__(self):
        agent = self.agent
        if self.is_told_first:
            await self._tell()
        request = PermissionRequest(
            agent_id=agent.id,
            tool=self.tool,
            cwd=agent.session.request.cwd,
            call_id=self.id,
            **self.asked,
        )
        await agent.host.authorize(request)
        if not self.is_told_first:
            await self._tell()
        return self

    async def _tell(self):
        command = {"command": self.asked["command"]} if "command" in self.asked else {}
        await self.agent.start_tool(self.id, self.tool, **command)

    async def __aexit__(self, *_):
        await self.agent.end_tool(self.id)


def found(team, path):
    """Return the changes of a path that were told so far."""
    return [event for event in team.ledger.events("file_changed") if event["path"] == path]
