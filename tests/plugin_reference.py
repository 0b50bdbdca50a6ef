"""The parts of docs/plugins.md that are made of the code: values, events, tools, faults."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import prsm_testing
from msgspec import NODEFAULT
from prsm_testing import faults, misbehaviour_contract, sample_events

import prsm_core
import prsm_core.kit
import prsm_core.policies
import prsm_core.terminal
from prsm_core.domain import events
from prsm_core.domain.tools import EDIT_TOOLS, NATIVE_TOOLS, READ_TOOLS
from prsm_core.engine.tools.table import TOOLS
from prsm_core.plugins.records import HOOKS, WORDS
from tests.contract import defaults_of
from tests.event_meanings import EVENT_MEANINGS
from tests.public_names import homes_of
from tests.sources import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType

# The values that plugins are given, by what they are given for.
VALUES = {
    "check-values": ("PermissionRequest", "PermissionContext", "Allow", "Ask", "Deny"),
    "scorer-values": ("ModelCapability", "TaskProfile"),
    "sink-values": ("RunInfo", "Event"),
    "tool-values": ("PeerNow", "PeerMessage"),
    "frontend-values": ("RunOptions", "RunResult", "Question", "Answer"),
    "provider-values": (
        "ProviderCapabilities",
        "ProviderStatus",
        "SessionRequest",
        "AssembledContext",
        "AgentMessage",
        "TextDelta",
        "ThinkingDelta",
        "AssistantMessage",
        "ToolCallStarted",
        "ToolCallFinished",
        "ToolOutput",
        "PlanUpdated",
        "PlanEntry",
        "UsageReported",
        "StepEnded",
        "Notice",
        "TurnEnded",
        "AgentError",
        "ToolSpec",
        "ToolOutcome",
        "ModelInfo",
    ),
}


# What a fake plays in the language of its own program, and so by its author's code.
OWN_FAULTS = {
    "a_command_never_ends": "Run a command that does not end.",
    "broken_bytes": "Say bytes that are no UTF-8.",
    "busy_for_ever": "Be refused for too many requests, always.",
    "busy_twice": "Be refused for too many requests, twice.",
    "echoes_secrets": "Say the key it was given in an error.",
    "garbage": "Write lines of which none is an event.",
    "hears_no_more": "Read nothing any more, not even an interrupt.",
    "mad_usage": "Tell numbers of tokens that cannot be.",
    "no_access": "Be refused for its key.",
    "no_room": "Be refused for a prompt that is too long.",
    "says_all_twice": "Tell every event twice.",
    "says_it_in_disorder": "Tell events in another order.",
    "transient_error": "Tell of an error that it tries again itself.",
}


def plugin_parts() -> dict[str, str]:
    """Return the made parts of the page by name."""
    values = {part: _values(names) for part, names in VALUES.items()}
    return {
        "records": _records(),
        **values,
        "events": _events(),
        "event-samples": _event_samples(),
        "tools": _tools(),
        "native-tools": _native_tools(),
        "scenario": _scenario(),
        "faults": _faults(),
        "names": _names(prsm_core),
        "kit": _kit(),
        "turn-session": _turn_session(),
        "tool-call": _tool_call(),
        "kit-names": _names(prsm_core.kit),
        "policies-names": _names(prsm_core.policies),
        "terminal-names": _names(prsm_core.terminal),
        "testing-names": _names(prsm_testing),
    }


def _kit() -> str:
    """Return what each module of the kit is about, and its names, as the kit orders them."""
    homes = homes_of(prsm_core.kit)
    rows = [
        (
            _first(importlib.import_module(module)),
            ", ".join(f"`{name}`" for name in homes if homes[name] == module),
        )
        for module in sorted(set(homes.values()))
    ]
    return _table(("what it is about", "names"), rows)


def _tool_call() -> str:
    """Return what a handler may ask of a ToolCall."""
    rows = []
    for name, member in vars(prsm_core.ToolCall).items():
        if name.startswith("_") or not (isinstance(member, property) or callable(member)):
            continue
        if isinstance(member, property):
            rows.append((f"`{name}`", _first(member)))
        else:
            arguments = ", ".join(list(inspect.signature(member).parameters)[1:])
            awaited = "await " if inspect.iscoroutinefunction(member) else ""
            rows.append((f"`{awaited}{name}({arguments})`", _first(member)))
    return _table(("of `call`", "what it is"), rows)


def _turn_session() -> str:
    """Return the methods of a TurnSession, those that a subclass must have first."""
    methods = {
        name: method
        for name, method in vars(prsm_core.kit.TurnSession).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    needed = prsm_core.kit.TurnSession.__abstractmethods__
    rows = [
        (
            f"`{name}({', '.join(list(inspect.signature(method).parameters)[1:])})`",
            "yes" if name in needed else "",
            _first(method),
        )
        for name, method in sorted(methods.items(), key=lambda item: item[0] not in needed)
    ]
    return _table(("method", "of the subclass", "what it does"), rows)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n\n"


def _records() -> str:
    rows = [
        (f"`{hook}`", WORDS[kind], f"`{_signature(kind)}`", _first(kind))
        for hook, kind in HOOKS.items()
    ]
    return _table(("hook", "kind", "record", "what it registers"), rows)


def _values(names: Sequence[str]) -> str:
    rows = [
        (f"`{_signature(getattr(prsm_core, name))}`", _first(getattr(prsm_core, name)))
        for name in names
    ]
    return _table(("value", "what it is"), rows)


def _signature(record: type) -> str:
    """Return a record with its fields; one with a default shows it, if it is plain."""
    fields = (
        name if default is NODEFAULT else f"{name}={_shown(default)}"
        for name, default in defaults_of(record)
    )
    return f"{record.__name__}({', '.join(fields)})"


def _shown(default: Any) -> str:
    if isinstance(default, enum.Enum):
        return repr(default.value)
    is_plain = isinstance(default, str | int | float | tuple | None) or default in ({}, frozenset())
    return repr(default) if is_plain else f"{type(default).__name__}()"


def _first(thing: Any) -> str:
    """Return the first sentence of a docstring."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def _events() -> str:
    rows = [
        (f"`{kind}`", ", ".join(f"`{name}`" for name in names), EVENT_MEANINGS[kind])
        for kind, names in events.EVENT_FIELDS.items()
    ]
    return _table(("type", "fields", "what has happened"), rows)


