"""The commands that installed packages bring: entry points of the group `prsm.commands`.

`prsm --help` lists them, and imports nothing of a package for that.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from prsm_core.distributions import COMMANDS, DEFAULT_PACKAGES, GROUP, entry_points

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import click

    from prsm_core.errors import PluginError

_NAME = re.compile(r"[a-z][a-z0-9-]*")


class PackageCommand(NamedTuple):
    """A command that an installed package brings.

    Attributes:
        name: What follows `prsm`.
        place: An import string, "package.module:attribute", of a click command.
        distribution: Who brings it.
        summary: What that distribution says of itself.
        plugins: The names of the plugins it brings, by which a person leaves it out.
    """

    name: str
    place: str
    distribution: str
    summary: str
    plugins: frozenset[str]


def package_commands() -> dict[str, list[PackageCommand]]:
    """Return the commands of the installed packages by name, in its order."""
    found: dict[str, list[PackageCommand]] = {}
    for point in entry_points(COMMANDS):
        if _NAME.fullmatch(point.name):
            command = PackageCommand(
                name=point.name,
                place=point.place,
                distribution=point.distribution.name,
                summary=point.distribution.summary,
                plugins=frozenset(point.distribution.places.get(GROUP, ())),
            )
            found.setdefault(command.name, []).append(command)
    return dict(sorted(found.items()))


def only_one(
    name: str, offers: Sequence[PackageCommand], package: str | None = None
) -> PackageCommand:
    """Return the command that a name means; `package` is the one of ours that it belongs to.

    Raises PluginError where that package is not installed, and where two bring the name.
    """
    distribution = f"prsm-{package}"
    if package is not None and distribution not in {offer.distribution for offer in offers}:
        raise _refusal(
            f"command {name} is not installed: the package {distribution} brings it",
            f"prsm install {package}",
            code="not_installed",
        )
    if len(offers) > 1:
        names = " and ".join(sorted(offer.distribution for offer in offers))
        hint = "uninstall one of them"
        raise _refusal(f"command {name}: {names} both bring it, so neither runs", hint)
    return offers[0]


def check_enabled(command: PackageCommand, *, load_plugins: bool) -> None:
    """Raise PluginError for a command of a package that a person has switched off.

    Those of default packages are as the core's own: no list is read for them.
    """
    if command.distribution in DEFAULT_PACKAGES:
        return
    if not load_plugins:
        what = f"command {command.name} is of the package {command.distribution}"
        raise _refusal(what, "plugins are switched off: leave out --no-plugins")
    names = {command.name, *command.plugins}
    for source, disabled in _lists().items():
        if both := sorted(names.intersection(disabled)):
            raise _refusal(
                f"command {command.name} of {command.distribution} is disabled by {source}",
                f"take {both[0]} off that list",
            )


def load_command(command: PackageCommand) -> click.Command:
    """Import a command; raises PluginError for whatever goes wrong, and for what is none."""
    import importlib

    import click

    module, _, attribute = command.place.partition(":")
    try:
        found: object = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise _broken(command, why) from error
    if not isinstance(found, click.Command):
        raise _broken(
            command, f"{command.place} is no click command, but of type {type(found).__name__}"
        )
    return found


def _broken(command: PackageCommand, why: str) -> PluginError:
    text = f"command {command.name} of {command.distribution} cannot be loaded: {why}"
    return _refusal(text, f"reinstall {command.distribution}")


def _refusal(message: str, hint: str, **fields: Any) -> PluginError:
    from prsm_core.errors import PluginError

    return PluginError(message, hint=hint, **fields)


def _lists() -> Mapping[str, Sequence[str]]:
    """Return the lists of plugins that are not to be loaded, by what sets them."""
    from prsm_core.cli.places import workspace_paths
    from prsm_core.config import load_settings
    from prsm_core.config.trust import check_trust

    paths = workspace_paths(".")
    standing = check_trust(paths)
    settings = load_settings(
        paths=paths, environ=os.environ, trusted=standing.trusted, snapshot=standing.snapshot
    ).settings
    variable = "PRSM_DISABLED_PLUGINS"
    named = os.environ.get(variable, "").split(",")
    return {
        "plugins.disabled": settings.plugins.disabled,
        variable: [name.strip() for name in named],
    }
