"""Writes the package of a new plugin: one that passes the contract of its kind as it stands.

The files come from the folder `skeletons`: those in `common` are every plugin's, the others are of
the kind that their folder names. `$name` and the like stand for what the author chose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from prsm_core.distributions import CORE
from prsm_core.errors import PluginError
from prsm_core.interfaces.records import check_name
from prsm_core.plugins.records import WORDS, Spec
from prsm_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from prsm_core.plugins import PluginManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of plugin: what it is called, and what the skeleton of it does."""

    words: str
    summary: str
    usage: str
    needs: tuple[str, ...] = ()  # what it asks for beside the core


KINDS: Mapping[str, Kind] = {
    "provider": Kind(
        words="provider",
        summary="Runs agents on a server that speaks the Responses API.",
        usage="Then `prsm run --provider $name` uses it; `providers.$name.base_url` is the server.",
    ),
    "check": Kind(
        words="permission check",
        summary="Denies what only people may do.",
        usage="`checks.$name.forbidden` says what; whoever relies on the check lists `$name` in "
        "`permissions.required`.",
        needs=("msgspec>=0.21,<0.23",),
    ),
    "scorer": Kind(
        words="model scorer",
        summary="Prefers cheap models for simple tasks.",
        usage="Every recommendation of a model asks it; `prsm models rank` shows what it does.",
    ),
    "sink": Kind(
        words="event sink",
        summary="Writes down how runs ended and what was denied.",
        usage="It writes to the file that `sinks.$name.path` of the configuration names.",
        needs=("msgspec>=0.21,<0.23",),
    ),
    "frontend": Kind(
        words="frontend",
        summary="Shows what agents say, one after the other.",
        usage="Then `prsm run --ui $name` uses it.",
    ),
    "tool": Kind(
        words="tool",
        summary="Tells agents what words mean here.",
        usage="Agents that `prsm run --label $name=yes` starts have it; `tools.$name.words` of the "
        "configuration is what it knows.",
        needs=("msgspec>=0.21,<0.23",),
    ),
}


def check_free(kind: str, name: str, installed: PluginManager) -> None:
    """Raise PluginError where a plugin of this name could not be loaded beside those there are."""
    for record in installed.records:
        names = {record.name, *(s.name for s in installed.contributions(record) if _is(s, kind))}
        if name in names:
            raise PluginError(
                f"{name!r} is taken: {record} has a {KINDS[kind].words} or a plugin of that name",
                hint="take another name: of two plugins that have the same one neither is loaded",
            )


def _is(spec: Spec, kind: str) -> bool:
    return WORDS[type(spec)] == KINDS[kind].words


def write_skeleton(kind: str, name: str, parent: Path) -> Path:
    """Write the package of a plugin to a new folder in `parent`; return that folder.

    Args:
        kind: One of KINDS.
        name: The name of the plugin and of its record.
        parent: A folder; made where it is not there.

    Raises:
        PluginError: The name is none, or there is something at the place already.
        OSError: The files cannot be written.
    """
    _check(name)
    values = _values(kind, name)
    folder = parent / values["distribution"]
    if folder.is_symlink() or folder.exists():
        raise PluginError(
            f"{folder} exists already, and nothing was written",
            hint="take another name, or another folder by --dir",
        )
    texts = {path: Template(text).substitute(values) for path, text in _files(kind, values)}
    for path, text in texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder


def _check(name: str) -> None:
    try:
        check_name("plugin", name)
    except ValueError as error:
        raise PluginError(str(error), hint="such as `acme` or `acme-audit`") from error
    if not name[-1].isalnum() or re.search(r"[-_]{2}", name) or f"prsm-{name}" == CORE:
        raise PluginError(
            f"plugin: prsm-{name} cannot be the name of its package",
            hint="take a name of words with single - or _ between them, such as `acme-audit`",
        )


def _values(kind: str, name: str) -> dict[str, str]:
    words = name.replace("-", "_").split("_")
    major, minor, _ = __version__.split(".")
    core = f"{CORE}>={major}.{minor},<{major}.{int(minor) + 1}"
    camel = "".join(word.capitalize() for word in words)
    found = KINDS[kind]
    values = {
        "name": name,
        "kind": kind,
        "words": found.words,
        "distribution": f"prsm-{name.replace('_', '-')}",
        "package": f"prsm_{'_'.join(words)}",
        "class": f"{camel}{kind.capitalize()}",
        "title": camel,
        "summary": found.summary,
        "dependencies": ", ".join(f'"{requirement}"' for requirement in (core, *found.needs)),
    }
    return {**values, "usage": Template(found.usage).substitute(values)}


def _files(kind: str, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield where each file of a plugin goes, and its text with `$words` in it."""
    package = values["package"]
    skeletons = files("prsm_core.cli") / "skeletons"
    for folder, places in (
        ("common", {"pyproject.toml": "", "README.md": "", "__init__.py": f"{package}/"}),
        (kind, {"plugin.py": f"{package}/", f"{kind}.py": f"{package}/"}),
    ):
        for file, place in places.items():
            yield f"{place}{file}", _text(skeletons / folder / f"{file}.in")
    yield f"tests/test_{package}.py", _text(skeletons / kind / "test.py.in")
    yield f"{package}/py.typed", ""


def _text(skeleton: Traversable) -> str:
    return skeleton.read_text(encoding="utf-8")
