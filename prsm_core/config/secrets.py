"""Which values of a configuration are secret, and which may be by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prsm_core.kit.environment import url_passwords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.config.schema import Settings

SECRET_NAME = re.compile(
    r"(?:key|token|secret|password|credential)s?$|^(?:proxy-)?authorization$|^cookie$",
    re.IGNORECASE,
)


def known_secrets(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield secrets in the settings or their variables: keys, telling names, passwords in URLs."""
    yield from environment_secrets(environ)
    for provider in settings.providers.values():
        names = [provider.api_key_env, *(v for p in provider.profiles for v in p.env.values())]
        yield from (environ[name] for name in names if name and environ.get(name))
        yield from _secret_values(provider.env)
    experts = settings.experts.values()
    of_experts = (server for expert in experts for server in expert.mcp_servers.values())
    for server in (*settings.mcp_servers.values(), *of_experts):
        yield from _secret_values(server.env)
        yield from _secret_values(server.headers)
    yield from settings.plugin_secrets
    # Whoever has the address of a webhook may post there.
    if settings.notify.webhook:
        yield settings.notify.webhook
    of_plugins = (settings.sinks, settings.checks, settings.scorers, settings.frontends)
    for section in (*of_plugins, settings.tools):
        yield from _named_secrets(section, environ)


def _named_secrets(values: Any, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield texts under names that sound like secrets, at any depth, and what `…_env` names."""
    items = values.items() if isinstance(values, Mapping) else enumerate(values)
    for name, value in items:
        if isinstance(value, Mapping | list | tuple):
            yield from _named_secrets(value, environ)
        elif isinstance(value, str):
            yield from _secret_values({str(name): value})
            if str(name).endswith("_env") and environ.get(value):
                yield environ[value]


def environment_secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield passwords in URLs and what has a secret's name in `environ`, but for paths."""
    yield from (value for value in _secret_values(environ) if not value.startswith(("/", "~")))


def _secret_values(values: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        if SECRET_NAME.search(name):
            yield value
            yield value.rpartition(" ")[2]  # without its scheme: Bearer …
        elif "://" in value:
            yield from url_passwords(value)
