"""Claude Code's names of its tools, and PRSM's. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core import NATIVE_TOOLS, PermissionRequest, Question
from prsm_core.kit import as_objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prsm_core import Answer, SessionRequest

SERVER = "prsm"  # the name of the MCP server that holds the orchestration tools
_PREFIX = f"mcp__{SERVER}__"
_QUESTION = "AskUserQuestion"
_ALIASES = {"MultiEdit": "Edit", "NotebookEdit": "Edit", "NotebookRead": "Read", "LS": "Glob"}
_PATHS = ("file_path", "notebook_path", "path")


def offered(request: SessionRequest, *, orchestrates: bool) -> list[str]:
    """Return an agent's vendor tools, without those that work behind the engine's back."""
    shell = {"Bash"} if request.has_shell else set()
    native = sorted(request.native_tools & NATIVE_TOOLS | shell)
    return [*native, _QUESTION] if native or orchestrates else []


def is_ours(name: str) -> bool:
    """Return whether a tool is an orchestration tool."""
    return name.startswith(_PREFIX)


def is_question(name: str) -> bool:
    """Return whether a tool asks the person."""
    return name == _QUESTION


def plain(name: str) -> str:
    """Return the name of an orchestration tool without that of its server."""
    return name.removeprefix(_PREFIX)


def canonical(name: str) -> str:
    """Return PRSM's name of a vendor tool, or its own if there is none."""
    return _ALIASES.get(name, name)


def permission(
    agent_id: str, name: str, given: Mapping[str, Any], cwd: str, call_id: str | None = None
) -> PermissionRequest:
    """Return the request for a call of a vendor tool."""
    command = str(given.get("command", "")) if name == "Bash" else None
    paths = () if name == "Bash" else tuple(str(given[key]) for key in _PATHS if given.get(key))
    return PermissionRequest(
        agent_id=agent_id,
        tool=canonical(name),
        arguments=dict(given),
        cwd=cwd,
        command=command,
        paths=paths,
        call_id=call_id,
    )


def questions(given: Mapping[str, Any]) -> Iterator[tuple[str, Question]]:
    """Yield the key and the text of each question that Claude has for the person."""
    for entry in as_objects(given.get("questions")):
        text, header = str(entry.get("question", "")), entry.get("header")
        options = tuple(str(option.get("label", "")) for option in as_objects(entry.get("options")))
        yield (
            text,
            Question(
                text=f"{header}: {text}" if header else text,
                options=options,
                multiple=bool(entry.get("multiSelect")),
            ),
        )


def answer_text(answer: Answer) -> str:
    """Return an answer as Claude reads it."""
    return ", ".join([*answer.choices, *([answer.text] if answer.text else [])])
