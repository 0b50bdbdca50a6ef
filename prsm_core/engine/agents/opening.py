"""Opening a provider's session for an agent, and what it is told where the vendor has lost it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.record import Record
from prsm_core.domain.turns import AgentError, ErrorKind
from prsm_core.engine.context.tokens import count_tokens, history_tokens
from prsm_core.engine.turns.context import room_of, session_request, window_of
from prsm_core.errors import PrsmError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence
    from contextlib import AbstractAsyncContextManager

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.sessions import TurnState
    from prsm_core.domain.turns import AgentMessage
    from prsm_core.engine.context.remembered import Remembered
    from prsm_core.engine.context.tokens import Room
    from prsm_core.engine.guarded.provider import Opener
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.journal.views import ConversationStore
    from prsm_core.engine.ports import Steps
    from prsm_core.engine.providers.enforcement import Enforcement
    from prsm_core.engine.providers.listings import Listings
    from prsm_core.engine.providers.mcp_trials import McpTrials
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.spending.budgets import BudgetLedger
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.call import Toolbox
    from prsm_core.engine.turns.going_on import GoingOn
    from prsm_core.engine.workspace_files import Folders
    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import AgentHost, Carried, ProviderSession


_LASTING = frozenset({"call", "native"})  # how a session can be resumed, where it can


class Opening:
    """Opens the sessions of all agents."""

    def __init__(
        self,
        providers: ProviderRegistry,
        enforcement: Enforcement,
        settings: Settings,
        workspaces: Folders,
        system_prompt: Callable[[AgentDescriptor], str],
        make_trials: Callable[[], McpTrials],
    ) -> None:
        self._make_trials = make_trials
        self._trials: McpTrials | None = None
        self._providers = providers
        self._enforcement = enforcement
        self._settings = settings
        self._workspaces = workspaces
        self._system_prompt = system_prompt

    async def session(
        self,
        record: AgentRecord,
        host: AgentHost,
        opener: Opener,
        carried: Carried | None,
        park: Callable[[], bool],
    ) -> AbstractAsyncContextManager[ProviderSession]:
        """Return a session to enter; raises what says that it cannot be opened.

        `carried` is what the vendor's thread may lack of a turn that goes on; `park` closes the
        session where others need its process.
        """
        agent, name = record.descriptor, record.descriptor.provider
        provider = await self._providers.get(name)
        await self._enforcement.admit(name, record.agent_id, agent.labels)
        workspace, prompt = self._workspaces.of(agent.cwd), self._system_prompt(agent)
        variables = self._workspaces.variables(agent.cwd)
        of = record, self._settings, workspace, prompt, carried, variables
        request = session_request(*of)
        if request.mcp_servers:
            trials = self._trials = self._trials or self._make_trials()
            servers = await trials.usable(
                request.mcp_servers,
                agent_id=record.agent_id,
                cwd=request.cwd,
                box=request.box,
                refusal=partial(self._providers.refused_server, name),
            )
            request = replace(request, mcp_servers=servers)
        opened = provider.open_session(request, host, opener)
        if not provider.capabilities.own_process:
            return opened
        return self._providers.residents.home(record.agent_id, opened, park)

    async def keeps_thread(self, record: AgentRecord) -> bool:
        """Return whether the vendor's thread outlives the process that it ran in."""
        if record.resume_token is None:
            return False
        name = record.descriptor.provider
        await self._providers.get(name)
        return self._providers.capabilities(name).resume in _LASTING


class CompactionFailedError(PrsmError):
    """A conversation could not be summarised; `error` says why, and whether to try again."""

    def __init__(self, error: AgentError) -> None:
        super().__init__(error.message, code=error.kind.value)
        self.error = error


class ContextParts(Record, frozen=True, kw_only=True):
    """What the contexts of all agents are made with."""

    providers: ProviderRegistry
    enforcement: Enforcement
    listings: Listings
    conversations: ConversationStore
    budgets: BudgetLedger
    steps: Steps
    journal: Journal
    settings: Settings
    workspace: str
    ids: Ids
    clock: Clock
    compact: Callable[..., Awaitable[None]]  # the arguments are those of a `Compaction`


