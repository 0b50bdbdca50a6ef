"""What is said in the extension mode: a JSON object a line, each with a `type`.

In, on stdin:

    {"type": "run", "intent": "…"}                            with "effort": low, medium or high
    {"type": "approve", "approved": true}                     the plan; with "request": a permission
    {"type": "answer", "request": "…", "text": "…"}           a question of an agent
    {"type": "retry", "subtask_indices": [1]}                 subtasks that failed; none: no retry
    {"type": "cancel"}

Out, on stdout: `state`, `plan`, `progress`, `agent_tcp`, `result`, `error`, as `frontend` makes
them, and `permission` and `question`, which an agent asks of the person.

A feed, of what one agent does to files, begins with a `snapshot` and goes on with `delta` and
`usage`:

    {"type": "snapshot", "agent_id", "name", "region", "seq", "nodes": [NODE, …], "usage": USAGE}
    {"type": "delta", "agent_id", "seq", "nodes": [NODE, …]}
    {"type": "usage", "agent_id", "seq", "usage": USAGE}

A NODE is a file, `path` (of the workspace, with `/`), what was done to it last, `action`, by whom,
`agent_id`, and `seq`, the event of the session that told of it. USAGE holds the tokens of the
agent's turns so far, `input_tokens`, `output_tokens` and `total_tokens`, None where nobody told.

Nodes are registers in which the last writer wins, by `seq`. Numbers of events are given once in a
session, so that two writers never tie; a file that is deleted stays as a node that says so. Whoever
merges the feeds of all agents therefore has the same graph whatever came first, and also where
something came twice.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from prsm_core import EDIT_TOOLS, ConfigError, Spent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prsm_core import Event

LINE_LIMIT = 1 << 20  # bytes of one line that is read


class Run(msgspec.Struct, frozen=True, tag="run", forbid_unknown_fields=True):
    """Carry out an intent; without an effort that of the configuration holds."""

    intent: str
    effort: Literal["low", "medium", "high"] | None = None


class Approve(msgspec.Struct, frozen=True, tag="approve", forbid_unknown_fields=True):
    """Take the plan or refuse it; with `request`, what an agent asks to be allowed."""

    approved: bool
    request: str | None = None


class Reply(msgspec.Struct, frozen=True, tag="answer", forbid_unknown_fields=True):
    """Answer an agent's question."""

    request: str
    text: str


class Retry(msgspec.Struct, frozen=True, tag="retry", forbid_unknown_fields=True):
    """Try these subtasks again, by their index from 0."""

    subtask_indices: tuple[int, ...]


class Cancel(msgspec.Struct, frozen=True, tag="cancel", forbid_unknown_fields=True):
    """End the run."""


Command = Run | Approve | Reply | Retry | Cancel

_DECODER: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


def read_command(line: bytes) -> Command:
    """Read one line; raise ConfigError that says what of it is wrong."""
    try:
        command = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"this line is no command: {error}",
            hint='a command is such as {"type": "run", "intent": "…"}; there are run, approve,'
            " answer, retry and cancel",
            code="bad_command",
        ) from error
    if isinstance(command, Run) and not command.intent.strip():
        raise ConfigError("run has no intent", hint="say what is to be done", code="bad_command")
    return command


def write_message(message: dict[str, Any]) -> bytes:
    """Return a message as a line; what is no text of Unicode in it is replaced."""
    text = json.dumps(message, ensure_ascii=True, separators=(",", ":"))
    return text.encode() + b"\n"


MAX_NODES = 20_000  # of one feed: later files are not in it
PATHS = ("file_path", "path", "notebook_path", "filename", "file")  # arguments that name a file
TOKENS = ("input_tokens", "output_tokens", "total_tokens")

Message = dict[str, Any]


def tokens_of(spent: Spent) -> dict[str, int | None]:
    """Return the counts of TOKENS; the total is the sum of what is known where nobody told it."""
    counts = spent.counts
    return {name: counts[name] for name in TOKENS}


class Feed:
    """What one agent has done: fold the session's events, take what is new.

    Paths are those of `folder`, or of the agent's own folder in a worktree; others are in no feed.
    """

    def __init__(self, agent: str, *, name: str, region: str, folders: Iterable[str]) -> None:
        self.agent = agent
        self.name = name
        self.region = region
        self._folders = tuple(PurePosixPath(folder) for folder in dict.fromkeys(folders))
        self._nodes: dict[str, Message] = {}  # by path
        self._spent = Spent()
        self._seq = 0

    def fold(self, event: Event) -> list[Message]:
        """Return what the event adds to the feed: a delta, a usage, or nothing."""
        if event.seq is None or not self._is_about(event):
            return []
        if event.type == "turn_finished":
            return self._used(event.seq, event.data.get("usage") or {})
        nodes = [node for node in self._nodes_of(event) if self._take(node)]
        delta = {"type": "delta", "agent_id": self.agent, "seq": event.seq, "nodes": nodes}
        return [delta] if nodes else []

    def snapshot(self) -> Message:
        """Return all of it."""
        return {
            "type": "snapshot",
            "agent_id": self.agent,
            "name": self.name,
            "region": self.region,
            "seq": self._seq,
            "nodes": list(self._nodes.values()),
            "usage": tokens_of(self._spent),
        }

    def _is_about(self, event: Event) -> bool:
        if event.type == "file_changed":
            return self.agent in (event.data.get("agents") or [event.agent])
        return event.agent == self.agent

    def _nodes_of(self, event: Event) -> Iterator[Message]:
        if event.type == "file_changed":
            named, action = [event.data.get("path")], str(event.data.get("kind") or "changed")
        elif event.type == "tool_call_started" and not event.data.get("orchestration"):
            arguments = event.data.get("arguments") or {}
            named = [arguments.get(name) for name in PATHS]
            action = "write" if event.data.get("tool") in EDIT_TOOLS else "read"
        else:
            return
        for path in named:
            if isinstance(path, str) and (inside := self._inside(path)) is not None:
                node = {"path": inside, "action": action, "agent_id": self.agent}
                yield {**node, "seq": event.seq}

    def _inside(self, path: str) -> str | None:
        """Return a path as one of the workspace; None for what is elsewhere."""
        found = PurePosixPath(path)
        if found.is_absolute():
            homes = [folder for folder in self._folders if found.is_relative_to(folder)]
            if not homes:
                return None
            found = found.relative_to(max(homes, key=lambda folder: len(folder.parts)))
        if ".." in found.parts or not found.parts:
            return None
        return str(found)

    def _take(self, node: Message) -> bool:
        known = self._nodes.get(node["path"])
        is_late = known is not None and known["seq"] >= node["seq"]
        if is_late or (known is None and len(self._nodes) >= MAX_NODES):
            return False
        self._nodes[node["path"]] = node
        self._seq = max(self._seq, node["seq"])
        return True

    def _used(self, seq: int, usage: Mapping[str, Any]) -> list[Message]:
        self._spent += Spent.from_dict(usage)
        self._seq = max(self._seq, seq)
        tokens = tokens_of(self._spent)
        return [{"type": "usage", "agent_id": self.agent, "seq": seq, "usage": tokens}]
