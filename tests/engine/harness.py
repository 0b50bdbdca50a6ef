"""A team of scripted agents on the real engine, ledger, router and tools.

A test gives each agent, by its name, an `async def behave(agent)`: what its model does in a turn.
Whatever a scenario does, `Ledger.check` must hold for what it left behind.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from prsm_files.session.session_files import opens
from prsm_testing.doubles import SANDBOX

from prsm_core.config.schema import Settings
from prsm_core.domain.ids import Ids
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.domain.tools import EDIT_TOOLS
from prsm_core.domain.turns import (
    AgentError,
    AssistantMessage,
    ErrorKind,
    StepEnded,
    StopReason,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage
from prsm_core.engine.assembly import EngineConfig
from prsm_core.engine.engine import OrchestrationEngine
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.engine.requests import HumanPolicy
from prsm_core.engine.tools.table import ToolTable
from prsm_core.interfaces.provider import (
    Provider,
    ProviderCapabilities,
    ProviderSession,
    ProviderSpec,
    ProviderStatus,
)
from prsm_core.kit.clocks import SystemClock
from prsm_core.permissions import Redactor
from tests.command_policies import POLICY
from tests.engine.held_store import HeldStore
from tests.engine.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from prsm_core.domain.images import Image
    from prsm_core.domain.turns import AssembledContext
    from prsm_core.permissions import PermissionBroker

    Behaviour = Callable[["Actor"], Awaitable[StopReason | None]]

DEADLINE = 20.0  # real seconds; a test that needs them has failed
SESSION = "session"
EXECUTOR = {"executor": SANDBOX}
NOT_ENDED = {"pending", "starting", "running", "waiting_for_parent"}


class TurnFailedError(Exception):
    """Raised by a behaviour: the turn ends with this error."""

    def __init__(self, error: AgentError, reason: StopReason = StopReason.ERROR) -> None:
        super().__init__(error.message)
        self.end = TurnEnded(reason, error)


def failed(message="it broke", *, kind=ErrorKind.MODEL_ERROR, retryable=False, after=None):
    """Return what a behaviour raises to end its turn with an error."""
    error = AgentError(kind=kind, message=message, retryable=retryable, retry_after_s=after)
    return TurnFailedError(error)


class Actor:
    """One turn of a scripted agent: what it hears, says and calls."""

    def __init__(self, session: ScriptedSession, context: AssembledContext) -> None:
        self.session = session
        self.context = context
        self.host = session.host
        self.name: str = session.request.name
        self.id: str = session.request.agent_id
        self.memory = session.provider.memory[self.id]  # kept over all turns and lives
        self.memory["turns"] = self.turn = self.memory.get("turns", 0) + 1
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.steered: asyncio.Queue[str] = asyncio.Queue()  # what the turn was told meanwhile
        self.shown: list[Image] = []  # with that

    @property
    def text(self) -> str | None:
        """What the turn was prompted with."""
        message = self.context.current_message
        return None if message is None else message.content

    async def tell(self, *events) -> None:
        """Stream events; returns when the engine has taken them."""
        for event in events:
            self.queue.put_nowait(event)
        await self.queue.join()

    async def say(self, text, thinking=None) -> None:
        await self.tell(AssistantMessage(text, thinking))

    async def begin_to_say(self, text) -> None:
        await self.tell(TextDelta(text))

    async def step_ended(self) -> None:
        await self.tell(StepEnded())

    async def use(self, cost_usd=None, **counts) -> None:
        await self.tell(UsageReported(TokenUsage(**counts), cost_usd))

    async def start_tool(self, call_id="v1", tool="Bash", **arguments) -> None:
        await self.tell(ToolCallStarted(call_id, tool, arguments))

    async def end_tool(
        self, call_id="v1", status="completed", result="ok", error=None, exit_code=None
    ) -> None:
        await self.tell(ToolCallFinished(call_id, status, result, error, exit_code=exit_code))

    async def outcome(self, tool, arguments, *, call_id=None, step=True, patience_s=None):
        """Call an orchestration tool as the last thing of a model response."""
        if step:  # told as soon as the engine knows of the call
            asyncio.get_running_loop().call_soon(self.queue.put_nowait, StepEnded())
        return await self.host.call_tool(tool, arguments, call_id=call_id, patience_s=patience_s)

    async def call(self, tool, /, **arguments) -> dict[str, Any]:
        """Call a tool that must succeed; return its data."""
        outcome = await self.outcome(tool, arguments)
        assert not outcome.is_error, outcome.text
        return dict(outcome.data)

    async def call_within(self, patience_s, tool, /, **arguments) -> dict[str, Any]:
        """Call a tool over a client that cuts calls off; return the data of its answer."""
        outcome = await self.outcome(tool, arguments, patience_s=patience_s)
        assert not outcome.is_error, outcome.text
        return dict(outcome.data)

    async def refused(self, tool, /, **arguments) -> str:
        """Call a tool that must fail; return the error's code."""
        outcome = await self.outcome(tool, arguments)
        assert outcome.is_error, outcome.text
        assert outcome.data["error"].keys() == {"code", "message", "hint"}
        return str(outcome.data["error"]["code"])

    async def complete(self, summary="done", **arguments) -> None:
        await self.call("task_complete", summary=summary, **arguments)

    async def spawn(self, prompt="work", **arguments) -> str:
        """Spawn a child and return its name."""
        return str((await self.call("spawn_child", prompt=prompt, **arguments))["name"])

    async def collect(self, count=1) -> list[dict[str, Any]]:
        """Wait for `count` results of children."""
        results: list[dict[str, Any]] = []
        while len(results) < count:
            for message in await self.hear():
                assert message["type"] == "task_result", message
                results.append(message)
        return results

    async def hear(self, **arguments) -> list[dict[str, Any]]:
        """Return the messages of one answer, those of `others` among them."""
        answer = await self.call("wait_for_message", **arguments)
        return [answer, *answer.pop("others", ())]

    async def hang(self) -> None:
        await asyncio.Event().wait()


