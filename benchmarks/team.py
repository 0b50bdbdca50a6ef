"""PRSM's full engine over a stub provider: every agent's model is a generator of tool calls.

How a scenario looks in both worlds: a generator here, a coroutine in `benchmarks.reference`.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_files.session.session_files import opens
from prsm_testing.memory_store import MemoryStore

from prsm_core.config import Settings
from prsm_core.domain.ids import Ids
from prsm_core.domain.turns import StepEnded, StopReason, TurnEnded
from prsm_core.engine.assembly import EngineConfig
from prsm_core.engine.engine import OrchestrationEngine
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.requests import HumanPolicy
from prsm_core.engine.tools.table import ToolTable
from prsm_core.interfaces.provider import Provider, ProviderSession, ProviderSpec
from prsm_core.kit.clocks import SystemClock
from prsm_core.permissions import PermissionBroker
from tests.command_policies import policy_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Mapping

    from prsm_core.domain.turns import AssembledContext, ProviderEvent
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import AgentHost, SessionRequest
    from prsm_core.interfaces.store import Store

    # Yields a tool and its arguments, is sent the data of the answer.
    Calls = Generator[tuple[str, dict[str, Any]], Any, None]
    Behave = Callable[[str], Calls]  # of the agent's prompt

DONE = ("task_complete", {"summary": "done"})


def collect(count: int) -> Calls:
    """Wait until so many messages have come, however many of them an answer holds."""
    while count > 0:
        answer = yield "wait_for_message", {}
        count -= 1 + len(answer.get("others", ()))


class StubSession(ProviderSession):
    """Plays one agent's generator: each model response is one call."""

    def __init__(self, behave: Behave, host: AgentHost) -> None:
        self._behave = behave
        self._host = host

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Make the calls, each told complete once the engine has it."""
        message = context.current_message
        calls = self._behave("" if message is None else message.content)
        call = next(calls, None)
        async with asyncio.TaskGroup() as group:
            while call is not None:
                answer = group.create_task(self._host.call_tool(*call))
                await asyncio.sleep(0)  # now the engine has it
                yield StepEnded()
                outcome = await answer
                if outcome.is_error:
                    raise RuntimeError(outcome.text)
                if outcome.ends_turn:
                    break
                call = self._next(calls, outcome.data)
        yield TurnEnded(StopReason.END_TURN)

    def _next(self, calls: Calls, data: Any) -> tuple[str, dict[str, Any]] | None:
        try:
            return calls.send(data)
        except StopIteration:
            return None


class StubProvider(Provider):
    """Gives every agent the same behaviour; it tells agents apart by their prompts."""

    def __init__(self, behave: Behave) -> None:
        self._behave = behave

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ProviderSession]:
        """Open a session at no cost."""
        yield StubSession(self._behave, host)


@dataclass(frozen=True, slots=True)
class Team:
    """A running engine and its store."""

    engine: OrchestrationEngine
    store: Store

    async def run(self, task: str = "lead", labels: Mapping[str, str] | None = None) -> None:
        """Run a task; raise unless it was completed."""
        result = await self.engine.run(task, labels=labels or {})
        if result.status != "completed":
            raise RuntimeError(f"the run was {result.status}: {result.error}")


@asynccontextmanager
async def open_team(
    behave: Behave,
    *,
    store: Store | None = None,
    settings: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    tools: ToolTable | None = None,
    workspace: str | None = None,
    provider: Provider | None = None,
) -> AsyncIterator[Team]:
    """Open an engine whose limits are far away, but checked.

    All agents behave like `behave`, or are those of `provider`. A `workspace` that is named is one
    that is trusted.
    """
    limits = {"max_agents_per_run": 100_000}
    sections = Settings.of({"engine": limits, **(settings or {})})
    clock = clock or SystemClock()
    tools = tools or ToolTable()
    with tempfile.TemporaryDirectory() as folder:
        async with ProcessLauncher(clock) as launcher:
            store = MemoryStore() if store is None else store
            stub = provider or StubProvider(behave)
            spec = ProviderSpec(
                name="stub", summary="a stub", factory=lambda _settings, _services: stub
            )
            config = EngineConfig(
                settings=sections,
                workspace=workspace or folder,
                trusted=workspace is not None,
                session_id="session",
                store=store,
                launcher=launcher,
                providers={"stub": spec},
                broker=PermissionBroker(
                    sections.permissions,
                    checks={},
                    orchestration=tools.names,
                    commands=policy_for(sections.permissions),
                ),
                tools=tools,
                human=HumanPolicy(interactive=False),
                clock=clock,
                ids=Ids(clock.time),
                state_dir=Path(folder),
                files=opens(None),
            )
            async with OrchestrationEngine(config) as running:
                yield Team(running, store)


def run_cost(behave: Behave) -> float:
    """Return the CPU seconds of one run, its engine being open already."""

    async def run() -> float:
        async with open_team(behave) as team:
            gc.collect()
            begin = time.process_time()
            await team.run()
            return time.process_time() - begin

    return asyncio.run(run())
