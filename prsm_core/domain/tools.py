"""Tools: what an agent is offered, what a call returns, and MCP servers by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from prsm_core.domain.images import Image

READ_TOOLS = frozenset({"Read", "Glob", "Grep"})
EDIT_TOOLS = frozenset({"Edit", "Write"})
"""The canonical names of the vendors' tools that change files."""
WRITING_TOOLS = EDIT_TOOLS | {"Bash"}
"""The canonical names of the vendors' tools by which an agent may change the workspace."""
NATIVE_TOOLS = READ_TOOLS | WRITING_TOOLS | {"WebFetch", "WebSearch"}
"""The canonical names of all tools that vendors bring along: what `native_tools` may hold."""
ORCHESTRATION_TOOLS = frozenset(
    {
        "ask_parent",
        "ask_user",
        "check_child_status",
        "consult_expert",
        "consult_peer",
        "get_budget",
        "get_child_history",
        "get_children_status",
        "recommend_model",
        "report_progress",
        "respond_to_child",
        "restart_child",
        "run_bash",
        "send_child_prompt",
        "spawn_child",
        "spawn_children_parallel",
        "task_complete",
        "wait_for_message",
    }
)
"""The names of all tools that the engine itself answers: `AgentHost.tools` are some of them."""


class ToolSpec(Record, frozen=True, kw_only=True):
    """An orchestration tool as a model sees it.

    `waits` says that a call may block on another agent or a person; `parallel` that calls of it
    may overlap others of one turn (which is not the same as read-only).
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    roles: frozenset[str]
    waits: bool = False
    parallel: bool = True


class ToolOutcome(Record, frozen=True, gc=False, kw_only=True):
    """The answer to one call: text for the model, the same as data, and whether the turn ends.

    `images` are those that its text cites, where it holds what a person or another agent says. They
    are shown with it to a model of a provider whose capabilities have them.
    """

    text: str
    is_error: bool = False
    data: Any = None
    ends_turn: bool = False
    images: tuple[Image, ...] = ()


class McpServer(Record, frozen=True, gc=False, kw_only=True):
    """An MCP server an agent may use: a command over stdio, or a URL.

    One that does not begin within `start_seconds` is left out and named; where it is `required`,
    the agent fails instead.
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

    `until_connected()` returns once a proxy of this endpoint has connected. A CLI that drops a
    slow server goes on without its tools, so a provider awaits it, with a deadline of its own,
    before the first request to a model. `shown` is what the proxy needs to see where it runs in a
    box, as `Box.mounts`.

    `before_end(end_turn)` has `end_turn()` awaited with each answer that ends the turn, before the
    CLI is given it: a CLI asks its model as soon as it has the answer, so one that can be stopped
    is stopped there.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    until_connected: Callable[[], Awaitable[None]] = _never_asked
    shown: Mapping[str, str] = field(default_factory=dict)
    before_end: Callable[[Callable[[], Awaitable[None]]], None] = _nobody_told
