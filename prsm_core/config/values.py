"""What the values of a configuration may be: the types that its sections are made of."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from prsm_core.config.policy_file import check_class, split_rule
from prsm_core.domain.tools import NATIVE_TOOLS

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")


def _split(value: Any) -> Any:
    """Split text into words as a shell would; leave a list alone."""
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise ValueError("has a quote that is not closed") from error
    if not isinstance(value, list | tuple):
        raise ValueError("must be text or a list of words")  # noqa: TRY004 - pydantic's contract
    return value


def _split_rule(value: Any) -> Any:
    return split_rule(value) if isinstance(value, str) else _split(value)


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError("must be the name of an environment variable, never its value")
    return name


def _inner_path(path: str) -> str:
    if path.startswith(("/", "~")) or ".." in path.split("/") or "\0" in path:
        raise ValueError("must be a path below the workspace, without ..")
    return path


def _variables(name: str) -> str:
    if not _VARIABLES.fullmatch(name):
        raise ValueError(
            "must be the name of an environment variable, or the beginning of names: CONDA_*"
        )
    return name


def _canonical_tool(name: str) -> str:
    for tool in NATIVE_TOOLS:
        if name.lower() == tool.lower() and name != tool:
            raise ValueError(f"is written {tool}")
    return name


Count = Annotated[int, Field(strict=True, ge=1)]
CountOrZero = Annotated[int, Field(strict=True, ge=0)]
Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Factor = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, gt=0, le=1)]
Score = Annotated[float, Field(strict=True, ge=0, le=1)]
Temperature = Annotated[float, Field(strict=True, ge=0, le=2)]
Text = Annotated[str, Field(min_length=1)]
InnerPath = Annotated[Text, AfterValidator(_inner_path)]
VariableName = Annotated[str, AfterValidator(_variable)]
VariableNames = Annotated[str, AfterValidator(_variables)]
ToolName = Annotated[Text, AfterValidator(_canonical_tool)]
_AS_WORDS = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
        ]
    }
)
Words = Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_split), _AS_WORDS]
_RULE = (Field(min_length=1), BeforeValidator(_split_rule), _AS_WORDS)
Rule = Annotated[tuple[str, ...], *_RULE, AfterValidator(lambda rule: check_class(rule, "deny"))]
AllowRule = Annotated[
    tuple[str, ...], *_RULE, AfterValidator(lambda rule: check_class(rule, "allow"))
]
TaskCategory = Literal[
    "architecture",
    "complex-reasoning",
    "coding",
    "code-review",
    "planning",
    "tool-use",
    "exploration",
    "simple-tasks",
    "general",
    "agentic",
    "search",
    "documentation",
]
ToolVerdict = Literal["allow", "ask", "deny"]


def none_is_empty(value: Any) -> Any:
    """Return what is set, an empty mapping for nothing."""
    return {} if value is None else value


def off_as_text(value: Any) -> Any:
    """Take YAML's plain `off`, which it reads as false, for the word."""
    return "off" if value is False else value


class Values(BaseModel):
    """A frozen mapping in which an empty (null) value means the default.

    What checks one is built when the first is read: a part of a larger one never needs its own,
    and every start of `prsm run` would build them all.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    @classmethod
    def unset(cls) -> Self:
        """Return what an empty mapping means, which needs no check."""
        return cls.model_construct()

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        known = cls.model_fields
        return {key: value for key, value in data.items() if value is not None or key not in known}


class Section(Values):
    """A mapping that knows all its keys."""

    model_config = ConfigDict(extra="forbid")