async def complete(agent: Actor) -> None:
    """The behaviour of an agent that has no other."""
    await agent.complete(f"{agent.name} is done")


class ScriptedSession(ProviderSession):
    """Runs one agent's behaviour."""

    def __init__(self, provider: ScriptedProvider, request, host) -> None:
        self.provider = provider
        self.request = request
        self.host = host
        self.resume_token = request.resume_token
        self.taken = provider.taken
        self._actor: Actor | None = None
        self._work: Any = None

    async def run_turn(self, context):
        actor = self._actor = Actor(self, context)
        if self.provider.gives_tokens:
            self.resume_token = f"thread-{self.request.name}"
        self.provider.contexts[self.request.name].append(context)
        self._work = self.provider.services.start_soon(self._act, actor, name="behaviour")
        try:
            while True:
                event = await actor.queue.get()
                yield event
                actor.queue.task_done()
        finally:
            self._work.cancel()

    async def _act(self, actor: Actor) -> None:
        behave = self.provider.behaviours.get(actor.name, complete)
        try:
            reason = await behave(actor)
        except TurnFailedError as failure:
            await actor.tell(failure.end)
        except Exception as error:  # noqa: BLE001 - raised where the test ends
            self.provider.failures.append(error)
            await actor.tell(failed(f"the behaviour failed: {error!r}").end)
        else:
            await actor.tell(TurnEnded(reason or StopReason.END_TURN))

    async def steer(self, text, images=()):
        if not self.provider.steers or self._actor is None:
            return False
        self._actor.shown += images
        self._actor.steered.put_nowait(text)
        return True

    async def interrupt(self) -> None:
        self.provider.interrupted.append(self.request.name)
        self.provider.interrupt_came.set()
        if self.provider.obeys and self._actor is not None:
            self._work.cancel()
            self._actor.queue.put_nowait(TurnEnded(StopReason.ABORTED))


