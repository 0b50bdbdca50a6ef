"""Codex's tool hook: how it is set and trusted, and what each of its calls asks for. Pure."""

from __future__ import annotations

import json
import re
from functools import partial
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from prsm_core import ORCHESTRATION_TOOLS, PermissionRequest
from prsm_core.kit import HookGate, as_object, as_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_CODEX_SECONDS = 7 * 24 * 3600  # longer than the client's: on a timeout Codex lets a call run
_EVENT = "preToolUse"
_SOURCE = "sessionFlags"  # the command line, not a file that somebody else could change

# Calls that do nothing outside the model, or ask in another way.
HARMLESS = frozenset({"clockcurr_time", "request_user_input", "update_plan"})

# In addition to the hook, Codex asks for what its own rules call dangerous. That stays in the
# sandbox: leaving it cannot be asked for.
APPROVAL_POLICY: Mapping[str, Any] = {
    "granular": {"mcp_elicitations": True, "rules": True, "sandbox_approval": False}
}

_FILE = re.compile(r"\*\*\*\s*(?:Add|Update|Delete) File:\s*(.+)|\*\*\*\s*Move to:\s*(.+)")

# Codex itself executes such a command, as a shell would: with a quoted delimiter the body is plain
# text. Anything else that starts like it is an ordinary command.
_HEREDOC = re.compile(
    r"\s*(?:apply_patch|applypatch)\s*<<\s*(?P<quote>['\"])(?P<end>\w+)(?P=quote)[ \t]*\n"
    r"(?P<body>.*?\n)(?P=end)\s*",
    re.DOTALL,
)


def overrides() -> dict[str, Any]:
    """Return the settings of Codex that set the hook; they are the same for every engine.

    It does not run before calls of the engine's own tools: these are checked when they arrive, and
    each run of the hook starts three processes.
    """
    hook = {"type": "command", "command": HookGate.command, "timeout": _CODEX_SECONDS}
    return {"hooks.PreToolUse": [{"matcher": all_but(ORCHESTRATION_TOOLS), "hooks": [hook]}]}


def find_own(listed: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return our hook in the answer to `hooks/list`."""
    own = {"eventName": _EVENT, "source": _SOURCE, "command": HookGate.command}
    folders = as_objects(listed.get("data"))
    hooks = chain.from_iterable(as_objects(folder.get("hooks")) for folder in folders)
    return next((hook for hook in hooks if own.items() <= hook.items()), None)


def runs(hook: Mapping[str, Any] | None) -> bool:
    """Return whether Codex would run the hook."""
    return hook is not None and bool(hook.get("enabled")) and hook.get("trustStatus") == "trusted"


def trust(hook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of `config/batchWrite` that trust the hook as it is now."""
    edit = {
        "keyPath": f"hooks.state.{json.dumps(hook.get('key'))}.trusted_hash",
        "value": hook.get("currentHash"),
        "mergeStrategy": "replace",
    }
    return {"edits": [edit], "reloadUserConfig": True}


def failed_open(run: Mapping[str, Any]) -> bool:
    """Return whether a call runs although its hook did not allow it."""
    return run.get("eventName") == _EVENT and run.get("status") == "failed"


def answer(reason: str | None) -> str:
    """Return what the hook says of a call: nothing if it may run, else the reason."""
    return "" if reason is None else denial(reason)


def denial(reason: str) -> str:
    """Return what Codex reads as a refusal. The reason reaches the model."""
    output = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": reason.strip() or "refused",  # an empty one refuses nothing
    }
    return json.dumps({"hookSpecificOutput": output})


def tool_request(payload: Mapping[str, Any], agent_id: str, cwd: str) -> PermissionRequest:
    """Return what a call asks for, by the canonical name of its tool."""
    name = str(payload.get("tool_name") or "")
    arguments = dict(as_object(payload.get("tool_input")))
    place = str(payload.get("cwd") or cwd)
    request = partial(PermissionRequest, agent_id=agent_id, cwd=place)
    text = str(arguments.get("command") or "")
    patch = text if name == "apply_patch" else patch_of(text) if name == "Bash" else None
    if patch is not None:
        paths = tuple(patched_paths(patch, place))
        edit = {"paths": list(paths), "diff": patch}
        return request(tool="Edit", arguments=edit, paths=paths)
    if name == "view_image":
        path = absolute(str(arguments.get("path") or ""), place)
        return request(tool="Read", arguments=arguments, paths=(path,))
    command = text if name == "Bash" else None
    return request(tool=name, arguments=arguments, command=command)


def all_but(names: Iterable[str]) -> str:
    """Return a regular expression that is found in every text that is none of these names.

    Codex's patterns cannot look ahead. So each way to leave the names is a branch: the text ends
    too soon, goes on with another character, or goes on behind a whole name.
    """
    return f"^{_leaving(sorted(set(names)))}"


def _leaving(rests: list[str]) -> str:
    """Return a pattern of every text but these, which are sorted."""
    ends = [] if "" in rests else ["$"]
    first = sorted({rest[0] for rest in rests if rest})
    other = f"[^{''.join(map(re.escape, first))}]" if first else r"[\s\S]"
    longer = [
        re.escape(char) + _leaving([rest[1:] for rest in rests if rest[:1] == char])
        for char in first
    ]
    return f"(?:{'|'.join([*ends, other, *longer])})"


def patch_of(command: str) -> str | None:
    """Return the patch of a command that only applies one; None for any other command."""
    match = _HEREDOC.fullmatch(command)
    if match is None or match["end"] in match["body"].split("\n"):
        return None  # the heredoc ends earlier, and what follows is run
    return match["body"]


def patched_paths(patch: str, cwd: str) -> Iterator[str]:
    """Yield every path that a patch names, targets of moves included."""
    for line in patch.split("\n"):
        if match := _FILE.fullmatch(line.strip()):
            yield absolute((match[1] or match[2]).strip(), cwd)


def absolute(path: str, cwd: str) -> str:
    """Return a path as seen from a folder."""
    return str(PurePosixPath(cwd, path))
