"""A struct of a provider's section, made of the table of parsers that reads it.

    KEYS = {"region": Key(parse_choice("eu", "us"), "Where the servers are."), "home": parse_text}
    SETTINGS = model_of_keys("MineSettings", KEYS)

With `ProviderSpec(settings="mine.config:SETTINGS", …)` the section is checked as the configuration
is loaded, with file and line, and stands in `prsm config schema`. The factory reads it with the
same table: `read_section("providers.mine", settings, KEYS)`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta, Struct, defstruct
from msgspec.structs import force_setattr

from prsm_core.domain.structs import Parsed
from prsm_core.errors import ConfigError
from prsm_core.kit.section import (
    Key,
    Parser,
    parse_argv,
    parse_environment,
    parse_flag,
    parse_models,
    parse_text,
    parse_url,
    parse_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_WORDS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_SCHEMAS: Mapping[Any, Mapping[str, Any]] = {
    parse_argv: _WORDS,
    parse_environment: {"type": "object", "additionalProperties": {"type": "string"}},
    parse_flag: {"type": "boolean"},
    parse_models: {"type": "array", "items": {"type": "string"}},
    parse_text: {"type": "string", "minLength": 1},
    parse_url: {"type": "string", "format": "uri"},
    parse_words: _WORDS,
}
_PLACE = re.compile(r"^(?:providers\.[\w-]+)?\.?")  # whoever checks a section adds its own
# What all providers share is described once.
_SHARED: Mapping[str, str] = {
    "api_key_env": "Name of the environment variable that holds the API key.",
    "base_url": "Where the vendor's API is found.",
    "command": "The vendor's program with its first arguments, instead of the default.",
    "env": "Variables added to the environment of the vendor's program.",
    "home": "The folder that holds the vendor's login, instead of the user's own.",
    "models": "Ids of the models that may be used.",
}


def model_of_keys(
    name: str,
    keys: Mapping[str, Parser],
    check: Callable[[Mapping[str, Any]], object] | None = None,
) -> type[Struct]:
    """Return the struct of a section that a table of parsers reads.

    `check` gets what was set, once each value is right by itself, and raises ConfigError if values
    do not go together.
    """
    kinds = {key: _kind(key, parser) for key, parser in keys.items()}

    def finish(section: Struct) -> None:
        given = {
            key: value if isinstance(value, _Value) else kinds[key].parse(value)
            for key in keys
            if (value := getattr(section, key)) is not None
        }
        if check is not None:
            _told(lambda: check({key: value.written for key, value in given.items()}))
        for key, value in given.items():
            force_setattr(section, key, value.parsed)

    return defstruct(
        name,
        [(key, _annotated(kinds[key], key, parser), None) for key, parser in keys.items()],
        namespace={"__post_init__": finish},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


class _Value(Parsed):
    parser: ClassVar[Parser]

    def __init__(self, written: Any, parsed: Any) -> None:
        self.written = written
        self.parsed = parsed

    @classmethod
    def parse(cls, value: Any) -> Self:
        return cls(value, _told(lambda: cls.parser("", value)))


def _kind(key: str, parser: Parser) -> type[_Value]:
    # Not bound to the value: a parser takes a place and what stands there.
    members = {"parser": staticmethod(parser), "json_schema": _schema_of(parser)}
    return type(key, (_Value,), members)


def _annotated(kind: type[_Value], key: str, parser: Parser) -> Any:
    description = (parser.description if isinstance(parser, Key) else "") or _SHARED.get(key)
    return Annotated[kind | None, Meta(description=description)]


def _schema_of(parser: Parser) -> Mapping[str, Any]:
    if isinstance(parser, Key):
        return parser.schema or _schema_of(parser.parser)
    return _SCHEMAS.get(parser, {})


def _told(read: Callable[[], Any]) -> Any:
    """Return what is read; its error without the value, which may be a secret."""
    try:
        return read()
    except ConfigError as error:
        problem = _PLACE.sub("", error.message.partition(", not ")[0]).removeprefix(": ")
        hint = f"; {error.hint}" if error.hint else ""
        raise ValueError(f"is wrong: {problem}{hint}") from None
