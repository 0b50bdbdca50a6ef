"""Gemini's tools by their canonical names, and their calls as permission requests. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import EDIT_TOOLS, PermissionMode, PermissionRequest

if TYPE_CHECKING:
    from prsm_core import SessionRequest

Json = Mapping[str, Any]

SERVER = "prsm"  # the name of the MCP server with PRSM's own tools
SHELL = "run_shell_command"
COMPLETE = f"mcp_{SERVER}_task_complete"
_CANONICAL = {
    "glob": "Glob",
    "google_web_search": "WebSearch",
    "grep_search": "Grep",
    "list_background_processes": "Bash",
    "list_directory": "Glob",
    "read_background_output": "Bash",
    "read_file": "Read",
    "read_many_files": "Read",
    "replace": "Edit",
    SHELL: "Bash",
    "web_fetch": "WebFetch",
    "write_file": "Write",
}
_PATHS = ("file_path", "dir_path", "path")


def canonical(name: str) -> str:
    """Return the canonical name of a tool; an MCP tool of another server is mcp__SERVER__TOOL."""
    if name.startswith("mcp_"):
        server, _, tool = name.removeprefix("mcp_").partition("_")
        return f"mcp__{server}__{tool}"
    return _CANONICAL.get(name, name)


def offered(request: SessionRequest) -> tuple[str, ...]:
    """Return Gemini's names of the tools that an agent may use, sorted."""
    tools = request.native_tools | ({"Bash"} if request.has_shell else set())
    if request.mode is PermissionMode.PLAN:
        tools -= EDIT_TOOLS
    return tuple(sorted(name for name, known in _CANONICAL.items() if known in tools))


def permission_request(
    agent_id: str, name: str, arguments: Json, cwd: str, context: Json
) -> PermissionRequest:
    """Return the request for a tool call; `context` is what Gemini says of an MCP server."""
    if context.get("server_name"):
        tool = f"mcp__{context['server_name']}__{context.get('tool_name')}"
        return PermissionRequest(agent_id=agent_id, tool=tool, arguments=arguments, cwd=cwd)
    command = arguments.get("command") if name == SHELL else None
    paths = [str(arguments[key]) for key in _PATHS if arguments.get(key)]
    return PermissionRequest(
        agent_id=agent_id,
        tool=canonical(name),
        arguments=arguments,
        cwd=_below(cwd, arguments.get("dir_path")) if name == SHELL else cwd,
        command=str(command) if command is not None else None,
        paths=() if name == SHELL else tuple(_below(cwd, path) for path in paths),
    )


def _below(cwd: str, path: Any) -> str:
    """Return an absolute path. Relative ones begin at the working folder."""
    return str(Path(cwd) / str(path)) if path else cwd
