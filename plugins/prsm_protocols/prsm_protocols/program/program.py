"""One turn of a program: it is started, prompted in each state, watched, and started again.

It is told which state it is in, and decides for itself what to do. Where it ends without a move, is
killed or falls silent, it is started again in the state that the agent is in by then, a few times;
then the agent fails.

In a box it sees its own folder at /run/prsm and at /protocols the pages that the agent is pinned
to, both read-only. Claude Code writes session logs into the agent's home: a line of JSON for each
part of a response, with the response's id and its usage so far. What has grown since the last look
is reported.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from prsm_core import (
    AssistantMessage,
    Box,
    LineTooLongError,
    OrchestrationError,
    ProcessError,
    Provenance,
    StepEnded,
    TextDelta,
    TokenUsage,
    UsageReported,
)
from prsm_core.kit import Ending, Exit, deadline, one_line, token_count
from prsm_protocols.kept import Kept
from prsm_protocols.program.words import first_prompt, next_sentence, prompt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from prsm_core import AgentHost, Process, ProviderEvent, ProviderServices, SessionRequest
    from prsm_protocols.bridge.desk import Desk
    from prsm_protocols.program.config import ProgramConfig
    from prsm_protocols.program.home import Home

    Tell = Callable[[ProviderEvent], Awaitable[None]]
    Note = Callable[[Mapping[str, Any]], Awaitable[None]]

LOOK_SECONDS = 1.0  # between two looks at a state whose time is over
END_SECONDS = 3.0  # that a program has to end in, once its task is done
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0  # seconds before it is started again
SAID = 16 * 1024  # characters of its output in a state that are kept
UNREAD = 64  # prompts that it may leave unread; of more the oldest is dropped, for it is moot

RUN, PROTOCOLS = "/run/prsm", "/protocols"
PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a program is started.

    Attributes:
        environment: What is the same for each start.
        folder: Of the pages of the workspace, for an agent without a version of its own.
        box: The box, without the pages; None: it has none.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    folder: Path
    box: Box | None

    def pages(self, here: Mapping[str, Any] | None) -> tuple[Path, str]:
        """Return the folder of the pages that hold for the agent, and where its program sees it."""
        version = (here or {}).get("version")
        folder = Kept().folder(version.rpartition("@")[2]) if version else self.folder
        return folder, str(folder) if self.box is None else PROTOCOLS

    def options(self, here: Mapping[str, Any] | None, token: str) -> dict[str, Any]:
        """Return the environment of one start, and its box, as `start_process` takes them."""
        folder, seen = self.pages(here)
        environment = {**self.environment, "PRSM_PROTOCOLS": seen, "PRSM_TOKEN": token}
        if self.box is None:
            return {"env": environment}
        pages = {PROTOCOLS: os.path.realpath(folder)} if folder.is_dir() else {}
        box = replace(self.box, mounts={**self.box.mounts, **pages})
        return {"env": environment, "box": box}


def plan_start(
    config: ProgramConfig, request: SessionRequest, home: Home, run: str, redis: str | None
) -> Start:
    """Return how an agent's program is started.

    `run` is where it finds aism without a box, `redis` the URL by which it asks; None: by its
    socket. Raises ModelNotAvailableError for a model's name that stands for no program.
    """
    workspace = request.workspace or request.cwd
    box = _box(config, request.box or Box(), home) if config.box or request.box else None
    run, path = (run, os.environ.get("PATH", PATH)) if box is None else (RUN, PATH)
    environment = {
        **config.env,
        "AGENT_ID": request.agent_id,
        "AGENT_NAME": request.name,
        "HOME": os.path.realpath(home.home),
        "PATH": f"{run}:{config.env.get('PATH') or path}",
    }
    if redis is None:
        environment["PRSM_SOCKET"] = f"{run}/{home.socket.name}"
    else:
        environment["PRSM_REDIS"] = redis
    return Start(
        argv=config.argv_of(request.model),
        cwd=request.cwd,
        environment=environment,
        folder=Path(config.protocols or Path(workspace) / ".prism" / "protocols").absolute(),
        box=box,
    )


def _box(config: ProgramConfig, wanted: Box, home: Home) -> Box:
    """Return the box: what the section says, and where it says nothing what the engine's does."""
    mounts = {RUN: os.path.realpath(home.run), **config.mounts}
    if config.redis is not None and config.redis.startswith("unix:"):
        folder = str(config.socket_of_redis.parent)
        mounts[folder] = os.path.realpath(folder)
    return Box(
        memory=config.memory or wanted.memory,
        cpus=config.cpus or wanted.cpus,
        pids=config.pids or wanted.pids,
        network=config.network or wanted.network,
        mounts={**wanted.mounts, **mounts},
        writable=(*wanted.writable, os.path.realpath(home.home)),
    )


LOGS = ".claude/projects"
_KEYS = (
    *("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"),
)


