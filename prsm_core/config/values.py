"""What the values of a configuration may be: the types that its sections are made of."""

# Annotations are values here, not texts: msgspec would have to evaluate each of these.
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta, StructMeta

from prsm_core.config.policy_file import check_class, split_rule
from prsm_core.domain.record import Record
from prsm_core.domain.structs import (
    Parsed,
    choices_of,
    container_of,
    fields_of,
    matching,
    members,
    parts_of,
    read,
)
from prsm_core.domain.tools import NATIVE_TOOLS

MOST = sys.float_info.max  # what is above it is infinite

Count = Annotated[int, Meta(ge=1)]
CountOrZero = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0, le=MOST)]
Factor = Annotated[float, Meta(gt=0, le=MOST)]
Share = Annotated[float, Meta(gt=0, le=1)]
Score = Annotated[float, Meta(ge=0, le=1)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
Text = Annotated[str, Meta(min_length=1)]
InnerPath = Annotated[
    str,
    matching(
        r"^(?![/~])(?!([^\x00]*/)?\.\.(/|$))[^\x00]+$",
        "must be a path below the workspace, without ..",
    ),
]
VariableName = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)",
        "must be the name of an environment variable, never its value",
    ),
]
VariableNames = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]*\*?$(?!\n)",
        "must be the name of an environment variable, or the beginning of names: CONDA_*",
    ),
]
WebAddress = Annotated[str, matching("^https?://", "must begin with http:// or https://")]
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


class Words(tuple[str, ...], Parsed):
    """Words of a command: a list, or text that is split as a shell would."""

    json_schema: ClassVar[Mapping[str, Any]] = {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
        ]
    }

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Take a list of words, or text. Raises ValueError."""
        if isinstance(value, str):
            value = cls._split(value)
        if not isinstance(value, list | tuple):
            raise ValueError("must be text or a list of words")  # noqa: TRY004 - read as a fault
        for index, word in enumerate(value):
            if not isinstance(word, str):
                raise ValueError("must be text; put it in quotes", index)  # noqa: TRY004
        if not value:
            raise ValueError("must be at least one word long")
        return cls(value)

    @classmethod
    def _split(cls, text: str) -> Sequence[str]:
        try:
            return shlex.split(text)
        except ValueError as error:
            raise ValueError("has a quote that is not closed") from error


class Rule(Words):
    """The first words of the commands that a rule of the permissions is about."""

    _verdict: ClassVar[str] = "deny"

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Take the words of a rule. Raises ValueError."""
        return cls(check_class(super().parse(value), cls._verdict))

    @classmethod
    def _split(cls, text: str) -> Sequence[str]:
        return split_rule(text)


class AllowRule(Rule):
    """A rule that allows: alone it may name a class of commands."""

    _verdict = "allow"


class Section(Record, frozen=True, forbid_unknown_fields=True):
    """A mapping that knows all its keys, in which an empty (null) value means the default."""

    @classmethod
    def expand(cls, value: Any) -> Any:
        """Return the mapping that stands for a value, where it may be written in another way."""
        return value

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Read a section that no file holds. Raises msgspec.ValidationError."""
        return read(cls, prepared(cls, values))


def prepared(hint: Any, value: Any) -> Any:
    """Return a value without null keys and with short forms written out; unknown keys stay."""
    if value is False and "off" in choices_of(hint):
        return "off"  # as YAML reads it where it stands without quotes
    for kind in members(hint):
        if isinstance(kind, type) and issubclass(kind, Section):
            value = kind.expand(value)
    container = container_of(hint, value)
    if container is None or (value is None and type(None) in members(hint)):
        return value
    value = {} if value is None else value
    if isinstance(container, StructMeta):
        known = fields_of(container)
        value = {key: item for key, item in value.items() if item is not None or key not in known}
    parts = {key: prepared(inner, item) for key, inner, item in parts_of(container, value)}
    return {**value, **parts} if isinstance(value, Mapping) else list(parts.values())


def check_tool_names(names: Iterable[tuple[str | int, str]], *path: str | int) -> None:
    """Raise ValueError for a native tool in the wrong case.

    `names` come with their key or index in what stands at `path`.
    """
    for key, name in names:
        for tool in NATIVE_TOOLS:
            if name.lower() == tool.lower() and name != tool:
                raise ValueError(f"is written {tool}", *path, key)
