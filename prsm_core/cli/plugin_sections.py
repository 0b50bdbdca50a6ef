"""What the sections of plugins may hold: the configuration does not know plugins, nor they it."""

from __future__ import annotations

from prsm_core.config import Settings
from prsm_core.config.plugin_settings import PROVIDERS, PluginSection, read_plugin_settings
from prsm_core.interfaces.frontend import FrontendSpec
from prsm_core.interfaces.provider import ProviderSpec
from prsm_core.plugins import PluginManager, PluginState
from prsm_core.plugins.records import WORDS
from prsm_core.plugins.settings import SECTIONS, Configurable, section_of
from prsm_core.plugins.settings import with_settings as given


def plugin_sections(
    plugins: PluginManager, *, begins_run: bool = False, settings: Settings | None = None
) -> dict[str, PluginSection]:
    """Return the sections of the active plugins.

    Of `settings` only the models of those providers are loaded that have a section; None for all.
    It is the same for frontends if it `begins_run`, which may have another one. And a run does not
    begin without a check that has settings, unless a person has left out what may be its plugin.
    """
    providers, frontends = None, None
    if settings is not None:
        providers = {section.kind or name for name, section in settings.providers.items()}
        frontends = settings.frontends if begins_run else None
    off = {record.name for record in plugins.records if record.state is PluginState.DISABLED}
    found = {
        section: PluginSection(
            word=WORDS[SECTIONS[section]],
            models=models,
            takes_any=section == "sinks",
            must_exist=section == "checks" and begins_run and not plugins.switched_off,
            left_out=frozenset(off),
        )
        for section, models in plugins.settings_models(frontends).items()
    }
    models = plugins.provider_models(providers)
    word = WORDS[ProviderSpec]
    return {**found, PROVIDERS: PluginSection(word=word, models=models, takes_any=True)}


def with_settings(plugins: PluginManager, settings: Settings) -> PluginManager:
    """Return plugins that have been given settings which come from no file."""
    found = read_plugin_settings(settings, plugin_sections(plugins), lambda _: "")
    return plugins.with_settings(found.values)


def with_defaults(plugins: PluginManager, spec: FrontendSpec) -> Configurable:
    """Return a frontend with the settings of an empty section, if it was given none yet.

    A run loads the models of sections that are set, and this one when its frontend is chosen.
    """
    model = plugins.defaults_of(spec)
    if model is None:
        return spec
    own, word = section_of(spec), WORDS[FrontendSpec]
    section = PluginSection(word=word, models={own: model})
    found = read_plugin_settings(Settings(), {"frontends": section}, lambda _: "")
    return given(spec, found.values["frontends", own], plugin=plugins.owner_of(spec).name)
