"""The provider `program`: agents whose mind is a program of anybody's, in any language."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from prsm_core import (
    AgentError,
    ErrorKind,
    ModelInfo,
    ModelNotAvailableError,
    Provider,
    ProviderCapabilities,
    ProviderStatus,
    PrsmError,
    StepEnded,
    StopReason,
    TokenUsage,
    TurnEnded,
    UsageReported,
)
from prsm_core.kit import Turn, TurnSession
from prsm_protocols.bridge.desk import NEXT, STATE, Desk
from prsm_protocols.bridge.line import open_line
from prsm_protocols.program.config import DEFAULT, ProgramConfig
from prsm_protocols.program.home import Home
from prsm_protocols.program.program import Program, SessionLogs, Start, plan_start

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core import (
        AgentHost,
        AssembledContext,
        Carried,
        Image,
        ProviderEvent,
        ProviderServices,
        SessionRequest,
    )
    from prsm_protocols.bridge.redis import Place, RedisBridge

_NONE = TokenUsage(
    input_tokens=0, output_tokens=0, cached_input_tokens=0, reasoning_tokens=0, total_tokens=0
)
NO_TOKENS = UsageReported(_NONE, cost_usd=0.0)  # a program uses none, and says so


def build(settings: Mapping[str, Any], services: ProviderServices) -> ProgramProvider:
    """Build the provider from its section; raise ConfigError for what is wrong in it."""
    return ProgramProvider(ProgramConfig.from_settings(settings), services)


class ProgramProvider(Provider):
    """Runs programs; the model's name is that of a configured one."""

    def __init__(self, config: ProgramConfig, services: ProviderServices) -> None:
        self._config = config
        self._services = services
        self._redis: RedisBridge | None = None
        enforcement = "sandbox" if config.box else "none"
        self.capabilities = ProviderCapabilities(
            enforcement=enforcement, resume="call", steer=True, tokens_told="step", boxes=True
        )
        names = (*((DEFAULT,) if config.command else ()), *sorted(config.programs))
        self.known_models = tuple(ModelInfo(model_id=name) for name in names)

    @asynccontextmanager
    async def open_session(
        self, request: SessionRequest, host: AgentHost
    ) -> AsyncIterator[ProgramSession]:
        """Open an agent's session; see Provider."""
        services = self._services
        self._config.argv_of(request.model)  # said before anything is begun
        home = Home(services.state_dir, request.agent_id, services.redact)
        if request.resume_token is not None:
            home.read()
        home.furnish()
        desk = Desk(request.agent_id, host, services)
        async with AsyncExitStack() as stack:
            place, url = None, None
            if self._config.redis is None:
                await stack.enter_async_context(open_line(home.socket, desk, services))
            else:
                bridge = self._bridge(self._config.redis)
                place = await stack.enter_async_context(bridge.open_place(desk, home.count))
                url = bridge.url_of(place)
            run = stack.enter_context(home.short_run())
            start = plan_start(self._config, request, home, run, url)
            given = (request, host, self._config, services)
            session = ProgramSession(*given, desk=desk, home=home, start=start, place=place)
            try:
                yield session
            finally:
                await session.interrupt()
                await session.at_rest.wait()

    def _bridge(self, url: str) -> RedisBridge:
        from prsm_protocols.bridge.redis import RedisBridge

        if self._redis is None:
            self._redis = RedisBridge(url, self._services)
        return self._redis

    async def probe(self) -> ProviderStatus:
        """Say whether there is a program to run; see Provider."""
        if not self.known_models:
            return ProviderStatus(
                available=False,
                reason="no program is configured",
                hint="set `providers.program.command`, or `providers.program.programs`",
            )
        limit = "its box limits it" if self._config.box else "without a box it may do what you may"
        gaps = (f"no check sees what a program does by itself: {limit}",)
        return ProviderStatus(available=True, gaps=gaps)

    async def knows_model(self, model: str) -> bool:
        """Return whether a program of that name is configured; see Provider."""
        try:
            return bool(self._config.argv_of(model))
        except ModelNotAvailableError:
            return False

    async def aclose(self) -> None:
        """End what reads at Redis; see Provider."""
        if self._redis is not None:
            await self._redis.aclose()


