"""A model of a provider's section, made of the table of parsers that reads it.

    KEYS = {"region": Key(parse_choice("eu", "us"), "Where the servers are."), "home": parse_text}
    SETTINGS = model_of_keys("MineSettings", KEYS)

With `ProviderSpec(settings="mine.config:SETTINGS", …)` the section is checked as the configuration
is loaded, with file and line, and stands in `prsm config schema`. The factory reads it with the
same table: `read_section("providers.mine", settings, KEYS)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)

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
) -> type[BaseModel]:
    """Return the pydantic model of a section that a table of parsers reads.

    `check` is given what was set, once each value is right by itself, and raises ConfigError where
    values do not go together.
    """
    fields: Any = {key: (_type(parser), _field(key, parser)) for key, parser in keys.items()}

    def checked(given: Any) -> Any:
        if check is not None and isinstance(given, Mapping) and _are_right(given, keys):
            _told(lambda: check(given))
        return given

    return create_model(
        name,
        __config__=ConfigDict(extra="forbid", frozen=True),
        __validators__={"checked": model_validator(mode="before")(checked)},  # type: ignore[dict-item]
        **fields,
    )


def _type(parser: Parser) -> Any:
    return Annotated[
        Any,
        BeforeValidator(lambda value: _told(lambda: parser("", value))),
        WithJsonSchema(dict(_schema_of(parser))),
    ]


def _schema_of(parser: Parser) -> Mapping[str, Any]:
    if isinstance(parser, Key):
        return parser.schema or _schema_of(parser.parser)
    return _SCHEMAS.get(parser, {})


def _field(key: str, parser: Parser) -> Any:
    told = (parser.description if isinstance(parser, Key) else "") or _SHARED.get(key)
    return Field(default=None, description=told)


def _are_right(given: Mapping[str, Any], keys: Mapping[str, Parser]) -> bool:
    """Return whether each value is right by itself; the others are told of one by one."""
    for key, value in given.items():
        try:
            keys[key]("", value)
        except (ConfigError, LookupError):
            return False
    return True


def _told(read: Callable[[], Any]) -> Any:
    """Return what is read; its error without the value, which may be a secret."""
    try:
        return read()
    except ConfigError as error:
        what = _PLACE.sub("", error.message.partition(", not ")[0]).removeprefix(": ")
        raise ValueError(f"is wrong: {what}{f'; {error.hint}' if error.hint else ''}") from None