@dataclass
class ScriptedProvider(Provider):
    """Every agent is a behaviour, found by the agent's name."""

    services: Any = None
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    gives_tokens: bool = False  # sessions can be resumed by a token
    taken: frozenset[str] | None = None  # what the thread of a turn that goes on holds
    obeys: bool = True  # interrupt ends the turn
    is_program: bool = False  # its calls are a program's, not a model's
    steers: bool = False  # a turn takes what a person says meanwhile
    status: ProviderStatus = field(default_factory=lambda: ProviderStatus(available=True))
    capabilities: ProviderCapabilities = field(
        default_factory=lambda: ProviderCapabilities(enforcement="pre_tool")
    )
    requests: defaultdict[str, list] = field(default_factory=lambda: defaultdict(list))
    contexts: defaultdict[str, list] = field(default_factory=lambda: defaultdict(list))
    memory: defaultdict[str, dict] = field(default_factory=lambda: defaultdict(dict))
    interrupted: list[str] = field(default_factory=list)
    interrupt_came: asyncio.Event = field(default_factory=asyncio.Event)
    failures: list[Exception] = field(default_factory=list)
    refuse: Callable[[Any], None] = lambda request: None  # may raise as a session is opened

    def spec(self) -> ProviderSpec:
        """Return the registration of this very provider."""

        def factory(_settings, services):
            self.services = services
            return self

        about: Any = {"summary": "scripted agents", "program": self.is_program}
        return ProviderSpec(name="script", factory=factory, **about)

    @asynccontextmanager
    async def open_session(self, request, host):
        self.refuse(request)
        self.requests[request.name].append(request)
        yield ScriptedSession(self, request, host)

    async def probe(self):
        return self.status


class RuleBroker:
    """Allows commands that begin with `echo`, denies `rm`, asks for others.

    A grant holds for the agent that got it and all below.
    """

    watches_calls = False
    commands = POLICY

    def __init__(self) -> None:
        self.granted: set[tuple[str, str]] = set()
        self.options = ("once", "always", "deny")

    async def decide(self, request, context):
        word = (request.command or "").split(" ")[0]
        if not context.active or word == "rm":
            return Deny("never")
        if word == "echo" or any((agent, word) in self.granted for agent in context.lineage):
            return Allow()
        return Ask(f"{word} is not known", self.options)

    reconsider = decide

    async def may_write(self, request, context):
        return request.tool in EDIT_TOOLS or request.tool == "Bash"

    def grant(self, agent_id, request):
        self.granted.add((agent_id, word := request.command.split(" ")[0]))
        return {"agent": agent_id, "word": word}

    def told(self):
        return {"rules": [], "tools": {}, "grants": []}

    def mark(self):
        return 0

    def settle(self, *_):
        """Take note of nothing: it counts nothing."""

    ended = turn_over = changed_by_hand = forget = settle