class ProgramSession(TurnSession[Turn]):
    """One agent's session: a turn is its program's run, through all of its states."""

    def __init__(
        self,
        request: SessionRequest,
        host: AgentHost,
        config: ProgramConfig,
        services: ProviderServices,
        *,
        desk: Desk,
        home: Home,
        start: Start,
        place: Place | None,
    ) -> None:
        super().__init__(request.name, services)
        self._request = request
        self._host = host
        self._config = config
        self._desk = desk
        self._home = home
        self._start = start
        self._place = place
        self._program: Program | None = None
        self._logs = SessionLogs(home.home)
        self.at_rest = asyncio.Event()  # no process of it is left
        self.at_rest.set()
        self.resume_token = request.resume_token or request.agent_id
        if request.carried is not None:
            self.taken = _taken(request.carried, home.task)
            desk.recall(_messages(request.carried))

    def new_turn(self) -> Turn:
        """Return what keeps a turn; see TurnSession."""
        return Turn()

    async def begin(self, turn: Turn, context: AssembledContext) -> None:
        """Run the program; see TurnSession."""
        self.at_rest.clear()
        try:
            await self._run(turn, context)
        finally:
            self.at_rest.set()

    async def _run(self, turn: Turn, context: AssembledContext) -> None:
        turn.sent = True
        told = context.current_message.content if context.current_message is not None else ""
        is_begun = self._request.carried is not None or not told
        if not is_begun:
            self._home.begin(told)
        await turn.put([NO_TOKENS])
        await self._logs.skip()

        async def tell(event: ProviderEvent) -> None:
            if isinstance(event, StepEnded) and (used := await self._logs.grown()) is not None:
                await turn.put([used])
            await turn.put([event])

        self._program = program = Program(
            self.name,
            self._home.task,
            self._config,
            self._start,
            desk=self._desk,
            host=self._host,
            services=self.services,
            tell=tell,
            note=self._note,
        )
        if is_begun and told:
            program.say(told)  # what its program may not have heard before it was cut off
        try:
            await program.run()
        except PrsmError as error:
            message = error.message if error.hint is None else f"{error.message} ({error.hint})"
            why = AgentError(kind=ErrorKind.UNKNOWN, message=message)
            await turn.put([TurnEnded(StopReason.ERROR, why)])
        else:
            await turn.put([TurnEnded(StopReason.END_TURN)])

    async def _note(self, here: Mapping[str, Any]) -> None:
        if self._place is not None:
            self._place.move(here)

    async def ask_to_end(self, turn: Turn) -> None:
        """End the turn; its program is killed as its task ends; see TurnSession."""
        await self.aborted(turn)

    def closed(self, turn: Turn) -> None:
        """Say nothing to a program that runs no more; see TurnSession."""
        self._program = None

    async def steer(self, text: str, images: Sequence[Image] = ()) -> bool:
        """Say something to the running program; see ProviderSession."""
        if self._program is None or self.turn is None or self.turn.over.is_set():
            return False
        self._program.say(text)
        return True


def _taken(carried: Carried, task: str) -> frozenset[str]:
    """Return what a program that is started again need not be told: its task it is told anyway."""
    calls = (call.call_id for call in carried.calls)
    tasks = (key for key, text in carried.prompts.items() if text == task)
    return frozenset((*calls, *tasks, *carried.heard))


def _messages(carried: Carried) -> list[dict[str, Any]]:
    """Return the messages that the program took in the state that it is still in."""
    found: list[dict[str, Any]] = []
    for call in carried.calls:
        data = None if call.outcome is None or call.outcome.is_error else call.outcome.data
        if not isinstance(data, dict):
            continue
        if call.tool == STATE and data.get("moved"):
            found.clear()
        elif call.tool == NEXT and data.get("message") is not None:
            found.append(data["message"])
    return found
