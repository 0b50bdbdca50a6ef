"""Loads the settings from files, environment and flags."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import field
from pydantic import ValidationError

from prsm_core.config.agent_files import agent_files, agent_layer
from prsm_core.config.document import decode, parse_text, read_document
from prsm_core.config.explain import all_wrong, explain, nearest
from prsm_core.config.layers import ALWAYS_HELD, Layer, Layers
from prsm_core.config.overrides import environment_layers, flag_layers, set_layers
from prsm_core.config.paths import temp_notice
from prsm_core.config.plugin_settings import read_plugin_settings
from prsm_core.config.policy_file import policy_notices, read_policy
from prsm_core.config.schema import Settings
from prsm_core.config.snapshot import Scope, take_snapshot
from prsm_core.config.spelling import CONFIG, MODELS, STEMS, require_one, spellings
from prsm_core.domain.record import Record
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic import BaseModel

    from prsm_core.config.document import Document
    from prsm_core.config.paths import Paths
    from prsm_core.config.plugin_settings import PluginSection
    from prsm_core.config.snapshot import Snapshot
    from prsm_core.errors import PrsmError

_MODEL_SECTIONS = frozenset({"models", "model_registry"})


class LoadedSettings(Record, frozen=True, kw_only=True):
    """The settings, where each value that was set comes from, and what the user should know.

    Attributes:
        settings: The values.
        sources: Maps dotted key paths (permissions.deny[0]) to "file:line", a variable or an
            option.
        notices: What the user should know.
        mistakes: What is wrong in the configuration and harmless: each begins with its place.
        of_plugins: By section and name what `PluginManager.with_settings` takes.
    """

    settings: Settings
    sources: Mapping[str, str]
    notices: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    of_plugins: Mapping[tuple[str, str], BaseModel | PrsmError] = field(default_factory=dict)


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
        snapshot: What lies in the workspace's `.prism`, whose hash was compared for `trusted`;
            None: it is read now.
        known_plugins: Names that sections of `providers` may have; None: any.
        plugin_sections: What the sections of plugins may hold, by section; None: anything.

    Raises:
        ConfigError: For each mistake a line: the place, the key path and what would be right.
    """
    layers = Layers()
    notices = list(filter(None, [temp_notice(paths, environ)]))
    for layer in _user_layers(paths):
        layers.add(layer)
    snapshot = snapshot or _read_now(paths, trusted)
    for layer in _layers_that_hold(snapshot, trusted, notices):
        layers.add(layer)
    notices += policy_notices(read_policy(paths, snapshot), trusted=trusted)
    for layer in chain(
        environment_layers(environ, layers.values), set_layers(sets), flag_layers(overrides or {})
    ):
        layers.add(layer)
    layers.told += _told_of_unknown(snapshot)
    return _validated(layers, known_plugins, plugin_sections or {}, notices)


def _validated(
    layers: Layers,
    known_plugins: Sequence[str] | None,
    sections: Mapping[str, PluginSection],
    notices: Sequence[str],
) -> LoadedSettings:
    try:
        settings = Settings.model_validate(layers.values)
    except ValidationError as error:
        # Without its cause, which quotes values: they may be secret.
        raise explain(error, layers.origin, known_plugins or ()) from None
    found = read_plugin_settings(settings, sections, layers.origin)
    unknown = () if known_plugins is None else _unknown_providers(settings, layers, known_plugins)
    if problems := [*unknown, *found.problems]:
        raise all_wrong(problems)
    settings.keep_secret(found.secrets())
    settings.keep_places(layers.origin)
    return LoadedSettings(
        settings=settings,
        sources=layers.sources(),
        notices=tuple(notices),
        mistakes=(*layers.told, *found.notices),
        of_plugins=found.values,
    )


def _told_of_unknown(snapshot: Snapshot) -> Iterator[str]:
    """Yield a line for each file of `.prism` that looks as if it counted, and does not."""
    read = ", ".join([*(spellings(stem)[0] for stem in STEMS), "agents/*.md"])
    for name in snapshot.unknown:
        yield f"{snapshot.path(name)}: is not read: PRSM knows {read}"


def _read_now(paths: Paths, trusted: bool) -> Snapshot:
    return take_snapshot(paths.workspace, Scope.CONFIGURATION if trusted else Scope.RULES)


def _user_layers(paths: Paths) -> Iterator[Layer]:
    for stem in STEMS:
        require_one(paths.user_config.parent, stem)
    yield _models_layer(paths.user_models, read_document(paths.user_models))
    yield from map(agent_layer, agent_files(paths.user_agents))
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
        _ = snapshot.name_of(stem)
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
