"""A session: its agents, what they ask and say, its runs, and what these may use."""

from __future__ import annotations

# msgspec reads the annotations.
from collections.abc import Iterator, Mapping  # noqa: TC003
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType, field

from prsm_core.domain.permissions import Answer  # noqa: TC001
from prsm_core.domain.record import Record
from prsm_core.domain.usage import Spent
from prsm_core.errors import MessageRoutingError


class _Tagged(Record, frozen=True, kw_only=True, tag_field="kind"):
    """One of several kinds. `kind` says which, in the JSON and here."""

    @property
    def kind(self) -> str:
        """The tag."""
        return str(self.__struct_config__.tag)


class OpenPermission(_Tagged, frozen=True, kw_only=True, tag="permission"):
    """A permission that an agent waits for; `kind` tells it from a question.

    request: Its id.
    tool, call, arguments, cwd: What would be called, by which call, with what, and in which folder.
        Arguments are without secrets, and cut.
    command: What a shell would run; None for another tool.
    paths, change: The files that it is about, and what an edit would do to its file.
    reason, check: Why a person is asked, and the permission check of a plugin that asks.
    parts: The parts of the command that are not allowed yet.
    options, rules: The answers that it takes, and the rules that they would make.
    agent, name: Who asks, by id and by name.
    opened_at, expires_at: Since when, and until when, it can be answered, in Unix seconds.
    """

    request: str
    tool: str
    command: str | None = None
    paths: tuple[str, ...] = ()
    reason: str | None = None
    parts: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    rules: Mapping[str, Any] = field(default_factory=dict)
    call: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cwd: str | None = None
    check: str | UnsetType = UNSET
    change: Mapping[str, Any] | UnsetType = UNSET
    expires_at: float | None = None
    agent: str
    name: str
    opened_at: float


class OpenQuestion(_Tagged, frozen=True, kw_only=True, tag="question"):
    """A question that an agent waits for; `kind` tells it from a permission.

    request, call: Its id, and that of the call that asks.
    question, data: The text, and what may be drawn beside it.
    options, multiple: The choices that it offers, and whether several may be taken.
    agent, name, opened_at, expires_at: As of a permission.
    """

    request: str
    question: str
    options: tuple[str, ...] = ()
    call: str | None = None
    multiple: bool = False
    data: Mapping[str, Any] | UnsetType = UNSET
    expires_at: float | None = None
    agent: str
    name: str
    opened_at: float


OpenRequest = OpenPermission | OpenQuestion
"""What an agent waits for a person to answer, tagged by `kind`."""


class RequestOutcome(Record, frozen=True, kw_only=True):
    """How a request has ended.

    request: Its id.
    by, via: Who answered it (user, timeout, rule …), and where a person was.
    verdict: Of a permission; UNSET of a question.
    answer: To a question: None where it got none; UNSET of a permission.
    """

    request: str
    by: str
    via: str = ""
    verdict: str | UnsetType = UNSET
    answer: Answer | UnsetType | None = UNSET


class Waiting(Record, frozen=True, kw_only=True):
    """What an agent asks a person, as the tree tells it; `Requests.open` tells more.

    request, kind, since: Its id, permission or question, and when it asked, in Unix seconds.
    tool, command, paths, reason, question, options: As of the request.
    """

    request: str
    kind: str
    since: float
    tool: str | UnsetType = UNSET
    command: str | UnsetType | None = UNSET
    paths: tuple[str, ...] | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    question: str | UnsetType = UNSET
    options: tuple[str, ...] | UnsetType = UNSET


