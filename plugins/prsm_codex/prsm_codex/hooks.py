"""Codex's tool hook: how it is set and trusted, and what a call of it asks for; pure.

A pattern that is found in every text but some, without looking ahead: Codex's has no way to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from prsm_core import ORCHESTRATION_TOOLS, PermissionRequest
from prsm_core.kit import HookGate, as_objects

if TYPE_CHECKING:
    from collections.abc import Iterable

_CODEX_SECONDS = 7 * 24 * 3600  # later than the client: Codex lets a call run, it refuses
_EVENT = "preToolUse"
_SOURCE = "sessionFlags"  # set on the command line: no file that somebody else could change

# Calls that do nothing outside the model, or that are asked for in another way.
HARMLESS = frozenset({"clockcurr_time", "request_user_input", "update_plan"})

# Beside the hook: what is dangerous by Codex's own rules is asked for, and stays in the sandbox;
# to leave the sandbox cannot be asked for.
APPROVAL_POLICY: Mapping[str, Any] = {
    "granular": {"mcp_elicitations": True, "rules": True, "sandbox_approval": False}
}


_FILE = re.compile(r"\*\*\*\s*(?:Add|Update|Delete) File:\s*(.+)|\*\*\*\s*Move to:\s*(.+)")

# Codex does such a command itself, and a shell would do the same: with its delimiter quoted, the
# body is no more than a text. Anything else that starts like it is a command.
_HEREDOC = re.compile(
    r"\s*(?:apply_patch|applypatch)\s*<<\s*(?P<quote>['\"])(?P<end>\w+)(?P=quote)[ \t]*\n"
    r"(?P<body>.*?\n)(?P=end)\s*",
    re.DOTALL,
)


def overrides() -> dict[str, Any]:
    """Return the settings of Codex that set the hook.

    Before a call of the engine's own tools it does not run: they are asked for when they arrive,
    and three processes would start each time to say so. The text is the same for every engine.
    """
    hook = {"type": "command", "command": HookGate.command, "timeout": _CODEX_SECONDS}
    return {"hooks.PreToolUse": [{"matcher": all_but(ORCHESTRATION_TOOLS), "hooks": [hook]}]}


def find_own(listed: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return our hook in the answer to `hooks/list`."""
    return next((hook for hook in _hooks(listed) if _is_own(hook)), None)


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


def _hooks(listed: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for folder in as_objects(listed.get("data")):
        yield from as_objects(folder.get("hooks"))


def _is_own(hook: Mapping[str, Any]) -> bool:
    expected = {"eventName": _EVENT, "source": _SOURCE, "command": HookGate.command}
    return all(hook.get(key) == value for key, value in expected.items())


def failed_open(run: Mapping[str, Any]) -> bool:
    """Return whether a call runs although its hook has not allowed it."""
    return run.get("eventName") == _EVENT and run.get("status") == "failed"


def answer(reason: str | None) -> str:
    """Return what the hook says of a call that may not run for a reason; nothing if it may."""
    return "" if reason is None else denial(reason)


def denial(reason: str) -> str:
    """Return what Codex reads as a refusal; the reason reaches the model."""
    told = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": reason.strip() or "refused",  # an empty one refuses nothing
    }
    return json.dumps({"hookSpecificOutput": told})


def tool_request(payload: Mapping[str, Any], agent_id: str, cwd: str) -> PermissionRequest:
    """Return what a call asks for, by the canonical name of its tool."""
    name = str(payload.get("tool_name") or "")
    given = payload.get("tool_input")
    arguments = dict(given) if isinstance(given, Mapping) else {}
    place = str(payload.get("cwd") or cwd)
    text = str(arguments.get("command") or "")
    patch = text if name == "apply_patch" else patch_of(text) if name == "Bash" else None
    if patch is not None:
        paths = tuple(patched_paths(patch, place))
        return PermissionRequest(
            agent_id=agent_id,
            tool="Edit",
            arguments={"paths": list(paths), "diff": patch},
            cwd=place,
            paths=paths,
        )
    if name == "view_image":
        paths = (absolute(str(arguments.get("path") or ""), place),)
        return PermissionRequest(
            agent_id=agent_id, tool="Read", arguments=arguments, cwd=place, paths=paths
        )
    command = text if name == "Bash" else None
    return PermissionRequest(
        agent_id=agent_id, tool=name, arguments=arguments, cwd=place, command=command
    )


_ANYTHING = r"[\s\S]"


def all_but(names: Iterable[str]) -> str:
    """Return a regular expression that is found in every text that is none of these names.

    It means the same to Python and to Codex, since no name has a line break. Each way to leave the
    names is one of its branches: the text ends too soon, goes on with another character, or goes on
    behind a whole name.
    """
    return f"^{_leaving(sorted(set(names)))}"


def _leaving(rests: list[str]) -> str:
    """Return a pattern of what follows where only these, which are in order, would be names."""
    ends = [] if "" in rests else ["$"]
    first = sorted({rest[0] for rest in rests if rest})
    other = f"[^{''.join(map(re.escape, first))}]" if first else _ANYTHING
    longer = [
        re.escape(char) + _leaving([rest[1:] for rest in rests if rest[:1] == char])
        for char in first
    ]
    return f"(?:{'|'.join([*ends, other, *longer])})"


def patch_of(command: str) -> str | None:
    """Return the patch of a command that only applies one; None for any other command."""
    found = _HEREDOC.fullmatch(command)
    if found is None or found["end"] in found["body"].split("\n"):
        return None  # the shell's text ends earlier: what follows is run
    return found["body"]


def patched_paths(patch: str, cwd: str) -> Iterator[str]:
    """Yield every path that a patch names, where it moves a file to included."""
    for line in patch.split("\n"):
        found = _FILE.fullmatch(line.strip())
        if found:
            yield absolute((found[1] or found[2]).strip(), cwd)


def absolute(path: str, cwd: str) -> str:
    """Return a path as seen from a folder."""
    return str(PurePosixPath(cwd, path))
