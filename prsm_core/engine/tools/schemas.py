"""What each orchestration tool takes, and what a model sees of it.

A model sees less than is checked: it is sent with every request. It seldom breaks the rules left
out, and a call that does is told which one.
"""

from __future__ import annotations

from typing import Any

from prsm_core.catalog.selection import FITTING
from prsm_core.engine.tools.mending import OTHER_WORDS, Word

_NOT_SHOWN = {
    "minLength",
    "minItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "additionalProperties",
    OTHER_WORDS,
}
_OTHER_NAMES = {"timeout_seconds"}  # of arguments that are shown
_SHOWN = {
    "children": {"type": "array", "items": {"type": "object", "required": ["prompt"]}},
    "budget": {"type": "object", "description": "most of tokens, usd, turns, spawns"},
}

_STR = {"type": "string", "minLength": 1}
_COUNT = {"type": "number", "minimum": 1}
_COST = {"type": "number", "exclusiveMinimum": 0}
_MODES = ("plan", "default", "accept_edits", "bypass")  # those that are a rung of the ladder


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_CHILD = {
    "prompt": {**_STR, "description": "complete task; it sees nothing else"},
    "tools": {"type": "array", "items": _STR, "description": "default: all"},
    "model": {**_STR, "description": "alias, provider or provider/model; default: yours"},
    "complexity": {"enum": list(FITTING), "description": "picks the model"},
    "models": {"type": "array", "items": _STR, "minItems": 1, "description": "all it may use"},
    "mode": {"enum": list(_MODES), "description": "at most yours"},
    "depth": {"type": "integer", "minimum": 0, "description": "levels below it"},
    "cwd": _STR,
    "region": {"type": "array", "items": _STR, "description": "paths only it may write"},
    "worktree": {"type": "boolean"},
    "mcp_servers": {"type": "array", "items": _STR},
    "exclude_mcp_servers": {"type": "array", "items": _STR},
    "role": {"enum": ["worker", "reviewer"]},
    "profile": _STR,
    "name": _STR,
    "budget": _object((), tokens=_COUNT, usd=_COST, turns=_COUNT, spawns=_COUNT),
}
_WAIT = {"type": "boolean", "description": "for its result or question"}

# What the vendors' own tools call these, which models have learnt by heart.
_KIND_OF_CHILD = Word(
    "profile",
    values={
        "worker": ("role", "worker"),
        "reviewer": ("role", "reviewer"),
        "general-purpose": None,
        "general": None,
        "default": None,
    },
)
_SPAWN_WORDS = {
    "description": Word("prompt", is_label=True),
    "message": Word("prompt"),
    "subagent_type": _KIND_OF_CHILD,
    "agent_type": _KIND_OF_CHILD,
}


def _child(**more: Any) -> dict[str, Any]:
    return {**_object(("prompt",), **_CHILD, **more), OTHER_WORDS: _SPAWN_WORDS}


