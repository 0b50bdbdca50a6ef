"""git by one helper process that is started once, for those who work in threads."""

from __future__ import annotations

import asyncio
import binascii
import json
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core import ProcessError
from prsm_core.kit import first_of
from prsm_files.session.git_helper import NO_FOLDER
from prsm_files.shadow.git import FolderGoneError, Output

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core import Clock
    from prsm_core.engine.processes.child import ChildProcess
    from prsm_core.files import ProcessLauncher

HELPER = Path(__file__).with_name("git_helper.py")
SECONDS = 900.0  # for one command of git: a first snapshot may read millions of lines
CLOSE_SECONDS = 2.0
STILL_SECONDS = 5.0  # in which git does nothing, before it is asked why
_KILLED = frozenset({128 + signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGINT})


class GitHelper:
    """Runs git for threads other than the loop's, one command at a time; a `Git`."""

    def __init__(self, process: ChildProcess, clock: Clock) -> None:
        self._process = process
        self._clock = clock
        self._lines = process.lines()
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()

    @property
    def has_ended(self) -> bool:
        """Whether its process has; another one is to be opened then."""
        return self._process.has_exited

    @property
    def is_busy(self) -> bool:
        """Whether a command runs."""
        return self._turn.locked()

    def __call__(
        self, args: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: bytes = b""
    ) -> Output:
        """Run git; see `shadow.git.Git`. Raises ProcessError."""
        request = {
            "args": [_text(word) for word in args],
            "cwd": _text(cwd),
            "env": {_text(name): _text(value) for name, value in env.items()},
            "stdin": binascii.b2a_base64(stdin, newline=False).decode("ascii"),
        }
        line = json.dumps(request).encode("ascii") + b"\n"
        done = asyncio.run_coroutine_threadsafe(self._run(line), self._loop).result()
        if done.code == NO_FOLDER:
            raise FolderGoneError(cwd, done.err.decode(errors="replace"))
        return done

    async def _run(self, request: bytes) -> Output:
        found: list[Output] = []

        async def ask() -> None:
            if self.has_ended:
                raise _ended()
            await self._process.write(request)
            found.append(await self._answer())

        async with self._turn:
            if not await first_of(self._clock, SECONDS, ask):
                self._process.kill()
                raise ProcessError(
                    f"git did not end within {SECONDS:.0f} seconds",
                    hint="look for a disk that does not answer",
                )
        return found[0]

    async def _answer(self) -> Output:
        head = json.loads(await self._line())
        out = b"".join([binascii.a2b_base64(await self._line()) for _ in range(head["out"])])
        err = b"".join([binascii.a2b_base64(await self._line()) for _ in range(head["err"])])
        if head["code"] is None:
            raise ProcessError(
                f"git cannot be started: {head['why']}",
                hint="install git, or put the folder it is in on PATH",
            )
        if head["code"] in _KILLED:  # it says nothing of what it was asked
            raise ProcessError("git was ended in the middle of a command", hint="try again")
        return Output(head["code"], out, err)

    async def _line(self) -> bytes:
        try:
            return await anext(self._lines)
        except StopAsyncIteration:
            raise _ended() from None


@asynccontextmanager
async def open_git(
    launcher: ProcessLauncher, clock: Clock, *, still_seconds: float = STILL_SECONDS
) -> AsyncIterator[GitHelper]:
    """Start the helper, and end it with the block, also in the middle of a command."""
    process = await launcher.start(
        (sys.executable, "-I", "-S", str(HELPER), str(still_seconds)),
        name="git helper",
        cwd="/",
        is_own=True,
    )
    helper = GitHelper(process, clock)
    try:
        yield helper
    finally:
        process.close_stdin()
        if helper.is_busy or not await process.exits_within(CLOSE_SECONDS):
            process.kill()
        await process.wait()


def _ended() -> ProcessError:
    return ProcessError("the process that runs git has ended", hint="try again; nothing is lost")


def _text(value: str) -> str:
    """Return a text of which each character is one byte of the value."""
    return value.encode("utf-8", "surrogateescape").decode("latin-1")
