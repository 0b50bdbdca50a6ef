"""Open provider sessions, and rebuild the conversation if the vendor's thread is lost."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.record import Record
from prsm_core.domain.tools import encode_data
from prsm_core.domain.turns import AgentError, AgentMessage, ErrorKind
from prsm_core.engine.journal.views import conversation
from prsm_core.engine.turns.context import (
    Conversation,
    count_tokens,
    fit,
    history_tokens,
    room_of,
    session_request,
    window_of,
)
from prsm_core.errors import PrsmError
from prsm_core.kit.quotation import quote, quote_word

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractAsyncContextManager

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.events import Event
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.sessions import TurnState
    from prsm_core.engine.guarded.provider import Opener
    from prsm_core.engine.journal.unit import AgentSteps, Journal
    from prsm_core.engine.journal.views import ConversationStore
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.mcp_trials import McpTrials
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.spending import BudgetLedger
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.call import Toolbox
    from prsm_core.engine.turns.context import Room
    from prsm_core.engine.turns.going_on import GoingOn
    from prsm_core.engine.workspace_files import Folders
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import AgentHost, Carried, ProviderSession


class Remembered(Record, frozen=True):
    """An agent's conversation since its newest compaction, with the turn of each message."""

    conversation: Conversation
    turns: tuple[str, ...]  # of `conversation.messages`; blank where it is not known
    summary: str | None = None  # the newest one
    prompt: str | None = None  # the newest that the agent was given

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """All messages since the newest compaction."""
        return self.conversation.messages


def remember(
    events: Sequence[Event], new_id: Callable[[], str], without: Collection[str] = ()
) -> Remembered:
    """Rebuild one agent's conversation from its events, oldest first, `without` some prompts.

    It begins with the agent, or with a life that knows nothing of earlier ones. A compaction
    records how many messages before it are `kept`, not which, so that a copied session, whose
    events and turns have other names, reads the same.
    """
    begins = (n for n in reversed(range(len(events))) if events[n].type == "conversation_begun")
    events = events[next(begins, 0) :]
    left_out = _undone(events).union(e.seq for e in events if e.data.get("id") in without)
    entries = [
        entry
        for entry in conversation(events, numbered=True)
        if not entry.get("again") and entry["seq"] not in left_out
    ]
    compactions = (e for e in reversed(events) if e.type == "compaction_finished")
    newest = next((e for e in compactions if e.data.get("error") is None), None)
    told: Mapping[str, Any] = {} if newest is None else newest.data
    if newest is not None:
        entries = entries[_first_kept(entries, newest.seq or 0, told["kept"]) :]
    prompts = [entry["text"] for entry in entries if entry["kind"] == "user_message"]
    prompt = told.get("prompt")
    messages = [entry for entry in entries if entry["kind"] in MESSAGES]
    at_ms = 0 if newest is None else int(newest.ts * 1000)
    head = () if newest is None else stands_for(told["summary"], prompt, new_id, at_ms)
    return Remembered(
        Conversation(head, rebuilt_history(entries, new_id)),
        tuple(_turns(events, messages)),
        told.get("summary"),
        prompts[-1] if prompts else prompt,
    )


def _undone(events: Sequence[Event]) -> set[int | None]:
    undone, calls = set[int | None](), dict[str, list[int | None]]()
    for event in events:
        if event.type == "tool_call_started":
            calls[event.data["call"]] = [event.seq]
        elif event.type == "tool_call_finished":
            calls.setdefault(event.data["call"], []).append(event.seq)
        elif event.type == "receives_undone":
            named = event.data.get("calls") or ()
            undone.update(seq for call in named for seq in calls.get(call, ()))
    return undone


def _first_kept(entries: Sequence[Mapping[str, Any]], seq: int, kept: int) -> int:
    """Return the index of the first of the `kept` messages before the event `seq`."""
    before = [
        index
        for index, entry in enumerate(entries)
        if entry["seq"] < seq and entry["kind"] in MESSAGES
    ]
    after = (index for index, entry in enumerate(entries) if entry["seq"] >= seq)
    if kept and before:
        return before[-min(kept, len(before))]
    return next(chain(after, (len(entries),)))


