"""The settings of what plugins bring, checked by a model of the plugin's own.

A section such as `sinks` holds an entry for each record of its kind. Which records there are, and
which model each has, is told by whoever knows the plugins. An entry of `providers` may be of any
name, whose `kind` says which provider it is of; what the engine and all providers share of it was
checked before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace
from pydantic import AliasChoices, BaseModel, SecretBytes, SecretStr, ValidationError

from prsm_core.config.explain import nearest, problems_of, unknown_key
from prsm_core.config.layers import dotted
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError, PrsmError
from prsm_core.kit.section import ENGINE_KEYS
from prsm_core.loop.interrupts import is_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pydantic.fields import FieldInfo

    from prsm_core.config.document import KeyPath
    from prsm_core.config.schema import Settings

PROVIDERS = "providers"

Model: TypeAlias = type[BaseModel]
Origin: TypeAlias = "Callable[[KeyPath], str]"


class PluginSection(Record, frozen=True, kw_only=True):
    """A section that belongs to one kind of what plugins bring.

    Attributes:
        word: What one of them is called.
        models: The model of each by its name; None: it has none; an error: it cannot be loaded.
        takes_any: Whether one without a model takes whatever is set.
        must_exist: Whether an entry that is nobody's is a mistake; else it is only told.
        left_out: Plugins that a person has left out. An entry may be of one of them, whose names
            are not known, unless it looks like one that is there.
    """

    word: str
    models: Mapping[str, Model | PrsmError | None]
    takes_any: bool = False
    must_exist: bool = False
    left_out: frozenset[str] = frozenset()

    def is_missed(self, name: str) -> bool:
        """Return whether an entry that is nobody's is a mistake."""
        is_excused = name in self.left_out or (self.left_out and not nearest(name, self.models))
        return self.must_exist and not is_excused


class PluginValues(Record, frozen=True, kw_only=True):
    """What was read: by section and name an instance of the model, or why there is none.

    `problems` are mistakes of whoever wrote the configuration, `notices` what is of no effect.
    """

    values: Mapping[tuple[str, str], BaseModel | PrsmError]
    problems: tuple[str, ...]
    notices: tuple[str, ...]

    def secrets(self) -> Iterator[str]:
        """Yield the values that their models call secret."""
        for value in self.values.values():
            yield from _secrets(value)


def read_plugin_settings(
    settings: Settings, sections: Mapping[str, PluginSection], origin: Origin
) -> PluginValues:
    """Read the sections of plugins; never raises for what is wrong in them.

    What lacks an entry is read from an empty one. If its model needs more than that, this is its
    value's error and no mistake of the configuration.
    """
    known = {
        section: _with_kinds(kind, settings) if section == PROVIDERS else kind
        for section, kind in sections.items()
    }
    reading = _Reading(origin, known)
    for section, kind in known.items():
        if section == PROVIDERS:
            reading.read_providers(kind, settings)
            continue
        given = getattr(settings, section)
        for name in given:
            if name not in kind.models:
                reading.note_unknown(section, name, kind)
        for name, model in kind.models.items():
            reading.read(section, name, kind, model, given.get(name))
    return PluginValues(
        values=reading.values,
        problems=tuple(reading.problems),
        notices=tuple(reading.notices),
    )


def _with_kinds(kind: PluginSection, settings: Settings) -> PluginSection:
    """Return the section of providers with those that the settings make of them by `kind`."""
    kinds = {name: section.kind or "" for name, section in settings.providers.items()}
    made = {name: kind.models[of] for name, of in kinds.items() if of in kind.models}
    return replace(kind, models={**kind.models, **made})


def full_schema(sections: Mapping[str, PluginSection]) -> dict[str, Any]:
    """Return the JSON Schema of a configuration file with what plugins take."""
    from prsm_core.config.json_schema import config_schema

    schema = config_schema()
    for section, kind in sections.items():
        entries = schema["properties"][section].setdefault("properties", {})
        for name, model in kind.models.items():
            if isinstance(model, type):
                entries[name] = _entry(model, f"{section}.{name}", schema["$defs"])
                if section == PROVIDERS:
                    _add_engine_keys(entries[name], schema["$defs"])
            elif section == PROVIDERS:
                continue  # what any provider may hold
            elif model is None and not kind.takes_any:
                entries[name] = {"type": "object", "maxProperties": 0}
            else:
                entries[name] = {"type": "object"}
    return schema


def _add_engine_keys(entry: dict[str, Any], definitions: Mapping[str, Any]) -> None:
    """Add to a provider's entry what the engine itself reads of it."""
    shared = definitions["ProviderSettings"]["properties"]
    if "properties" in entry:
        entry["properties"] |= {key: shared[key] for key in sorted(ENGINE_KEYS)}


