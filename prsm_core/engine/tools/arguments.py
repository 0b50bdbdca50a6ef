"""What each orchestration tool takes, and what a model sees of it.

A model sees less than is checked, as it is sent with every request. A call that breaks a hidden
rule is told which.
"""

# Annotations are values here, not texts: msgspec would have to evaluate each of these.
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from prsm_core.domain.record import Record
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

# What the vendors' own tools call these, which models have learnt by heart.
_PROMPT_WORDS = {"description": Word(is_label=True), "message": Word()}
_KIND_OF_CHILD = Word(
    values={
        "worker": ("role", "worker"),
        "reviewer": ("role", "reviewer"),
        "general-purpose": None,
        "general": None,
        "default": None,
    }
)
_PROFILE_WORDS = {"subagent_type": _KIND_OF_CHILD, "agent_type": _KIND_OF_CHILD}

Complexity = Literal["simple", "moderate", "complex"]
_Mode = Literal["plan", "default", "accept_edits", "bypass"]  # those that are a rung of the ladder
_Text = Annotated[str, Meta(min_length=1)]
_Count = Annotated[float, Meta(ge=1)]


def _says(description: str) -> Meta:
    return Meta(description=description)


class _Arguments(Record, frozen=True, gc=False, forbid_unknown_fields=True):
    pass


class _Budget(_Arguments, frozen=True):
    tokens: _Count | UnsetType = UNSET
    usd: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    turns: _Count | UnsetType = UNSET
    spawns: _Count | UnsetType = UNSET


class _Child(_Arguments, frozen=True):
    prompt: Annotated[
        _Text,
        _says("complete task; it sees nothing else"),
        Meta(extra_json_schema={OTHER_WORDS: _PROMPT_WORDS}),
    ]
    tools: Annotated[list[_Text], _says("default: all")] | UnsetType = UNSET
    model: (
        Annotated[_Text, _says("alias, provider or provider/model; default: yours")] | UnsetType
    ) = UNSET
    complexity: Annotated[Complexity, _says("picks the model")] | UnsetType = UNSET
    models: Annotated[list[_Text], Meta(min_length=1), _says("all it may use")] | UnsetType = UNSET
    mode: Annotated[_Mode, _says("at most yours")] | UnsetType = UNSET
    depth: Annotated[int, Meta(ge=0), _says("levels below it")] | UnsetType = UNSET
    cwd: _Text | UnsetType = UNSET
    region: Annotated[list[_Text], _says("paths only it may write")] | UnsetType = UNSET
    worktree: bool | UnsetType = UNSET
    mcp_servers: list[_Text] | UnsetType = UNSET
    exclude_mcp_servers: list[_Text] | UnsetType = UNSET
    role: Literal["worker", "reviewer"] | UnsetType = UNSET
    profile: Annotated[_Text, Meta(extra_json_schema={OTHER_WORDS: _PROFILE_WORDS})] | UnsetType = (
        UNSET
    )
    name: _Text | UnsetType = UNSET
    budget: _Budget | UnsetType = UNSET


class _SpawnChild(_Child, frozen=True):
    wait: Annotated[bool, _says("for its result or question")] | UnsetType = UNSET


class _SpawnChildren(_Arguments, frozen=True):
    children: Annotated[list[_Child], Meta(min_length=1)]


class _AskParent(_Arguments, frozen=True):
    question: _Text


class _OneChild(_Arguments, frozen=True):
    child_id: _Text


class _RespondToChild(_OneChild, frozen=True):
    correlation_id: _Text
    response: _Text


class _WaitForMessage(_Arguments, frozen=True):
    all: bool | UnsetType = UNSET
    timeout: Annotated[float, Meta(ge=0), _says("seconds")] | UnsetType = UNSET
    timeout_seconds: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    token: _Text | UnsetType = UNSET


class _SendChildPrompt(_OneChild, frozen=True):
    prompt: _Text


class _RestartChild(_SendChildPrompt, frozen=True):
    wait: bool | UnsetType = UNSET


