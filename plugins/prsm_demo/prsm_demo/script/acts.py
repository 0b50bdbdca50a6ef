"""Carries out the calls of a step: orchestration tools, commands, edits, questions to a person.

Whatever touches the machine asks `host.authorize` first; a denial is an answer like any other.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import (
    Deny,
    PermissionRequest,
    PrsmError,
    Question,
    ToolCallFinished,
    ToolCallStarted,
)
from prsm_demo.script.place import Outcome, given

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import AgentHost, Process, ProviderServices, SessionRequest
    from prsm_demo.script.steps import Call

# What is kept of a command's output, in bytes: as much as of any tool's result.
OUTPUT_LIMIT = 64 * 1024
_BASH = ("bash", "--noprofile", "--norc", "-c", "--")


def _outcome(
    status: str, *, result: str | None = None, reason: str | None = None, **data: Any
) -> Outcome:
    said = {"status": status, **({"reason": reason} if reason is not None else {}), **data}
    return Outcome(
        text=json.dumps(said),
        status=status,
        result=result,
        reason=reason,
        exit_code=data.get("exit_code"),
    )


class Acts:
    """What one agent can do."""

    def __init__(
        self, request: SessionRequest, host: AgentHost, services: ProviderServices
    ) -> None:
        self._request = request
        self._host = host
        self._services = services

    def started(self, call: Call, call_id: str) -> ToolCallStarted | None:
        """Return the event that announces a native tool; the engine tells of its own."""
        if call.kind == "shell":
            return ToolCallStarted(call_id, "Bash", {"command": call.arguments["cmd"]})
        if call.kind == "edit":
            return ToolCallStarted(call_id, _edit_tool(call.arguments), _edit_arguments(call))
        return None

    def finished(self, call: Call, call_id: str, outcome: Outcome) -> ToolCallFinished | None:
        """Return the event that ends what `started` announced."""
        if call.kind not in {"shell", "edit"}:
            return None
        return ToolCallFinished(
            call_id, outcome.status, outcome.result, outcome.reason, exit_code=outcome.exit_code
        )

    async def carry_out(self, call: Call, call_id: str) -> Outcome:
        """Do what a call says; what goes wrong is its outcome."""
        if call.kind == "shell":
            return await self._shell(str(call.arguments["cmd"]), call_id)
        if call.kind == "edit":
            return await self._edit(call, call_id)
        if call.kind == "ask_user":
            return await self._ask(call.arguments, call_id)
        outcome = await self._host.call_tool(call.tool, call.arguments, call_id=call_id)
        return given(outcome)

    async def _denial(self, tool: str, arguments: Mapping[str, Any], **fields: Any) -> str | None:
        """Ask whether a native tool may run; return why it may not."""
        request = PermissionRequest(
            agent_id=self._request.agent_id,
            tool=tool,
            arguments=arguments,
            cwd=self._request.cwd,
            **fields,
        )
        verdict = await self._host.authorize(request)
        return verdict.reason if isinstance(verdict, Deny) else None

    async def _shell(self, command: str, call_id: str) -> Outcome:
        wanted = {"command": command}
        denial = await self._denial("Bash", wanted, command=command, call_id=call_id)
        if denial is not None:
            return _outcome("denied", reason=denial)
        try:
            return await self._run(command)
        except PrsmError as error:  # no bash, no folder, a line beyond all limits
            return _outcome("failed", reason=error.message)

    async def _run(self, command: str) -> Outcome:
        process = await self._services.start_process(
            (*_BASH, command), name="script command", cwd=self._request.cwd, env=_environment()
        )
        try:
            process.close_stdin()
            stdout = await _read(process)
        except BaseException:
            process.kill()
            await process.wait()
            raise
        code, stderr = await process.wait(), process.stderr_tail
        result = "\n".join(part for part in (stdout, stderr.rstrip("\n")) if part)
        data: dict[str, Any] = {"exit_code": code, "stdout": stdout, "stderr": stderr}
        if code:
            return _outcome("failed", result=result, reason=f"exit code {code}", **data)
        return _outcome("completed", result=result, **data)

    async def _edit(self, call: Call, call_id: str) -> Outcome:
        path = str(call.arguments["path"])
        denial = await self._denial(
            _edit_tool(call.arguments), _edit_arguments(call), paths=(path,), call_id=call_id
        )
        if denial is not None:
            return _outcome("denied", reason=denial)
        file = Path(self._request.cwd, path)
        problem = await asyncio.to_thread(_apply, file, call.arguments)
        if problem is not None:
            return _outcome("failed", reason=f"{path}: {problem}")
        return _outcome("completed", result=f"{path} was changed")

    async def _ask(self, arguments: Mapping[str, Any], call_id: str) -> Outcome:
        question = Question(
            text=str(arguments["question"]),
            options=tuple(str(option) for option in arguments.get("options", ())),
            multiple=bool(arguments.get("multiple", False)),
            call_id=call_id,
        )
        answer = await self._host.ask_user(question)
        return _outcome("completed", choices=list(answer.choices), text=answer.text)


def _environment() -> dict[str, str]:
    """Return a PATH on which the interpreter's own folder comes last: `python3` is always found."""
    folders = (os.environ.get("PATH") or os.defpath, str(Path(sys.executable).parent))
    return {"PATH": os.pathsep.join(folders)}


async def _read(process: Process) -> str:
    """Return the first 64 KiB of stdout; the rest is read and dropped."""
    kept: list[bytes] = []
    size = 0
    async for line in process.lines():
        if size < OUTPUT_LIMIT:
            kept.append(line[: OUTPUT_LIMIT - size])
            size += len(line) + 1
    return b"\n".join(kept).decode(errors="replace")


def _edit_tool(arguments: Mapping[str, Any]) -> str:
    return "Write" if "content" in arguments else "Edit"


def _edit_arguments(call: Call) -> dict[str, Any]:
    names = {"path": "file_path", "old": "old_string", "new": "new_string", "content": "content"}
    return {names[key]: value for key, value in call.arguments.items()}


def _apply(file: Path, arguments: Mapping[str, Any]) -> str | None:
    """Write or change a file; return what stands in the way."""
    try:
        if "content" in arguments:
            is_new = not file.exists()
            file.write_text(str(arguments["content"]), encoding="utf-8")
            if is_new:
                file.chmod(0o644)  # the engine's umask is private, the user's files are not
            return None
        text, old = file.read_text(encoding="utf-8"), str(arguments["old"])
        if text.count(old) != 1:
            return f"{text.count(old)} places read {old!r}, one is needed"
        file.write_text(text.replace(old, str(arguments["new"])), encoding="utf-8")
    except (OSError, UnicodeError) as error:
        return str(error)
    return None
