"""The vendor's SDK by itself: what talking with the Claude CLI costs without PRSM."""

from __future__ import annotations

import os
import shlex
import sys
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    ResultMessage,
    create_sdk_mcp_server,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


class BareSdk:
    """Lets agents live as a plain program of the SDK has them: hooks, tools, one turn each."""

    def __init__(self, folder: Path, program: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._cli = folder / "claude"  # the SDK takes a program without arguments only
        command = shlex.join([sys.executable, "-I", "-S", str(program)])
        self._cli.write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
        self._cli.chmod(0o700)

    def live(self, runner: asyncio.Runner, count: int) -> None:
        """Let agents live one after the other."""
        with _environ("CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK", "1"):  # it would start the CLI twice
            runner.run(self._live(count))

    async def _live(self, count: int) -> None:
        for _ in range(count):
            async with ClaudeSDKClient(self._options()) as client:
                await client.query(_prompt("Do it."))
                async for message in client.receive_response():
                    if isinstance(message, ResultMessage) and message.is_error:
                        raise RuntimeError(f"the turn failed: {message.result}")

    def _options(self) -> ClaudeAgentOptions:
        hook = HookMatcher(hooks=[_allow_hook])
        return ClaudeAgentOptions(
            cli_path=self._cli,
            cwd=self._folder,
            env={"CLAUDE_CONFIG_DIR": str(self._folder), "ANTHROPIC_BASE_URL": self._url},
            include_partial_messages=True,
            mcp_servers={"prsm": create_sdk_mcp_server("prsm")},
            hooks={"PreToolUse": [hook], "PostToolUse": [hook]},
            can_use_tool=_allow,
        )


@contextmanager
def _environ(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


async def _prompt(text: str) -> AsyncIterator[dict[str, Any]]:
    message = {"role": "user", "content": text}
    yield {"type": "user", "uuid": str(uuid.uuid4()), "message": message}


async def _allow_hook(*_: object) -> Any:
    return {}


async def _allow(*_: object) -> PermissionResultAllow:
    return PermissionResultAllow()
