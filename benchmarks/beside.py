"""beside: what an agent's provider costs the engine, beside the program that it runs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_testing.doubles import RecordingHost, open_services, run_turn, session_request

from benchmarks.harness import Finding, compare, compared, cpu_seconds
from prsm_core.domain.turns import AssistantMessage, StopReason, TurnEnded
from prsm_core.engine.processes.launcher import install_child_watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prsm_testing.doubles import LocalServices

    from benchmarks.harness import Plan
    from prsm_core.interfaces.provider import Provider

GOAL_MS = 5.0
GOAL_RATIO = 1.25
AGENTS = 20  # of one measurement
PLUGINS = Path(__file__).parents[1] / "plugins"
ANSWER = "It is done and all is well."  # it comes word by word


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A provider, and the small program of its tests that stands for the vendor's.

    build: A function that builds the provider, as module:name.
    program: Where the small program is, below `plugins`.
    url: Which of the model server's addresses it is told: base_url or root_url.
    starts: The processes that the engine starts for an agent.
    settings: What else stands in the provider's section.
    """

    build: str
    program: str
    url: str
    starts: int = 1
    settings: dict[str, Any] = field(default_factory=dict)


_CLAUDE_HOME = {"env": {"HOME": os.devnull}}  # the user's own is none of its business
_HEADLESS = {"backend": "headless", "env": {"GEMINI_API_KEY": "none"}}
SUBJECTS = {
    "codex": Subject(
        build="prsm_codex.provider:build",
        program="prsm_codex/tests/fake_codex.py",
        url="base_url",
        starts=0,  # one app-server is there for all
    ),
    "claude": Subject(
        build="prsm_claude.provider:build",
        program="prsm_claude/tests/fake_claude.py",
        url="root_url",
        settings=_CLAUDE_HOME,
    ),
    "gemini": Subject(
        build="plugins.prsm_gemini.tests.over_acp:build_fake",
        program="prsm_acp/tests/fake_acp.py",
        url="base_url",
    ),
    "gemini, headless": Subject(
        build="prsm_gemini.provider:build",
        program="prsm_gemini/tests/fake_gemini.py",
        url="root_url",
        settings=_HEADLESS,
    ),
    "acp": Subject(
        build="plugins.prsm_acp.tests.fake_manifest:build_fake",
        program="prsm_acp/tests/fake_acp.py",
        url="base_url",
    ),
}


def measure(plan: Plan) -> list[Finding]:
    """Measure an agent of each provider.

    The reference is a bare process that answers a line: its start is the engine's own affair and
    is taken off.
    """
    install_child_watcher()  # as every run does
    return [*(_of_one(name, subject, plan) for name, subject in SUBJECTS.items()), _sdk(plan)]


def _of_one(name: str, subject: Subject, plan: Plan) -> Finding:
    count = plan.count(AGENTS)
    with _open_agents(subject, count * (plan.pairs + 1)) as (agents, _):
        value, base, _ = compare(
            lambda: _ms_of_one(agents.live, count),
            lambda: _ms_of_one(agents.bare, count),
            plan.pairs,
        )
    return Finding(
        benchmark="beside",
        case=f"an agent of {name}",
        unit="ms",
        value=value - subject.starts * base,
        reference=base,
        goal=GOAL_MS,
    )


def _sdk(plan: Plan) -> Finding:
    """Compare an agent of Claude with one of a plain program on the vendor's SDK."""
    from benchmarks.bare_sdk import BareSdk

    count = plan.count(AGENTS)
    subject = SUBJECTS["claude"]
    with _open_agents(subject, 2 * count * (plan.pairs + 1)) as (agents, url):
        plain = BareSdk(agents.folder, PLUGINS / subject.program, url)
        return compared(
            "beside",
            "an agent of claude against the SDK",
            lambda: _ms_of_one(agents.live, count),
            lambda: _ms_of_one(partial(plain.live, agents.runner), count),
            plan,
            goal=GOAL_RATIO,
            unit="ms",
        )


def _ms_of_one(live: Callable[[int], None], count: int) -> float:
    return 1e3 * cpu_seconds(lambda: live(count)) / count


@contextmanager
def _open_agents(subject: Subject, turns: int) -> Iterator[tuple[Agents, str]]:
    """Yield the agents of a provider, and the URL of the model that they talk with."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _model(Path(folder), turns) as urls,
        asyncio.Runner() as runner,
    ):
        agents = Agents(runner, Path(folder))
        agents.open(subject, urls[subject.url])
        try:
            yield agents, urls[subject.url]
        finally:
            agents.close()


class Agents:
    """Owns a provider and its services for as long as agents are measured."""

    def __init__(self, runner: asyncio.Runner, folder: Path) -> None:
        self.runner = runner
        self.folder = folder
        self._stack = AsyncExitStack()
        self._services: LocalServices
        self._provider: Provider
        self._born = 0

    def open(self, subject: Subject, url: str) -> None:
        """Build the provider."""
        module, _, name = subject.build.partition(":")
        build: Callable[..., Provider] = getattr(import_module(module), name)
        program = [sys.executable, "-I", "-S", str(PLUGINS / subject.program)]
        settings = {"command": program, "base_url": url, **subject.settings}
        services = open_services(self.folder / "state")
        self._services = self.runner.run(self._stack.enter_async_context(services))
        self._provider = build(settings, self._services)
        self._stack.push_async_callback(self._provider.aclose)

    def close(self) -> None:
        """End what still runs."""
        self.runner.run(self._stack.aclose())

    def live(self, count: int) -> None:
        """Let agents live one after the other, each for one turn."""
        self.runner.run(self._live(count))

    async def _live(self, count: int) -> None:
        for _ in range(count):
            self._born += 1
            request = session_request(self.folder, agent_id=f"{self._born:032x}")
            async with self._provider.open_session(request, RecordingHost()) as session:
                events = await run_turn(session, "Do it.")
            _check(events)

    def bare(self, count: int) -> None:
        """Let bare processes answer a line each."""
        self.runner.run(self._bare(count))

    async def _bare(self, count: int) -> None:
        for _ in range(count):
            process = await self._services.start_process(["cat"], name="cat")
            await process.write(b"{}\n")
            process.close_stdin()
            async for _line in process.lines():
                pass
            await process.wait()


def _check(events: list[Any]) -> None:
    """Raise RuntimeError unless the turn was the whole one."""
    ended = events[-1]
    said = [event.text.strip() for event in events if isinstance(event, AssistantMessage)]
    is_whole = isinstance(ended, TurnEnded) and ended.stop_reason is StopReason.END_TURN
    if not is_whole or said != [ANSWER]:
        raise RuntimeError(f"the turn was not what it should be: {events[-3:]}")


@contextmanager
def _model(folder: Path, turns: int) -> Iterator[dict[str, str]]:
    """Serve the model in a process of its own, so that its CPU time is not ours."""
    scenario = folder / "scenario.json"
    lane = {"marker": "", "steps": [{"say": ANSWER}] * turns}
    scenario.write_text(json.dumps({"lanes": {"agent": lane}}), encoding="utf-8")
    argv = [sys.executable, "-m", "prsm_testing.model_server", str(scenario)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        try:
            if server.stdout is None:
                raise RuntimeError("the model server has no stdout")
            base_url = json.loads(server.stdout.readline())["base_url"]
            yield {"base_url": base_url, "root_url": base_url.removesuffix("/v1")}
        finally:
            server.terminate()
            server.communicate()
