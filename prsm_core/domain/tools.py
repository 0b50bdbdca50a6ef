"""Tools: what an agent is offered, what a call returns, and MCP servers by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import field
from msgspec.structs import replace

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prsm_core.domain.images import Image
    from prsm_core.errors import PrsmError

READ_TOOLS = frozenset({"Read", "Glob", "Grep"})
EDIT_TOOLS = frozenset({"Edit", "Write"})
"""The canonical names of the vendors' tools that change files."""
WRITING_TOOLS = EDIT_TOOLS | {"Bash"}
"""The canonical names of the vendors' tools by which an agent may change the workspace."""
NATIVE_TOOLS = READ_TOOLS | WRITING_TOOLS | {"WebFetch", "WebSearch"}
"""The canonical names of all tools that vendors bring along: what `native_tools` may hold."""
ORCHESTRATION_TOOLS = frozenset(
    {
        *("ask_parent", "ask_user", "check_child_status", "consult_expert", "consult_peer"),
        *("get_budget", "get_child_history", "get_children_status", "recommend_model"),
        *("report_progress", "respond_to_child", "restart_child", "run_bash"),
        *("send_child_prompt", "spawn_child", "spawn_children_parallel", "task_complete"),
        *("wait_for_message",),
    }
)
"""The names of all tools that the engine itself answers: `AgentHost.tools` are some of them."""


class ToolSpec(Record, frozen=True, kw_only=True):
    """An orchestration tool as a model sees it.

    A call that `waits` may block on another agent or a person; one that is `parallel` may overlap
    others of its turn.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    roles: frozenset[str]
    waits: bool = False
    parallel: bool = True


class ToolOutcome(Record, frozen=True, gc=False, kw_only=True):
    """The answer to one call: text for the model, the same as data, and whether the turn ends.

    `images` are those its text cites; models whose provider has the capability are shown them.
    """

    text: str
    is_error: bool = False
    data: Any = None
    ends_turn: bool = False
    images: tuple[Image, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any], *, ends_turn: bool = False) -> Self:
        """Return the outcome of an answer: JSON text with stable keys, and the data itself."""
        return cls(text=encode_data(data), data=dict(data), ends_turn=ends_turn)

    @classmethod
    def failed(cls, error: PrsmError) -> Self:
        """Return the outcome of an error: what happened and what to do."""
        data = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
        return cls(text=encode_data(data), data=data, is_error=True)

    def with_notice(self, notice: str) -> Self:
        """Return an answer that tells the agent one thing more."""
        data = {**self.data, "notice": notice}
        return replace(self, text=encode_data(data), data=data)

    def without_notice(self) -> Self:
        """Return an answer as it was before `with_notice`."""
        if not isinstance(self.data, Mapping) or "notice" not in self.data:
            return self
        data = {name: value for name, value in self.data.items() if name != "notice"}
        return replace(self, text=encode_data(data), data=data)


# In JSON these may stand as they are, and end lines or turn the direction of writing.
_ESCAPED = {
    code: f"\\u{code:04x}"
    for code in (
        *range(0x7F, 0xA0),
        0x061C,
        0x200E,
        0x200F,
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
    )
}
_encode = msgspec.json.Encoder().encode
_encode_any = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_data(data: Any) -> str:
    """Return JSON on a single line, whoever reads it: no text in it can begin a line of its own."""
    try:
        text = _encode(data).decode()
    except (TypeError, UnicodeEncodeError):  # a key that is no text, half a surrogate pair
        text = _encode_any(data)
    return text if text.isascii() and "\x7f" not in text else text.translate(_ESCAPED)


class McpServer(Record, frozen=True, gc=False, kw_only=True):
    """An MCP server an agent may use: a command over stdio, or a URL.

    One that does not begin within `start_seconds` is left out and named; if it is `required` the
    agent fails.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    required: bool = False
    start_seconds: float = 60.0


async def _never_asked() -> None:
    """Return at once: who made the endpoint does not tell."""


def _nobody_told(_end_turn: Callable[[], Awaitable[None]]) -> None:
    """Do nothing: who made the endpoint does not tell."""


class McpEndpoint(Record, frozen=True, kw_only=True):
    """How a CLI reaches the orchestration tools by MCP: proxy argv and its environment.

    `until_connected()` returns once a proxy has connected. A CLI goes on without a slow server's
    tools, so a provider awaits it, with a deadline of its own, before the first request to a model.
    `shown` is what the proxy needs to see in a box, as `Box.mounts`.

    `before_end(end_turn)` has `end_turn()` awaited with each answer that ends the turn, before the
    CLI gets it: a CLI that can be stopped is stopped there, or it would ask its model again.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    until_connected: Callable[[], Awaitable[None]] = _never_asked
    shown: Mapping[str, str] = field(default_factory=dict)
    before_end: Callable[[Callable[[], Awaitable[None]]], None] = _nobody_told
