"""Loads the settings from files, environment and flags."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from prsm_core.config.agent_files import agent_files, agent_layer
from prsm_core.config.document import read_document
from prsm_core.config.explain import all_wrong, explain, nearest
from prsm_core.config.layers import ALWAYS_HELD, Layer, Layers
from prsm_core.config.overrides import environment_layers, flag_layers, set_layers
from prsm_core.config.paths import temp_notice
from prsm_core.config.policy_file import policy_notices, read_policy
from prsm_core.config.schema import Settings
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from prsm_core.config.paths import Paths

_MODEL_SECTIONS = frozenset({"models", "model_registry"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """The settings, where each value that was set comes from, and what the user should know.

    `sources` maps dotted key paths (permissions.deny[0]) to "file:line", a variable or an option.
    """

    settings: Settings
    sources: Mapping[str, str]
    notices: tuple[str, ...] = ()


def load_settings(
    *,
    paths: Paths,
    environ: Mapping[str, str],
    sets: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    trusted: bool,
    known_plugins: Sequence[str] | None = None,
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
        trusted: Whether the user trusts the workspace. If not, only its deny and ask rules hold.
        known_plugins: Names that sections of `providers` may have; None: any.

    Raises:
        ConfigError: For each mistake a line: the place, the key path and what would be right.
    """
    layers = Layers()
    notices = [notice for notice in [temp_notice(paths, environ)] if notice]
    for layer in _user_layers(paths):
        layers.add(layer)
    for layer in _workspace_layers(paths, trusted, notices):
        layers.add(layer)
    notices += policy_notices(read_policy(paths), trusted=trusted)
    for layer in chain(
        environment_layers(environ, layers.values), set_layers(sets), flag_layers(overrides or {})
    ):
        layers.add(layer)
    try:
        settings = Settings.model_validate(layers.values)
    except ValidationError as error:
        # Without its cause, which quotes values: they may be secret.
        raise explain(error, layers.origin, known_plugins or ()) from None
    if known_plugins is not None:
        _check_providers(settings, layers, known_plugins)
    return LoadedSettings(settings=settings, sources=layers.sources(), notices=tuple(notices))


def _user_layers(paths: Paths) -> Iterator[Layer]:
    yield _models_layer(paths.user_models)
    yield from map(agent_layer, agent_files(paths.user_agents))
    yield _file_layer(paths.user_config)


def _workspace_layers(paths: Paths, trusted: bool, notices: list[str]) -> Iterator[Layer]:
    agents = agent_files(paths.workspace_agents)
    files = [
        path
        for path in (paths.workspace_models, paths.workspace_config, *agents)
        if os.path.lexists(path)
    ]
    for path in files:
        _refuse_links(path, paths.workspace_dir)
    if trusted:
        yield _models_layer(paths.workspace_models)
        yield from map(agent_layer, agents)
        yield _file_layer(paths.workspace_config)
        return
    if files:
        notices.append(
            f"{paths.workspace_dir} is not trusted: only its deny and ask rules hold "
            "(`prsm trust` shows and trusts it)"
        )
    yield _file_layer(paths.workspace_config).only(*ALWAYS_HELD)


def _refuse_links(path: Path, root: Path) -> None:
    """Refuse links: trust covers the bytes under `.prism`, not what a link leads to."""
    for link in (path, *path.parents):
        if link.is_relative_to(root) and link.is_symlink():
            raise ConfigError(f"{link}: must not be a link; trust covers only what is in .prism")


def _file_layer(path: Path) -> Layer:
    document = read_document(path)
    return Layer.of(document) if document else Layer(values={}, origins={})


def _models_layer(path: Path) -> Layer:
    layer = _file_layer(path)
    for section in layer.values:
        if section not in _MODEL_SECTIONS:
            raise ConfigError(
                f"{layer.origin((section,))}: {section} does not belong here; "
                f"{path.name} holds models and model_registry"
            )
    return layer


def _check_providers(settings: Settings, layers: Layers, known: Sequence[str]) -> None:
    problems = list(_unknown_providers(settings, layers, known))
    if problems:
        raise all_wrong(problems)


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