class Usage(Record, frozen=True, kw_only=True):
    """What an agent or several used; a count that is not known is None.

    input_tokens, output_tokens: What models read and wrote.
    cached_input_tokens, cache_write_tokens, reasoning_tokens: Parts of these.
    total_tokens: All that is known of it; `of_unknown_kind` is neither input nor output.
    cost_usd: US dollars.
    provenance: How tokens and cost are known: measured, estimated or unknown.
    unknown_turns: How many closed turns did not tell all tokens, and how many no cost.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_tokens: int | None = None
    of_unknown_kind: int | None = None
    cost_usd: float | int | None = None
    provenance: Mapping[Literal["tokens", "cost"], str] = field(default_factory=dict)
    unknown_turns: Mapping[Literal["tokens", "cost"], int] = field(default_factory=dict)

    @property
    def as_spent(self) -> Spent:
        """The same as a sum that goes on."""
        return Spent.from_dict(msgspec.structs.asdict(self))


class ChangeCount(Record, frozen=True, kw_only=True):
    """How much was changed: `files`, and lines `added` and `removed`."""

    files: int
    added: int
    removed: int


class OpenTool(Record, frozen=True, kw_only=True):
    """A call that runs: its id `call`, its `tool`, and `since` when, in Unix seconds."""

    call: str
    tool: str
    since: float


class UnreadPrompt(Record, frozen=True, kw_only=True):
    """A person's prompt that its agent has not read: its `text`, and `at` in Unix seconds."""

    text: str
    at: float


class AgentNode(Record, frozen=True, kw_only=True):
    """An agent in the tree, with all below it.

    id, name, role, depth: Who it is, and how many are above it.
    run, parent: The run that it is of, and the id of the agent that spawned it.
    provider, model, next_model: Of its turns, and of the next one as `provider/model` if that is
        another.
    state, waiting_on: Such as running, or `interrupted` where nobody runs it; and what holds it.
    usage_self, usage_subtree: What it used, and what it and all below it did.
    elapsed_s, silent_s: Seconds that it has run, and since something was heard of it.
    last_tool: That it called.
    evidence, evidence_gaps, evidence_by: How far its success was looked into, what speaks against
        it, and what confirmed it.
    waits_for_user: What it asks a person.
    children: The agents that it spawned, oldest first.
    changes_self, changes_subtree: What it changed in files, and what it and all below it did,
        without what was taken back. What may be of several counts for the likeliest.
    mode, labels: Its permission mode, and what is said of it.
    context: How full the model's window was at the end of its last turn; None where nobody told.
    open_tools, prompts: The calls that run, and a person's prompts that it has not read.

    `Agents.tree` does not tell the last five, and a view not the changes.
    """

    id: str
    name: str
    run: str | None
    parent: str | None
    role: str
    provider: str
    model: str
    next_model: str | None = None
    state: str
    waiting_on: str | None = None
    depth: int
    usage_self: Usage = Usage()
    usage_subtree: Usage = Usage()
    elapsed_s: float | None = None
    last_tool: str | None = None
    silent_s: float | None = None
    evidence: str | None = None
    evidence_gaps: tuple[str, ...] = ()
    evidence_by: tuple[str, ...] = ()
    waits_for_user: tuple[Waiting, ...] = ()
    children: tuple[AgentNode, ...] = ()
    changes_self: ChangeCount | UnsetType = UNSET
    changes_subtree: ChangeCount | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    labels: Mapping[str, str] | UnsetType = UNSET
    context: Mapping[str, Any] | UnsetType | None = UNSET
    open_tools: tuple[OpenTool, ...] | UnsetType = UNSET
    prompts: tuple[UnreadPrompt, ...] | UnsetType = UNSET

    def walk(self) -> Iterator[AgentNode]:
        """Yield it and all below it, each parent before its children."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


class AgentTree(Record, frozen=True, kw_only=True):
    """The agents of a session.

    session, run: Its id, and its newest run.
    is_live, spent: What all agents used, and whether turns that run are in that.
    agents: Those that nobody spawned, oldest first.
    """

    session: str
    run: str | None
    is_live: bool
    spent: Usage
    agents: tuple[AgentNode, ...]

    def walk(self) -> Iterator[AgentNode]:
        """Yield all agents, each parent before its children."""
        for root in self.agents:
            yield from root.walk()

    def find(self, agent: str) -> AgentNode:
        """Return the newest agent of an id or a name; raises MessageRoutingError for none."""
        found = [node for node in self.walk() if agent in {node.id, node.name}]
        if not found:
            raise MessageRoutingError(f"no agent is called {agent!r}", code="unknown_agent")
        return found[-1]


class Entry(_Tagged, frozen=True, kw_only=True):
    """A part of an agent's conversation, from the event `seq`, `at` in Unix seconds."""

    seq: int
    at: float | int


