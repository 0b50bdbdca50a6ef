"""Codex's requests for approval as requests and questions of PRSM, and the answers. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from prsm_core import Answer, PermissionRequest, Question
from prsm_core.kit import as_object, as_objects

ACCEPT = {"decision": "accept"}
DECLINE = {"decision": "decline"}
NO_PERMISSIONS: dict[str, Any] = {"permissions": {}}  # the granted subset: nothing

USER_INPUT = "item/tool/requestUserInput"
TOOL_CALL = "item/tool/call"
COMMAND = "item/commandExecution/requestApproval"
FILE_CHANGE = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
ELICITATION = "mcpServer/elicitation/request"

_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "fish"})
_INTERPRETERS = _SHELLS | {"python", "node", "ruby", "perl", "php", "lua", "irb", "ipython"}
_VERSION = re.compile(r"[\d.]+$")
_WRAPPERS = frozenset({"command", "env", "exec", "nice", "nohup", "setsid", "sudo", "time"})
_ASSIGNMENT = re.compile(r"\w+=")
_OPERATORS = frozenset(";&|()\n")
_HEADS = {"add": ("Add", "+"), "delete": ("Delete", "-"), "update": ("Update", "")}


def tool_answer(text: str, *, success: bool, images: Sequence[str] = ()) -> dict[str, Any]:
    """Return the answer to an orchestration call; `images` are URLs."""
    shown = [{"type": "inputImage", "imageUrl": url} for url in images]
    return {"success": success, "contentItems": [{"type": "inputText", "text": text}, *shown]}


def refusal(method: str, why: str) -> dict[str, Any] | None:
    """Return the answer that refuses a request; None for an unknown method."""
    return {
        TOOL_CALL: tool_answer(why, success=False),
        COMMAND: DECLINE,
        FILE_CHANGE: DECLINE,
        PERMISSIONS: NO_PERMISSIONS,
        ELICITATION: elicitation(accepted=False),
        USER_INPUT: {"answers": {}},
    }.get(method)


def elicitation(*, accepted: bool) -> dict[str, Any]:
    """Return the answer to what an MCP server asks."""
    return {"action": "accept" if accepted else "decline", "content": None}


def wants_more(params: Mapping[str, Any]) -> bool:
    """Return whether accepting would also grant a folder, the network or a wider sandbox."""
    extras = ("additionalPermissions", "grantRoot", "networkApprovalContext")
    return any(params.get(key) is not None for key in extras)


def unwrap(command: str) -> str:
    """Return a command without `/bin/bash -lc '…'` around it. Codex's own parse is not whole."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if len(words) == 3 and words[1] in ("-lc", "-c") and PurePosixPath(words[0]).name in _SHELLS:
        return words[2]
    return command


def command_request(agent_id: str, params: Mapping[str, Any], cwd: str) -> PermissionRequest:
    """Return the request for a shell command."""
    command = unwrap(str(params.get("command") or ""))
    return PermissionRequest(
        agent_id=agent_id,
        tool="Bash",
        arguments={"command": command},
        cwd=str(params.get("cwd") or cwd),
        command=command,
        call_id=_call_id(params.get("itemId")),
    )


def _call_id(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def changed_paths(item: Mapping[str, Any]) -> tuple[str, ...]:
    """Return every path that a file change touches, targets of moves included."""
    changes = as_objects(item.get("changes"))
    paths = ((str(change.get("path", "")), _moved_to(change)) for change in changes)
    return tuple(filter(None, chain.from_iterable(paths)))


def edit_request(agent_id: str, item: Mapping[str, Any], cwd: str) -> PermissionRequest:
    """Return the request for a file change, from its `item/started`."""
    return PermissionRequest(
        agent_id=agent_id,
        tool="Edit",
        arguments=edit_arguments(item),
        cwd=cwd,
        paths=changed_paths(item),
        call_id=_call_id(item.get("id")),
    )


def edit_arguments(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an Edit: its paths, and a patch in Codex's format."""
    changes = as_objects(item.get("changes"))
    patches = [_patch(change) for change in changes if change.get("diff") or _moved_to(change)]
    return {"paths": list(changed_paths(item)), "diff": "\n".join(patches)}


def _patch(change: Mapping[str, Any]) -> str:
    """Return one file's part of a patch. Of a new or deleted file Codex gives the bare text."""
    kind, path = change.get("kind"), change.get("path", "")
    name = str(kind.get("type") if isinstance(kind, Mapping) else kind)
    head, sign = _HEADS.get(name, _HEADS["update"])
    lines = [f"{sign}{line}" for line in str(change.get("diff", "")).splitlines()]
    if place := _moved_to(change):
        lines.insert(0, f"*** Move to: {place}")
    return "\n".join([f"*** {head} File: {path}", *lines])


def _moved_to(change: Mapping[str, Any]) -> str:
    """Return where a change moves its file to; "" if it does not."""
    return str(as_object(change.get("kind")).get("move_path") or "")


def mcp_request(agent_id: str, params: Mapping[str, Any], cwd: str) -> PermissionRequest | None:
    """Return the request for an MCP tool call; None for any other question of a server."""
    meta = as_object(params.get("_meta"))
    if meta.get("codex_approval_kind") != "mcp_tool_call":
        return None
    return PermissionRequest(
        agent_id=agent_id,
        tool=f"mcp__{params.get('serverName')}__{meta.get('tool_name')}",
        arguments=as_object(meta.get("tool_params")),
        cwd=cwd,
    )


def questions(params: Mapping[str, Any]) -> Iterator[tuple[str, Question]]:
    """Yield the id and text of each question Codex has for the person."""
    for asked in as_objects(params.get("questions")):
        header, text = asked.get("header"), str(asked.get("question", ""))
        options = tuple(str(o.get("label", "")) for o in as_objects(asked.get("options")))
        yield (
            str(asked.get("id", "")),
            Question(text=f"{header}: {text}" if header else text, options=options),
        )


def answers(given: Mapping[str, Answer]) -> dict[str, Any]:
    """Return the answers as Codex reads them."""
    return {
        "answers": {
            name: {"answers": [*answer.choices, *([answer.text] if answer.text else [])]}
            for name, answer in given.items()
        }
    }


def interactive(command: str) -> str | None:
    """Return the interpreter that a command starts to read what is typed later, if any."""
    for words in _simple_commands(command):
        program = _VERSION.sub("", PurePosixPath(words[0]).name)
        if program in _INTERPRETERS and all(_keeps_reading(word) for word in words[1:]):
            return words[0]
    return None


def _keeps_reading(word: str) -> bool:
    """Whether an interpreter with this argument still reads what is typed."""
    return word.startswith("-") and not re.fullmatch(r"--(version|help)|-\w*[cemV]\w*", word)


def _simple_commands(command: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|()\n")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            if set(word) <= _OPERATORS:
                yield from _named(words)
                words = []
            else:
                words.append(word)
    except ValueError:
        pass  # an open quote: the words before it still count
    yield from _named(words)


def _named(words: list[str]) -> Iterator[list[str]]:
    """Yield the words from the program on, if there is one."""
    for start, word in enumerate(words):
        wraps = word in _WRAPPERS or (start > 0 and word.startswith("-"))
        if not (wraps or _ASSIGNMENT.match(word)):
            yield words[start:]
            return
