"""Asks the providers what they are, for the commands that show it; no secret gets to stderr."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from prsm_core.app import check_set_names, survey_providers
from prsm_core.cli.logs import redact_stderr
from prsm_core.config.secrets import known_secrets
from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.loop.run import run_to_end
from prsm_core.permissions import Redactor
from prsm_core.plugins.printing import stdout_kept

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from prsm_core.config import Paths, Settings
    from prsm_core.engine.providers.listings import NameFinding, ProviderReport
    from prsm_core.plugins import PluginManager

T = TypeVar("T")


def ask_providers(
    settings: Settings,
    plugins: PluginManager,
    paths: Paths,
    *,
    with_models: bool = False,
    only: str | None = None,
) -> Mapping[str, ProviderReport]:
    """Look at the providers, or at one; see app.survey_providers."""
    survey = survey_providers(settings, plugins, paths=paths, with_models=with_models, only=only)
    return _look(settings, survey)


def ask_for_names(
    settings: Settings, plugins: PluginManager, paths: Paths
) -> Sequence[NameFinding]:
    """Look at the names of providers and models in the settings; see app.check_set_names."""
    return _look(settings, check_set_names(settings, plugins, paths=paths))


def _look(settings: Settings, work: Coroutine[Any, Any, T]) -> T:
    redact_stderr(Redactor(known_secrets(settings, os.environ)).text)
    install_child_watcher()
    with stdout_kept():
        return run_to_end(work)