class _Reading:
    """One reading of all sections, and what has come of it so far."""

    def __init__(self, origin: Origin, sections: Mapping[str, PluginSection]) -> None:
        self._origin = origin
        self._sections = sections
        self.values: dict[tuple[str, str], BaseModel | PrsmError] = {}
        self.problems: list[str] = []
        self.notices: list[str] = []

    @cached_property
    def _schema(self) -> dict[str, Any]:
        """What may be set; it takes its time, and only who has made a mistake is told of it."""
        return full_schema(self._sections)

    def note_unknown(self, section: str, name: str, kind: PluginSection) -> None:
        """Tell of an entry that is nobody's."""
        installed = f"; installed: {', '.join(sorted(kind.models)) or 'none'}"
        text = (
            f"{self._at(section, name)}{section}.{name} has no effect: no active plugin brings "
            f"that {kind.word}{nearest(name, kind.models)}{installed}"
        )
        (self.problems if kind.is_missed(name) else self.notices).append(text)

    def read(
        self,
        section: str,
        name: str,
        kind: PluginSection,
        model: Model | PrsmError | None,
        raw: Any,
    ) -> None:
        """Read one entry; `raw` is None where there is none."""
        if isinstance(model, PrsmError):
            self.values[section, name] = model
        elif model is not None:
            self._validate((section, name), model, raw)
        elif raw and not kind.takes_any:
            text = f"{self._at(section, name)}{section}.{name}: this {kind.word} takes no settings"
            self.problems.append(text)

    def read_providers(self, kind: PluginSection, settings: Settings) -> None:
        """Read the sections of providers that are set; whose nobody has is told by others."""
        for name in settings.providers:
            model = kind.models.get(name)
            given = settings.provider_settings(name)
            raw = {key: value for key, value in given.items() if key not in ENGINE_KEYS}
            if isinstance(model, PrsmError):
                where = self._at(PROVIDERS, name)
                told = f"{where}{PROVIDERS}.{name} is not checked: {model.message}"
                self.notices.append(told)
            elif model is not None:
                self._validate((PROVIDERS, name), model, raw)

    def _validate(self, path: tuple[str, str], model: Model, raw: Any) -> None:
        given = {key: value for key, value in (raw or {}).items() if value is not None}
        try:
            found = model.model_validate(given)
        except ValidationError as error:
            problems = problems_of(error, self._origin, schema=self._schema, above=path)
        except BaseException as error:  # code of a plugin; its text may be a secret
            if is_interrupt(error):
                raise
            problems = [f"{self._at(*path)}{dotted(path)}: its model fails: {type(error).__name__}"]
        else:
            self.values[path] = found
            problems = [self._unknown(key) for key in _unknown_keys(found, given, path)]
        if raw is not None:
            self.problems += problems
        elif problems:
            hint = "set it in the configuration, or leave its plugin out: plugins.disabled"
            self.values[path] = ConfigError("; ".join(problems), hint=hint)

    def _unknown(self, path: KeyPath) -> str:
        return f"{self._at(*path)}{unknown_key(path, self._schema)}"

    def _at(self, *path: str | int) -> str:
        where = self._origin(path)
        return f"{where}: " if where else ""


def _unknown_keys(model: BaseModel, raw: Any, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the paths of keys that the model, or one below it, has passed over in silence."""
    if not isinstance(raw, Mapping):
        return
    fields = type(model).model_fields.items()
    by_key = {key: name for name, field in fields for key in _keys(name, field)}
    if type(model).model_config.get("extra") != "allow":
        yield from ((*path, key) for key in raw if key not in by_key)
    for key, value in raw.items():
        if key in by_key:
            yield from _below(getattr(model, by_key[key]), value, (*path, key))


def _below(value: Any, raw: Any, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(value, BaseModel):
        yield from _unknown_keys(value, raw, path)
    elif isinstance(value, Mapping) and isinstance(raw, Mapping):
        for key, item in value.items():
            if key in raw:
                yield from _below(item, raw[key], (*path, key))
    elif isinstance(value, list | tuple) and isinstance(raw, list):
        for index, (item, each) in enumerate(zip(value, raw, strict=False)):
            yield from _below(item, each, (*path, index))


def _keys(name: str, field: FieldInfo) -> Iterable[str]:
    """Return the keys that may stand for a field."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return {name, *(choice for choice in alias.choices if isinstance(choice, str))}
    return {name, *(each for each in (alias, field.alias) if isinstance(each, str))}


def _secrets(value: Any) -> Iterator[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case SecretBytes():
            yield value.get_secret_value().decode(errors="replace")
        case BaseModel():
            for name in type(value).model_fields:
                yield from _secrets(getattr(value, name))
        case Mapping():
            for item in value.values():
                yield from _secrets(item)
        case list() | tuple() | set() | frozenset():
            for item in value:
                yield from _secrets(item)


def _entry(model: Model, prefix: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one entry, with what it refers to put among the definitions."""
    from prsm_core.config.json_schema import without_titles

    try:
        schema = model.model_json_schema(ref_template=f"#/$defs/{prefix}.{{model}}")
    except Exception as error:  # noqa: BLE001 - a type that JSON Schema cannot say
        return {"type": "object", "description": f"It has no JSON Schema: {type(error).__name__}."}
    for name, definition in schema.pop("$defs", {}).items():
        definitions[f"{prefix}.{name}"] = _closed(without_titles(definition))
    entry: dict[str, Any] = _closed(without_titles(schema))
    return entry


def _closed(schema: Any) -> Any:
    """Return a schema in which a mapping with known keys has no others, unless it says so."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if closed.get("type") == "object" and "properties" in closed:
        closed.setdefault("additionalProperties", False)
    return closed