def _turns(events: Sequence[Event], messages: Sequence[Mapping[str, Any]]) -> list[str]:
    begun = [(e.seq or 0, e.data["turn"]) for e in events if e.type == "turn_started"]
    numbers = [seq for seq, _ in begun]
    places = [bisect_right(numbers, message["seq"]) - 1 for message in messages]
    return [begun[place][1] if place >= 0 else "" for place in places]


MESSAGES = frozenset({"user_message", "text", "tool_call"})  # the kinds of entries that become one
CALL_LIMIT = 1000  # characters of a call's arguments, and of its result, in a rebuilt history
_UNKNOWN = "no result is recorded: its effect is unknown"


def rebuilt_history(
    entries: Iterable[Mapping[str, Any]], new_id: Callable[[], str]
) -> tuple[AgentMessage, ...]:
    """Return the entries of `views.conversation` as messages for another model.

    Calls appear in the text with their outcome: a model that does not know of its children would
    spawn them again.
    """
    return tuple(
        AgentMessage(
            id=new_id(), role=role, content=text, sequence=number, created_at=int(at * 1000)
        )
        for number, (role, text, at) in enumerate(_told(list(entries)), 1)
    )


def _told(entries: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, float]]:
    results = {entry["call"]: entry for entry in entries if entry["kind"] == "tool_result"}
    for entry in entries:
        match entry["kind"]:
            case "user_message":
                yield "user", entry["text"], entry["at"]
            case "text":
                yield "assistant", entry["text"], entry["at"]
            case "tool_call":
                yield "assistant", _call(entry, results.get(entry["call"])), entry["at"]


def _call(call: Mapping[str, Any], result: Mapping[str, Any] | None) -> str:
    arguments = _cut(encode_data(call["arguments"]))
    outcome = _UNKNOWN if result is None else f"{result['status']}:\n{quote(_cut(result['text']))}"
    return f"[I called {quote_word(call['tool'])} with {arguments}; {outcome}]"


def _cut(text: str) -> str:
    return text if len(text) <= CALL_LIMIT else f"{text[:CALL_LIMIT]} …"


_STANDS_FOR = "A summary stands here for the conversation so far:"
_CURRENT = "The prompt that you are working on is kept as it was; much of it may be done:"


def stands_for(
    summary: str, prompt: str | None, new_id: Callable[[], str], at_ms: int
) -> tuple[AgentMessage, ...]:
    """Return the messages that begin a compacted conversation."""
    texts = [] if prompt is None else [f"{_CURRENT}\n{prompt}"]
    texts.append(f"{_STANDS_FOR}\n{summary}")
    return tuple(
        AgentMessage(id=new_id(), role="system", content=text, sequence=n, created_at=at_ms)
        for n, text in enumerate(texts, 1)
    )


class Opening(Struct, eq=False):
    """Opens the sessions of all agents."""

    providers: ProviderRegistry
    enforcement: Enforcement
    settings: Settings
    workspaces: Folders
    system_prompt: Callable[[AgentDescriptor], str]
    trials: Callable[[], McpTrials]

    async def session(
        self,
        record: AgentRecord,
        host: AgentHost,
        opener: Opener,
        carried: Carried | None,
        park: Callable[[], bool],
    ) -> AbstractAsyncContextManager[ProviderSession]:
        """Return a session to enter; `park` closes it if others need its process."""
        agent, name = record.descriptor, record.descriptor.provider
        provider = await self.providers.get(name)
        await self.enforcement.admit(name, record.agent_id, agent.labels)
        request = session_request(
            record,
            self.settings,
            self.workspaces.of(agent.cwd),
            self.system_prompt(agent),
            carried,
            self.workspaces.variables(agent.cwd),
        )
        if request.mcp_servers:
            servers = await self.trials().usable(
                request.mcp_servers,
                agent_id=record.agent_id,
                cwd=request.cwd,
                box=request.box,
                refusal=partial(self.providers.refused_server, name),
            )
            request = replace(request, mcp_servers=servers)
        opened = provider.open_session(request, host, opener)
        if not provider.capabilities.own_process:
            return opened
        return self.providers.residents.home(record.agent_id, opened, park)

    async def keeps_thread(self, record: AgentRecord) -> bool:
        """Return whether the vendor's thread outlives the process it ran in."""
        if record.resume_token is None:
            return False
        name = record.descriptor.provider
        await self.providers.get(name)
        return self.providers.capabilities(name).resume in {"call", "native"}


