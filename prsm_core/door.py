"""What `AppHandle` and `Hub` answer: frozen records, public by their names here.

`msgspec.to_builtins` makes the JSON of one: what commands print with `--json`, in the order of its
fields, and what another process is answered. A field that is UNSET is not in it.
"""

from __future__ import annotations

# msgspec reads the annotations.
from collections.abc import Mapping  # noqa: TC003
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType, field

from prsm_core.domain.record import Record

__all__ = [
    "BudgetLine",
    "BudgetReport",
    "CallEntry",
    "Completion",
    "Entry",
    "HistoryEntry",
    "HubSession",
    "ModelRow",
    "ProviderReport",
    "ResultEntry",
    "SessionSummary",
    "Snapshot",
    "TextEntry",
    "ThinkingEntry",
    "UserEntry",
]


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


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

    waits: Its open requests, as `AppHandle.requests` tells them; none of one that nobody owns.
    """

    waits: tuple[Mapping[str, Any], ...] = ()


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


class Snapshot(Record, frozen=True, kw_only=True):
    """The files of a folder at a moment.

    id: By which `prsm snapshot` knows it.
    kind: What it was taken for: run, prompt, manual …
    session: The session that it was taken for.
    position: The number of that session's newest commit before it.
    taken_at: Unix seconds.
    agent: Whom the prompt is for, as an id.
    folder: As an absolute path.
    tree: The git object that holds the files.
    branch, head: Of the repository then; None for none.
    description: In a person's words, or the prompt.
    bytes_skipped: Of files that were too large to keep.
    unquiet: The agents, with what they ran, that may have written meanwhile.
    """

    id: str
    kind: str
    session: str | None
    position: int
    taken_at: float
    agent: str | None
    folder: str
    tree: str
    branch: str | None
    head: str | None
    description: str
    bytes_skipped: int
    unquiet: tuple[str, ...]


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


class Entry(Record, frozen=True, kw_only=True, tag_field="kind"):
    """A part of an agent's conversation. `kind` says which, in the JSON and here.

    seq: The number of the event that it is of.
    at: Unix seconds.
    """

    seq: int
    at: float | int

    @property
    def kind(self) -> str:
        """What it is: user_message, text, thinking, tool_call or tool_result."""
        return str(self.__struct_config__.tag)


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


class Completion(Record, frozen=True, kw_only=True):
    """What a person's word may become.

    text: What takes the place of the word.
    kind: What that names.
    """

    text: str
    kind: Literal["file", "folder", "agent"]


def json_schema() -> dict[str, Any]:
    """Return one JSON Schema of all records, by their names in `$defs`."""
    kinds = {name: globals()[name] for name in __all__}
    shapes, parts = msgspec.json.schema_components(kinds.values(), ref_template="#/$defs/{name}")
    unions = {name: shape for name, shape in zip(kinds, shapes, strict=True) if name not in parts}
    return {"$schema": _DIALECT, "$defs": parts | unions}
