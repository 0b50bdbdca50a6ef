"""Loads the settings from files, markdown agents, environment, --set options and named flags."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct, ValidationError, field

from prsm_core.config.document import (
    Document,
    KeyPath,
    decode,
    parse_text,
    parse_value,
    read_document,
    read_text,
)
from prsm_core.config.explain import all_wrong, nearest, problems_of
from prsm_core.config.layers import ALWAYS_HELD, Layer, Layers
from prsm_core.config.paths import (
    CONFIG,
    MODELS,
    STEMS,
    cannot_be_read,
    require_one,
    spellings,
    temp_notice,
)
from prsm_core.config.plugin_settings import read_plugin_settings
from prsm_core.config.policy_file import policy_notices, read_policy
from prsm_core.config.schema import Settings
from prsm_core.config.snapshot import Scope, take_snapshot
from prsm_core.config.values import prepared
from prsm_core.domain.record import Record
from prsm_core.domain.structs import find_faults, read
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.config.paths import Paths
    from prsm_core.config.plugin_settings import PluginSection
    from prsm_core.config.snapshot import Snapshot
    from prsm_core.errors import PrsmError

_MODEL_SECTIONS = frozenset({"models", "model_registry"})


class LoadedSettings(Record, frozen=True, kw_only=True):
    """The settings, and where each value that was set comes from.

    Attributes:
        settings: The values.
        sources: Maps dotted key paths (permissions.deny[0]) to "file:line", a variable or an
            option.
        notices: What the user should know.
        mistakes: Harmless mistakes, each beginning with its place.
        of_plugins: What `PluginManager.with_settings` takes, by section and name.
    """

    settings: Settings
    sources: Mapping[str, str]
    notices: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    of_plugins: Mapping[tuple[str, str], Struct | PrsmError] = field(default_factory=dict)


def load_settings(
    *,
    paths: Paths,
    environ: Mapping[str, str],
    sets: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    trusted: bool,
    known_plugins: Sequence[str] | None = None,
    snapshot: Snapshot | None = None,
    plugin_sections: Mapping[str, PluginSection] | None = None,
) -> LoadedSettings:
    """Lay all sources over each other and validate the result.

    Built-in < user models.yaml < user agents/*.md < user config.yaml < workspace models.yaml <
    workspace agents/*.md < workspace config.yaml < PRSM__SECTION__KEY < --set < named flags.
    Mappings merge, other values replace; deny and ask rules add up.

    Args:
        paths: Where the files are; a missing file is an empty one.
        environ: The environment; only PRSM__ variables and PRSM_HOME matter.
        sets: `key.path=value` options, the value in YAML.
        overrides: Values of named flags by dotted key path; None: the flag was not given.
        trusted: Whether the user trusts the workspace. If not, only its deny and ask rules hold,
            and that edits are asked about.
        snapshot: The workspace's `.prism` that `trusted` is about; None: it is read now.
        known_plugins: Names that sections of `providers` may have; None: any.
        plugin_sections: What the sections of plugins may hold, by section; None: anything.

    Raises:
        ConfigError: For each mistake a line: the place, the key path and what would be right.
    """
    layers = Layers()
    notices = list(filter(None, [temp_notice(paths, environ)]))
    for layer in _user_layers(paths):
        layers.add(layer)
    if snapshot is None:
        scope = Scope.CONFIGURATION if trusted else Scope.RULES
        snapshot = take_snapshot(paths.workspace, scope)
    for layer in _layers_that_hold(snapshot, trusted, notices):
        layers.add(layer)
    notices += policy_notices(read_policy(paths, snapshot), trusted=trusted)
    for layer in chain(
        environment_layers(environ, layers.values), _set_layers(sets), _flag_layers(overrides or {})
    ):
        layers.add(layer)
    read = ", ".join([*(spellings(stem)[0] for stem in STEMS), "agents/*.md"])
    for name in snapshot.unknown:
        layers.told.append(f"{snapshot.path(name)}: is not read: PRSM knows {read}")
    return _validated(layers, known_plugins, plugin_sections or {}, notices)


def _validated(
    layers: Layers,
    known_plugins: Sequence[str] | None,
    sections: Mapping[str, PluginSection],
    notices: Sequence[str],
) -> LoadedSettings:
    values = prepared(Settings, layers.values)
    try:
        settings = read(Settings, values)
    except ValidationError:
        faults, plugins = find_faults(Settings, values), known_plugins or ()
        # Without its cause, which quotes values: they may be secret.
        raise all_wrong(problems_of(faults, layers.origin, plugins=plugins)) from None
    found = read_plugin_settings(settings, sections, layers.origin)
    unknown = () if known_plugins is None else _unknown_providers(settings, layers, known_plugins)
    if problems := [*unknown, *found.problems]:
        raise all_wrong(problems)
    settings.keep(layers.origin, found.secrets)
    return LoadedSettings(
        settings=settings,
        sources=layers.sources(),
        notices=tuple(notices),
        mistakes=(*layers.told, *found.notices),
        of_plugins=found.values,
    )


def _user_layers(paths: Paths) -> Iterator[Layer]:
    for stem in STEMS:
        require_one(paths.user_config.parent, stem)
    yield _models_layer(paths.user_models, read_document(paths.user_models))
    yield from map(agent_layer, _agent_files(paths.user_agents))
    yield _layer(read_document(paths.user_config))


def workspace_layers(snapshot: Snapshot) -> Iterator[Layer]:
    """Yield what a workspace sets, as a layer for each file. Raises ConfigError."""
    models = snapshot.name_of(MODELS)
    yield _models_layer(snapshot.path(models), _document(snapshot, models))
    for name in snapshot.agents():
        yield agent_layer(snapshot.path(name), _text(snapshot, name))
    yield _layer(_document(snapshot, snapshot.name_of(CONFIG))).of_workspace()


def _layers_that_hold(snapshot: Snapshot, trusted: bool, notices: list[str]) -> Iterator[Layer]:
    for stem in STEMS:
        snapshot.name_of(stem)
    files = snapshot.settings_files()
    for name in files:
        if name in snapshot.refused:
            raise ConfigError(f"{snapshot.path(name)}: {snapshot.refused[name]}")
    if trusted:
        yield from workspace_layers(snapshot)
        return
    if files:
        notices.append(
            f"{snapshot.folder} is not trusted: only its deny and ask rules hold "
            "(`prsm trust` shows and trusts it)"
        )
    yield _layer(_document(snapshot, snapshot.name_of(CONFIG))).only(ALWAYS_HELD)


def _text(snapshot: Snapshot, name: str) -> str | None:
    data = snapshot.data(name)
    return None if data is None else decode(data, snapshot.path(name))


def _document(snapshot: Snapshot, name: str) -> Document | None:
    text = _text(snapshot, name)
    return None if text is None else parse_text(text, source=str(snapshot.path(name)))


def _layer(document: Document | None) -> Layer:
    return Layer.of(document) if document else Layer(values={}, origins={})


def _models_layer(path: Path, document: Document | None) -> Layer:
    layer = _layer(document)
    for section in layer.values:
        if section not in _MODEL_SECTIONS:
            raise ConfigError(
                f"{layer.origin((section,))}: {section} does not belong here; "
                f"{path.name} holds models and model_registry"
            )
    return layer


def _unknown_providers(settings: Settings, layers: Layers, known: Sequence[str]) -> Iterator[str]:
    installed = f"; installed: {', '.join(sorted(known)) or 'none'}"
    for name, section in settings.providers.items():
        if section.kind is None and name not in known:
            yield (
                f"{layers.origin(('providers', name))}: providers.{name} belongs to no installed "
                f"plugin{nearest(name, known)}{installed}"
            )
        if section.kind is not None and section.kind not in known:
            yield (
                f"{layers.origin(('providers', name, 'kind'))}: providers.{name}.kind: there is no "
                f"provider {section.kind!r}{nearest(section.kind, known)}{installed}"
            )


_FENCE = "---"
_SHAPE = f"an agent file is {_FENCE}, YAML, {_FENCE}, and then its system prompt"


def _agent_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".md")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot_be_read(folder, error) from error


def agent_layer(path: Path, text: str | None = None) -> Layer:
    """Return a layer that sets `experts.<name of the file>`, from its text if that was read.

    Raises ConfigError, if possible with the line, for a file that is no agent file.
    """
    lines = ((read_text(path) if text is None else text) or "").splitlines()
    end = next((n for n, line in enumerate(lines) if n and line.rstrip() == _FENCE), None)
    if end is None or lines[0].rstrip() != _FENCE:
        raise ConfigError(f"{path}:1: has no front matter", hint=_SHAPE)
    front = parse_text("\n" + "\n".join(lines[1:end]), source=str(path))  # line numbers stay
    values = front.value if front.value is not None else {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}:2: the front matter must be a mapping", hint=_SHAPE)
    if "system_prompt" in values:
        where = front.origins["system_prompt",]
        raise ConfigError(f"{where}: system_prompt does not belong here", hint=_SHAPE)
    prompt = "\n".join(lines[end + 1 :]).strip()
    if not prompt:
        raise ConfigError(f"{path}:{end + 1}: no system prompt follows", hint=_SHAPE)
    if isinstance(values.get("tools"), str):  # as other tools write it: tools: Read, Grep
        values["tools"] = [name.strip() for name in values["tools"].split(",")]
    values["system_prompt"] = prompt
    origins = {**front.origins, ("system_prompt",): f"{path}:{end + 2}"}
    return Layer.at(("experts", path.stem), Document(value=values, origins=origins))


PREFIX = "PRSM__"
# Variables of their own for single settings; the value is text, not YAML.
SHORT = {"PRSM_JSONL": ("sinks", "jsonl", "path")}

_KEY = re.compile(r'"([^"]+)"|([^."]+)')


def environment_layers(environ: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[Layer]:
    """Yield a layer for each variable: short ones, then PRSM__SECTION__KEY, specific ones last.

    Keys in capitals are lower-cased. A key of `values`, the layers below, that differs only in case
    or in - for _ is meant.
    """
    for name, short in SHORT.items():
        if environ.get(name):
            value = Document(value=environ[name], origins={(): name})
            yield Layer.at(short, value)
    names = [name for name in environ if name.startswith(PREFIX)]
    for name in sorted(names, key=lambda name: (name.count("__"), name)):
        keys = name.removeprefix(PREFIX).split("__")
        if not all(keys):
            raise ConfigError(f"{name}: is written {PREFIX}SECTION__KEY")
        path = _known_path(keys, values)
        yield Layer.at(path, parse_value(environ[name], origin=name))


def _set_layers(sets: Sequence[str]) -> Iterator[Layer]:
    for text in sets:
        key, equals, value = text.partition("=")
        path = parse_key(key.strip())
        if not (equals and path):
            raise ConfigError(
                f"--set {key.strip()}: is written key.path=value",
                hint='the value is YAML; a key with dots stands in quotes: models."gpt-5.1"',
            )
        yield Layer.at(path, parse_value(value, origin=f"--set {key.strip()}"))


def _flag_layers(overrides: Mapping[str, Any]) -> Iterator[Layer]:
    for key, value in overrides.items():
        if value is not None:
            origins: dict[KeyPath, str] = {(): "the command line"}
            yield Layer.at(parse_key(key), Document(value=value, origins=origins))


def parse_key(text: str) -> tuple[str, ...]:
    """Split a dotted key path at the dots outside of quotes; () if it is malformed."""
    keys: list[str] = []
    position = 0
    while match := _KEY.match(text, position):
        keys.append(match[1] or match[2])
        position = match.end()
        if position == len(text):
            return tuple(keys)
        if text[position] != ".":
            break
        position += 1
    return ()


def _known_path(keys: Sequence[str], values: Any) -> tuple[str, ...]:
    path = []
    for key in keys:
        below = values if isinstance(values, dict) else {}
        same = [known for known in below if _folded(known) == _folded(key)]
        path.append(same[0] if same else key.lower() if key.isupper() else key)
        values = below.get(path[-1])
    return tuple(path)


def _folded(key: str) -> str:
    return key.lower().replace("-", "_")