class UserEntry(Entry, frozen=True, kw_only=True, tag="user_message"):
    """What an agent was told.

    text: As it was said.
    again: Whether it tells what other entries have, since the vendor's thread lacked it.
    """

    text: str
    again: bool | UnsetType = UNSET


class TextEntry(Entry, frozen=True, kw_only=True, tag="text"):
    """What an agent said: its `text`."""

    text: str


class ThinkingEntry(Entry, frozen=True, kw_only=True, tag="thinking"):
    """What an agent thought: its `text`."""

    text: str


class CallEntry(Entry, frozen=True, kw_only=True, tag="tool_call"):
    """A call that an agent began.

    tool: The tool's name.
    call, arguments: Its id, and what it was given; UNSET in a summary.
    """

    tool: str
    call: str | UnsetType = UNSET
    arguments: Mapping[str, Any] | UnsetType = UNSET


class ResultEntry(Entry, frozen=True, kw_only=True, tag="tool_result"):
    """The end of a call.

    tool: The tool's name; None where its beginning is not known.
    call: Its id.
    status: completed, failed, denied …
    text: Why it failed, and what it wrote.
    """

    tool: str | None
    call: str
    status: str | None
    text: str


HistoryEntry = UserEntry | TextEntry | ThinkingEntry | CallEntry | ResultEntry
"""A part of an agent\'s conversation, tagged by `kind`."""


class RunState(Record, frozen=True, kw_only=True):
    """A run.

    id, task: The task as the person wrote it.
    status: running, completed, failed, killed or interrupted.
    started_at, finished_at: Unix seconds.
    summary, error: As its end told them.
    """

    id: str
    task: str
    status: str
    started_at: float
    finished_at: float | None = None
    summary: str = ""
    error: str | None = None


class UnwrittenMessage(Record, frozen=True, kw_only=True):
    """A whole message whose event comes after the view: its number, its text, its thinking."""

    message: int
    text: str
    thinking: str


class RunningTurn(Record, frozen=True, kw_only=True):
    """A turn that runs.

    agent, turn, n: Whose it is, its id, and its number, from 1.
    message: The number of the message that the model is at, from 1.
    text, thinking, at: What it has said of that message so far, and the characters of the text.
    unwritten: Messages of the turn that are complete, with their events after the view's `seq`.
    """

    agent: str
    turn: str
    n: int
    message: int
    text: str
    thinking: str
    at: int
    unwritten: tuple[UnwrittenMessage, ...] = ()


class BudgetLine(Record, frozen=True, kw_only=True):
    """What a run has of one kind: tokens, US dollars, turns or agents.

    used: None where nobody told it.
    reserved: Set aside for what runs.
    left, limit: UNSET where there is no limit; the limits around the run count for `left`, too.
    source: How what was used is known: measured, estimated or unknown; of tokens and dollars.
    unknown_turns: How many turns nobody told it of; UNSET for none.
    """

    used: float | int | None
    reserved: float | int
    left: float | int | UnsetType = UNSET
    limit: float | int | UnsetType = UNSET
    source: str | UnsetType = field(default=UNSET, name="from")
    unknown_turns: int | UnsetType = UNSET


class BudgetReport(Record, frozen=True, kw_only=True):
    """What the newest run has used, reserved and left.

    run: By kind: tokens, usd, turns and spawns.
    spent: What was used, in words.
    """

    run: Mapping[Literal["tokens", "usd", "turns", "spawns"], BudgetLine]
    spent: str


class View(Record, frozen=True, kw_only=True):
    """One picture of a session, as it was when event `seq` was its last.

    session, mode: Its id, and the mode that the next run has.
    run, budget: The newest run, None before the first, and what it has used and left.
    tree, requests, turns: All agents, what waits for a person, oldest first, and what runs.
    """

    seq: int
    session: str
    run: RunState | None
    tree: AgentTree
    requests: tuple[OpenRequest, ...]
    turns: tuple[RunningTurn, ...]
    mode: str
    budget: BudgetReport