class Contexts:
    """Knows what conversations are made of, and what fits; of all agents."""

    def __init__(self, parts: ContextParts) -> None:
        self._parts = parts

    def room(self, record: AgentRecord) -> Room | None:
        """Return how much of its model's window an agent may fill; None where nobody knows it."""
        window = window_of(record, self._parts.providers.context_window)
        return room_of(record.descriptor, self._parts.settings, window)

    @property
    def compaction(self) -> str:
        """When conversations are compacted: auto, overflow or never."""
        return self._parts.settings.context.compaction

    def compacts_itself(self, record: AgentRecord) -> bool:
        """Whether the vendor compacts its own thread before that fills the window."""
        return self._parts.providers.capabilities(record.descriptor.provider).compacts

    def warn(self, record: AgentRecord, text: str) -> None:
        """Tell something of an agent's context as a warning."""
        self._parts.journal.note("notice", record.agent_id, level="warning", text=text)

    async def compact(
        self, record: AgentRecord, trigger: Trigger, fixed: int, opener: Opener
    ) -> None:
        """Have an agent's conversation summarised; see `Compaction`."""
        remembered = await self.remember(record)
        fixed += count_tokens(record.descriptor.system_prompt)
        await self._parts.compact(
            record,
            self._parts,
            remembered,
            trigger=trigger,
            fixed=fixed,
            room=self.room(record),
            opener=opener,
        )

    async def remember(self, record: AgentRecord, without: Collection[str] = ()) -> Remembered:
        """Return an agent's conversation since it was last compacted, as the log has it.

        Prompts of the ids `without` which it is wanted are left out.
        """
        from prsm_core.engine.context.remembered import remember  # once a thread is lost

        events = await self._parts.conversations.told(record.agent_id)
        return remember(events, self._parts.ids.ulid, without)

    async def unread(self, record: AgentRecord) -> Sequence[RoutedMessage]:
        """Return what an agent has not read, as the ledger has it."""
        return await self._parts.conversations.unread(record.agent_id)

    async def open_turn(self, record: AgentRecord) -> TurnState:
        """Return the turn that an agent has open, as the ledger has it."""
        state = (await self._parts.conversations.now(record.agent_id)).open_turn
        if state is None:
            raise RuntimeError(f"{record.descriptor.name} has no open turn")
        return state

    def left_for_history(self, record: AgentRecord, fixed: int, prompt: str | None) -> int | None:
        """Return the tokens that a rebuilt conversation may have; None where nobody knows.

        `fixed` are those of the agent's tools; below zero the rest alone is too much.
        """
        room = self.room(record)
        if room is None:
            return None
        fixed += count_tokens(record.descriptor.system_prompt)
        return room.fill - fixed - count_tokens(prompt or "")

    def fit(
        self, record: AgentRecord, remembered: Remembered, left: int | None
    ) -> tuple[AgentMessage, ...]:
        """Return what of a conversation fits into so many tokens; what does not is told of."""
        from prsm_core.engine.context.layers import fit  # once a thread is lost

        whole = remembered.conversation
        if left is None:
            return whole.all
        fitted = fit(whole, left)
        agent = record.descriptor
        if fitted.left_out or fitted.is_cut:
            what = f"{fitted.left_out} of {len(whole.all)} messages are left out"
            what += ", and what stands for those before is cut" if fitted.is_cut else ""
            self.warn(
                record,
                f"the conversation does not fit into the context of {agent.provider}/{agent.model}:"
                f" {what}; context.fill and model_registry.{agent.model}.max_context set its size",
            )
        if left < 0:
            self.warn(
                record,
                f"system prompt, tools and prompt are {-left} tokens more than is filled of the "
                f"context of {agent.provider}/{agent.model}: it is asked all the same",
            )
        return fitted.messages


Trigger = Literal["context_limit", "overflow_recovery"]


