"""walks: the functions and files that one value passes in a scripted run of the real engine."""

from __future__ import annotations

import asyncio
import inspect
import sys
import tempfile
import threading
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prsm_demo.script.session import ScriptSession

from benchmarks.harness import Finding
from prsm_core.app import open_app
from prsm_core.builtin import BUILTINS
from prsm_core.config import resolve_paths
from prsm_core.config.schema import Settings
from prsm_core.engine.agents.life import SessionHost
from prsm_core.engine.door.local import LocalAgents, LocalRuns
from prsm_core.engine.engine import OrchestrationEngine
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
from prsm_core.plugins import PluginManager

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
    from types import FrameType

    from benchmarks.harness import Plan
    from prsm_core.engine.door.local import LocalApp

LIMIT_SECONDS = 30.0
# The deepest nesting that is searched, and the most members of one collection.
DEPTH, MEMBERS = 4, 60
# The provider holds the script, so the texts of all values, from the start.
PROVIDER = ScriptSession.__module__.rpartition(".")[0]
# Texts that occur nowhere else, each of which is followed.
TASK, QUESTION, COMMAND = "walked-task", "walked-question", "touch walked-file"
# What the lead's child does when the session is left; the lead is in a turn and silent.
WAITS = {"timeout": 3600}
SCENARIO = f"""
lanes:
  master:
    steps:
      - call: {{tool: spawn_child, arguments: {{name: asker, prompt: Ask.}}}}
      - call: {{tool: wait_for_message, id: question}}
      - call:
          tool: respond_to_child
          arguments:
            child_id: asker
            correlation_id: ${{question.correlation_id}}
            response: This one.
      - call: {{tool: wait_for_message}}
      - call: {{tool: spawn_child, arguments: {{name: killed, prompt: Sleep.}}}}
      - call: {{tool: wait_for_message}}
      - call: {{tool: spawn_child, arguments: {{name: waiting, prompt: Wait.}}}}
      - {{delay: 1000, call: {{tool: wait_for_message}}}}
  asker:
    steps:
      - call: {{tool: ask_parent, arguments: {{question: {QUESTION}}}}}
      - shell: {COMMAND}
      - call: {{tool: task_complete, arguments: {{summary: It is done.}}}}
  killed:
    steps:
      - shell: touch ../begun; sleep 1000
  waiting:
    steps:
      - call: {{tool: wait_for_message, arguments: {WAITS}}}
"""


class Walk:
    """The functions that a value passes, or all that are called, from a call on until an end.

    A function passes it whose arguments hold it, `self` and `cls` aside. It is searched for in
    texts, bytes and collections, and in the fields of structs and dataclasses. Modules, classes
    and comprehensions are no functions.
    """

    def __init__(
        self,
        name: str,
        text: str | None = None,
        *,
        begin: Callable[..., Any],
        end: Callable[[FrameType], bool] | None = None,
    ) -> None:
        """Describe a walk.

        Args:
            name: What is followed.
            text: The value; None: every call counts.
            begin: The function whose first call, with the value, opens the walk.
            end: Whether a call closes it; None: it is closed by `close`.
        """
        self.name = name
        self._text = text
        self._begin = inspect.unwrap(begin).__code__
        self._end = end
        self._is_open = False
        self.functions: dict[tuple[str, int, str], None] = {}
        self.types: set[str] = set()
        self.closed = asyncio.Event()

    @property
    def files(self) -> set[str]:
        """The files of the functions."""
        return {file for file, _, _ in self.functions}

    def see(self, frame: FrameType) -> None:
        """Take a call of the product into account."""
        code = frame.f_code
        if self.closed.is_set() or not (self._is_open or code is self._begin):
            return
        if self._is_open and self._end is not None and self._end(frame):
            self.close()
        elif _counts(frame):
            types = set() if self._text is None else _given(frame, self._text)
            if types or self._text is None:
                self._is_open = True
                self.types |= types
                self.functions[code.co_filename, code.co_firstlineno, code.co_qualname] = None

    def close(self) -> None:
        """Count nothing from now on."""
        self.closed.set()

    def findings(self) -> list[Finding]:
        """Return a line for each count."""
        counts = {"functions": len(self.functions), "files": len(self.files)}
        if self._text is not None:
            counts["types"] = len(self.types)
        return [
            Finding(benchmark="walks", case=f"{self.name}: {unit}", unit=unit, value=count)
            for unit, count in counts.items()
        ]


def _is_turn_of_the_lead(frame: FrameType) -> bool:
    """Whether a call is the one by which the master's session begins a turn or goes on with it."""
    is_turn = frame.f_code is ScriptSession.run_turn.__code__
    return is_turn and frame.f_locals["self"]._name == "master"


def _counts(frame: FrameType) -> bool:
    """Whether a call is one of a function of the product, other than the script's."""
    code, module = frame.f_code, frame.f_globals.get("__name__", "")
    is_function = code.co_flags & inspect.CO_OPTIMIZED
    is_comprehension = code.co_name.startswith("<") and code.co_name != "<lambda>"
    return bool(is_function) and not is_comprehension and not module.startswith(PROVIDER)


