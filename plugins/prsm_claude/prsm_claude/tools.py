"""The orchestration tools as an MCP server inside this process."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from claude_agent_sdk import SdkMcpTool, ToolAnnotations, create_sdk_mcp_server

from prsm_claude.naming import SERVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from claude_agent_sdk import McpSdkServerConfig

    from prsm_core.domain.tools import ToolOutcome, ToolSpec

_UNASKED = "this call was not authorized, so it was not made"


class ToolServer:
    """Hands out answers that the hook of each call has prepared.

    The hook does the work: it knows the model's id of the call and it can let go of one that
    waits. What the CLI then calls knows only the name and the arguments.
    """

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self._prepared: defaultdict[str, deque[ToolOutcome]] = defaultdict(deque)
        self.config: McpSdkServerConfig = create_sdk_mcp_server(
            SERVER, tools=[self._tool(spec) for spec in specs]
        )

    def prepare(self, name: str, arguments: Mapping[str, Any], outcome: ToolOutcome) -> None:
        """Keep the answer to a call that is made next."""
        self._prepared[_key(name, arguments)].append(outcome)

    def forget(self) -> None:
        """Drop answers that nobody fetched: their turn is over."""
        self._prepared.clear()

    def _tool(self, spec: ToolSpec) -> SdkMcpTool[Any]:
        async def fetch(arguments: dict[str, Any]) -> dict[str, Any]:
            return self._fetch(spec.name, arguments)

        return SdkMcpTool(
            name=spec.name,
            description=spec.description,
            # The SDK takes a schema without `properties` for one of its own kind.
            input_schema={"type": "object", "properties": {}, **spec.input_schema},
            handler=fetch,
            # Calls of other tools wait for each other.
            annotations=ToolAnnotations(readOnlyHint=True) if spec.parallel else None,
        )

    def _fetch(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        answers = self._prepared.get(_key(name, arguments))
        if not answers:
            return _answer(_UNASKED, is_error=True)
        outcome = answers.popleft()
        return _answer(outcome.text, is_error=outcome.is_error)


def _answer(text: str, *, is_error: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "is_error": is_error}


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True, default=str)}"
