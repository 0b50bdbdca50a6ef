"""What an agent tells of a tool call, as canonical names, commands, paths and results; pure."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from prsm_acp.manifest import SERVER
from prsm_core import cut_result
from prsm_core.kit import as_object, as_objects

Json = Mapping[str, Any]

OWN_NAME = "ownName"  # where what is known of a call keeps the vendor's own name of its tool
_EXECUTE = "execute"
_KINDS = {
    "read": "Read",
    "edit": "Edit",
    "delete": "Edit",
    "move": "Edit",
    "search": "Grep",
    _EXECUTE: "Bash",
    "fetch": "WebFetch",
}
_PATH_KEYS = ("file_path", "filePath", "path", "absolute_path", "notebook_path", "abs_path")
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "fish"})
_LONGEST_DIFF = 200_000  # characters; a longer change is told by its paths alone
_OURS = re.compile(
    rf"(?:mcp__{SERVER}__|mcp_{SERVER}_|{SERVER}_|Tool: {SERVER}/)(?P<prefixed>\w+)"
    rf"|(?P<named>\w+) \({SERVER} MCP Server\)"
)
_FOLDERS = {"cwd", "workdir"}
_SERVED_KEYS = {"server", "tool", "arguments"}
_WORD = re.compile(r"\w+")


def tool_name(call: Json) -> str:
    """Return the canonical name of a tool, the vendor's own where there is none."""
    name = _KINDS.get(_kind(call))
    for diff in _diffs(call) if name == "Edit" else ():
        if diff.get("oldText") is None or as_object(diff.get("_meta")).get("kind") == "add":
            return "Write"
    return name or _vendor_name(call)


def own_name(update: Json, *, named_ids: bool) -> str | None:
    """Return the vendor's own name of a tool, which no model can choose; None if not given."""
    meta = as_object(update.get("_meta"))
    for name in (as_object(meta.get("claudeCode")).get("toolName"), meta.get("toolName")):
        if isinstance(name, str) and name:
            return name
    name, mark, _ = str(update.get("toolCallId", "")).partition("__")
    return name if named_ids and mark else None


def server_tool(call: Json) -> str | None:
    """Return the tool of PRSM's own MCP server that a call names, if it does.

    The title of a shell command is the model's text, so a call that has a command, or is of a kind
    that reads or changes something, is none of PRSM's, whatever its title.
    """
    has_command = "command" in as_object(call.get("rawInput")) and call.get(OWN_NAME) is None
    if _kind(call) in _KINDS or has_command:
        return None
    match = _OURS.fullmatch(_vendor_name(call))
    return (match["prefixed"] or match["named"]) if match else None


def bare_name(call: Json) -> str | None:
    """Return the name of a tool that is told as one word, without its server or behind it."""
    name = _vendor_name(call).removeprefix(f"{SERVER}-")
    return name if _kind(call) not in _KINDS and _WORD.fullmatch(name) else None


def knows_arguments(call: Json) -> bool:
    """Return whether a call's arguments are told: a pending shell may have but its folder."""
    raw_input = as_object(call.get("rawInput"))
    return bool(raw_input) and (_kind(call) != _EXECUTE or not raw_input.keys() <= _FOLDERS)


def command_of(call: Json) -> str | None:
    """Return the shell command of a call, as the model wrote it; None where it is not shell."""
    if _kind(call) != _EXECUTE:
        return None
    command = as_object(call.get("rawInput")).get("command")
    if isinstance(command, (list, tuple)):
        words = [str(word) for word in command]
        is_shell = PurePosixPath(words[0]).name in _SHELLS if words else False
        is_wrapped = is_shell and len(words) == 3 and words[1] in ("-c", "-lc")
        return words[2] if is_wrapped else shlex.join(words)
    if isinstance(command, str) and command.strip():
        return command
    title = str(call.get("title") or "")
    is_quoted = len(title) > 2 and title[0] == title[-1] == "`"
    return title[1:-1] if is_quoted else title


