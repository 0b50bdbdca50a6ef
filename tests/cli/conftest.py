"""A home and a workspace of its own for every test, and a ledger made by the real store."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prsm_testing.store_contract import Steps

from prsm_core.cli import main
from prsm_core.config import ledger_path, resolve_paths
from prsm_core.domain.agents import AgentResult, AgentState
from prsm_core.domain.events import Event
from prsm_core.store import SqliteStore
from prsm_core.workspace.identity import repo_identity
from tests.forking import Forked, fork_server

DEADLINE = 60.0
ANSWER = {"role": "assistant", "text": "three\x1b[2J", "thinking": "hm"}
CALL = {"tool": "Bash", "arguments": {"command": "ls"}}
RESULT = {"status": "completed", "result": "a\nb"}


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True, scope="session")
def told_of_a_hang_up():
    """Programs are told that a terminal is closed, even if these tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before or signal.SIG_DFL)


@pytest.fixture(autouse=True)
def workspace(tmp_path, monkeypatch):
    """The current folder of the test; no plugin is loaded unless the test says so."""
    for name in [name for name in os.environ if name.startswith("PRSM")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setenv("PRSM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PRSM_PLUGINS", "")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def prsm(capsys):
    """Run a command in this process."""

    def run(*args):
        code = main(list(args))
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


def command(*args):
    return [
        sys.executable,
        "-c",
        "import sys; from prsm_core.cli import main; sys.exit(main())",
        *args,
    ]


@pytest.fixture
def is_fresh():
    """Whether each command of the test starts an interpreter: a file overrides it that needs so."""
    return False


@pytest.fixture
def start_prsm(is_fresh):
    """Start a command and leave it running; it is ended with the test."""
    started = []

    def start(*args, **options):
        forks = fork_server()
        if not is_fresh and forks.fits() and options in ({}, {"stdin": subprocess.PIPE}):
            process: Any = forks.start(args, **options)
        else:
            none = {"stdin": subprocess.DEVNULL}
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = subprocess.Popen(command(*args), **{**none, **pipes, **options})
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=DEADLINE)
        if isinstance(process, Forked):
            process.close()


@pytest.fixture
def prsm_process(start_prsm):
    """Run a command in a process of its own, without a terminal."""

    def run(*args, stdin=b""):
        process = start_prsm(*args, stdin=subprocess.PIPE)
        out, err = process.communicate(stdin, timeout=DEADLINE)
        return Done(process.returncode, out.decode(), err.decode())

    return run


@pytest.fixture
def puppets(tmp_path, monkeypatch):
    """Install the provider of puppet_plugin.py for the processes of the test."""
    site = tmp_path / "site"
    info = site / "prsm_puppet-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("puppet_plugin.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prsm-puppet\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[prsm]\npuppet = puppet_plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PRSM_PLUGINS", "puppet")


@pytest.fixture
def ledger(workspace):
    """Where the workspace's ledger lies."""
    path = ledger_path(resolve_paths(workspace, os.environ), repo_identity(workspace).key)
    path.parent.mkdir(parents=True)
    return path


def event(steps, name, kind, /, **data):
    return Event(
        type=kind,
        session=steps.session,
        run=steps.run,
        ts=1000.0,
        agent=name and steps.agent(name),
        data=data,
    )


async def _record(path, session):
    steps = Steps(session)
    async with await SqliteStore.open(path) as store:
        await store.commit(steps.run_started())
        await store.commit(steps.spawn("master"))
        await store.commit(steps.spawn("w1", "master"))
        turn = steps.turn("w1")
        await store.commit(steps.step("w1", turn))
        await store.append(
            [
                event(steps, "w1", "message_completed", turn="t", role="user", text="count"),
                event(steps, "w1", "message_completed", turn="t", **ANSWER),
                event(steps, "w1", "tool_call_started", call="c", **CALL),
                event(steps, "w1", "tool_call_finished", call="c", **RESULT),
            ]
        )
        await store.commit(steps.close_turn(turn, "w1"))
        await store.commit(
            steps.end(
                "w1",
                target=AgentState.KILLED,
                result=AgentResult(agent_id=steps.agent("w1"), success=False, summary="x"),
            )
        )
    return steps


@pytest.fixture
def session(ledger):
    """A session s1 with a live master and an ended worker."""
    return asyncio.run(_record(ledger, "s1"))


@pytest.fixture
def record(ledger):
    """Record one more session like `session`."""
    return lambda name: asyncio.run(_record(ledger, name))
