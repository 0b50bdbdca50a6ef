"""A provider session: the turns of one agent's conversation.

The text of a turn: what the conversation does not hold, then the message; pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_claude.control import Callbacks
from prsm_claude.conversation import Conversation
from prsm_claude.errors import agent_error, is_cut
from prsm_claude.events import Translator
from prsm_claude.gate import DEFER, Gate
from prsm_claude.link import RESUME_FAILED
from prsm_claude.messages import TurnResult
from prsm_claude.tools import ToolServer
from prsm_claude.turn import ClaudeTurn
from prsm_claude.usage import UsageMeter
from prsm_core import (
    AgentError,
    ErrorKind,
    Notice,
    Provenance,
    PrsmError,
    StopReason,
    TurnEnded,
    deadline,
    quote_conversation,
)
from prsm_core.kit import TurnSession

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prsm_claude.config import ClaudeConfig
    from prsm_claude.link import Link
    from prsm_claude.transport import CliEndedError
    from prsm_core import AgentHost, AssembledContext, Image, ProviderServices, SessionRequest

_PARK_SECONDS = 5.0
_STOPPED = "it was stopped"
_DEFERRED = "tool_deferred"
_ABORTED = frozenset({"aborted_streaming", "aborted_tools"})


class ClaudeSession(TurnSession[ClaudeTurn]):
    """One agent; it runs one turn at a time."""

    def __init__(
        self,
        request: SessionRequest,
        host: AgentHost,
        config: ClaudeConfig,
        services: ProviderServices,
        program: tuple[str, ...],
        home: Path,
    ) -> None:
        super().__init__(request.name, services)
        # The CLI reckons the cost by its own vendor's prices.
        meter = UsageMeter(Provenance.ESTIMATED if config.base_url else Provenance.REPORTED)
        self._translator = Translator(meter)
        self._tools = ToolServer(host.tools)
        self._gate = Gate(request, host, services, self._translator, self._tools, self._withdraw)
        self._conversation = Conversation(
            request, config, services, program, home, meter, orchestrates=bool(host.tools)
        )
        self._callbacks = Callbacks(
            hooks=self._gate.hooks,
            can_use_tool=self._gate.can_use_tool,
            serve=self._tools.answer,
        )
        self.resume_token = request.resume_token
        self._carried = request.carried if request.resume_token is not None else None
        self._is_parked = False  # it is closed next, to be resumed: nothing is interrupted

    async def open(self) -> None:
        """Start the CLI, or let it resume the conversation; see Conversation.start."""
        await self._ready()
        if self._carried is not None:
            self.taken = await self._conversation.taken(self._carried)

    async def close(self) -> None:
        """Interrupt what runs and end the CLI."""
        if self.turn is not None:
            await self.stop(self.turn)
        await self._conversation.close()

    def kill(self) -> None:
        """End the CLI at once, so that the conversation can be resumed as it is now."""
        self._conversation.kill(_STOPPED)

    async def _ready(self) -> Link:
        link = await self._conversation.start(self._callbacks, self)
        self.resume_token = self._conversation.id
        return link

    def new_turn(self) -> ClaudeTurn:
        """Return what keeps a turn; see TurnSession."""
        return ClaudeTurn()

    def closed(self, turn: ClaudeTurn) -> None:
        """Let nothing through any more for a turn that is over."""
        self._gate.close(turn)

    async def begin(self, turn: ClaudeTurn, context: AssembledContext) -> None:
        """Start the turn; see TurnSession."""
        link = await self._ready()
        self._translator.begin()
        self._gate.open(turn)
        turn.sent = True
        await self._prompt(link, turn, context)
        turn.takes_text = True

    async def _prompt(self, link: Link, turn: ClaudeTurn, context: AssembledContext) -> None:
        """Send the text of the turn; about a call that was let go of the CLI asks by itself."""
        self._conversation.images.see(context)
        text = self._conversation.with_lost(turn_text(context))
        deferred, self._conversation.deferred = self._conversation.deferred, None
        if text is None and deferred is not None:
            return
        message = context.current_message
        message_id = turn.new_text(None if message is None else message.id)
        await self._conversation.send(link, text or GO_ON, message_id)

    async def refused(self, turn: ClaudeTurn, error: PrsmError) -> None:
        """End a turn that could not begin."""
        if error.code == RESUME_FAILED:
            self.resume_token, self.reusable = None, False  # to be rebuilt
        ended = AgentError(
            kind=ErrorKind.UNKNOWN, message=error.message, retryable=not self.reusable
        )
        await turn.put([TurnEnded(StopReason.ERROR, ended)])

    async def steer(self, text: str, images: Sequence[Image] = ()) -> bool:
        """Put text into the running turn; see ProviderSession."""
        turn, link = self.turn, self._conversation.link
        if turn is None or not turn.takes_text or turn.is_ending:
            return False
        if link is None or link.is_over:
            return False
        await link.send(text, turn.new_text(), images)
        return True

    async def park(self) -> bool:
        """Let go of the one waiting call; see ProviderSession.

        Of several the vendor would keep only the last, and with a text it would go on by itself.
        Where it lets go of none the CLI is killed: it would note an interrupt.
        """
        self._is_parked = True
        turn, link = self.turn, self._conversation.link
        if turn is None or link is None or turn.is_ending or link.has_queued(turn.texts):
            return False
        turn.parked = turn.to_park
        if turn.parked is None:
            return False
        turn.let_go(turn.parked, DEFER)
        try:
            async with deadline(self.services, _PARK_SECONDS):
                await turn.over.wait()
        except TimeoutError:
            await self.stop(turn)
            return False
        return True

    async def ask_to_end(self, turn: ClaudeTurn) -> None:
        """Interrupt a turn; see TurnSession."""
        link = self._conversation.link
        if link is None:
            await self.aborted(turn)
        elif self._is_parked:
            link.kill(_STOPPED)
        else:
            self.services.start_soon(self._interrupt, turn, link, name="claude interrupt")

    async def aborted(self, turn: ClaudeTurn) -> None:
        """End a turn that the CLI knows nothing of."""
        await self._finish(turn, StopReason.ABORTED)

    async def unconfirmed(self, turn: ClaudeTurn) -> None:
        """End a turn that the CLI did not end, and the CLI with it."""
        self._conversation.kill("it did not confirm the end of the turn")
        notice = Notice("warning", "Claude did not confirm the end of the turn.")
        await self._finish(turn, turn.stopped, None, notice)

    async def _interrupt(self, turn: ClaudeTurn, link: Link) -> None:
        await self._withdraw(turn)
        await link.interrupt()

    async def _withdraw(self, turn: ClaudeTurn) -> None:
        """Take back what was said too late for a turn that ends."""
        if self._conversation.link is not None:
            await self._conversation.link.withdraw(turn.texts)

    async def _finish(
        self,
        turn: ClaudeTurn,
        reason: StopReason,
        error: AgentError | None = None,
        *notices: Notice,
        result: TurnResult | None = None,
    ) -> None:
        left = self._translator.finish(result)
        await turn.put([*notices, *left, TurnEnded(reason, error)])

    async def on_message(self, link: Link, message: dict[str, Any]) -> None:
        """Translate a message into events of the running turn; a result ends it."""
        turn = self.turn
        if turn is None:
            return
        if message.get("type") == "result":
            await self._ended(turn, link, TurnResult.read(message))
        elif events := self._translator.feed(message):
            await turn.put(events)

    async def on_ended(self, error: CliEndedError) -> None:
        """End the running turn so that the next one starts a new CLI; it resumes."""
        turn = self.turn
        if turn is None or not turn.sent or turn.over.is_set():
            return
        notice = Notice("error", f"{error.message}\n{error.tail}".strip())
        if turn.is_ending:
            await self._finish(turn, turn.stopped, None, notice)
            return
        failed = AgentError(kind=ErrorKind.MODEL_ERROR, message=error.message, retryable=True)
        await self._finish(turn, StopReason.ERROR, failed, notice)

    async def _ended(self, turn: ClaudeTurn, link: Link, result: TurnResult) -> None:
        """End the turn, unless the CLI has a text that it has not given to the model yet."""
        self._conversation.arrived(link.taken)
        if turn.texts - link.taken:
            if not turn.is_ending:
                await turn.put(self._translator.finish(result))
                return
            link.kill(_STOPPED)  # it would begin a turn with that text
        reason, error = self._outcome(turn, result)
        await self._finish(turn, reason, error, result=result)

    def _outcome(
        self, turn: ClaudeTurn, result: TurnResult
    ) -> tuple[StopReason, AgentError | None]:
        if turn.completing or turn.stopping or result.terminal_reason in _ABORTED:
            return turn.stopped, None
        if result.terminal_reason == _DEFERRED:
            return StopReason.TOOL_USE, None
        if not result.is_error:
            cut = result.stop_reason == "max_tokens"
            return StopReason.MAX_TOKENS if cut else StopReason.END_TURN, None
        error = self._error(result)
        return StopReason.MAX_TOKENS if is_cut(error.message) else StopReason.ERROR, error

    def _error(self, result: TurnResult) -> AgentError:
        resets = self._translator.resets_at
        wait = None if resets is None else max(resets - self.services.clock.time(), 0.0)
        return agent_error(
            result.text,
            reason=result.terminal_reason,
            status=result.status,
            word=self._translator.word,
            retry_after_s=wait,
        )


GO_ON = "Continue where the conversation stopped."


def turn_text(context: AssembledContext) -> str | None:
    """Return the prompt of a turn, or None when the conversation only goes on."""
    message = context.current_message.content if context.current_message else None
    if not context.history:
        return message
    told = quote_conversation((m.role, m.content) for m in context.history)
    return f"{told}\n\n{message or GO_ON}"