class ContextKeeper(Struct, eq=False):
    """Keeps one agent's context within its model's window: sees when it is full, has it compacted.

    At the budget, before a turn, it does so where the vendor does not; and once where a model has
    refused a prompt as too long, until a turn has ended well.
    """

    _record: AgentRecord
    _contexts: Contexts
    _tools: Toolbox
    _trigger: Trigger | None = None  # why the conversation is to be compacted
    _refusal: str = ""  # what its model said of the prompt that was too long
    _has_retried: bool = False
    _gave_up: bool = False  # at the budget: the vendor's refusal is waited for

    def overflowed(self, refusal: str) -> bool:
        """Take note that a prompt was too long; whether it is tried again, compacted."""
        if self._has_retried or self._trigger or self._contexts.compaction == "never":
            return False
        self._refusal, self._trigger = refusal, "overflow_recovery"
        return True

    def begin_anew(self) -> None:
        """Forget what was too long: another model goes on."""
        self._has_retried, self._trigger = False, None

    @property
    def has_retried(self) -> bool:
        """Whether a prompt was too long, was compacted, and no turn has ended well since."""
        return self._has_retried

    def succeeded(self) -> None:
        """Note a turn that ended well."""
        self._has_retried = False

    def needs_other_session(self, prompt: str | None) -> bool:
        """Whether the next turn is of another model, or of a conversation to be compacted."""
        return self._record.notes.chosen is not None or self.is_full(prompt)

    def is_full(self, prompt: str | None) -> bool:
        """Whether the thread would fill more than its share of the window with this prompt.

        Then the next session begins with the conversation compacted.
        """
        held = self._record.context_used
        if held is None or not self._may_at_budget or self._contexts.compacts_itself(self._record):
            return self._trigger is not None
        room = self._contexts.room(self._record)
        if room is not None and held + count_tokens(prompt or "") > room.fill:
            self._trigger = self._trigger or "context_limit"
        return self._trigger is not None

    @property
    def _may_at_budget(self) -> bool:
        return self._contexts.compaction == "auto" and not self._gave_up

    async def history(
        self, prompt: str | None, opener: Opener, *, open_turn: GoingOn | None
    ) -> tuple[AgentMessage, ...]:
        """Return what a session that opens now has to be told: what no vendor's thread holds.

        It is compacted first if it is due. An `open_turn` goes on as it is, and what its model has
        not answered is no history: it is its prompt.

        Raises CompactionFailedError where a model has refused the prompt as it was.
        """
        record, contexts = self._record, self._contexts
        is_open = open_turn is not None
        if not is_open and self.is_full(prompt):
            await self._compact(opener)
        is_new = record.next_turn == 1 and record.descriptor.continues is None
        if record.resume_token is not None or is_new:
            return ()
        unheard = () if open_turn is None else open_turn.unheard
        remembered = await contexts.remember(record, unheard)
        left = contexts.left_for_history(record, self._tools.tokens, prompt)
        is_long = left is not None and history_tokens(remembered.conversation.all) > left
        if is_long and not is_open and self._may_at_budget and remembered.messages:
            self._trigger = "context_limit"
            await self._compact(opener)
            remembered = await contexts.remember(record)
        return contexts.fit(record, remembered, left)

    async def _compact(self, opener: Opener) -> None:
        trigger, self._trigger = self._trigger or "context_limit", None
        try:
            await self._contexts.compact(self._record, trigger, self._tools.tokens, opener)
            self._has_retried = trigger == "overflow_recovery"
        except CompactionFailedError as failed:
            if trigger == "overflow_recovery":
                self._trigger = trigger
                raise CompactionFailedError(self._why(failed.error)) from failed
            self._gave_up = True
            self._contexts.warn(self._record, f"{failed.message}; it goes on as it is")

    def _why(self, error: AgentError) -> AgentError:
        """Return why an agent fails: its prompt was too long, and what kept it from being less."""
        if error.kind is ErrorKind.CONTEXT_OVERFLOW:
            return replace(error, message=self._refusal)
        return replace(error, message=f"{self._refusal}; {error.message}")