@dataclass
class Team:
    """A running engine and the agents on it."""

    engine: OrchestrationEngine
    provider: ScriptedProvider
    store: HeldStore
    clock: Any
    broker: Any  # a RuleBroker
    ledger: Ledger
    workspace: Path

    @property
    def manager(self):
        return self.engine.manager

    def __getitem__(self, name: str):
        return self.manager.roster.resolve(name)

    def session(self, name: str):
        """Return the session of this agent's newest life."""
        return self.manager.lives.session_of(self[name].agent_id)

    def task(self, name: str):
        """Return the task of this agent's newest life."""
        return self.manager.lives.task_of(self[name].agent_id)

    async def run(self, task="do it", options: Mapping[str, Any] | None = None, **behaviours):
        """Run a task to its end."""
        self.provider.behaviours.update(behaviours)
        async with asyncio.timeout(DEADLINE):
            result = await self.engine.run(task, **(options or {}))
        if self.provider.failures:
            raise self.provider.failures[0]
        return result

    def start(self, task="do it", **behaviours) -> asyncio.Future:
        """Begin a run; the future has its result."""
        result = asyncio.get_running_loop().create_future()

        async def drive():
            try:
                value = await self.run(task, **behaviours)
            except asyncio.CancelledError:
                result.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - raised where the test waits
                result.set_exception(error)
            else:
                result.set_result(value)

        _ = self.engine.start_soon(drive(), name="run")
        return result

    async def seen(self, kind, agent=None, /, **fields):
        """Wait for a committed event."""
        async with asyncio.timeout(DEADLINE):
            async for event in self.store.events(SESSION, follow=True):
                name = self.manager.roster.names().get(event.agent or "")
                if event.type != kind or agent not in {None, name}:
                    continue
                if all(event.data.get(key) == value for key, value in fields.items()):
                    return event
        raise AssertionError(f"the store was closed before {kind}")

    async def settled(self) -> None:
        """Let everything go on that can, commits included."""
        await self.engine.journal.flush()
        await self.rounds()

    async def rounds(self) -> None:
        """Let everything go on that can while some write may be held."""
        for _ in range(20):
            await asyncio.sleep(0)
            await self.store.append(())


def team_settings(engine: Mapping[str, Any] | None, others: Mapping[str, Any] | None) -> Settings:
    """Return settings; commands run as they are unless these say otherwise."""
    given = {"engine": dict(engine or {}), "sandbox": "off", **(others or {})}
    return Settings.of(given)


def human_policy(settings: Settings, **fields) -> HumanPolicy:
    return HumanPolicy(timeout_s=settings.engine.human_timeout_seconds, **fields)


def check_end(
    engine: OrchestrationEngine, provider: ScriptedProvider, ledger: Ledger | None
) -> None:
    """Check what a team left behind."""
    if provider.failures:
        raise provider.failures[0]
    assert engine.slots.in_use == 0
    if ledger is not None:
        ledger.check()


@asynccontextmanager
async def open_team(
    folder: Path,
    *,
    clock=None,
    engine: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    check=True,
    interactive=False,
    on_ask="deny",
    person: Mapping[str, Any] | None = None,
    external=None,
    scorers=(),
    sinks=(),
    others=(),
    broker=None,
    own_rules=None,
    shadows=None,
    skills=None,
    redactor=None,
    store=None,
    tools=None,
    make_provider=ScriptedProvider,
    **provider_fields,
):
    """Open an engine on an empty ledger; on leaving, `check` what it left behind."""
    clock, sections = clock or SystemClock(), team_settings(engine, settings)
    (folder / "workspace").mkdir(exist_ok=True)
    parts = {"scorers": scorers, "sinks": sinks, "files": opens(shadows), "skills": skills}
    parts |= {"external": external, "own_rules": own_rules, "redactor": redactor or Redactor(())}
    parts |= {"tools": tools or ToolTable(), **EXECUTOR, **provider_fields.pop("config", {})}
    provider, ledger = make_provider(**provider_fields), Ledger(folder / "ledger.db")
    store = store or await HeldStore.on(ledger.path, clock)
    async with store, ProcessLauncher(SystemClock()) as launcher:
        config = EngineConfig(
            settings=sections,
            workspace=str(folder / "workspace"),
            session_id=SESSION,
            store=store,
            launcher=launcher,
            providers={spec.name: spec for spec in (provider.spec(), *others)},
            broker=cast("PermissionBroker", broker or RuleBroker()),
            human=human_policy(sections, interactive=interactive, on_ask=on_ask, **person or {}),
            clock=clock,
            ids=Ids(clock.time),
            state_dir=folder / "state",
            **parts,
        )
        async with OrchestrationEngine(config) as running:
            yield Team(running, provider, store, clock, config.broker, ledger, folder / "workspace")
    check_end(running, provider, ledger if check else None)