class CompactionFailedError(PrsmError):
    """Raised if a conversation cannot be summarised; `error` says why and whether to retry."""

    def __init__(self, error: AgentError) -> None:
        super().__init__(error.message, code=error.kind.value)
        self.error = error


class Contexts(Record, frozen=True, kw_only=True):
    """Knows the conversations of all agents, and what fits into their windows."""

    providers: ProviderRegistry
    enforcement: Enforcement
    listings: Listings
    conversations: ConversationStore
    budgets: BudgetLedger
    steps: AgentSteps
    journal: Journal
    settings: Settings
    workspace: str
    ids: Ids
    clock: Clock
    compaction: Callable[
        ..., Awaitable[None]
    ]  # runs one; the arguments are those of a `Compaction`

    def now_ms(self) -> int:
        """Return the Unix time in milliseconds."""
        return int(self.clock.time() * 1000)

    def room(self, record: AgentRecord) -> Room | None:
        """Return how much of its model's window an agent may fill; None if unknown."""
        window = window_of(record, self.providers.context_window)
        return room_of(record.descriptor, self.settings, window)

    async def compact(
        self, record: AgentRecord, trigger: Trigger, fixed: int, opener: Opener
    ) -> None:
        """Summarise an agent's conversation; see `Compaction`."""
        remembered = await self.remember(record)
        fixed += count_tokens(record.descriptor.system_prompt)
        room = self.room(record)
        await self.compaction(record, self, remembered, trigger, fixed, room, opener)

    async def remember(self, record: AgentRecord, without: Collection[str] = ()) -> Remembered:
        """Rebuild an agent's conversation from the log, without the prompts of these ids."""
        return remember(await self.conversations.told(record.agent_id), self.ids.ulid, without)

    async def open_turn(self, record: AgentRecord) -> TurnState:
        """Return an agent's open turn from the ledger."""
        state = (await self.conversations.now(record.agent_id)).open_turn
        if state is None:
            raise RuntimeError(f"{record.descriptor.name} has no open turn")
        return state

    def left_for_history(self, record: AgentRecord, fixed: int, prompt: str | None) -> int | None:
        """Return the tokens left beside `fixed` ones, perhaps below zero; None if unknown."""
        room = self.room(record)
        if room is None:
            return None
        fixed += count_tokens(record.descriptor.system_prompt)
        return room.fill - fixed - count_tokens(prompt or "")

    def fit(
        self, record: AgentRecord, remembered: Remembered, left: int | None
    ) -> tuple[AgentMessage, ...]:
        """Return what of a conversation fits into `left` tokens; warn of what does not."""
        whole = remembered.conversation
        if left is None:
            return whole.all
        fitted = fit(whole, left)
        agent = record.descriptor
        if fitted.left_out or fitted.is_cut:
            what = f"{fitted.left_out} of {len(whole.all)} messages are left out"
            what += ", and what stands for those before is cut" if fitted.is_cut else ""
            self.journal.warn(
                record.agent_id,
                f"the conversation does not fit into the context of {agent.provider}/{agent.model}:"
                f" {what}; context.fill and model_registry.{agent.model}.max_context set its size",
            )
        if left < 0:
            self.journal.warn(
                record.agent_id,
                f"system prompt, tools and prompt are {-left} tokens more than is filled of the "
                f"context of {agent.provider}/{agent.model}: it is asked all the same",
            )
        return fitted.messages