def paths_of(call: Json) -> tuple[str, ...]:
    """Return every path that a call names, each once."""
    raw_input = as_object(call.get("rawInput"))
    paths = (
        *(diff.get("path") for diff in _diffs(call)),
        *(place.get("path") for place in as_objects(call.get("locations"))),
        *(raw_input.get(key) for key in _PATH_KEYS),
    )
    return tuple(dict.fromkeys(path for path in paths if isinstance(path, str) and path))


def arguments_of(call: Json) -> dict[str, Any]:
    """Return a call's arguments as events and permission requests tell them."""
    command = command_of(call)
    if command is not None:
        return {"command": command}
    diffs = list(_diffs(call))
    if diffs:
        return {"paths": list(paths_of(call)), "diff": "".join(map(_unified, diffs))}
    arguments = call.get("rawInput")
    if _served(call):
        arguments = as_object(arguments).get("arguments")
    if isinstance(arguments, Mapping) and arguments:
        return dict(arguments)
    paths = {"paths": list(paths_of(call))} if paths_of(call) else {}
    title = {"title": str(call["title"])} if call.get("title") else {}
    return {**title, **paths}


def new_texts(call: Json) -> dict[str, str]:
    """Return what a call would write, by path."""
    texts = {str(diff.get("path")): diff.get("newText") for diff in _diffs(call)}
    return {path: text for path, text in texts.items() if isinstance(text, str)}


def result_of(call: Json) -> str | None:
    """Return what a call gave back, cut at 64 KiB; None where it does not say."""
    contents = (as_object(block.get("content")).get("text") for block in _blocks(call, "content"))
    texts = [text for text in contents if isinstance(text, str)]
    if not texts and call.get("rawOutput") is not None:
        raw = call["rawOutput"]
        texts = [raw if isinstance(raw, str) else json.dumps(raw, default=str)]
    return cut_result("\n".join(texts)) if texts else None


def is_whole(call: Json) -> bool:
    """Return whether the result of a call says all, for a command also its exit code.

    The protocol has no field for exit codes. Nor is content always what a command wrote: at the
    beginning of a call it is the model's own text, or the folder.
    """
    if _kind(call) != _EXECUTE:
        return True
    code = exit_code(call)
    return code is not None and (call.get("status") == "failed" or code == 0)


def exit_code(call: Json) -> int | None:
    """Return the exit code of a command, if the agent tells it. Of several, not 0 counts."""
    raw = as_object(call.get("rawOutput"))
    values = (raw.get("exit_code"), raw.get("exitCode"), as_object(raw.get("metadata")).get("exit"))
    codes = [code for code in values if type(code) is int]
    return next(filter(None, codes), 0) if codes and _kind(call) == _EXECUTE else None


def _kind(call: Json) -> str:
    """Return the kind of a call; "other" for a server's tool, which codex-acp calls a command."""
    return "other" if _served(call) else str(call.get("kind") or "")


def _served(call: Json) -> str | None:
    """Return the tool of an MCP server, as `mcp__x__tool`, where the call's input names it.

    Title and input must agree and hold nothing else: no text of a model has this shape.
    """
    named = as_object(call.get("rawInput"))
    if named.keys() != _SERVED_KEYS or call.get("title") != "mcp.{server}.{tool}".format_map(named):
        return None
    return "mcp__{server}__{tool}".format_map(named)


def _vendor_name(call: Json) -> str:
    if (served := _served(call)) is not None:
        return served
    return str(call.get(OWN_NAME) or call.get("title") or _kind(call) or "tool")


def _blocks(call: Json, kind: str) -> Iterator[Json]:
    return (block for block in as_objects(call.get("content")) if block.get("type") == kind)


def _diffs(call: Json) -> Iterator[Json]:
    return _blocks(call, "diff")


def _unified(diff: Json) -> str:
    path = str(diff.get("path"))
    old, new = str(diff.get("oldText") or ""), str(diff.get("newText") or "")
    if len(old) + len(new) > _LONGEST_DIFF:
        return f"{path}: {len(old)} characters become {len(new)}\n"
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), path, path
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