def _event_samples() -> str:
    lines = [json.dumps(event.to_dict()) for event in sample_events()]
    return "\n```json\n" + "\n".join(lines) + "\n```\n\n"


def _tools() -> str:
    rows = [
        (
            f"`{tool.spec.name}({', '.join(tool.schema['properties'])})`",
            ", ".join(sorted(tool.spec.roles)),
            "yes" if tool.spec.waits else "no",
            tool.spec.description,
        )
        for tool in TOOLS
    ]
    return _table(("tool", "roles", "may wait", "what the model is told"), rows)


def _native_tools() -> str:
    others = NATIVE_TOOLS - READ_TOOLS - EDIT_TOOLS
    rows = [
        (", ".join(f"`{name}`" for name in sorted(names)), what)
        for names, what in (
            (READ_TOOLS, "look at files; what they look at is in `paths`"),
            (EDIT_TOOLS, "change files; a patch is an `Edit` of all its `paths`"),
            (others, "`Bash` alone has a `command`; the others reach the web"),
        )
    ]
    return _table(("tools", "what they do"), rows)


def _scenario() -> str:
    """Return the format from the docstring of the module that reads it."""
    text = inspect.getdoc(importlib.import_module("prsm_demo.script.scenario")) or ""
    return "\n```text\n" + text.partition("\n\n")[2].rstrip() + "\n```\n\n"


def _faults() -> str:
    rows = [
        (
            f"`{row.fault}`",
            _played(row.fault),
            "completes" if row.error is None else f"fails: `{row.error}`",
            row.kind or "",
            str(row.tries),
        )
        for row in misbehaviour_contract.TABLE.values()
    ]
    return _table(("fault", "what the program does", "its agent", "kind", "tries"), rows)


def _played(fault: str) -> str:
    shared = {"ignores_term": "ignore_term"}.get(fault, fault)
    return OWN_FAULTS.get(fault) or _first(getattr(faults, shared))


def _names(package: ModuleType) -> str:
    rows = [(f"`{name}`", text) for name, text in _told(package).items()]
    return _table(("name", "what it is"), rows)


def _told(package: ModuleType) -> Mapping[str, str]:
    """Return what each public name says of itself; of a constant it is the text below it."""
    homes = homes_of(package)
    constants = {home: dict(_constants(home)) for home in set(homes.values())}
    return {
        name: constants[homes[name]].get(name) or _first(getattr(package, name))
        for name in dir(package)
    }


def _constants(module: str) -> Iterator[tuple[str, str]]:
    body = parsed(Path(str(importlib.import_module(module).__file__))).body
    for node, below in pairwise(body):
        if isinstance(node, ast.Assign) and isinstance(below, ast.Expr):
            text = ast.literal_eval(below.value) if isinstance(below.value, ast.Constant) else ""
            told = " ".join(text.split("\n\n")[0].split())
            yield from ((ast.unparse(target), told) for target in node.targets)