class _ConsultExpert(_AskParent, frozen=True):
    expert_id: _Text


class _ConsultPeer(_AskParent, frozen=True):
    thread_id: _Text | UnsetType = UNSET
    peer: Annotated[_Text, _says("list shows all")] | UnsetType = UNSET


class _ReportProgress(_Arguments, frozen=True):
    status: _Text
    percent: Annotated[float, Meta(ge=0, le=100)] | UnsetType = UNSET


class _TaskComplete(_Arguments, frozen=True):
    summary: str
    artifacts: Annotated[list[_Text], _says("files made or changed")] | UnsetType = UNSET
    commands: Annotated[list[_Text], _says("commands run to check")] | UnsetType = UNSET
    success: Annotated[bool, _says("false: it failed")] | UnsetType = UNSET


class _AskUser(_AskParent, frozen=True):
    options: list[_Text] | UnsetType = UNSET
    multiple: bool | UnsetType = UNSET


class _RecommendModel(_Arguments, frozen=True):
    task_description: _Text
    complexity: Complexity | UnsetType = UNSET


class _ChildHistory(_OneChild, frozen=True):
    detail_level: Literal["full", "summary"] | UnsetType = UNSET


class _RunBash(_Arguments, frozen=True):
    command: _Text
    timeout: Annotated[float, Meta(gt=0), _says("seconds")] | UnsetType = UNSET
    cwd: _Text | UnsetType = UNSET


# What a program's calls may say, beside what a model's may. Nobody is shown these.
class _ProgramChild(_Child, frozen=True):
    labels: dict[str, str | None] | UnsetType = UNSET
    continues: _Text | UnsetType = UNSET


class _ProgramSpawnChild(_ProgramChild, frozen=True):
    wait: bool | UnsetType = UNSET


class _ProgramSpawnChildren(_Arguments, frozen=True):
    children: Annotated[list[_ProgramChild], Meta(min_length=1)]


class _ProgramRecommendModel(_RecommendModel, frozen=True):
    regions: bool | UnsetType = UNSET


class _ProgramChildHistory(_OneChild, frozen=True):
    detail_level: Literal["full", "summary", "calls"] | UnsetType = UNSET


ARGUMENTS: Mapping[str, tuple[str, type[_Arguments]]] = {
    "ask_parent": ("Ask your parent and wait for the answer.", _AskParent),
    "respond_to_child": ("Answer a child's question.", _RespondToChild),
    "wait_for_message": (
        "Wait for questions, task_results, prompts; with all for every child's result. "
        "nothing_left: no one can send any.",
        _WaitForMessage,
    ),
    "send_child_prompt": ("Message a running child.", _SendChildPrompt),
    "spawn_child": ("Give a child a task. A finished one that fits is used again.", _SpawnChild),
    "spawn_children_parallel": ("Several at once, as by spawn_child.", _SpawnChildren),
    "restart_child": ("Give an ended child a further task.", _RestartChild),
    "consult_expert": ("Ask an expert and wait for its answer.", _ConsultExpert),
    "consult_peer": ("Ask another model for an opinion; thread_id goes on with one.", _ConsultPeer),
    "report_progress": ("Tell your parent how far you are.", _ReportProgress),
    "task_complete": ("Finish your task. Nothing after it is seen.", _TaskComplete),
    "ask_user": ("Ask the user.", _AskUser),
    "recommend_model": ("The best models for a task, and why.", _RecommendModel),
    "get_child_history": ("Read a child's conversation.", _ChildHistory),
    "check_child_status": ("State of one child.", _OneChild),
    "get_budget": ("What you and the run may still use.", _Arguments),
    "get_children_status": ("State of all your children.", _Arguments),
    "run_bash": ("Run a command with bash.", _RunBash),
}

PROGRAM_ARGUMENTS: Mapping[str, type[_Arguments]] = {
    "get_child_history": _ProgramChildHistory,
    "recommend_model": _ProgramRecommendModel,
    "spawn_child": _ProgramSpawnChild,
    "spawn_children_parallel": _ProgramSpawnChildren,
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
