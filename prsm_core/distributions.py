"""Installed distributions and their entry points, read from the files that installers write.

`importlib.metadata` reads the same, but costs a tenth of a run's start.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Groups of entry points: of plugins, and of what is found without a hook.
GROUP, COMMANDS, TOOL_SERVERS = "prsm", "prsm.commands", "prsm.tool_servers"
PARTS = frozenset({COMMANDS, TOOL_SERVERS})
CORE, CORE_ROOT = "prsm-core", "prsm_core"
# What the core depends on and never imports; its plugins count as built in.
DEFAULT_PACKAGES = frozenset(
    {"prsm-console", "prsm-demo", "prsm-files", "prsm-policy", "prsm-sandbox"}
)

# The folder of a distribution's metadata, and the file in it that has the headers.
_HEADERS = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
_PLACE = re.compile(r"(?P<module>\w+(?:\.\w+)*)\s*(?::\s*(?P<attribute>\w+(?:\.\w+)*))?")


class EntryPoint(NamedTuple):
    """A name that a distribution gives to a module, or to something in it.

    `place` is "package.module" or "package.module:attribute" as written.
    """

    name: str
    place: str
    distribution: Distribution

    @property
    def module(self) -> str:
        """The module that is named; blank where the place is written wrong."""
        found = _PLACE.fullmatch(self.place)
        return found["module"] if found else ""

    def load(self) -> Any:
        """Import what is named; raises whatever that raises, ImportError for a wrong place."""
        found = _PLACE.fullmatch(self.place)
        if found is None:
            raise ImportError(f"{self.place!r} names no module")
        loaded: Any = importlib.import_module(found["module"])
        for attribute in (found["attribute"] or "").split("."):
            loaded = getattr(loaded, attribute) if attribute else loaded
        return loaded


class Distribution(NamedTuple):
    """What an installed distribution says of itself; `problem` says why it cannot be used.

    `places` are those of its entry points, by group and name.
    """

    name: str
    version: str = "?"
    summary: str = ""
    requires: tuple[str, ...] = ()
    places: Mapping[str, Mapping[str, str]] = {}
    problem: str | None = None

    def entry_points(self, group: str) -> list[EntryPoint]:
        """Return its entry points of a group, in its order."""
        return [EntryPoint(*point, self) for point in self.places.get(group, {}).items()]


def distributions(folders: Iterable[str]) -> Iterator[Distribution]:
    """Yield, with duplicates, the distributions that have entry points or are the core."""
    return (_read(info) for info in _infos(folders) if _concerns_us(info))


def installed() -> Iterator[Distribution]:
    """Yield what `distributions` finds on the path; of one that is there twice the first counts."""
    seen: set[str] = set()
    for info in _infos(sys.path):
        project = _project(info)
        if project not in seen:
            seen.add(project)
            if _concerns_us(info):
                yield _read(info)


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group of all that is installed, in the order of the path."""
    return [point for dist in installed() for point in dist.entry_points(group)]


def distribution_of(module: str) -> str | None:
    """Return the name and version of the distribution whose plugin a module belongs to."""
    root = root_of(module)
    if root == CORE_ROOT:
        return f"{CORE} {__version__}"
    owners = (each.distribution for each in entry_points(GROUP) if root_of(each.module) == root)
    owner = next(owners, None) if root else None
    return f"{owner.name} {owner.version}" if owner is not None else None


def root_of(module: str) -> str:
    """Return the top package of a module."""
    return module.partition(".")[0]


def _infos(folders: Iterable[str]) -> Iterator[str]:
    for folder in dict.fromkeys(folders):
        try:
            with os.scandir(folder or ".") as entries:
                names = sorted(
                    entry.name for entry in entries if entry.name.endswith(tuple(_HEADERS))
                )
        except OSError:  # a zip file, or a folder that is not there
            continue
        yield from (os.path.join(folder, name) for name in names)  # noqa: PTH118 - a text


def _project(info: str) -> str:
    """Return the name of a distribution as that of its folder writes it, in one spelling."""
    return _stem(info).partition("-")[0].lower().replace(".", "_")


def _concerns_us(info: str) -> bool:
    """Return whether a distribution has to do with PRSM: others are not read any further."""
    return _project(info) == CORE_ROOT or "[prsm" in _text(info, "entry_points.txt")


def _read(info: str) -> Distribution:
    places = _places(_text(info, "entry_points.txt"))
    file = next(file for suffix, file in _HEADERS.items() if info.endswith(suffix))
    try:
        with open(os.path.join(info, file), encoding="utf-8") as file_of_headers:  # noqa: PTH118, PTH123
            headers = _headers(file_of_headers.read())
    except (OSError, ValueError) as error:
        problem = f"the metadata in {info} cannot be read: {error}"
        return Distribution(name=_stem(info), places=places, problem=problem)
    return Distribution(
        name=headers.get("name", ["?"])[0],
        version=headers.get("version", ["?"])[0],
        summary=headers.get("summary", [""])[0],
        requires=tuple(headers.get("requires-dist", ())),
        places=places,
    )


def _stem(info: str) -> str:
    return os.path.basename(info).rpartition(".")[0]  # noqa: PTH119 - a text


def _text(info: str, name: str) -> str:
    try:
        with open(os.path.join(info, name), encoding="utf-8", errors="replace") as file:  # noqa: PTH118, PTH123 - pathlib is slow to load
            return file.read()
    except OSError:
        return ""


def _places(text: str) -> dict[str, dict[str, str]]:
    groups: dict[str, dict[str, str]] = {}
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif "=" in line and not line.startswith(("#", ";")):
            name, _, place = line.partition("=")
            groups.setdefault(group, {})[name.strip()] = place.partition("[")[0].strip()
    return groups


def _headers(text: str) -> dict[str, list[str]]:
    """Return the headers of metadata by their names in small letters, fit for a terminal."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line:
            break
        name, _, value = line.partition(":")
        shown = "".join(char if char.isprintable() else " " for char in value)
        found.setdefault(name.lower(), []).append(" ".join(shown.split()))
    return found