class SessionLogs:
    """Owns how far the logs of one home were read, and what each response had used by then."""

    def __init__(self, home: Path) -> None:
        self._folder = home / LOGS
        self._read: dict[Path, int] = {}  # bytes of whole lines
        self._known: dict[str, Counter[str]] = {}  # by response

    async def skip(self) -> None:
        """Take what is there as told: an earlier engine has."""
        await asyncio.to_thread(self._grow)

    async def grown(self) -> UsageReported | None:
        """Return what was used since the last look; None where nothing was."""
        counts = await asyncio.to_thread(self._grow)
        return _report(counts) if counts else None

    def _grow(self) -> Counter[str]:
        grown: Counter[str] = Counter()
        for path in sorted(self._folder.glob("*/*.jsonl")):
            for line in self._new_lines(path):
                grown += self._growth(line)
        return grown

    def _new_lines(self, path: Path) -> list[bytes]:
        if path.is_symlink():  # it would lead out of the home
            return []
        begin = self._read.get(path, 0)
        with path.open("rb") as file:
            file.seek(begin)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read[path] = begin + len(whole) + len(end)
        return whole.splitlines()

    def _growth(self, line: bytes) -> Counter[str]:
        """Return by how much a line makes the counts of its response grow."""
        try:
            message = msgspec.json.decode(line, type=_Line).message
        except msgspec.DecodeError:
            return Counter()
        if not message.id or not message.usage:
            return Counter()
        known = self._known.get(message.id, Counter())
        counts = Counter({key: token_count(message.usage.get(key)) or 0 for key in _KEYS})
        self._known[message.id] = newest = known | counts
        return newest - known


class _Message(msgspec.Struct):
    id: str = ""
    usage: dict[str, Any] | None = None


class _Line(msgspec.Struct):
    message: _Message


def _report(counts: Counter[str]) -> UsageReported:
    fresh, cached, written, output = (counts[key] for key in _KEYS)
    used = TokenUsage(
        input_tokens=fresh + cached + written,
        output_tokens=output,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        total_tokens=counts.total(),
    )
    return UsageReported(used, provenance=Provenance.REPORTED)