SCHEMAS: dict[str, tuple[str, dict[str, Any]]] = {
    "ask_parent": (
        "Ask your parent and wait for the answer.",
        _object(("question",), question=_STR),
    ),
    "respond_to_child": (
        "Answer a child's question.",
        _object(
            ("child_id", "correlation_id", "response"),
            child_id=_STR,
            correlation_id=_STR,
            response=_STR,
        ),
    ),
    "wait_for_message": (
        "Wait for questions, task_results, prompts; with all for every child's result. "
        "nothing_left: no one can send any.",
        _object(
            (),
            all={"type": "boolean"},
            timeout={"type": "number", "minimum": 0, "description": "seconds"},
            timeout_seconds={"type": "number", "minimum": 0},
            token=_STR,
        ),
    ),
    "send_child_prompt": (
        "Message a running child.",
        _object(("child_id", "prompt"), child_id=_STR, prompt=_STR),
    ),
    "spawn_child": (
        "Give a child a task. A finished one that fits is used again.",
        _child(wait=_WAIT),
    ),
    "spawn_children_parallel": (
        "Several at once, as by spawn_child.",
        _object(
            ("children",),
            children={"type": "array", "minItems": 1, "items": _child()},
        ),
    ),
    "restart_child": (
        "Give an ended child a further task.",
        _object(("child_id", "prompt"), child_id=_STR, prompt=_STR, wait={"type": "boolean"}),
    ),
    "consult_expert": (
        "Ask an expert and wait for its answer.",
        _object(("expert_id", "question"), expert_id=_STR, question=_STR),
    ),
    "consult_peer": (
        "Ask another model for an opinion; thread_id goes on with one.",
        _object(
            ("question",),
            question=_STR,
            thread_id=_STR,
            peer={**_STR, "description": "list shows all"},
        ),
    ),
    "report_progress": (
        "Tell your parent how far you are.",
        _object(("status",), status=_STR, percent={"type": "number", "minimum": 0, "maximum": 100}),
    ),
    "task_complete": (
        "Finish your task. Nothing after it is seen.",
        _object(
            ("summary",),
            summary={"type": "string"},
            artifacts={"type": "array", "items": _STR, "description": "files made or changed"},
            commands={"type": "array", "items": _STR, "description": "commands run to check"},
            success={"type": "boolean", "description": "false: it failed"},
        ),
    ),
    "ask_user": (
        "Ask the user.",
        _object(
            ("question",),
            question=_STR,
            options={"type": "array", "items": _STR},
            multiple={"type": "boolean"},
        ),
    ),
    "recommend_model": (
        "The best models for a task, and why.",
        _object(("task_description",), task_description=_STR, complexity={"enum": list(FITTING)}),
    ),
    "get_child_history": (
        "Read a child's conversation.",
        _object(("child_id",), child_id=_STR, detail_level={"enum": ["full", "summary"]}),
    ),
    "check_child_status": ("State of one child.", _object(("child_id",), child_id=_STR)),
    "get_budget": ("What you and the run may still use.", _object(())),
    "get_children_status": ("State of all your children.", _object(())),
    "run_bash": (
        "Run a command with bash.",
        _object(
            ("command",),
            command=_STR,
            timeout={"type": "number", "exclusiveMinimum": 0, "description": "seconds"},
            cwd=_STR,
        ),
    ),
}

# What a program's calls may say, beside what a model's may. Nobody is shown these.
_PROGRAMS = {
    "labels": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    "continues": _STR,
}


def _widened(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "properties": {**schema["properties"], **_PROGRAMS}}


def _all_widened(schema: dict[str, Any]) -> dict[str, Any]:
    children = schema["properties"]["children"]
    many = {**children, "items": _widened(children["items"])}
    return {**schema, "properties": {**schema["properties"], "children": many}}


PROGRAM_SCHEMAS: dict[str, dict[str, Any]] = {
    "get_child_history": _object(
        ("child_id",), child_id=_STR, detail_level={"enum": ["full", "summary", "calls"]}
    ),
    "recommend_model": _object(
        ("task_description",),
        **SCHEMAS["recommend_model"][1]["properties"],
        regions={"type": "boolean"},
    ),
    "spawn_child": _widened(SCHEMAS["spawn_child"][1]),
    "spawn_children_parallel": _all_widened(SCHEMAS["spawn_children_parallel"][1]),
}


def shown(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what a model sees of a schema."""
    plain = {key: value for key, value in schema.items() if key not in _NOT_SHOWN}
    if not plain.get("required", True):
        del plain["required"]
    if isinstance(plain.get("items"), dict):
        plain["items"] = shown(plain["items"])
    if "properties" in plain:
        plain["properties"] = {
            name: shown(value)
            for name, value in plain["properties"].items()
            if name not in _OTHER_NAMES
        }
        briefly = {name: brief for name, brief in _SHOWN.items() if name in plain["properties"]}
        plain["properties"] |= briefly
    return plain
