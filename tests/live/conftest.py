"""Fixtures of the live tests: the real CLI, a home for PRSM, and `prsm` as a process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from prsm_core.store import SqliteStore
from tests.forking import fork_server
from tests.live.install_cli import CODEX, GEMINI
from tests.person import room

DEADLINE_S = 60


def settle(ended: asyncio.Future[None]) -> None:
    """Let a waiter go, once."""
    if not ended.done():
        ended.set_result(None)


class Prsm:
    """Runs `prsm` in a workspace of its own, with Codex pointed at a model server."""

    def __init__(self, home: Path):
        self.home = home
        self.codex = "codex"
        self.workspace = home / "workspace"
        self.workspace.mkdir(parents=True)
        self.env = {**os.environ, "PRSM_HOME": str(home / "prsm"), "LIVE_TEST_KEY": "loopback"}

    def configure(self, base_url: str, **engine) -> None:
        """Write the user's configuration, with Codex alone."""
        codex = {"command": [self.codex], "base_url": base_url, "api_key_env": "LIVE_TEST_KEY"}
        defaults = {"model": "scripted-1"}
        self.write({"engine": engine, "defaults": defaults, "providers": {"codex": codex}})

    def write(self, config) -> None:
        """Write the user's configuration."""
        told = self.run("config", "path", "--json")
        path = Path(json.loads(told.stdout)["user"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(config))

    def argv(self, *args: str) -> list[str]:
        """Return the argv of `prsm` on the workspace."""
        return [str(Path(sys.executable).with_name("prsm")), *args]

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `prsm` to its end."""
        return subprocess.run(
            self.argv(*args),
            cwd=self.workspace,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    async def ledger(self) -> list[dict[str, Any]]:
        """Return all events of the only session, read beside its engine."""
        (path,) = (self.home / "prsm" / "data" / "ledgers").glob("*/ledger.db")
        async with await SqliteStore.open(path, read_only=True) as store:
            (session,) = await store.sessions()
            found = store.events(session.session_id)
            return [{**event.data, "type": event.type} async for event in found]

    async def run_async(self, *args: str) -> tuple[int, str, str]:
        """Run a command of `prsm` while this loop serves the models."""
        process = await self.start(*args)
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    async def start(self, *args: str, **options):
        """Start a command of `prsm`; its stdin is empty unless given."""
        settings = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **options,
        }
        return await asyncio.create_subprocess_exec(
            *self.argv(*args),
            cwd=self.workspace,
            env=self.env,
            **settings,
        )

    async def until_gone(self) -> None:
        """Return when every process of this home has ended."""
        loop = asyncio.get_running_loop()
        for pid in self.processes():
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            ended = loop.create_future()
            loop.add_reader(descriptor, settle, ended)
            try:
                await ended
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)

    def processes(self) -> list[int]:
        """Return the live processes that belong to this home."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    environ = (entry / "environ").read_bytes()
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                except OSError:
                    continue
                if str(self.home).encode() in environ and state not in "ZX":
                    found.append(int(entry.name))
        return found


class ScriptedPrsm(Prsm):
    """Runs `prsm` with scripted agents: a command that runs to its end is forked."""

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `prsm` to its end."""
        forks = fork_server()
        if not forks.fits(self.env):
            return super().run(*args)
        forked = forks.start(args, cwd=self.workspace, env=self.env)
        try:
            out, err = forked.communicate(timeout=DEADLINE_S)
        finally:
            forked.close()
        code = forked.wait()
        return subprocess.CompletedProcess(args, code, out.decode(), err.decode())


@pytest.fixture(scope="session")
def codex() -> str:
    """Return the path of the real Codex."""
    path = os.environ.get("PRSM_LIVE_CODEX", "")
    if not Path(path).is_file():
        pytest.skip(CODEX.why_missing(Path(path)))
    return path


@pytest.fixture(scope="session")
def gemini() -> str:
    """Return the path of the real Gemini CLI."""
    path = os.environ.get("PRSM_LIVE_GEMINI", "")
    if not Path(path).is_file():
        pytest.skip(GEMINI.why_missing(Path(path)))
    return path


@pytest.fixture
def bare_prsm():
    """Return a `prsm` with a home outside the temp directory, where Codex' sandbox works."""
    home = room()
    runner = Prsm(home)
    try:
        yield runner
    finally:
        for pid in runner.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def prsm(bare_prsm, codex):
    """Return a `prsm` that runs the real Codex."""
    bare_prsm.codex = codex
    return bare_prsm