class Program:
    """Owns the running process of one agent, and what was said to it."""

    def __init__(
        self,
        name: str,
        task: str,
        config: ProgramConfig,
        start: Start,
        *,
        desk: Desk,
        host: AgentHost,
        services: ProviderServices,
        tell: Tell,
        note: Note,
    ) -> None:
        self.name = name
        self._task = task
        self._config = config
        self._start = start
        self._desk = desk
        self._host = host
        self._services = services
        self._tell = tell
        self._note = note  # told of each state
        self._here: Mapping[str, Any] | None = None
        self._texts: list[str] = []  # said to it in this state
        self._unread: deque[bytes] = deque(maxlen=UNREAD)
        self._to_read = asyncio.Event()
        self._said: deque[str] = deque()  # its output in this state
        self._said_size = 0
        self._last = ""  # what it wrote last, as a message
        self._has_moved = False
        self._was_silent = False
        self._failures = 0
        self._done = asyncio.Event()
        self._elsewhere = asyncio.Event()  # it has moved

    @property
    def _where(self) -> str:
        return "" if self._here is None else f" in state '{self._here['state']}'"

    @property
    def _is_continued(self) -> bool:
        """Whether the running program is prompted after a move, and not another one started."""
        told = (self._here or {}).get("session")
        return (self._config.session or told or "continued") == "continued"

    @property
    def _is_final(self) -> bool:
        """Whether no move leads out of the state, so that its end is the agent's."""
        return self._here is None or not self._here.get("moves")

    def say(self, text: str) -> None:
        """Say something to the program: now, and again wherever it is started again."""
        self._texts.append(text)
        if self._is_continued:
            self._prompt(prompt(text))

    def _prompt(self, told: bytes) -> None:
        self._unread.append(told)
        self._to_read.set()

    async def run(self) -> None:
        """Run it until the agent is done; raise OrchestrationError where it cannot go on."""
        self._here = await self._desk.look()
        if self._here is not None:
            await self._note(self._here)
        while not self._done.is_set():
            ending = await self._once()
            if self._done.is_set():
                return
            if ending is None and self._has_moved:
                continue  # its work in a state is done; another one works in the next
            if ending is None and self._is_final:
                ending = await self._finish()
            if not self._done.is_set():
                await self._pause(ending or Ending(why="it ended, and made no move"))

    async def _pause(self, ending: Ending) -> None:
        """Wait after a start that came to nothing. Raises OrchestrationError after the last one."""
        self._failures += 1
        if self._failures > self._config.restarts:
            raise OrchestrationError(
                f"the program of {self.name} came to nothing{self._where}, "
                f"{self._failures} times: {one_line(ending.why)}",
                hint=f"look at what it writes to stderr: {ending.tail[-500:] or 'nothing'}",
                code="program_failed",
            )
        pause = min(FIRST_PAUSE * 2 ** (self._failures - 1), LONGEST_PAUSE)
        self._texts.append(f"You were started again: {one_line(ending.why)}.")
        await self._services.clock.sleep(pause)

    async def _once(self) -> Ending | None:
        """Start it, and be with it until it has ended; None: it ended by itself, and well."""
        self._has_moved = self._was_silent = False
        process = await self._begin(self._desk.admit(self))
        watchers = (self._prompted, self._watched, self._timed, self._ended)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(watcher(process)) for watcher in watchers]
                code = await self._heard(process)
                for task in tasks:
                    task.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None  # of whoever was first to see it
        finally:
            self._desk.dismiss()
            process.kill()
            await process.wait()  # who closes the session waits for that
        if not self._done.is_set():
            await self._tell_said()
        if self._was_silent:
            return Ending.of(f"it gave no sign of life for {self._config.silence:g} s", process)
        return None if code == 0 else Ending.of(str(Exit(code)), process)

    async def _begin(self, token: str) -> Process:
        start = self._start
        options = start.options(self._here, token)
        process = await self._services.start_process(
            start.argv, name=self.name, cwd=start.cwd, **options
        )
        self._unread.clear()
        given = (self._here, options["env"]["PRSM_PROTOCOLS"], self._task, self._texts)
        self._prompt(first_prompt(self.name, *given))
        return process

    async def _prompted(self, process: Process) -> None:
        """Write prompts as they come; one that never reads them is told its state by aism."""
        try:
            while True:
                await self._to_read.wait()
                self._to_read.clear()
                while self._unread:
                    await process.write(self._unread.popleft())
                if not self._is_continued:
                    process.close_stdin()
                    return
        except ProcessError:  # it has closed its stdin, which it may
            return

    async def _watched(self, process: Process) -> None:
        """End it where it gives no sign of life for too long."""
        clock, desk, limit = self._services.clock, self._desk, self._config.silence
        while True:
            quiet = 0.0 if desk.waiting else clock.now() - desk.beat
            if quiet >= limit:
                self._was_silent = True
                process.kill()
                return
            await clock.sleep(limit - quiet)

    async def _timed(self, _: Process) -> None:
        """Look at the state when its time is over: its page may say where to go then."""
        while True:
            within = (self._here or {}).get("within")
            if within is None:
                await self._elsewhere.wait()
                self._elsewhere.clear()
                continue
            await self._services.clock.sleep(max(float(within["seconds"]), LOOK_SECONDS))
            await self._desk.look()

    async def _ended(self, process: Process) -> None:
        """End it once its task is done, if it does not end by itself."""
        await self._done.wait()
        process.close_stdin()
        try:
            async with deadline(self._services, END_SECONDS):
                await process.wait()
        except TimeoutError:
            await process.stop()

    async def _heard(self, process: Process) -> int:
        """Take what it writes until it has ended; return its exit code."""
        try:
            async for line in process.lines():
                self._desk.beat = self._services.clock.now()
                text = line.decode(errors="replace")
                self._keep(text)
                await self._tell(TextDelta(f"{text}\n"))
        except LineTooLongError:
            process.kill()
        return await process.wait()

    def _keep(self, text: str) -> None:
        self._said.append(text[-SAID:])
        self._said_size += len(self._said[-1])
        while self._said_size > SAID and len(self._said) > 1:
            self._said_size -= len(self._said.popleft())

    async def _tell_said(self) -> None:
        """Tell what it has written as one message, and that a step is over."""
        said, self._said, self._said_size = "\n".join(self._said).strip(), deque(), 0
        if said:
            self._last = said
            await self._tell(AssistantMessage(said))
        await self._tell(StepEnded())

    async def _finish(self) -> Ending | None:
        """End the agent, whose program has ended well in a final state; return why it cannot."""
        summary = self._last or f"{self.name} has ended{self._where}."
        call_id = f"end-{self._failures}-{self._services.clock.now():.6f}"
        outcome = await self._host.call_tool("task_complete", {"summary": summary}, call_id=call_id)
        if outcome.is_error:
            return Ending(why=f"it cannot end yet: {outcome.text}")
        self._done.set()
        return None

    async def moved(self, here: Mapping[str, Any]) -> None:
        """Prompt it in its new state; see Ear."""
        self._here, self._has_moved, self._failures = here, True, 0
        self._texts.clear()
        self._elsewhere.set()
        await self._note(here)
        await self._tell_said()
        if self._is_continued:
            self._prompt(prompt(next_sentence(here)))

    async def completed(self, summary: str) -> None:
        """Let it end; see Ear."""
        await self._tell_said()
        await self._tell(AssistantMessage(summary))
        self._done.set()

    async def alive(self) -> None:
        """Give the engine a sign of life; see Ear."""
        await self._tell(TextDelta(""))

    async def step(self, event: StepEnded) -> None:
        """Tell that a call waits; see Ear."""
        await self._tell(event)