def _given(frame: FrameType, text: str) -> set[str]:
    """Return the types of the objects that hold the text in the first argument that does."""
    code = frame.f_code
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        if name not in {"self", "cls"} and name in frame.f_locals:
            held_by = _holders(frame.f_locals[name], text, DEPTH)
            if held_by:
                return held_by
    return set()


def _holders(value: Any, text: str, depth: int) -> set[str]:
    """Return the types of the objects on the way to a text; empty where it is not held."""
    own = {type(value).__name__}
    if isinstance(value, str):
        return own if text in value else set()
    if isinstance(value, bytes | bytearray):
        return own if text.encode() in value else set()
    if depth == 0 or isinstance(value, type):
        return set()
    for member in _members(value):
        held_by = _holders(member, text, depth - 1)
        if held_by:
            return own | held_by
    return set()


def _members(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())[:MEMBERS]
    if isinstance(value, list | tuple):
        return value[:MEMBERS]
    kind = type(value)
    fields: Iterable[str] = getattr(kind, "__struct_fields__", ())
    fields = fields or getattr(kind, "__dataclass_fields__", ())
    # A field without a value yet holds nothing.
    return [getattr(value, field, None) for field in fields]


@contextmanager
def _tracing(walks: Sequence[Walk]) -> Iterator[None]:
    """Show the walks each call of a module of the product, in this thread and in new ones."""

    def called(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").startswith("prsm_"):
            for walk in walks:
                walk.see(frame)

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def measure(plan: Plan) -> list[Finding]:
    """Count what each of five ways passes."""
    return [finding for walk in walk_all(plan.pairs) for finding in walk.findings()]


def walk_all(times: int) -> list[Walk]:
    """Return the five walks of one session, each the shortest of so many.

    The session is played once more before that. So what a process does once, such as imports, is in
    no count. What runs beside a walk, such as a look at the files, only makes it longer.
    """
    plays = [asyncio.run(_walked()) for _ in range(times + 1)]
    return [
        min(walks, key=lambda walk: len(walk.functions)) for walks in zip(*plays[1:], strict=True)
    ]


async def _walked() -> list[Walk]:
    end = _is_turn_of_the_lead
    walks = Walks(
        task=Walk("task", TASK, begin=LocalRuns.start, end=end),
        question=Walk("question", QUESTION, begin=SessionHost.call_tool),
        permission=Walk("permission", COMMAND, begin=SessionHost.authorize),
        kill=Walk("kill", begin=LocalAgents.kill),
        resume=Walk("resume", begin=OrchestrationEngine.resume, end=end),
    )
    with _tracing(walks):
        await _play(walks)
    return list(walks)


class Walks(NamedTuple):
    """The walks of one play."""

    task: Walk
    question: Walk
    permission: Walk
    kill: Walk
    resume: Walk


async def _play(walks: Walks) -> None:
    """Play a session that is left and resumed; open and close the walks that no call does."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with asyncio.timeout(LIMIT_SECONDS):
            async with _opened(folder) as app:
                session = (await app.runs.start(f"{TASK}: lead them.")).session
                await _until_made(folder / "begun")
                await app.agents.kill("killed")
                walks.kill.close()
                await _until_called(app, WAITS)
            walks.question.close()
            walks.permission.close()
            async with _opened(folder, session) as app:
                await app.runs.resume()
                await walks.resume.closed.wait()


@asynccontextmanager
async def _opened(folder: Path, session: str | None = None) -> AsyncIterator[LocalApp]:
    """Open a session, a new one or the one that is named, beside a person who allows all."""
    scenario = folder / "scenario.yaml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    environ = {"PRSM_HOME": str(folder / "home")}
    app = open_app(
        RunOptions(workspace=str(workspace), provider="script", session=session),
        Settings.of({"providers": {"script": {"scenario": str(scenario)}}}),
        PluginManager.load(environ={}, builtins=BUILTINS, enabled=False),
        paths=resolve_paths(workspace, environ),
        frontend=FrontendSpec(name="person", summary="", interactive=True, priority=0, factory=""),
    )
    async with app as opened, asyncio.TaskGroup() as group:
        person = group.create_task(_allow_all(opened))
        yield opened
        person.cancel()


async def _allow_all(app: LocalApp) -> None:
    async for event in app.events():
        if event.type == "permission_requested":
            await app.requests.resolve(event.data["request"], "once")


async def _until_made(mark: Path) -> None:
    """Wait until a command has made a file: nothing that it does before its end is an event."""
    while not await asyncio.to_thread(mark.exists):  # noqa: ASYNC110 - only a look can tell
        await asyncio.sleep(0.01)


async def _until_called(app: LocalApp, arguments: Mapping[str, Any]) -> None:
    """Wait until some agent has called a tool with these arguments."""
    async for event in app.events():
        if event.type == "tool_call_started" and event.data["arguments"] == arguments:
            return