Trigger = Literal["context_limit", "overflow_recovery"]


class ContextKeeper(Struct, eq=False):
    """Keeps one agent's context within its model's window, by compaction before a turn.

    It compacts at the budget unless the vendor does, and once after a model refused a prompt as too
    long; a turn that ends well resets that.
    """

    _record: AgentRecord
    _contexts: Contexts
    _tools: Toolbox
    _trigger: Trigger | None = None  # why the conversation is to be compacted
    _refusal: str = ""  # what its model said of the prompt that was too long
    has_retried: bool = False  # compacted after that, and no turn has ended well since
    _gave_up: bool = False  # at the budget: the vendor's refusal is waited for

    def overflowed(self, refusal: str) -> bool:
        """Note that a prompt was too long; return whether to compact and retry."""
        if (
            self.has_retried
            or self._trigger
            or self._contexts.settings.context.compaction == "never"
        ):
            return False
        self._refusal, self._trigger = refusal, "overflow_recovery"
        return True

    def begin_anew(self) -> None:
        """Forget what was too long, as another model continues."""
        self.has_retried, self._trigger = False, None

    def is_full(self, prompt: str | None) -> bool:
        """Whether the thread would exceed its share of the window with this prompt."""
        record, contexts = self._record, self._contexts
        held, can = record.context_used, contexts.providers.capabilities
        by_vendor = can(record.descriptor.provider).compacts
        if held is None or by_vendor or not self._may_at_budget:
            return self._trigger is not None
        room = contexts.room(record)
        if room is not None and held + count_tokens(prompt or "") > room.fill:
            self._trigger = self._trigger or "context_limit"
        return self._trigger is not None

    @property
    def _may_at_budget(self) -> bool:
        return self._contexts.settings.context.compaction == "auto" and not self._gave_up

    async def history(
        self, prompt: str | None, opener: Opener, *, open_turn: GoingOn | None
    ) -> tuple[AgentMessage, ...]:
        """Return what no vendor's thread holds, for a session that opens now; compact if due.

        Unanswered prompts of an `open_turn` are left out: they are its prompt. Raises
        CompactionFailedError if a model has refused the uncompacted prompt.
        """
        record, contexts = self._record, self._contexts
        if open_turn is None and self.is_full(prompt):
            await self._compact(opener)
        is_new = record.next_turn == 1 and record.descriptor.continues is None
        if record.resume_token is not None or is_new:
            return ()
        remembered = await contexts.remember(record, () if open_turn is None else open_turn.unheard)
        left = contexts.left_for_history(record, self._tools.tokens, prompt)
        is_long = left is not None and history_tokens(remembered.conversation.all) > left
        if is_long and open_turn is None and self._may_at_budget and remembered.messages:
            self._trigger = "context_limit"
            await self._compact(opener)
            remembered = await contexts.remember(record)
        return contexts.fit(record, remembered, left)

    async def _compact(self, opener: Opener) -> None:
        trigger, self._trigger = self._trigger or "context_limit", None
        try:
            await self._contexts.compact(self._record, trigger, self._tools.tokens, opener)
            self.has_retried = trigger == "overflow_recovery"
        except CompactionFailedError as failed:
            if trigger == "overflow_recovery":
                self._trigger = trigger
                raise CompactionFailedError(self._why(failed.error)) from failed
            self._gave_up = True
            text = f"{failed.message}; it goes on as it is"
            self._contexts.journal.warn(self._record.agent_id, text)

    def _why(self, error: AgentError) -> AgentError:
        if error.kind is ErrorKind.CONTEXT_OVERFLOW:
            return replace(error, message=self._refusal)
        return replace(error, message=f"{self._refusal}; {error.message}")
