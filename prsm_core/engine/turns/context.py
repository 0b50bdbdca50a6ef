"""Build role prompts and the context of a turn, and fit it into the model's window.

Vendors have tokenizers that nobody else has. So PRSM counts by one rule that errs on the safe side:
three bytes of UTF-8 are a token. English and code have about four, Chinese and Japanese three, only
dense data fewer. If a vendor reports how full its window is, that counts instead.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from prsm_core.domain.agents import OWN_PART, AgentRole
from prsm_core.domain.messages import MessageType
from prsm_core.domain.record import Record
from prsm_core.domain.tools import encode_data
from prsm_core.domain.turns import AgentMessage, AssembledContext, TokenBudget
from prsm_core.engine.state import told_region
from prsm_core.interfaces.provider import SessionRequest
from prsm_core.kit.quotation import RULE, quote, quote_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor, ExpertProfile, PermissionMode
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.tools import ToolOutcome, ToolSpec
    from prsm_core.domain.turns import AgentToolCall
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.call import Toolbox
    from prsm_core.engine.turns.parts import TurnParts
    from prsm_core.interfaces.provider import Carried, CarriedCall, ProviderCapabilities


BYTES_PER_TOKEN = 3
IMAGE_TOKENS = 1600  # of a large one, which vendors scale down to so much
MESSAGE_TOKENS = 8  # what stands around a message: its role, the ends of its lines


def count_tokens(text: str) -> int:
    """Return a text's tokens: a third of its bytes in UTF-8, rounded up."""
    if text.isascii():
        return -(-len(text) // BYTES_PER_TOKEN)
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def message_tokens(message: AgentMessage) -> int:
    """Return the tokens of a message in a rebuilt conversation, where it is quoted."""
    return MESSAGE_TOKENS + count_tokens(quote(message.content))


def history_tokens(messages: Iterable[AgentMessage]) -> int:
    """Return the tokens of a rebuilt conversation."""
    return sum(map(message_tokens, messages))


def tool_tokens(tools: Iterable[ToolSpec]) -> int:
    """Return the tokens of tools' descriptions."""
    told = ((tool.name, tool.description, tool.input_schema) for tool in tools)
    return sum(count_tokens(encode_data(one)) for one in told)


class Room(Record, frozen=True):
    """A model's window in tokens, and how many of them PRSM fills; the rest is for the answer."""

    window: int
    fill: int

    @classmethod
    def of(cls, window: int, share: float, response: int | None = None) -> Room:
        """Return the room of a window to fill by `share`, leaving space for a set `response`."""
        fill = int(window * share)
        if response is not None:
            fill = min(fill, window - response)
        return cls(window, max(1, fill))


CUT = " … [the rest is left out: it does not fit]"
_LEFT_OUT = "[{count} messages stood here; they are left out, since they do not fit.]"


class Conversation(Record, frozen=True):
    """A head that stands for what was compacted, and all messages since."""

    head: tuple[AgentMessage, ...] = ()
    messages: tuple[AgentMessage, ...] = ()

    @property
    def all(self) -> tuple[AgentMessage, ...]:
        """The whole conversation, in order."""
        return (*self.head, *self.messages)


class Fitted(Record, frozen=True):
    """What of a conversation fits, and how many messages are left out or cut."""

    messages: tuple[AgentMessage, ...]
    left_out: int = 0
    is_cut: bool = False  # a message of the head is there in part


def fit(conversation: Conversation, room: int) -> Fitted:
    """Return what fits into `room` tokens: everything, or the head and the newest messages.

    Messages are left out whole; only the last message of a head that does not fit may be cut.
    Without room for even a mark the result is empty.
    """
    whole = conversation.all
    if not whole or history_tokens(whole) <= room:
        return Fitted(whole)
    rest = room - message_tokens(_mark(whole, len(whole)))
    if rest < 0:
        return Fitted((), len(whole))
    head, is_cut = _fit_head(conversation.head, rest)
    kept = newest(conversation.messages, rest - history_tokens(head))
    left_out = len(whole) - len(head) - len(kept)
    if not left_out:
        return Fitted((*head, *kept), 0, is_cut)
    return Fitted((*head, _mark(whole, left_out), *kept), left_out, is_cut)


def newest(messages: Sequence[AgentMessage], room: int) -> tuple[AgentMessage, ...]:
    """Return the newest messages in a row that fit together, in order."""
    first = len(messages)
    while first and (size := message_tokens(messages[first - 1])) <= room:
        first, room = first - 1, room - size
    return tuple(messages[first:])


def clipped(message: AgentMessage, room: int) -> AgentMessage | None:
    """Return a message, cut if it does not fit into `room` tokens; None if nothing would fit."""
    if message_tokens(message) <= room:
        return message

    def cut(length: int) -> AgentMessage:
        return replace(message, content=message.content[:length] + CUT)

    lengths = range(1, min(len(message.content), max(0, room) * BYTES_PER_TOKEN) + 1)
    kept = bisect_right(lengths, room, key=lambda length: message_tokens(cut(length)))
    return cut(kept) if kept else None


def _fit_head(head: Sequence[AgentMessage], room: int) -> tuple[tuple[AgentMessage, ...], bool]:
    kept: list[AgentMessage] = []
    for message in head:
        part = clipped(message, room)
        if part is not message:
            return ((*kept, part), True) if part is not None else (tuple(kept), False)
        kept.append(message)
        room -= message_tokens(message)
    return tuple(kept), False


def _mark(messages: Sequence[AgentMessage], count: int) -> AgentMessage:
    first = messages[0]
    return AgentMessage(
        id=f"{first.id}:left_out",
        role="system",
        content=_LEFT_OUT.format(count=count),
        sequence=0,
        created_at=first.created_at,
    )


class ModelParameters(NamedTuple):
    """Settings for a model's answers; None leaves one to the vendor."""

    max_response_tokens: int | None = None
    temperature: float | None = None


def model_parameters(provider: str, model: str, settings: Settings) -> ModelParameters:
    """Return what a model's aliases set; no two of them differ."""
    if not settings.models:
        return ModelParameters()
    found = {
        name: value
        for alias in settings.models.values()
        if (alias.provider, alias.model_id) == (provider, model)
        for name in ModelParameters._fields
        if (value := getattr(alias, name)) is not None
    }
    return ModelParameters(**found)


def describe_ignored(provider: str, settings: Settings, capabilities: ProviderCapabilities) -> str:
    """Return a note on alias keys that a provider ignores, or a blank."""
    keys = [
        f"models.{alias}.{name}"
        for alias, model in settings.models.items()
        if model.provider == provider
        for name in ModelParameters._fields
        if getattr(model, name) is not None and name not in capabilities.parameters
    ]
    if not keys:
        return ""
    return f"provider {provider} has no switch for {', '.join(keys)}: what is set there is ignored"


_MASTER = """\
You lead a team of coding agents. You read and reason; every change to files is made by agents \
you spawn. Give what one agent does in a few steps to one child, whole. Split only a larger task, \
into independent parts with clear results, spawn a child for each (spawn_children_parallel for \
parts that can run at once), then take all results together: call wait_for_message with all. A \
question ends it early: answer at once with respond_to_child, and wait again. Check the results. \
When all is done call task_complete with a summary for the user."""

_SOLO = """\
You work on the task yourself: read, edit files, run commands and checks. """
_SOLO_SPAWNS = """\
Do what one agent does in a few steps alone. Spawn children only for independent parts that are \
each worth an agent (spawn_children_parallel for parts that can run at once), then take all \
results together: call wait_for_message with all. A question ends it early: answer at once with \
respond_to_child, and wait again. """
_SOLO_ENDS = """\
When all is done call task_complete with a short summary of what you did and how you checked it."""

_WORKER = """\
You are one agent of a team. Do the task you are given, nothing else. If you need to know more, \
call ask_parent and go on with its answer. Report progress on long work. You may spawn children \
for independent parts. When you are done call task_complete with a short summary of what you did \
and how you checked it."""

_READER = """\
You are asked for your judgement. Read what you need; change nothing. Call task_complete with \
your answer."""

TWIN_CHARACTERS = 8000  # of each answer that is told a second time
_NO_ANSWERS: dict[str, ToolOutcome] = {}  # of nearly all agents: nobody changes it
_GOES_ON = "You were cut off in the midst of your turn, which goes on. Of your calls:"

_PROMPTS: Mapping[AgentRole, str] = {
    AgentRole.MASTER: _MASTER,
    AgentRole.WORKER: _WORKER,
    AgentRole.EXPERT: _READER,
    AgentRole.REVIEWER: _READER,
}


class Prompt(Record, frozen=True, gc=False, kw_only=True):
    """What a turn begins with; without a text it continues where the last turn stopped."""

    text: str | None
    consumed: tuple[str, ...] = ()
    history: tuple[AgentMessage, ...] = ()  # what the vendor's thread does not hold
    again: bool = False  # it tells what the thread lacked when the turn went on
    reminds: str | None = None  # the question that it shows again, since a knot hangs on it
    repeats: str | None = None  # … since its turn has ended without an answer


def build_role_prompt(
    role: AgentRole,
    name: str,
    *,
    may_spawn: bool,
    experts: Iterable[ExpertProfile] = (),
    expert: ExpertProfile | None = None,
    is_solo: bool = False,
    region: Sequence[str] | None = None,
    team: str = "",
) -> str:
    """Return an agent's system prompt; what differs between siblings comes last."""
    text = _PROMPTS[role]
    if is_solo:
        text = "".join((_SOLO, _SOLO_SPAWNS if may_spawn else "", _SOLO_ENDS))
    if expert is not None:
        text = f"{expert.system_prompt}\n{text}"
    if role is AgentRole.WORKER and not may_spawn:
        text = text.replace("You may spawn children for independent parts. ", "")
    own = [f"{OWN_PART}{name}."]
    if region is not None:
        own.append(
            f"You write only below {told_region(region)}. "
            "Anything else is others' to change: ask_parent for it."
        )
    if team:
        own.append(team)
    return "\n".join((text, RULE, *_known(experts))) + "\n".join(own)


def _known(profiles: Iterable[ExpertProfile]) -> Iterator[str]:
    told: dict[str, list[str]] = {}
    for profile in profiles:
        is_expert = profile.role is AgentRole.EXPERT
        head = "Experts, for consult_expert:" if is_expert else "Profiles, for spawn_child:"
        name = profile.expert_id if is_expert else f"{profile.expert_id} ({profile.role.value})"
        told.setdefault(head, []).append(f"- {name}: {profile.description}")
    for head, lines in told.items():
        yield "\n".join((head, *lines))


def assemble_context(
    record: AgentRecord,
    prompt: Prompt,
    current: AgentMessage | None,
    *,
    parts: TurnParts,
    toolbox: Toolbox,
    timeout_ms: int | None,
) -> AssembledContext:
    """Return the context of an agent's next turn, counted as if nothing was sent before."""
    agent, history, held = record.descriptor, prompt.history, record.context_used
    system_prompt = parts.system_prompt(agent)
    if record.resume_token is None and (history or record.next_turn == 1):
        held = count_tokens(system_prompt) + toolbox.tokens + history_tokens(history)
    texts = [message.content for message in (*history, current) if message is not None]
    images = parts.images(record, texts)
    if held is not None:
        held += len(images) * IMAGE_TOKENS
        held += 0 if current is None else count_tokens(current.content)
    return AssembledContext(
        system_prompt=system_prompt,
        history=history,
        current_message=current,
        images=images,
        tools=toolbox.specs,
        model=agent.model,
        provider=agent.provider,
        thinking_config=thinking(agent.reasoning_effort),
        **model_parameters(agent.provider, agent.model, parts.settings)._asdict(),
        token_budget=TokenBudget(context_window=window_of(record, parts.window), used=held),
        timeout_ms=timeout_ms,
        abort_signal=parts.abort.signal,
        run_id=parts.journal.run_id,
        session_label=record.label,
        parent_turn_id=record.head_turn_id,
        role=ledger_role(agent),
        toolset_name=agent.role.value,
        permissions_granted=_granted(agent.mode, agent.usable_tools),
        source_event_id=next(iter(prompt.consumed), None),
        workspace_path=parts.workspace(agent.cwd),
    )


def ledger_role(agent: AgentDescriptor) -> str:
    """Return an agent's role in the ledger: manager, worker, or unified (both)."""
    if agent.role is not AgentRole.MASTER:
        return "worker"
    return "unified" if agent.is_solo else "manager"


def window_of(record: AgentRecord, known: Callable[[str, str], int | None]) -> int | None:
    """Return the context window of an agent's model in tokens: the vendor's figure comes first."""
    agent = record.descriptor
    return record.context_window or known(agent.provider, agent.model)


def room_of(descriptor: AgentDescriptor, settings: Settings, window: int | None) -> Room | None:
    """Return how much of a model's window is filled; None if its size is unknown."""
    if window is None:
        return None
    parameters = model_parameters(descriptor.provider, descriptor.model, settings)
    return Room.of(window, settings.context.fill, parameters.max_response_tokens)


@lru_cache(maxsize=256)
def _granted(mode: PermissionMode, tools: frozenset[str]) -> tuple[str, ...]:
    return (mode.value, *sorted(tools))


def thinking(effort: str | None) -> dict[str, str] | None:
    """Return the thinking configuration; None leaves it to the vendor."""
    return {"effort": effort} if effort else None


def render_messages(messages: Sequence[RoutedMessage], names: Mapping[str, str]) -> str:
    """Return unread messages as the prompt of a new turn."""
    return "\n\n".join(_render(message, names) for message in messages)


def _render(message: RoutedMessage, names: Mapping[str, str]) -> str:
    who = "The user" if message.source is None else names.get(message.source, message.source)
    payload = message.payload
    if message.type is MessageType.QUESTION:
        return (
            f"{who} asks (correlation_id {message.correlation_id}):\n{quote(payload['text'])}\n"
            "Answer with respond_to_child."
        )
    if message.type is MessageType.TASK_RESULT:
        tree = payload.get("worktree") or {}
        return "\n".join(filter(None, (f"{who} {_ended(payload)}", tree.get("note"))))
    if message.type is MessageType.PEER:
        who = f"{who}, another agent of this run,"
    return f"{who} writes:\n{quote(payload.get('text', ''))}"


def _ended(result: Mapping[str, Any]) -> str:
    if not result["success"]:
        return f"has failed:\n{quote(result['error'] or result['summary'])}"
    gaps = "\n".join(result.get("evidence_gaps", ()))
    level = f" ({result['evidence']})" if gaps or result["evidence"] != "claimed" else ""
    told = f"has completed its task{level}. It reports:\n{quote(result['summary'])}"
    return f"{told}\nWhat of it could not be confirmed:\n{quote(gaps)}" if gaps else told


def render_repeat(message: RoutedMessage, names: Mapping[str, str]) -> str:
    """Return the prompt that repeats an unanswered question."""
    return "You have not answered this question yet.\n" + _render(message, names)


def render_untold(prompts: Sequence[str], calls: Sequence[CarriedCall]) -> str:
    """Return the prompt of a continued turn: what the vendor's thread lacks."""
    if not calls:
        return "\n\n".join(prompts)
    return "\n\n".join((*prompts, "\n".join((_GOES_ON, *map(_answer, calls)))))


def _answer(call: CarriedCall) -> str:
    made = f"{quote_word(call.tool)} with {encode_data(call.arguments)}"
    if call.outcome is None:
        return f"{made}: nobody saw its end. It may have run: look before you make it again."
    how = "failed" if call.outcome.is_error else "was answered"
    return f"{made} {how}:\n{quote(call.outcome.text)}"


def render_twins(calls: Sequence[AgentToolCall]) -> str:
    """Return the answers of calls that their model gave the same id in one response."""
    lines = [
        f"You gave one id to {len(calls)} calls of one answer, so what you were shown as the "
        "answer of one may be that of another. They were answered:"
    ]
    for call in calls:
        text = (call.error if call.error is not None else call.result) or "nothing"
        cut = text if len(text) <= TWIN_CHARACTERS else f"{text[:TWIN_CHARACTERS]}…"
        made = f"{quote_word(call.tool_name)} with {encode_data(call.params)}"
        lines.append(f"{made}:\n{quote(cut)}")
    return "\n".join((*lines, "Give each call an id of its own."))


def session_request(
    record: AgentRecord,
    settings: Settings,
    workspace: str,
    system_prompt: str,
    carried: Carried | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> SessionRequest:
    """Return the request that opens the provider's session."""
    descriptor, rules = record.descriptor, settings.permissions
    parameters = model_parameters(descriptor.provider, descriptor.model, settings)
    tools, calls = rules.tools.values(), () if carried is None else carried.calls
    answers = {call.call_id: call.outcome for call in calls if call.outcome is not None}
    return SessionRequest(
        agent_id=descriptor.agent_id,
        name=descriptor.name,
        role=descriptor.role,
        model=descriptor.model,
        system_prompt=system_prompt,
        cwd=descriptor.cwd,
        mode=descriptor.mode,
        native_tools=descriptor.usable_tools,
        reasoning_effort=descriptor.reasoning_effort,
        mcp_servers=descriptor.mcp_servers,
        resume_token=record.resume_token,
        answers=answers or _NO_ANSWERS,
        carried=carried,
        max_response_tokens=parameters.max_response_tokens,
        temperature=parameters.temperature,
        workspace=workspace,
        labels=descriptor.labels,
        box=settings.box.to_box(),
        variables=variables,
        # The policy holds only with a provider that asks before each call.
        must_ask=bool(rules.deny or rules.required or rules.require or "deny" in tools),
    )