class SessionSummary(Record, frozen=True, kw_only=True):
    """A session of a ledger, as it is listed.

    session: Its id.
    name: That a person gave it.
    run: The id of its newest run; None before the first.
    status: Of that run: running, completed, failed, killed, or interrupted, which is also one that
        nobody runs any more.
    task: Of its first run, as the person wrote it.
    workspace: The folder, as an absolute path.
    started_at: When it began, in Unix seconds.
    last_seq: The number of its newest event.
    pid: The process that owns it; None for one that nobody owns.
    origin: The session that it was forked from.
    """

    session: str
    name: str | None
    run: str | None
    status: str | None
    task: str
    workspace: str
    started_at: float
    last_seq: int
    pid: int | None
    origin: str | None


class HubSession(SessionSummary, frozen=True, kw_only=True):
    """A session as a hub lists it.

    waits: Its open requests, as `Requests.open` tells them; none of one that nobody owns.
    """

    waits: tuple[OpenRequest, ...] = ()


class PolicyRule(Record, frozen=True, kw_only=True):
    """A rule on commands.

    verdict: allow, ask or deny.
    words: With which a command begins, as the policy in force writes a rule.
    layer: own or workspace; None for a rule that counts alike wherever it is from.
    """

    verdict: str
    words: tuple[str, ...] = ()
    layer: str | None = None


class PolicyGrant(Record, frozen=True, kw_only=True):
    """What was allowed always.

    agent_id: To which agent and all below it.
    tool, command: What it may call, and the command of a shell; None for another tool.
    """

    agent_id: str
    tool: str
    command: str | None = None


class PolicyReport(Record, frozen=True, kw_only=True):
    """What is allowed, asked and denied.

    rules: On commands, the strongest first.
    tools: The verdict on a whole tool, by its name.
    grants: What was allowed always in this session, oldest first.
    """

    rules: tuple[PolicyRule, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    grants: tuple[PolicyGrant, ...] = ()


class DetachedRun(Record, frozen=True, kw_only=True):
    """A run that a process of its own owns to its end.

    session: Its id.
    run: Its id; None where a session is served, and no run was begun.
    pid: The owner's.
    notes: What a person is to be told of a run that goes on.
    """

    session: str
    run: str | None
    pid: int
    notes: tuple[str, ...] = ()


class ProviderReport(Record, frozen=True, kw_only=True):
    """Whether a provider can be used.

    name: As the configuration names it.
    available: Whether it can be used now.
    version: Of its program, as that prints it; None where it has none, or it is not known.
    tested: The versions that it was tested with.
    logged_in: None where that is not known.
    enforcement: How far it keeps agents to the policy: approval, native or none.
    resume: What of a conversation outlives its process: call, native or rebuild.
    reason: Why it cannot be used.
    hint: What helps.
    gaps: What of the policy it does not enforce, a sentence each.
    """

    name: str
    available: bool
    version: str | None = None
    tested: str | None = None
    logged_in: bool | None = None
    enforcement: str | None = None
    resume: str | None = None
    reason: str | None = None
    hint: str | None = None
    gaps: tuple[str, ...] = ()


class ModelRow(Record, frozen=True, kw_only=True):
    """A model that is known.

    provider, model: Its names: together they are `provider/model`.
    aliases: What the configuration calls it.
    known_from: Where it was found: alias, registry or provider.
    tier: Its rough strength.
    cost_factor, speed_factor: Beside a typical model, which is 1.
    affinities: How well it does by category of task, 0 to 1.
    display_name: As its provider calls it.
    context_window: In tokens.
    reasoning_efforts: That it may be given, in its provider's words.
    hidden: Whether its provider does not show it to people.
    """

    provider: str
    model: str
    aliases: tuple[str, ...] = ()
    known_from: tuple[str, ...] = ()
    tier: str | None = None
    cost_factor: float | None = None
    speed_factor: float | None = None
    affinities: Mapping[str, float] = field(default_factory=dict)
    display_name: str | None = None
    context_window: int | None = None
    reasoning_efforts: tuple[str, ...] = ()
    hidden: bool = False


class Completion(Record, frozen=True, kw_only=True):
    """What a person's word may become.

    text: What takes the place of the word.
    kind: What that names.
    """

    text: str
    kind: Literal["file", "folder", "agent"]
