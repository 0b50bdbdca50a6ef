"""The commands that installed packages bring: entry points of the group `prsm.commands`.

`prsm --help` lists them, so they are read from the files that installers write. Nothing of a
package is imported for that, and `importlib.metadata` would cost as much as all of click.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import click

    from prsm_core.errors import PluginError

GROUP = "prsm.commands"
PLUGINS = "prsm"  # the group of a package's plugins

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


def package_commands(folders: Iterable[str]) -> dict[str, list[PackageCommand]]:
    """Return the commands of the packages that are installed in folders, by name, in its order.

    Of a distribution that is there twice the first one counts, as it does for imports.
    """
    found: dict[str, list[PackageCommand]] = {}
    seen: set[str] = set()
    for folder in dict.fromkeys(folders):
        for info in _distributions(folder):
            project = os.path.basename(info).partition("-")[0].lower()  # noqa: PTH119 - a text
            if project not in seen:
                seen.add(project)
                for command in _commands_of(info):
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
    """Raise PluginError for a command of a package that a person has switched off."""
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


def _distributions(folder: str) -> list[str]:
    """Return the metadata folders of a folder of packages, in order of name."""
    try:
        with os.scandir(folder or ".") as entries:
            return sorted(entry.path for entry in entries if entry.name.endswith(".dist-info"))
    except OSError:  # a zip file, or a folder that is not there
        return []


def _commands_of(info: str) -> Iterator[PackageCommand]:
    points = _entry_points(_text(info, "entry_points.txt"))
    if commands := points.get(GROUP):
        about = _headers(_text(info, "METADATA"))
        for name, place in commands.items():
            if _NAME.fullmatch(name):
                yield PackageCommand(
                    name=name,
                    place=place,
                    distribution=about.get("name", "?"),
                    summary=about.get("summary", ""),
                    plugins=frozenset(points.get(PLUGINS, ())),
                )


def _text(info: str, name: str) -> str:
    """Return the text of a file of a distribution; blank where it cannot be read."""
    try:
        with open(os.path.join(info, name), encoding="utf-8", errors="replace") as file:  # noqa: PTH118, PTH123 - pathlib is slow to load
            return file.read()
    except OSError:
        return ""


def _entry_points(text: str) -> dict[str, dict[str, str]]:
    """Return names and values by group, as far as lines are entry points."""
    groups: dict[str, dict[str, str]] = {}
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            groups.setdefault(group, {})[name.strip()] = value.partition("[")[0].strip()
    return groups


def _headers(text: str) -> dict[str, str]:
    """Return the headers of metadata by their names in small letters, fit for a terminal."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line:
            break
        name, _, value = line.partition(":")
        shown = "".join(char if char.isprintable() else " " for char in value)
        found.setdefault(name.lower(), " ".join(shown.split()))
    return found
