"""A workspace and a home of their own, and commands of `prsm` that run there."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shlex
import signal
import sys
import termios
from asyncio import subprocess
from asyncio.streams import FlowControlMixin
from functools import partial
from pathlib import Path

from prsm_core.engine.control.client import open_control
from prsm_core.engine.control.session_lock import find_owner
from tests.forking import fork_server

DEADLINE = 40.0  # real seconds; a test that needs them has failed
MAIN = "import sys; from prsm_core.cli import main; sys.exit(main())"


class ForkedProcess:
    """A forked command: what the tests use of an asyncio subprocess with pipes."""

    def __init__(self, forked, transports, stdin, stdout, stderr):
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.pid, self.kill = forked.pid, forked.kill
        self.terminate, self.send_signal = forked.terminate, forked.send_signal
        self._forked, self._transports = forked, transports

    @classmethod
    async def start(cls, args, folder, env):
        """Fork a command in a folder."""
        forked = fork_server().start(args, stdin=subprocess.PIPE, cwd=folder, env=env)
        loop = asyncio.get_running_loop()
        readers = asyncio.StreamReader(), asyncio.StreamReader()
        transports: list[asyncio.BaseTransport] = []
        for reader, pipe in zip(readers, (forked.stdout, forked.stderr), strict=True):
            made = partial(asyncio.StreamReaderProtocol, reader)
            transports.append((await loop.connect_read_pipe(made, pipe))[0])
        into, protocol = await loop.connect_write_pipe(FlowControlMixin, forked.stdin)
        writer = asyncio.StreamWriter(into, protocol, None, loop)
        return cls(forked, [*transports, into], writer, *readers)

    @property
    def returncode(self):
        """The code of its end; None where it runs."""
        return self._forked.poll()

    async def wait(self):
        """Return the code of its end."""
        if self.returncode is None:
            await _readable(os.dup(self._forked.fileno()))
        return self._forked.wait()

    async def communicate(self):
        """Give it no input; return what it writes until it has ended."""
        self.stdin.close()
        out, err = await self.stdout.read(), await self.stderr.read()
        await self.wait()
        return out, err

    def close(self):
        """Let go of its streams."""
        for transport in self._transports:
            transport.close()
        self._forked.close()


class Place:
    """A workspace, a home for PRSM, and the script of the agents."""

    def __init__(self, folder: Path):
        self.home = folder / "home"
        self.workspace = folder / "work"
        self.scenario = folder / "scenario.json"
        self.workspace.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PRSM")}
        self.env = {**kept, "PRSM_HOME": str(self.home), "PRSM_PLUGINS": ""}

    def script(self, **lanes) -> None:
        """Write what each agent does, by its name."""
        steps = {name: {"steps": lane} for name, lane in lanes.items()}
        self.scenario.write_text(json.dumps({"lanes": steps}))

    async def start(self, *args, through=(), **options):
        """Start a command of `prsm` in the workspace; its streams are pipes unless given."""
        argv = (*through, sys.executable, "-c", MAIN, *args)
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return await asyncio.create_subprocess_exec(
            *argv, cwd=self.workspace, env=self.env, **{**pipes, **options}
        )

    @contextlib.asynccontextmanager
    async def running(self, *args, **options):
        """Start a command that is ended on leaving, if it has not ended by then."""
        forks = fork_server()
        if options.get("through") or options.keys() - {"through"} or not forks.fits(self.env):
            process = await self.start(*args, **options)
        else:
            process = await ForkedProcess.start(args, self.workspace, self.env)
        try:
            async with asyncio.timeout(DEADLINE):
                yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            if isinstance(process, ForkedProcess):
                process.close()

    async def run(self, *args):
        """Run a command of `prsm` to its end; return its exit code and what it wrote."""
        if fork_server().fits(self.env):
            return await self._run_forked(args)
        process = await self.start(*args, stdin=subprocess.DEVNULL)
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    async def _run_forked(self, args, **options):
        forked = fork_server().start(args, cwd=self.workspace, env=self.env, **options)
        try:
            out, err = await asyncio.to_thread(forked.communicate, b"", DEADLINE)
        finally:
            forked.close()
        return forked.returncode, out.decode(), err.decode()

    async def run_in_terminal(self, *args):
        """Do what `run` does, as a person in a terminal of their own."""
        person, program = os.openpty()
        try:
            if fork_server().fits(self.env):
                return await self._run_forked(args, stdin=program, session="terminal")
            options = {"stdin": program, **own_terminal(program)}
            process = await self.start(*args, **options)
            out, err = await process.communicate()
        finally:
            os.close(program)
            os.close(person)
        return process.returncode, out.decode(), err.decode()

    async def run_as_daemon(self, *args):
        """Do what `run` does in a session of its own whose leader has died; 1 stands for failed."""
        command = shlex.join((sys.executable, "-c", MAIN, *args))
        line = f"setsid bash -c {shlex.quote(f'({command} || echo failed) &')}"
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            line,
            cwd=self.workspace,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await process.communicate()
        return int(out == b"failed\n"), out.decode(), err.decode()

    async def events(self, kind=None, **fields):
        """Return the data of the newest session's events, of one type if given."""
        _, out, _ = await self.run("events", "--json")
        rows = [json.loads(line) for line in out.splitlines()]
        return [
            row
            for row in rows
            if kind in {None, row["type"]} and all(row[key] == fields[key] for key in fields)
        ]

    async def states(self):
        """Return the states of the newest session's agents by name."""
        _, out, _ = await self.run("tree", "--json")
        found, nodes = {}, json.loads(out)["agents"]
        while nodes:
            node = nodes.pop(0)
            found[node["name"]] = node["state"]
            nodes += node["children"]
        return found

    def sessions(self):
        """Return the sessions that somebody owns now."""
        return sorted(path.stem for path in self.home.rglob("runs/*.lock"))

    def control(self, session):
        """Open the control socket of a session."""
        [runs] = self.home.rglob("runs")
        return open_control(runs.parent, session)

    def processes(self) -> list[int]:
        """Return the live processes that work in the workspace."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    if (entry / "cwd").readlink() == self.workspace and state not in "ZX":
                        found.append(int(entry.name))
        return found

    def owner(self, session: str) -> int:
        """Return the process that owns a session, as its lock names it."""
        [runs] = self.home.rglob("runs")
        owner = find_owner(runs.parent, session)
        assert owner is not None, f"nobody owns {session}"
        return owner.process.pid

    def kill(self, *, but: int | None = None) -> None:
        """Kill them; what an engine has started may end with it meanwhile."""
        for pid in self.processes():
            if pid != but:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    async def until_gone(self) -> None:
        """Return when no process works in the workspace any more."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                await _readable(os.pidfd_open(pid))

    def bell(self):
        """Return a shell command for a script, and what waits until it has been run."""
        path = self.workspace.with_name("bell")
        os.mkfifo(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        return f"echo > {path}", lambda: _readable(descriptor)


def own_terminal(descriptor):
    """Return options that make a terminal the one of a process and of all that it starts."""

    def take():
        fcntl.ioctl(descriptor, termios.TIOCSCTTY)

    return {"start_new_session": True, "preexec_fn": take}


async def _readable(descriptor: int) -> None:
    """Wait until a descriptor has something to say, and close it."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
