"""The settings of plugins' records, checked by structs of the plugins' own.

A section such as `sinks` has an entry for each record of its kind. An entry of `providers` may have
any name; its `kind` names the provider. Keys of the engine and of all providers are checked before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.config.explain import nearest, problems_of
from prsm_core.config.layers import dotted
from prsm_core.config.values import prepared
from prsm_core.domain.record import Record
from prsm_core.domain.structs import container_of, extra_of, find_faults, parts_of, read
from prsm_core.errors import ConfigError, PrsmError
from prsm_core.kit.section import ENGINE_KEYS
from prsm_core.loop.interrupts import is_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prsm_core.config.document import KeyPath
    from prsm_core.config.schema import Settings

PROVIDERS = "providers"

Model: TypeAlias = type[Struct]
Origin: TypeAlias = "Callable[[KeyPath], str]"


class PluginSection(Record, frozen=True, kw_only=True):
    """A section for one kind of record.

    Attributes:
        word: The word for one record.
        models: The struct of each by name; None: it has none; an error: it cannot be loaded.
        takes_any: Whether a record without a struct takes anything.
        must_exist: Whether an entry without a record is a mistake; else it is only told.
        left_out: Plugins that a person has left out. An unknown entry may belong to one of them,
            unless it resembles a known name.
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


def read_plugin_settings(
    settings: Settings, sections: Mapping[str, PluginSection], origin: Origin
) -> PluginValues:
    """Read the sections of plugins; never raises for mistakes in them.

    A record without an entry is read from an empty one. If its struct needs more, that is the
    value's error, not a mistake of the configuration.
    """
    found = PluginValues(origin)
    for section, kind in sections.items():
        if section == PROVIDERS:
            kinds = {name: each.kind or "" for name, each in settings.providers.items()}
            made = {name: kind.models[of] for name, of in kinds.items() if of in kind.models}
            found.read_providers(replace(kind, models={**kind.models, **made}), settings)
            continue
        given = getattr(settings, section)
        for name in given:
            if name not in kind.models:
                found.note_unknown(section, name, kind)
        for name, model in kind.models.items():
            found.read(section, name, kind, model, given.get(name))
    return found


def full_schema(sections: Mapping[str, PluginSection]) -> dict[str, Any]:
    """Return the JSON Schema of a configuration file with what plugins take."""
    from prsm_core.config.json_schema import config_schema

    schema = config_schema()
    for section, kind in sections.items():
        entries = schema["properties"][section].setdefault("properties", {})
        for name, model in kind.models.items():
            if isinstance(model, type):
                entries[name] = _entry(model, f"{section}.{name}", schema["$defs"])
                if section == PROVIDERS and "properties" in entries[name]:
                    shared = schema["$defs"]["ProviderSettings"]["properties"]
                    entries[name]["properties"] |= {key: shared[key] for key in sorted(ENGINE_KEYS)}
            elif section == PROVIDERS:
                continue  # what any provider may hold
            elif model is None and not kind.takes_any:
                entries[name] = {"type": "object", "maxProperties": 0}
            else:
                entries[name] = {"type": "object"}
    return schema


class PluginValues:
    """What was read: by section and name a struct's instance, or why there is none.

    `problems` are the user's mistakes, `notices` entries without effect, and `secrets` the values
    of fields annotated as `writeOnly`.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self.values: dict[tuple[str, str], Struct | PrsmError] = {}
        self.problems: list[str] = []
        self.notices: list[str] = []
        self.secrets: list[str] = []

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
        given = prepared(model, raw)
        self.secrets += _secrets(model, given)
        try:
            faults = list(find_faults(model, given, closed=True))
            problems = problems_of(faults, self._origin, above=path)
            if not problems:
                self.values[path] = read(model, given)
        except BaseException as error:  # code of a plugin; its text may be a secret
            if is_interrupt(error):
                raise
            problems = [
                f"{self._at(*path)}{dotted(path)}: its struct fails: {type(error).__name__}"
            ]
        if raw is not None:
            self.problems += problems
        elif problems:
            hint = "set it in the configuration, or leave its plugin out: plugins.disabled"
            self.values[path] = ConfigError("; ".join(problems), hint=hint)

    def _at(self, *path: str | int) -> str:
        where = self._origin(path)
        return f"{where}: " if where else ""


def _secrets(hint: Any, value: Any) -> Iterator[str]:
    container = container_of(hint, value)
    if container is not None:
        for _, inner, item in parts_of(container, value):
            yield from _secrets(inner, item)
    elif isinstance(value, str) and extra_of(hint, "writeOnly"):
        yield value


def _entry(model: Model, prefix: str, definitions: dict[str, Any]) -> dict[str, Any]:
    from prsm_core.config.json_schema import described

    try:
        entry, parts = described(model, f"#/$defs/{prefix}.{{name}}")
    except Exception as error:  # noqa: BLE001 - a type that JSON Schema cannot say
        return {"type": "object", "description": f"It has no JSON Schema: {type(error).__name__}."}
    definitions.update({f"{prefix}.{name}": part for name, part in parts.items()})
    return entry
