"""The four judgements of a run, as typed records: what goes in, what comes out, and what is asked.

All but the first are made by rules, unless a setting names a model.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from prsm_regions.drafts import Draft, PlanError

Out = TypeVar("Out", bound=msgspec.Struct)
_DECODE_ERRORS = (msgspec.ValidationError, msgspec.DecodeError, RecursionError)


class Signature(msgspec.Struct, Generic[Out], frozen=True, kw_only=True):
    """What one judgement is given; a subclass names its output and says what to do."""

    instructions: ClassVar[str]
    output: ClassVar[type[msgspec.Struct]]

    def prompt(self) -> str:
        """Return all that an agent is told: what to do, the inputs, and the form of the answer."""
        given = msgspec.to_builtins(self)
        inputs = "\n\n".join(f"## {name}\n{_shown(value)}" for name, value in given.items())
        schema = json.dumps(schema_of(self.output), ensure_ascii=False)
        return (
            f"{self.instructions}\n\n{inputs}\n\n"
            "## Your answer\nComplete your task with one JSON object alone, of this schema:\n"
            f"{schema}"
        )


def read_answer(signature: type[Signature[Out]], text: str) -> Out:
    """Return what an agent answered; raise PlanError, with the cure, for anything else."""
    start, end = text.find("{"), text.rfind("}")
    try:
        return msgspec.json.decode(text[start : end + 1], type=signature.output)  # type: ignore[return-value]
    except _DECODE_ERRORS as error:
        raise PlanError(f"answer with one JSON object of the schema: {error}") from error


class Decomposition(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, as it is written."""

    subtasks: tuple[Draft, ...]


class TaskDecompose(Signature[Decomposition], frozen=True, kw_only=True):
    """Splits an intent into subtasks that each own a region."""

    instructions: ClassVar[str] = (
        "Split a task into subtasks that agents carry out at the same time. Only read; change "
        "nothing.\n"
        "- Each subtask has a region: one folder or file, relative to the workspace, that it alone "
        "may write. No region holds another, none leads out of the workspace. One that is not "
        "there yet is a file if its name has a suffix or is one as Makefile, else a folder.\n"
        "- Whoever carries a subtask out sees its description and its region, and nothing else you "
        "know: say all that matters, with the names that others will use.\n"
        "- `depends_on` names what must be completed first, only where it must: what depends on "
        "nothing runs at once.\n"
        "- Make as few subtasks as the regions allow. `checks` are commands that show that a "
        "subtask is done."
    )
    output: ClassVar[type[msgspec.Struct]] = Decomposition

    intent: str
    tree: str = ""
    models: tuple[str, ...] = ()


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """A model, by the name that it has here."""

    model: str
    reason: str = ""


class AgentSelect(Signature[Selection], frozen=True, kw_only=True):
    """Chooses who carries a subtask out."""

    instructions: ClassVar[str] = (
        "Choose the model for a subtask, among those that can be used. What a person wanted is "
        "theirs to say: take it where there is something."
    )
    output: ClassVar[type[msgspec.Struct]] = Selection

    subtask: Draft
    models: tuple[str, ...]
    wanted: str | None = None  # by a person, or by the plan
    default: str = ""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is told."""

    prompt: str


class PromptBuild(Signature[Prompt], frozen=True, kw_only=True):
    """Writes what the agent of a subtask is told."""

    instructions: ClassVar[str] = (
        "Write the prompt for the agent that carries out a subtask. It knows nothing else. Keep "
        "every name and every fact; add none."
    )
    output: ClassVar[type[msgspec.Struct]] = Prompt

    intent: str
    subtask: Draft
    outline: str = ""  # of the region, where the effort is medium or high
    interfaces: str = ""  # of what it depends on, where the effort is high
    failure: str = ""  # why it failed before
    answers: str = ""  # to what it asked before


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """How a subtask ended, and why it is not completed."""

    state: Literal["completed", "partial", "failed"]
    reason: str = ""


class ProgressEval(Signature[Evaluation], frozen=True, kw_only=True):
    """Judges how a subtask ended, by what there is to show for it."""

    instructions: ClassVar[str] = (
        "Say how a subtask ended: `completed`; `partial`, if some of it is missing or could not be "
        "confirmed; `failed`. Go by the evidence, not by the claim."
    )
    output: ClassVar[type[msgspec.Struct]] = Evaluation

    subtask: Draft
    success: bool
    summary: str
    error: str = ""
    evidence: str = "claimed"
    gaps: tuple[str, ...] = ()  # what was claimed and could not be confirmed
    outside: tuple[str, ...] = ()  # what it changed beside its region
    conflicts: tuple[str, ...] = ()  # what did not merge
    asks: tuple[str, ...] = ()  # what its last words still ask for


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a record, with the schemas of its parts inside."""
    (schema,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    return _resolved(parts[schema["$ref"]], parts)  # type: ignore[no-any-return]


def _resolved(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        if "$ref" in value:
            return _resolved(parts[value["$ref"]], parts)
        return {key: _resolved(inner, parts) for key, inner in value.items()}
    return [_resolved(inner, parts) for inner in value] if isinstance(value, list) else value


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value or "(nothing)"
    return json.dumps(value, ensure_ascii=False, indent=1)
